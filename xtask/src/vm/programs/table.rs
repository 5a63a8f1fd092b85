//! The table of programs, printed and stored.

use std::fs;
use std::io;

use super::judge::{Row, TITLES};
use super::list::PROGRAMS;
use super::results;
use super::root::Skipped;
use super::suites::SUITES;
use super::units::Step;
use crate::vm::table::on;

/// Where the table is kept, seen from the workspace's root.
const STORED: &str = "docs/programs.md";

const HEAD: &str = "\
# Programs

Unmodified programs on Debian 12, in guests under QEMU's emulation whose kernel keeps time with hpet
or acpi_pm: natively, under `tickline run`, and with the library in `LD_PRELOAD`. The last run of
`cargo xtask vm --programs --write`, which writes this file. The programs and what is expected of
them: `xtask/src/vm/programs/list.rs`; what each of them does: `tests/vm/programs/`.

";

const LEGEND: &str = "
- *ns*: of a call, by the program's own clock, in the fastest of many batches of 1,000 calls; for
  servers, of a request or row.
- *Ratio*: native by `run`, within one guest.
- *System calls*: those of `clock_gettime` for `CLOCK_MONOTONIC` and `CLOCK_REALTIME`, and of
  `gettimeofday`, that strace counted for the number of calls behind *of*: native / `run` /
  preload. strace is attached to the running program.
- *Back*: readings smaller than the one before.
- *Outside*: how far the first reading was below the OS clock's before it, and the last above the OS
  clock's after it, by system calls of another process. What `serve` states as its lead is allowed.
- *Handed over*: the program under `run`, beside others, while the server is killed, started,
  stopped (SIGSTOP), continued, ended and started; *back* counts readings smaller than the one before,
  or than one that another of the programs had told before.
";

const UNIT: &str = "
## The package

The package of `cargo xtask dist` and its unit, with Debian's systemd as the first process, hpet, one
CPU. A static program under `tickline run`, and Python with `LD_PRELOAD`, read the clock all the while.

| step | command | the unit is | a page is served | result |
|---|---|---|---|---|
";

const TESTS: &str = "
## Their own tests for time

In a guest with hpet and two CPUs. A test that fails under `run` or by preload must fail natively, too,
and as many tests must run. A test that fails in any mode is repeated alone, up to three times in each
mode, and passes if it passes once.

";

/// What all guests have shown.
#[derive(Default)]
pub(super) struct Found {
    pub(super) programs: Vec<Row>,
    pub(super) steps: Vec<Step>,
    pub(super) suites: Vec<results::Row>,
}

impl Found {
    fn results(&self) -> impl Iterator<Item = bool> {
        let steps = self.steps.iter().map(|step| step.word() == "passed");
        let suites = self.suites.iter().map(|row| row.faults.is_empty());
        self.programs.iter().map(|row| row.faults.is_empty()).chain(steps).chain(suites)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.results().any(|has_passed| !has_passed)
    }
}

fn word(faults: &[String]) -> &'static str {
    if faults.is_empty() { "passed" } else { "FAILED" }
}

fn figures(rows: &[Row]) -> Vec<String> {
    let has = rows.iter().filter(|row| !row.figures.is_empty());
    has.map(|row| format!("`{}`, {}: {}", row.guest, row.program, row.figures)).collect()
}

/// What is wrong, and what was not checked.
fn notes(found: &Found, skipped: &[Skipped]) -> Vec<String> {
    let programs = found
        .programs
        .iter()
        .flat_map(|row| row.faults.iter().map(|it| format!("FAILED {} {}: {it}", row.guest, row.program)));
    let suites = found.suites.iter().flat_map(|row| {
        row.faults.iter().map(|it| format!("FAILED the suite of {}, {}: {it}", row.suite, row.mode))
    });
    let skipped = skipped.iter().map(|(name, why)| format!("SKIPPED {name}: {why}. It was NOT checked."));
    programs.chain(suites).chain(skipped).collect()
}

/// A suite's tests that fail in this mode, or have failed once.
fn tests(row: &results::Row) -> Vec<String> {
    let name = |what: &str| format!("the suite of {}, {}: {what}", row.suite, row.mode);
    let failed = (!row.failed.is_empty()).then(|| name(&format!("{} failed", row.failed.join(", "))));
    failed.into_iter().chain(row.repeated.iter().map(|it| name(it))).collect()
}

/// The columns of a step of the unit.
fn of_step(step: &Step) -> String {
    [&step.name, &step.command, &step.state, &step.serving, step.word()].join(" | ")
}

const SUITE_TITLES: &str = "program | mode | tests that ran | failed | skipped | result";

/// The columns of a suite in a mode.
fn of_suite(row: &results::Row) -> String {
    let results::Row { suite, mode, ran, skipped, failed, faults, .. } = row;
    format!("{suite} | {mode} | {ran} | {} | {skipped} | {}", failed.len(), word(faults))
}

pub(super) fn print(found: &Found, skipped: &[Skipped]) {
    println!();
    if !found.programs.is_empty() {
        println!("guest | program | result | {}", TITLES.join(" | "));
    }
    for row in &found.programs {
        println!("{:<10} {:<12} {} {}", row.guest, row.program, word(&row.faults), row.cells.join(" | "));
    }
    for step in &found.steps {
        println!("unit: {}", of_step(step));
    }
    if !found.suites.is_empty() {
        println!("tests: {SUITE_TITLES}");
    }
    for row in &found.suites {
        println!("tests: {}", of_suite(row));
    }
    let tests = found.suites.iter().flat_map(tests);
    for line in figures(&found.programs).into_iter().chain(tests).chain(notes(found, skipped)) {
        println!("{line}");
    }
    let failed = found.results().filter(|has_passed| !has_passed).count();
    println!("{} passed, {failed} failed, {} skipped", found.results().count() - failed, skipped.len());
}

/// Writes the table to the workspace.
pub(super) fn store(found: &Found, kernel: &str, skipped: &[Skipped]) -> io::Result<()> {
    let mut text = format!("{HEAD}{}\n\n", on(kernel));
    text += &format!(
        "| guest | program | result | {} |\n|---|---|---|{}\n",
        TITLES.join(" | "),
        "---|".repeat(8)
    );
    for row in &found.programs {
        text += &format!(
            "| {} | {} | {} | {} |\n",
            row.guest,
            row.program,
            word(&row.faults),
            row.cells.join(" | ")
        );
    }
    for (title, lines) in [("Figures", figures(&found.programs)), ("Not passed", notes(found, skipped))] {
        if !lines.is_empty() {
            text += &format!("\n{title}:\n\n- {}\n", lines.join("\n- "));
        }
    }
    text += LEGEND;
    text += "\n| program | what it is | at least so many times as fast |\n|---|---|---|\n";
    for program in PROGRAMS {
        text += &format!("| {} | {} | {} |\n", program.name, program.about, program.least);
    }
    text += UNIT;
    for step in &found.steps {
        text += &format!("| {} |\n", of_step(step));
    }
    text += TESTS;
    text += &format!("| {SUITE_TITLES} |\n|---|---|---|---|---|---|\n");
    for row in &found.suites {
        text += &format!("| {} |\n", of_suite(row));
    }
    text += "\n";
    for line in found.suites.iter().flat_map(tests) {
        text += &format!("- {line}\n");
    }
    text += "\n| program | its tests |\n|---|---|\n";
    for suite in SUITES {
        text += &format!("| {} | {} |\n", suite.name, suite.about);
    }
    fs::write(crate::vm::root().join(STORED), text)
}
