//! `cargo xtask targets`: checks for each target which parts compile and run, and makes the table.
//! CI and documentation share one list of targets.

mod list;
mod machine;

use std::time::Instant;

pub(crate) use list::PUBLISHED;

use crate::files;
use crate::step::SOME_SKIPPED;
use crate::vm::BUILD;
use list::{Counter, Crates, HOST, RISC_V, Target};
use machine::Machine;

/// The page with the table, and the table's titles.
const STORED: &str = "PLATFORM.md";
const TITLES: &str = "target | compiled | unit tests run | control loop run | counter path checked";

/// The message of a test that has nothing to test.
const SKIPPED: &str = "SKIPPED: ";

/// The message of `tests/control_loop.rs` when it has run.
const RAN: &str = "control loop: ";

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// It passed, or there is nothing to check. Has the table's text.
    Said(String),
    /// Not checked, because something is missing on this machine. Has its name.
    Skipped(String),
    Failed,
}

use Outcome::{Failed, Said, Skipped};

fn output_of(text: impl Into<String>) -> Outcome {
    Said(text.into())
}

impl Outcome {
    fn text(&self) -> String {
        match self {
            Said(text) => text.clone(),
            Skipped(missing) => format!("SKIPPED: {missing}"),
            Failed => "FAILED".to_owned(),
        }
    }
}

/// The amount of tests on each target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Unit tests, integration tests, doc tests.
    Full,
    /// For other targets only the libraries, because the program takes longest to compile. Only
    /// unit tests, and none for RISC-V. No optimised tests. For the missing parts the table says
    /// "nightly".
    Short,
}

/// Checks the targets whose names contain one of `names`, or all targets, and prints the table.
/// `--others` leaves out x86_64 Linux, which other steps of CI check, and checks less of each
/// target (`Extent::Short`). Fails if a check fails. `--write` stores the table in `PLATFORM.md`,
/// unless a check failed or was skipped.
pub(crate) fn run(names: &[&str]) -> Result<u8, String> {
    let (write, others) = (names == ["--write"], names == ["--others"]);
    let names = if write || others { &[] } else { names };
    let targets = list::all()?;
    if let Some(unknown) =
        names.iter().find(|name| !targets.iter().any(|target| target.triple.contains(**name)))
    {
        let all: Vec<&str> = targets.iter().map(|target| target.triple.as_str()).collect();
        return Err(format!("'{unknown}' is in no target's name; there are\n  {}", all.join("\n  ")));
    }
    let wanted = |target: &&Target| {
        !(others && target.triple == HOST)
            && (names.is_empty() || names.iter().any(|name| target.triple.contains(name)))
    };
    let extent = if others { Extent::Short } else { Extent::Full };
    let rows: Vec<[Outcome; 5]> = targets.iter().filter(wanted).map(|target| check(target, extent)).collect();
    let line = |row: &[Outcome; 5]| format!("| {} |\n", row.each_ref().map(Outcome::text).join(" | "));
    let table = files::table_head(TITLES) + &rows.iter().map(line).collect::<String>();
    println!("\n{table}");
    if rows.iter().flatten().any(|outcome| *outcome == Failed) {
        return Ok(1);
    }
    if rows.iter().flatten().any(|outcome| matches!(outcome, Skipped(_))) {
        println!("some checks were skipped: nothing is written");
        return Ok(SOME_SKIPPED);
    }
    if write {
        files::store_block(STORED, "targets", &table)?;
    }
    Ok(0)
}

/// The target's name, and the results: compiled, unit tests, control loop, counter path.
fn check(target: &Target, extent: Extent) -> [Outcome; 5] {
    let start = Instant::now();
    println!("\n=== {}", target.triple);
    let compiled = match Machine::with_compiler(target) {
        Ok(machine) => compile(target, &machine, extent),
        Err(missing) => Skipped(missing),
    };
    let machines =
        Machine::that_runs(target, false).and_then(|own| Ok((own, Machine::that_runs(target, true)?)));
    let [tests, control_loop, path] = match (&compiled, machines) {
        // If the target does not compile, no other result has a meaning.
        (Failed | Skipped(_), _) => [(); 3].map(|()| compiled.clone()),
        (_, Err(missing)) => [(); 3].map(|()| Skipped(missing.clone())),
        (_, Ok((plain, with_files))) => {
            let tests = unit_tests(target, &plain, extent);
            if extent == Extent::Short && matches!(target.counter, Counter::Checked | Counter::Read) {
                [tests, output_of("nightly"), output_of("nightly")]
            } else {
                [tests, control_loop(target, &with_files), counter_path(target, &plain)]
            }
        }
    };
    let outcomes = [output_of(&target.triple), compiled, tests, control_loop, path];
    for outcome in &outcomes {
        if let Skipped(missing) = outcome {
            println!("=== SKIPPED {}: {missing}; this was NOT checked", target.triple);
        }
    }
    println!("    {:.0} s", start.elapsed().as_secs_f64());
    outcomes
}

