//! Writes the tables of guests. There is a row
//!
//! - for each guest, with the verdict, and with figures that matter even if everything passed,
//! - for each expected finding of the program `tickline`,
//! - for each scenario of UTC,
//! - for each program on Debian,
//! - for each step of the package.
//!
//! `cells` has the cells of each row.

mod cells;

use std::process::Command;

use super::guest::Guest;
use super::image::QEMU;
use super::phase;
use super::programs::POSTGRES;
use super::qemu::Run;
use crate::command::{command, command_of, output};
use crate::files;
use crate::host::host_description;
use crate::outcome::{NotPassed, counts};

/// A guest that was run.
pub(super) struct Row<'a> {
    pub(super) guest: &'a Guest,
    pub(super) verdict: Result<(), NotPassed>,
    pub(super) run: Run,
}

/// A table: its file and block, its head, and functions for a guest's rows. `starts` returns the
/// beginnings of the rows, and `cells` the remaining cells.
struct Table {
    file: &'static str,
    block: &'static str,
    titles: &'static [&'static str],
    starts: fn(&Guest) -> Vec<String>,
    cells: fn(&Row<'_>) -> Vec<String>,
}

/// The title of the row with the checks of a guest on Debian that concern no program.
const THE_GUEST: &str = "the guest";

const TABLES: [Table; 6] = [GUESTS, FINDINGS, UTC, PROGRAMS, POSTGRES_TIMES, PACKAGE];

const GUESTS: Table = Table {
    file: "docs/guests.md",
    block: "guests",
    titles: &[
        "guest",
        "result",
        "clocksource",
        "counters",
        "before the act",
        "after it",
        "readings",
        "exchanges",
        "backward",
        "outside ns",
        "Unix us",
        "OS/now",
    ],
    starts: |guest| {
        let row =
            (!guest.is_on_debian()).then(|| format!("| `{}`: {} | ", guest.name, guest.about));
        row.into_iter().collect()
    },
    cells: |row| row.figures(),
};

const FINDINGS: Table = Table {
    file: "machine/docs/findings.md",
    block: "findings",
    titles: &[
        "guest",
        "asked",
        "clocksource",
        "expected",
        "printed",
        "gain",
    ],
    starts: |guest| {
        guest
            .findings
            .iter()
            .map(|finding| format!("| `{}` | {} | ", guest.name, finding.about))
            .collect()
    },
    cells: |row| row.found(),
};

const UTC: Table = Table {
    file: "docs/guests.md",
    block: "utc",
    titles: &[
        "guest",
        "scenario",
        "readings",
        "with a range",
        "missed",
        "by ms",
        "narrowest us",
        "sources and reasons, in order",
    ],
    starts: |guest| {
        guest
            .utc
            .iter()
            .map(|name| format!("| `{}` | {name} | ", guest.name))
            .collect()
    },
    cells: |row| row.guest.utc.iter().map(|one| row.utc(*one)).collect(),
};

const PROGRAMS: Table = Table {
    file: "machine/docs/programs.md",
    block: "programs",
    titles: &[
        "guest",
        "program",
        "native ns",
        "`run` ns",
        "preload ns",
        "ratio",
        "system calls",
        "back",
        "outside ns",
        "served exchange",
        "result",
    ],
    starts: |guest| {
        let names = guest.programs.iter().map(|program| program.name.as_str());
        let names = names.chain((!guest.programs.is_empty()).then_some(THE_GUEST));
        names
            .map(|name| format!("| {} | {name} | ", guest.name))
            .collect()
    },
    cells: |row| {
        let programs = row
            .guest
            .programs
            .iter()
            .map(|program| row.program(program));
        programs
            .chain([format!(
                "{}{}",
                " | ".repeat(8),
                row.result(&[phase::MACHINE, phase::STATES, phase::END])
            )])
            .collect()
    },
};

const POSTGRES_TIMES: Table = Table {
    file: "machine/docs/programs.md",
    block: "postgres",
    titles: &[
        "guest",
        "pg_test_timing ns",
        "EXPLAIN ANALYZE ms",
        "without its timing ms",
    ],
    starts: |guest| {
        let is_there = guest
            .programs
            .iter()
            .any(|program| program.name == POSTGRES);
        is_there
            .then(|| format!("| {} | ", guest.name))
            .into_iter()
            .collect()
    },
    cells: |row| vec![row.postgres()],
};

const PACKAGE: Table = Table {
    file: "machine/docs/programs.md",
    block: "package",
    titles: &[
        "step",
        "command",
        "the unit is",
        "a page is served",
        "result",
    ],
    starts: |guest| {
        guest
            .steps()
            .map(|step| format!("| {} | ", step.replace('_', " ")))
            .collect()
    },
    cells: |row| row.guest.steps().map(|step| row.step(step)).collect(),
};

impl Table {
    fn rows(&self, rows: &[Row<'_>]) -> String {
        let parts = |row: &Row<'_>| (self.starts)(row.guest).into_iter().zip((self.cells)(row));
        rows.iter()
            .flat_map(parts)
            .map(|(start, cells)| format!("{start}{cells} |\n"))
            .collect()
    }

    /// The block, with the new row of each guest, or else the stored row.
    fn merged(&self, guests: &[Guest], rows: &[Row<'_>]) -> Result<String, String> {
        let starts: Vec<String> = guests.iter().flat_map(self.starts).collect();
        let table = files::merged(
            &starts,
            &self.rows(rows),
            &files::block(self.file, self.block)?,
        )?;
        Ok(files::table_head(self.titles) + &table)
    }
}

/// The tables that have any of these rows.
fn tables_of(rows: &[Row<'_>]) -> impl Iterator<Item = Table> {
    TABLES
        .into_iter()
        .filter(|table| !table.rows(rows).is_empty())
}

pub(super) fn print(rows: &[Row<'_>], seconds: f64) {
    for table in tables_of(rows) {
        println!("\n{}{}", files::table_head(table.titles), table.rows(rows));
    }
    println!(
        "{}, in {seconds:.0} s",
        counts(rows.iter().map(|row| &row.verdict))
    );
}

/// Writes the rows into the stored tables, with the date and the machine of the newest rows.
pub(super) fn store(guests: &[Guest], rows: &[Row<'_>]) -> Result<(), String> {
    let mut kernels = rows
        .iter()
        .filter_map(|row| row.first(phase::MACHINE, |phase| phase.machine.as_ref()))
        .map(|machine| machine.kernel.as_str());
    let conditions = conditions(kernels.next().unwrap_or("unknown"));
    for table in tables_of(rows) {
        let block = format!("{conditions}\n\n{}", table.merged(guests, rows)?);
        files::store_block(table.file, table.block, &block)?;
    }
    Ok(())
}

/// The date, the kernel, the emulator and the machine of a run, as text.
fn conditions(kernel: &str) -> String {
    let first_line = |command: &mut Command| {
        output(command).map_or("unknown".into(), |text| {
            text.lines().next().unwrap_or("").to_owned()
        })
    };
    let date = first_line(&mut command("date -u +%F"));
    let qemu = first_line(command_of([QEMU]).arg("--version"));
    format!("{date}; Linux {kernel}; {qemu}; on {}.", host_description())
}

#[cfg(test)]
mod tests;
