//! `cargo xtask targets`: checks what compiles and runs on each target, and makes the table. CI
//! and documentation share one list of targets.

mod list;
mod machine;
mod table;

use std::process::ExitCode;
use std::time::Instant;

pub(crate) use list::PUBLISHED;

use crate::step::SOME_SKIPPED;
use crate::vm::BUILD;
use list::{Counter, HOST, LIBRARIES, RISC_V, Runner, TARGETS, Target};
use machine::{Files, Machine};

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// It passed; what the table says.
    Passed(String),
    /// There is nothing to check; what the table says.
    Nothing(String),
    /// Not checked, because something is missing here; what that is.
    Skipped(String),
    Failed,
}

impl Outcome {
    fn text(&self) -> String {
        match self {
            Self::Passed(text) | Self::Nothing(text) => text.clone(),
            Self::Skipped(missing) => format!("SKIPPED: {missing}"),
            Self::Failed => "FAILED".to_owned(),
        }
    }
}

/// A target with what was found: compiled, unit tests, control loop, counter path.
struct Row {
    triple: &'static str,
    outcomes: [Outcome; 4],
    seconds: f64,
}

/// The message of a test that has nothing to test.
const SKIPPED: &str = "SKIPPED: ";

/// The message of `tests/control_loop.rs` when it has run.
const RAN: &str = "control loop: ";

/// How much is run in emulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Unit tests, integration tests, doc tests.
    Full,
    /// For other targets the libraries alone, since the program takes longest to compile; unit tests
    /// only, by emulators, and none for RISC-V; no optimised tests. What is left out the table calls
    /// "nightly".
    Short,
}