/// `-p` and the name of each crate.
pub(crate) fn packages(crates: &[&str]) -> String {
    crates.iter().map(|name| format!(" -p {name}")).collect()
}

/// `--target` and the target's name. Empty for this machine's own target, so that cargo uses the
/// builds of other steps.
fn option(target: &Target) -> String {
    if target.triple == HOST { String::new() } else { format!(" --target {}", target.triple) }
}

fn compile(target: &Target, machine: &Machine, extent: Extent) -> Outcome {
    let is_short = extent == Extent::Short && target.crates == Crates::Published;
    let (crates, crates_are) = if is_short { Crates::Libraries } else { target.crates }.names();
    let (packages, option) = (packages(crates), option(target));
    // The program needs nearly all libraries.
    let is_checked = is_short && target.is_static;
    if !is_checked && machine.run(&format!("cargo check{packages}{option}")).is_none() {
        return Failed;
    }
    if !target.is_static {
        return output_of(crates_are);
    }
    // The program, linked statically: no interpreter that would load libraries, and it runs.
    let binary = format!("target/{}/dist/tickline", target.triple);
    let built = machine.run(&format!("{BUILD}{option}"));
    let headers = built.and_then(|_| machine.run(&format!("readelf -lW {binary}")));
    let ran = headers
        .filter(|text| !text.contains("INTERP"))
        .and_then(|_| machine.run(&format!("{binary} --version")));
    let others = if is_checked { String::new() } else { format!("{crates_are}, ") };
    if ran.is_some() { Said(format!("{others}the program static")) } else { Failed }
}

fn unit_tests(target: &Target, machine: &Machine, extent: Extent) -> Outcome {
    let is_short = extent == Extent::Short;
    if !target.tests {
        return output_of(if target.why.is_empty() { "no" } else { &target.why });
    }
    if is_short && target.triple == RISC_V {
        return output_of("nightly");
    }
    let (some, option) = (if is_short { " --lib" } else { "" }, option(target));
    let tests = machine.run(&format!("cargo test -p tickline-core -p tickline{some}{option}"));
    // Its other tests need a C compiler for the target.
    let leases = || machine.run(&format!("cargo test -p tickline-page --lib{option}"));
    match tests.and_then(|output| Some(output + &leases()?)) {
        Some(output) => Said(with_skips(&machine.name, &output)),
        None => Failed,
    }
}

/// `name`, and how often tests said that they had nothing to test.
fn with_skips(name: &str, output: &str) -> String {
    let skips: Vec<&str> = output.lines().filter_map(|line| Some(line.split_once(SKIPPED)?.1)).collect();
    skips.iter().for_each(|why| println!("    SKIPPED in a test: {why}"));
    if skips.is_empty() { name.to_owned() } else { format!("{name}, {} skips", skips.len()) }
}

fn control_loop(target: &Target, machine: &Machine) -> Outcome {
    match target.counter {
        Counter::Unreachable => output_of("no"),
        Counter::None if target.runner.is_empty() => output_of("no"),
        Counter::None if target.runner == "node" => {
            let built =
                machine.run(&format!("cargo build -p tickline --example any_system{}", option(target)));
            let program = format!("target/{}/debug/examples/any_system.wasm", target.triple);
            let node = "node --no-warnings xtask/src/targets/wasm.mjs";
            match built.and_then(|_| machine.run(&format!("{node} {program}"))) {
                Some(_) => Said(format!("no counter; readings {}", machine.name)),
                None => Failed,
            }
        }
        Counter::None => output_of("no counter"),
        Counter::Checked | Counter::Read => one_test(target, machine, "control_loop"),
    }
}

fn counter_path(target: &Target, machine: &Machine) -> Outcome {
    match target.counter {
        Counter::Checked => one_test(target, machine, "disassembly"),
        Counter::None => output_of("no counter"),
        Counter::Read | Counter::Unreachable => output_of("no"),
    }
}

/// A test file of tickline by itself, optimised. It counts as passed only if it has skipped
/// nothing.
fn one_test(target: &Target, machine: &Machine, name: &str) -> Outcome {
    let test = format!("cargo test -p tickline --release --test {name}{} -- --nocapture", option(target));
    let Some(output) = machine.run(&test) else { return Failed };
    output.lines().filter(|line| line.starts_with(RAN)).for_each(|line| println!("    {line}"));
    match (output.split_once(SKIPPED), name) {
        (Some((_, rest)), _) => Skipped(rest.lines().next().unwrap_or_default().to_owned()),
        (None, "disassembly") => output_of("machine code"),
        (None, _) => Said(machine.name.clone()),
    }
}
