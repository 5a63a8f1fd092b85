//! `cargo xtask targets`: checks which parts compile and run on each target, and makes the table.
//! CI and documentation share one list of targets.

mod list;
mod machine;

use std::time::Instant;

use clap::Args;

pub(crate) use list::{PROGRAM, PUBLISHED};

use crate::command::{command, command_of};
use crate::dist::require_static;
use crate::files;
use crate::outcome::NotPassed::{self, Failed, Skipped};
use crate::outcome::code;
use crate::test_output::skips;
use crate::vm::BUILD;
use list::{Counter, HOST, Target};
use machine::Machine;

/// The file with the table, and the table's titles.
const STORED: &str = "PLATFORM.md";
const TITLES: [&str; 5] = [
    "target",
    "compiled",
    "unit tests run",
    "control loop run",
    "counter path checked",
];

/// The beginning of the message of `tests/control_loop.rs` when it has run.
const RAN_MARK: &str = "control loop: ";

/// The result of a check. `Ok` has the table's text, also if there is nothing to check.
type Cell = Result<String, NotPassed>;

fn passed(text: impl Into<String>) -> Cell {
    Ok(text.into())
}

/// What the table has of a result: one line.
fn text(cell: &Cell) -> String {
    match cell {
        Ok(text) => text.clone(),
        Err(Skipped(why)) => format!("SKIPPED: {}", why.lines().next().unwrap_or_default()),
        Err(Failed(_)) => "FAILED".to_owned(),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only the targets whose names contain one of these
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Stores the table in PLATFORM.md
    #[arg(long, conflicts_with = "names")]
    write: bool,
}

/// Checks the targets whose names contain one of `names`, or all targets, and prints the table.
/// Fails if a check fails. `--write` stores the table in `PLATFORM.md`, unless a check failed or was
/// skipped.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let names = &arguments.names;
    let targets = list::all()?;
    for name in names {
        if !targets.iter().any(|target| target.triple.contains(name)) {
            let all: Vec<&str> = targets.iter().map(|target| &*target.triple).collect();
            return Err(format!(
                "'{name}' is in no target's name; there are\n  {}",
                all.join("\n  ")
            ));
        }
    }
    let wanted = |target: &&Target| {
        names.is_empty() || names.iter().any(|name| target.triple.contains(name))
    };
    let rows: Vec<[Cell; 5]> = targets.iter().filter(wanted).map(check).collect();
    let line = |row: &[Cell; 5]| format!("| {} |\n", row.each_ref().map(text).join(" | "));
    let table = files::table_head(&TITLES) + &rows.iter().map(line).collect::<String>();
    println!("\n{table}");
    match code(rows.iter().flatten()) {
        0 if arguments.write => files::store_block(STORED, "targets", &table)?,
        0 => {}
        code => {
            println!("some checks failed or were skipped: nothing is written");
            return Ok(code);
        }
    }
    Ok(0)
}

/// Checks a target. Returns its name, and the results: compiled, unit tests, control loop, counter
/// path.
fn check(target: &Target) -> [Cell; 5] {
    let start = Instant::now();
    println!("\n=== {}", target.triple);
    let compiled =
        Machine::prepare_to_compile(target).and_then(|machine| compile(target, &machine));
    let rest = || {
        // If the target does not compile, skip the other checks.
        compiled.clone()?;
        let machine = Machine::prepare_to_run(target, None)?;
        let tests = run_unit_tests(target, &machine);
        let with_files = Machine::prepare_to_run(target, Some(&target.clocksources))?;
        Ok([
            tests,
            run_control_loop(target, &with_files),
            check_counter_path(target, &machine),
        ])
    };
    let [tests, control_loop, path] =
        rest().unwrap_or_else(|why: NotPassed| [(); 3].map(|()| Err(why.clone())));
    let cells = [passed(&target.triple), compiled, tests, control_loop, path];
    for why in causes(&cells) {
        println!("=== SKIPPED {}: NOT checked: {why}", target.triple);
    }
    println!("    {:.0} s", start.elapsed().as_secs_f64());
    cells
}

/// Why checks of a target were skipped. One cause may skip several checks, which follow each other.
fn causes(cells: &[Cell]) -> Vec<&str> {
    let mut causes = Vec::new();
    for cell in cells {
        if let Err(Skipped(why)) = cell {
            causes.push(why.as_str());
        }
    }
    causes.dedup();
    causes
}

/// The options of cargo that choose these crates: `-p` and the name of each.
pub(crate) fn package_options<'a>(crates: &[&'a str]) -> impl Iterator<Item = &'a str> {
    crates.iter().flat_map(|name| ["-p", *name])
}

/// The option of cargo that chooses the target. None for this machine's own target, so that cargo
/// uses the builds of other steps.
fn target_option(target: &Target) -> Option<String> {
    (target.triple != HOST).then(|| format!("--target={}", target.triple))
}

fn compile(target: &Target, machine: &Machine) -> Cell {
    let option = target_option(target);
    let packages = target.crates.names();
    let mut check = command("cargo check");
    machine.run(check.args(package_options(&packages)).args(&option))?;
    let crates = target.crates.words();
    if !target.is_static {
        return passed(crates);
    }
    let binary = files::target().join(&target.triple).join("dist/tickline");
    machine.run(command(BUILD).args(&option))?;
    require_static(&binary).inspect_err(|why| println!("=== FAILED: {why}"))?;
    machine.run(command_of([&binary]).arg("--version"))?;
    Ok(format!("{crates}, the program static"))
}

