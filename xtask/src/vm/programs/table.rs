//! The table of programs, printed and stored.

use std::fs;
use std::io;

use super::judge::{Row, TITLES};
use super::list::PROGRAMS;
use super::root::Skipped;
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
- *ns*: of a call, by the program's own clock, the loop around it included.
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
## The unit

`tickline.service` and the program of `cargo xtask dist`, installed as [operators.md](operators.md)
has it, with Debian's systemd as the first process, hpet, one CPU. A static program runs under
`tickline run` all the while.

| step | command | the unit is | a page is served | result |
|---|---|---|---|---|
";

fn word(row: &Row) -> &'static str {
    if row.faults.is_empty() { "passed" } else { "FAILED" }
}

fn figures(rows: &[Row]) -> Vec<String> {
    let has = rows.iter().filter(|row| !row.figures.is_empty());
    has.map(|row| format!("`{}`, {}: {}", row.guest, row.program, row.figures)).collect()
}

/// What is wrong, and what was not checked.
fn notes(rows: &[Row], skipped: &[Skipped]) -> Vec<String> {
    let faults = rows
        .iter()
        .flat_map(|row| row.faults.iter().map(|it| format!("FAILED {} {}: {it}", row.guest, row.program)));
    let skipped = skipped.iter().map(|(name, why)| format!("SKIPPED {name}: {why}. It was NOT checked."));
    faults.chain(skipped).collect()
}

pub(super) fn print(rows: &[Row], steps: &[Step], skipped: &[Skipped]) {
    println!("\nguest | program | result | {}", TITLES.join(" | "));
    for row in rows {
        println!("{:<10} {:<12} {} {}", row.guest, row.program, word(row), row.cells.join(" | "));
    }
    for step in steps {
        println!(
            "unit, {}: `{}`: {}, served: {}; {}",
            step.name,
            step.command,
            step.state,
            step.serving,
            step.word()
        );
    }
    for line in figures(rows).iter().chain(&notes(rows, skipped)) {
        println!("{line}");
    }
    let failed = rows.iter().filter(|row| !row.faults.is_empty()).count();
    println!("{} passed, {failed} failed, {} skipped", rows.len() - failed, skipped.len());
}

/// Writes the table to the workspace.
pub(super) fn store(rows: &[Row], steps: &[Step], kernel: &str, skipped: &[Skipped]) -> io::Result<()> {
    let mut text = format!("{HEAD}{}\n\n", on(kernel));
    text += &format!(
        "| guest | program | result | {} |\n|---|---|---|{}\n",
        TITLES.join(" | "),
        "---|".repeat(8)
    );
    for row in rows {
        text += &format!("| {} | {} | {} | {} |\n", row.guest, row.program, word(row), row.cells.join(" | "));
    }
    for (title, lines) in [("Figures", figures(rows)), ("Not passed", notes(rows, skipped))] {
        if !lines.is_empty() {
            text += &format!("\n{title}:\n\n- {}\n", lines.join("\n- "));
        }
    }
    text += LEGEND;
    text += "\n| program | what it is | at least so many times as fast |\n|---|---|---|\n";
    for program in PROGRAMS {
        text += &format!("| {} | {} | {} |\n", program.name, program.about, program.least.1);
    }
    text += UNIT;
    for step in steps {
        text += &format!(
            "| {} | {} | {} | {} | {} |\n",
            step.name,
            step.command,
            step.state,
            step.serving,
            step.word()
        );
    }
    fs::write(crate::vm::root().join(STORED), text)
}