/// Checks the targets whose names have one of `names` in them, or all, or with `--others` all but
/// x86_64 Linux, which other steps of CI check, and less of each (`Extent::Short`); prints the
/// table. Fails if a check does. With `--write` the table goes to `PLATFORM.md`, if nothing
/// failed or was skipped.
pub(crate) fn run(names: &[&str]) -> ExitCode {
    let (write, others) = (names == ["--write"], names == ["--others"]);
    let names = if write || others { &[] } else { names };
    if let Some(unknown) =
        names.iter().find(|name| !TARGETS.iter().any(|target| target.triple.contains(**name)))
    {
        eprintln!("xtask targets: '{unknown}' is in no target's name; there are");
        for target in TARGETS {
            eprintln!("  {}", target.triple);
        }
        return ExitCode::from(2);
    }
    let wanted = |target: &&Target| {
        !(others && target.triple == HOST)
            && (names.is_empty() || names.iter().any(|name| target.triple.contains(name)))
    };
    let extent = if others { Extent::Short } else { Extent::Full };
    let rows: Vec<Row> = TARGETS.iter().filter(wanted).map(|target| check(target, extent)).collect();
    table::print(&rows);
    let count =
        |kind: fn(&Outcome) -> bool| rows.iter().flat_map(|row| &row.outcomes).filter(|o| kind(o)).count();
    let failed = count(|outcome| *outcome == Outcome::Failed);
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let passed = count(|outcome| matches!(outcome, Outcome::Passed(_)));
    println!("{passed} checks passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        return ExitCode::FAILURE;
    }
    if skipped > 0 {
        if write {
            eprintln!("xtask targets: nothing is written while checks are skipped");
        }
        return ExitCode::from(SOME_SKIPPED);
    }
    match if write { table::store(&rows) } else { Ok(()) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask targets: cannot store the table: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(target: &Target, extent: Extent) -> Row {
    let start = Instant::now();
    println!("\n=== {}", target.triple);
    let compiled = match Machine::with_compiler(target) {
        Ok(machine) => compile(target, &machine, extent),
        Err(missing) => Outcome::Skipped(missing),
    };
    let machines = Machine::that_runs(target, Files::Hosts)
        .and_then(|plain| Ok((plain, Machine::that_runs(target, Files::Targets)?)));
    let [tests, control_loop, path] = match (&compiled, machines) {
        // Nothing else has a meaning.
        (Outcome::Failed | Outcome::Skipped(_), _) => [(); 3].map(|()| compiled.clone()),
        (_, Err(missing)) => [(); 3].map(|()| Outcome::Skipped(missing.clone())),
        (_, Ok((plain, own))) => {
            let tests = unit_tests(target, &plain, extent);
            if extent == Extent::Short && matches!(target.counter, Counter::Read | Counter::ReadUnchecked) {
                [tests, nightly(), nightly()]
            } else {
                [tests, control_loop(target, &own), counter_path(target, &plain)]
            }
        }
    };
    let outcomes = [compiled, tests, control_loop, path];
    for outcome in &outcomes {
        if let Outcome::Skipped(missing) = outcome {
            println!("=== SKIPPED {}: {missing}; this was NOT checked", target.triple);
        }
    }
    Row { triple: target.triple, outcomes, seconds: start.elapsed().as_secs_f64() }
}

/// `-p` and the name of each crate.
pub(crate) fn packages(crates: &[&str]) -> String {
    crates.iter().map(|name| format!(" -p {name}")).collect()
}

/// `--target` and its name; nothing for this machine's own, so that what was built for other
/// steps is used.
fn option(target: &Target) -> String {
    if target.triple == HOST { String::new() } else { format!(" --target {}", target.triple) }
}

/// What `nightly` checks.
fn nightly() -> Outcome {
    Outcome::Nothing("nightly".to_owned())
}

fn compile(target: &Target, machine: &Machine, extent: Extent) -> Outcome {
    let is_short = extent == Extent::Short && !target.is_static && target.crates == PUBLISHED;
    let (crates, crates_are) =
        if is_short { (LIBRARIES, "libraries") } else { (target.crates, target.crates_are) };
    let (packages, option) = (packages(crates), option(target));
    if machine.run(&format!("cargo check{packages}{option}")).is_none() {
        return Outcome::Failed;
    }
    if !target.is_static {
        return Outcome::Passed(crates_are.to_owned());
    }
    // The program, linked statically: no interpreter that would load libraries, and it runs.
    let binary = format!("target/{}/dist/tickline", target.triple);
    let built = machine.run(&format!("{BUILD}{option}"));
    let headers = built.and_then(|_| machine.run(&format!("readelf -lW {binary}")));
    let ran = headers
        .filter(|text| !text.contains("INTERP"))
        .and_then(|_| machine.run(&format!("{binary} --version")));
    match ran {
        Some(_) => Outcome::Passed(format!("{}, the program static", target.crates_are)),
        None => Outcome::Failed,
    }
}

fn unit_tests(target: &Target, machine: &Machine, extent: Extent) -> Outcome {
    let is_short = extent == Extent::Short && matches!(target.runner, Runner::Qemu { .. });
    match target.tests {
        Err(why) => Outcome::Nothing(why.to_owned()),
        Ok(()) if is_short && target.triple == RISC_V => nightly(),
        Ok(()) => {
            let some = if is_short { " --lib" } else { "" };
            let option = option(target);
            let tests = machine.run(&format!("cargo test -p tickline-core -p tickline{some}{option}"));
            // Its other tests need a C compiler for the target.
            let leases = || machine.run(&format!("cargo test -p tickline-page --lib{option}"));
            match tests.and_then(|output| Some(output + &leases()?)) {
                Some(output) => Outcome::Passed(with_skips(&machine.name, &output)),
                None => Outcome::Failed,
            }
        }
    }
}

/// `name`, and how often tests said that they had nothing to test there. Each reason is printed
/// once.
fn with_skips(name: &str, output: &str) -> String {
    let skips: Vec<&str> = output.lines().filter_map(|line| Some(line.split_once(SKIPPED)?.1)).collect();
    for (place, why) in skips.iter().enumerate() {
        if !skips[..place].contains(why) {
            println!("    SKIPPED in a test: {why}");
        }
    }
    match skips.len() {
        0 => name.to_owned(),
        count => format!("{name}, {count} skips"),
    }
}

fn control_loop(target: &Target, machine: &Machine) -> Outcome {
    match (target.counter, target.runner) {
        (Counter::Unreachable, _) | (Counter::None, Runner::Nothing) => Outcome::Nothing("no".to_owned()),
        (Counter::None, Runner::Node) => {
            let built =
                machine.run(&format!("cargo build -p tickline --example any_system{}", option(target)));
            let program = format!("target/{}/debug/examples/any_system.wasm", target.triple);
            let node = "node --no-warnings xtask/src/targets/wasm.mjs";
            match built.and_then(|_| machine.run(&format!("{node} {program}"))) {
                Some(_) => Outcome::Nothing(format!("no counter; readings {}", machine.name)),
                None => Outcome::Failed,
            }
        }
        (Counter::None, _) => Outcome::Nothing("no counter".to_owned()),
        (Counter::Read | Counter::ReadUnchecked, _) => one_test(target, machine, "control_loop"),
    }
}

fn counter_path(target: &Target, machine: &Machine) -> Outcome {
    match target.counter {
        Counter::Read => one_test(target, machine, "disassembly"),
        Counter::None => Outcome::Nothing("no counter".to_owned()),
        Counter::ReadUnchecked | Counter::Unreachable => Outcome::Nothing("no".to_owned()),
    }
}

/// A test file of tickline by itself, optimised. It counts as passed only if it has skipped
/// nothing.
fn one_test(target: &Target, machine: &Machine, name: &str) -> Outcome {
    let test = format!("cargo test -p tickline --release --test {name}{} -- --nocapture", option(target));
    let Some(output) = machine.run(&test) else { return Outcome::Failed };
    for line in output.lines().filter(|line| line.starts_with(RAN)) {
        println!("    {line}");
    }
    match (output.split_once(SKIPPED), name) {
        (Some((_, rest)), _) => Outcome::Skipped(rest.lines().next().unwrap_or_default().to_owned()),
        (None, "disassembly") => Outcome::Passed("machine code".to_owned()),
        (None, _) => Outcome::Passed(machine.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_is_never_called_passed() {
        let skipped = Outcome::Skipped("qemu".to_owned());
        assert!(skipped.text().starts_with("SKIPPED"));
        assert!(!matches!(skipped, Outcome::Passed(_)));
    }

    #[test]
    fn tests_that_were_skipped_are_in_the_table() {
        assert_eq!(with_skips("natively", "test a ... ok\n"), "natively");
        let output = "SKIPPED: no counter\ntest a ... SKIPPED: no counter\nok";
        assert_eq!(with_skips("natively", output), "natively, 2 skips");
    }

    #[test]
    fn targets_are_listed_once_and_known_by_their_names() {
        for (index, target) in TARGETS.iter().enumerate() {
            assert!(!TARGETS[..index].iter().any(|other| other.triple == target.triple), "{}", target.triple);
        }
        assert_eq!(run(&["vax"]), ExitCode::from(2));
    }
}