/// Lets tests that pass show why they have skipped themselves.
const SHOW_OUTPUT: [&str; 2] = ["--", "--show-output"];

fn run_unit_tests(target: &Target, machine: &Machine) -> Cell {
    if !target.tests {
        return passed(if target.why.is_empty() {
            "no"
        } else {
            &target.why
        });
    }
    // A static musl has no shared libraries, so the plugin, an example of tickline, can't be built.
    let kinds: &[&[&str]] = if target.triple.ends_with("-musl") {
        &[&["--lib", "--tests"], &["--doc"]]
    } else {
        &[&[]]
    };
    let option = target_option(target);
    let mut tests = String::new();
    for kind in kinds {
        let mut test = command("cargo test -p tickline-core -p tickline");
        tests += &machine.run(test.args(*kind).args(&option).args(SHOW_OUTPUT))?;
    }
    // The other tests of tickline-page need a C compiler for the target.
    let mut others = command("cargo test -p tickline-page -p tickline-utc --lib");
    let others = machine.run(others.args(&option).args(SHOW_OUTPUT))?;
    Ok(report_skips(&machine.name, &(tests + &others)))
}

/// Prints why tests skipped themselves. Returns `name`, and the number of these tests.
fn report_skips(name: &str, output: &str) -> String {
    let skips: Vec<&str> = skips(output).collect();
    for why in &skips {
        println!("    SKIPPED in a test: {why}");
    }
    if skips.is_empty() {
        name.to_owned()
    } else {
        format!("{name}, {} skips", skips.len())
    }
}

fn run_control_loop(target: &Target, machine: &Machine) -> Cell {
    match target.counter {
        Counter::Unreachable => passed("no"),
        Counter::None if target.runner.is_empty() => passed("no"),
        Counter::None if target.runner == "node" => {
            let mut build = command("cargo build -p tickline --example any_system");
            machine.run(build.args(target_option(target)))?;
            let built = files::target().join(&target.triple);
            let program = built.join("debug/examples/any_system.wasm");
            let mut node = command("node --no-warnings xtask/src/targets/wasm.mjs");
            machine.run(node.arg(program))?;
            Ok(format!("no counter; readings {}", machine.name))
        }
        Counter::None => passed("no counter"),
        Counter::Checked | Counter::Read => {
            run_test_file(target, machine, "control_loop", &machine.name)
        }
    }
}

fn check_counter_path(target: &Target, machine: &Machine) -> Cell {
    match target.counter {
        Counter::Checked => run_test_file(target, machine, "disassembly", "machine code"),
        Counter::None => passed("no counter"),
        Counter::Read | Counter::Unreachable => passed("no"),
    }
}

/// Runs one test file of tickline, optimised. Returns `words` for the table if the file passes. It
/// passes only if it has skipped nothing.
fn run_test_file(target: &Target, machine: &Machine, name: &str, words: &str) -> Cell {
    let mut test = command("cargo test -p tickline --release --test");
    test.arg(name).args(target_option(target));
    let output = machine.run(test.args(["--", "--nocapture"]))?;
    for line in output.lines().filter(|line| line.starts_with(RAN_MARK)) {
        println!("    {line}");
    }
    match skips(&output).next() {
        Some(why) => Err(Skipped(why.to_owned())),
        None => passed(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_skipped_or_failed_is_never_called_passed() {
        assert_eq!(text(&passed("natively")), "natively");
        assert_eq!(
            text(&Err(Skipped("no Wine\nat all".to_owned()))),
            "SKIPPED: no Wine"
        );
        assert_eq!(text(&Err(Failed("red".to_owned()))), "FAILED");
    }

    /// Symptom: a cause of several lines was printed four times.
    #[test]
    fn a_cause_that_skips_several_checks_is_named_once() {
        let skipped = |why: &str| Err(Skipped(why.to_owned()));
        let cells = [
            passed("natively"),
            skipped("no Wine"),
            skipped("no Wine"),
            skipped("no root"),
            Err(Failed("red".to_owned())),
        ];
        assert_eq!(causes(&cells), ["no Wine", "no root"]);
    }

    #[test]
    fn a_target_says_how_many_tests_skipped_themselves() {
        assert_eq!(report_skips("natively", "test one ... ok\n"), "natively");
        let output = "SKIPPED: no counter\ntest one ... SKIPPED: no root\n";
        assert_eq!(report_skips("natively", output), "natively, 2 skips");
    }

    /// `--write` stores nothing if a check was skipped, so no stored row says so.
    #[test]
    fn the_stored_table_has_a_row_for_each_target_and_no_skipped_check() {
        let stored = files::block(STORED, "targets").unwrap();
        let rows = stored.strip_prefix(&files::table_head(&TITLES)).unwrap();
        let targets = list::all().unwrap();
        assert_eq!(rows.lines().count(), targets.len());
        for (row, target) in rows.lines().zip(targets) {
            assert!(row.starts_with(&format!("| {} |", target.triple)), "{row}");
            assert!(!row.contains("SKIPPED") && !row.contains("FAILED"), "{row}");
        }
    }
}
