//! `cargo xtask targets`: checks for each target which parts compile and run, and makes the table.
//! CI and documentation share one list of targets.

mod list;
mod machine;

use std::time::Instant;

pub(crate) use list::PUBLISHED;

use crate::files;
use crate::step::NotPassed::{self, Failed, Skipped};
use crate::step::code;
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

/// How a check ended. If it passed, or there is nothing to check: the table's text.
type Outcome = Result<String, NotPassed>;

fn passed(text: impl Into<String>) -> Outcome {
    Ok(text.into())
}

fn text(outcome: &Outcome) -> String {
    match outcome {
        Ok(text) => text.clone(),
        Err(Skipped(missing)) => format!("SKIPPED: {missing}"),
        Err(Failed(_)) => "FAILED".to_owned(),
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
    let line = |row: &[Outcome; 5]| format!("| {} |\n", row.each_ref().map(text).join(" | "));
    let table = files::table_head(TITLES) + &rows.iter().map(line).collect::<String>();
    println!("\n{table}");
    match code(rows.iter().flatten()) {
        0 if write => files::store_block(STORED, "targets", &table)?,
        0 => {}
        code => {
            println!("some checks failed or were skipped: nothing is written");
            return Ok(code);
        }
    }
    Ok(0)
}

/// The target's name, and the results: compiled, unit tests, control loop, counter path.
fn check(target: &Target, extent: Extent) -> [Outcome; 5] {
    let start = Instant::now();
    println!("\n=== {}", target.triple);
    let compiled = Machine::with_compiler(target).and_then(|machine| compile(target, &machine, extent));
    let rest = || {
        // If the target does not compile, no other result has a meaning.
        compiled.clone()?;
        let (plain, with_files) = (Machine::that_runs(target, false)?, Machine::that_runs(target, true)?);
        let tests = unit_tests(target, &plain, extent);
        if extent == Extent::Short && matches!(target.counter, Counter::Checked | Counter::Read) {
            return Ok([tests, passed("nightly"), passed("nightly")]);
        }
        Ok([tests, control_loop(target, &with_files), counter_path(target, &plain)])
    };
    let [tests, control_loop, path] =
        rest().unwrap_or_else(|why: NotPassed| [(); 3].map(|()| Err(why.clone())));
    let outcomes = [passed(&target.triple), compiled, tests, control_loop, path];
    for outcome in &outcomes {
        if let Err(Skipped(missing)) = outcome {
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
    if !is_checked {
        machine.run(&format!("cargo check{packages}{option}"))?;
    }
    if !target.is_static {
        return passed(crates_are);
    }
    // The program, linked statically: no interpreter that would load libraries, and it runs.
    let binary = files::built(&format!("{}/dist/tickline", target.triple));
    machine.run(&format!("{BUILD}{option}"))?;
    if machine.run(&format!("readelf -lW {binary}"))?.contains("INTERP") {
        return Err(Failed(format!("{binary} is not static")));
    }
    machine.run(&format!("{binary} --version"))?;
    let others = if is_checked { String::new() } else { format!("{crates_are}, ") };
    Ok(format!("{others}the program static"))
}

fn unit_tests(target: &Target, machine: &Machine, extent: Extent) -> Outcome {
    let is_short = extent == Extent::Short;
    if !target.tests {
        return passed(if target.why.is_empty() { "no" } else { &target.why });
    }
    if is_short && target.triple == RISC_V {
        return passed("nightly");
    }
    let (some, option) = (if is_short { " --lib" } else { "" }, option(target));
    let tests = machine.run(&format!("cargo test -p tickline-core -p tickline{some}{option}"))?;
    // Its other tests need a C compiler for the target.
    let leases = machine.run(&format!("cargo test -p tickline-page --lib{option}"))?;
    Ok(with_skips(&machine.name, &(tests + &leases)))
}

/// `name`, and how often tests said that they had nothing to test.
fn with_skips(name: &str, output: &str) -> String {
    let skips: Vec<&str> = output.lines().filter_map(|line| Some(line.split_once(SKIPPED)?.1)).collect();
    skips.iter().for_each(|why| println!("    SKIPPED in a test: {why}"));
    if skips.is_empty() { name.to_owned() } else { format!("{name}, {} skips", skips.len()) }
}

fn control_loop(target: &Target, machine: &Machine) -> Outcome {
    match target.counter {
        Counter::Unreachable => passed("no"),
        Counter::None if target.runner.is_empty() => passed("no"),
        Counter::None if target.runner == "node" => {
            machine.run(&format!("cargo build -p tickline --example any_system{}", option(target)))?;
            let program = files::built(&format!("{}/debug/examples/any_system.wasm", target.triple));
            machine.run(&format!("node --no-warnings xtask/src/targets/wasm.mjs {program}"))?;
            Ok(format!("no counter; readings {}", machine.name))
        }
        Counter::None => passed("no counter"),
        Counter::Checked | Counter::Read => one_test(target, machine, "control_loop"),
    }
}

fn counter_path(target: &Target, machine: &Machine) -> Outcome {
    match target.counter {
        Counter::Checked => one_test(target, machine, "disassembly"),
        Counter::None => passed("no counter"),
        Counter::Read | Counter::Unreachable => passed("no"),
    }
}

/// A test file of tickline by itself, optimised. It counts as passed only if it has skipped
/// nothing.
fn one_test(target: &Target, machine: &Machine, name: &str) -> Outcome {
    let test = format!("cargo test -p tickline --release --test {name}{} -- --nocapture", option(target));
    let output = machine.run(&test)?;
    output.lines().filter(|line| line.starts_with(RAN)).for_each(|line| println!("    {line}"));
    match (output.split_once(SKIPPED), name) {
        (Some((_, rest)), _) => Err(Skipped(rest.lines().next().unwrap_or_default().to_owned())),
        (None, "disassembly") => passed("machine code"),
        (None, _) => Ok(machine.name.clone()),
    }
}
