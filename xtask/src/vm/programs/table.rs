//! The tables of programs, printed and stored.

use super::{List, Row, judge, results};
use crate::files;
use crate::vm::table::on;

/// Where the tables are kept.
const STORED: &str = "docs/programs.md";

const HEAD: &str = "\
# Programs

Unmodified programs on Debian 12, in guests under QEMU's emulation whose kernel keeps time with hpet
or acpi_pm: natively, under `tickline run`, and with the library in `LD_PRELOAD`. The last run of
`cargo xtask vm --programs --write`, which writes this file. The programs and what is expected of
them: `tests/vm/programs/programs.toml`; what each of them does is in the same folder.

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
    pub(super) steps: Vec<Row>,
    pub(super) suites: Vec<Row>,
    /// What could not be built.
    pub(super) skipped: Vec<String>,
    pub(super) kernel: String,
}

fn word(row: &Row) -> &'static str {
    if row.faults.is_empty() { "passed" } else { "FAILED" }
}

/// A table, and what there is to say of its rows.
fn markdown(titles: &str, rows: &[Row]) -> String {
    let columns = titles.split(" | ").count() + 1;
    let mut text = format!("| {titles} | result |\n|{}\n", "---|".repeat(columns));
    for row in rows {
        text += &format!("| {} | {} |\n", row.cells.join(" | "), word(row));
    }
    let notes: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            let name = row.cells[..2].join(" ");
            let faults = row.faults.iter().map(|fault| format!("FAILED: {fault}"));
            let all: Vec<String> = faults.chain(row.notes.iter().cloned()).collect();
            all.into_iter().map(move |note| format!("- {name}: {note}\n"))
        })
        .collect();
    if notes.is_empty() { text } else { format!("{text}\n{}", notes.concat()) }
}

impl Found {
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.programs.iter().chain(&self.steps).chain(&self.suites)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.rows().any(|row| !row.faults.is_empty())
    }

    pub(super) fn print(&self) {
        for (titles, rows) in
            [(judge::TITLES, &self.programs), (results::STEPS, &self.steps), (results::TITLES, &self.suites)]
        {
            if !rows.is_empty() {
                println!("\n{}", markdown(titles, rows));
            }
        }
        self.skipped
            .iter()
            .for_each(|name| println!("SKIPPED {name}: it could not be built, and was NOT checked"));
        let failed = self.rows().filter(|row| !row.faults.is_empty()).count();
        println!("{} passed, {failed} failed, {} skipped", self.rows().count() - failed, self.skipped.len());
    }

    /// Writes the tables to the workspace.
    pub(super) fn store(&self, list: &List) -> Result<(), String> {
        let mut text = format!("{HEAD}{}\n\n{}", on(&self.kernel), markdown(judge::TITLES, &self.programs));
        for name in &self.skipped {
            text += &format!("\nSKIPPED {name}: it could not be built, and was NOT checked.\n");
        }
        text += LEGEND;
        text += "\n| program | what it is | at least so many times as fast |\n|---|---|---|\n";
        for program in &list.program {
            text += &format!("| {} | {} | {} |\n", program.name, program.about, program.least);
        }
        text += &format!("{UNIT}{}", markdown(results::STEPS, &self.steps));
        text += &format!("{TESTS}{}", markdown(results::TITLES, &self.suites));
        text += "\n| program | its tests |\n|---|---|\n";
        for suite in &list.suite {
            text += &format!("| {} | {} |\n", suite.name, suite.about);
        }
        files::store(STORED, &text)
    }
}
