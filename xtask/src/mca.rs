//! `cargo xtask mca [PATH]`: the straight paths of the example `hot_path` in llvm-mca's models of
//! two processors, for developers who have only one of them. PATH: a built example, from another
//! commit.
//!
//! Three figures of each path, per call: micro-operations and cycles without the counter's
//! instruction, and cycles with it. The models know next to nothing of `rdtsc`, so compare the
//! first two, and with another commit.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::step;

const BUILD: &str = "cargo build --release -q -p tickline --example hot_path";
const EXAMPLE: &str = "target/release/examples/hot_path";

/// The processors' names in LLVM, 17 or later.
const PROCESSORS: [&str; 2] = ["sapphirerapids", "znver4"];

const TOOLS: [&str; 5] = ["llvm-mca", "llvm-mca-22", "llvm-mca-21", "llvm-mca-20", "llvm-mca-19"];

const FUNCTIONS: [&str; 3] = ["tickline_hot_now_ns", "tickline_hot_now_ordered_ns", "tickline_hot_unix_ns"];

/// The replacement for the counter's instruction: two micro-operations that depend on nothing
/// either.
const NO_COUNTER: &str = "mov $1,%eax\nmov $1,%edx";

pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    match table(arguments.first().copied()) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("xtask mca: {message}");
            ExitCode::from(2)
        }
    }
}

fn table(example: Option<&str>) -> Result<String, String> {
    let tool = TOOLS.into_iter().find(|tool| PROCESSORS.iter().all(|cpu| model(tool, cpu, "nop").is_ok()));
    let tool = tool.ok_or_else(|| format!("no llvm-mca knows {PROCESSORS:?}: apt install llvm-19"))?;
    if example.is_none()
        && !step::command(BUILD).is_some_and(|mut build| build.status().is_ok_and(|it| it.success()))
    {
        return Err(format!("`{BUILD}` failed"));
    }
    let path = example.unwrap_or(EXAMPLE);
    let listing = said(Command::new("objdump").args(["-d", "--no-show-raw-insn", path]))?;
    let mut table = format!("{tool}, {}, a call\n{:<28} instructions", Path::new(path).display(), "");
    PROCESSORS.iter().for_each(|cpu| table += &format!("  {cpu:>14}: uops cycles with rdtsc"));
    for function in FUNCTIONS {
        let way =
            straight_way(&listing, function).ok_or_else(|| format!("{path}: no {function} by rdtsc"))?;
        table += &format!("\n{function:<28} {:>12}", way.len());
        for cpu in PROCESSORS {
            // Without the return, which is not followed, and the stack, which the models take for
            // a chain of additions.
            let is_modelled = |line: &&str| !["ret", "push", "pop"].iter().any(|name| line.starts_with(name));
            let code: Vec<&str> = way.iter().map(String::as_str).filter(is_modelled).collect();
            let code = code.join("\n");
            let (uops, cycles) = model(tool, cpu, &code.replace("rdtsc", NO_COUNTER))?;
            let (_, with_counter) = model(tool, cpu, &code)?;
            table += &format!("  {:>20.1} {cycles:>6.2} {with_counter:>10.2}", uops - 2.0);
        }
    }
    Ok(table + "\n")
}

/// The instructions from the entry to the first return.
fn straight_way(listing: &str, function: &str) -> Option<Vec<String>> {
    let lines = listing.lines().skip_while(|line| !line.contains(&format!("<{function}>:"))).skip(1);
    let mut way = Vec::new();
    for line in lines {
        let instruction = line.split_once(":\t")?.1.split(['#', '<']).next()?.trim();
        let is_branch = instruction.starts_with('j');
        way.push(if is_branch {
            format!("{} slow", instruction.split(' ').next()?)
        } else {
            instruction.into()
        });
        if instruction.starts_with("ret") {
            return way.iter().any(|instruction| instruction == "rdtsc").then_some(way);
        }
    }
    None
}

/// Micro-operations and cycles of one iteration of a loop.
fn model(tool: &str, cpu: &str, code: &str) -> Result<(f64, f64), String> {
    const TURNS: f64 = 1_000.0;
    let path = std::env::temp_dir().join(format!("tickline-mca-{}.s", std::process::id()));
    std::fs::write(&path, format!("{code}\n")).map_err(|error| error.to_string())?;
    let turns = format!("-iterations={TURNS}");
    let output = said(Command::new(tool).args([&format!("-mcpu={cpu}"), &turns]).arg(&path));
    std::fs::remove_file(&path).ok();
    let output = output?;
    let figure = |name: &str| {
        let line = output
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .ok_or(format!("{tool} says no {name}"))?;
        line.trim()
            .parse()
            .map(|figure: f64| figure / TURNS)
            .map_err(|error| format!("{tool}: {name}{line}: {error}"))
    };
    Ok((figure("Total uOps:")?, figure("Total Cycles:")?))
}

/// What a command prints, if it succeeds and knows the processor.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || complaint.contains("not a recognized") {
        return Err(format!("{command:?}: {complaint}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_straight_way_ends_at_the_first_return_and_has_the_counter() {
        let listing = "0000 <f>:\n 1:\tjne    9 <f+0x8>\n 2:\trdtsc\n 3:\tmov    0x8(%rip),%rax        # 1 <x>\n 4:\tret\n 5:\tnop\n";
        let way = ["jne slow", "rdtsc", "mov    0x8(%rip),%rax", "ret"].map(String::from).to_vec();
        assert_eq!(straight_way(listing, "f"), Some(way));
        assert_eq!(straight_way(&listing.replace("rdtsc", "nop"), "f"), None);
        assert_eq!(straight_way(listing, "g"), None);
    }
}
