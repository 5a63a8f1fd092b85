//! Writes the tables of guests. There is a row
//!
//! - for each guest, with the verdict, and with figures that matter even if everything passed,
//! - for each expected finding of the program `tickline`,
//! - for each scenario of UTC,
//! - for each program on Debian,
//! - for each step of the package.

use serde_json::Value;

use super::guest::Guest;
use super::image::QEMU;
use super::judge;
use super::programs::{MODES, Program, SERVED_EXCHANGE};
use super::qemu::Run;
use crate::files;
use crate::step::{NotPassed, counts, host_description, output_of, word};

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
    titles: &'static str,
    starts: fn(&Guest) -> Vec<String>,
    cells: fn(&Row<'_>) -> Vec<String>,
}

/// The program whose own measurements have a table.
const POSTGRES: &str = "Postgres";

/// The title of the row with the checks of a guest on Debian that concern no program.
const THE_GUEST: &str = "the guest";

const TABLES: [Table; 6] = [GUESTS, FINDINGS, UTC, PROGRAMS, POSTGRES_TIMES, PACKAGE];

const GUESTS: Table = Table {
    file: "docs/guests.md",
    block: "guests",
    titles: "guest | result | clocksource | counters | before the act | after it | readings | exchanges | \
             backward | outside ns | Unix us | OS/now",
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
    titles: "guest | asked | clocksource | expected | printed | gain",
    starts: |guest| {
        guest
            .findings
            .iter()
            .map(|[_, about, _]| format!("| `{}` | {about} | ", guest.name))
            .collect()
    },
    cells: |row| row.found(),
};

const UTC: Table = Table {
    file: "docs/guests.md",
    block: "utc",
    titles: "guest | scenario | readings | with an interval | missed | by ms | narrowest us | sources and \
             reasons, in order",
    starts: |guest| {
        guest
            .utc()
            .map(|name| format!("| `{}` | {name} | ", guest.name))
            .collect()
    },
    cells: |row| row.guest.utc().map(|name| row.utc(name)).collect(),
};

const PROGRAMS: Table = Table {
    file: "machine/docs/programs.md",
    block: "programs",
    titles: "guest | program | native ns | `run` ns | preload ns | ratio | system calls | back | outside ns | \
             served exchange | result",
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
                row.result(&["machine", "states", "end"])
            )])
            .collect()
    },
};

const POSTGRES_TIMES: Table = Table {
    file: "machine/docs/programs.md",
    block: "postgres",
    titles: "guest | pg_test_timing ns | EXPLAIN ANALYZE ms | without its timing ms",
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
    titles: "step | command | the unit is | a page is served | result",
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

impl Row<'_> {
    /// The first value of a phase, as text; empty without a value.
    fn text(&self, phase: &str, path: &str) -> String {
        match judge::find(&self.run.phases, phase, path).next() {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        }
    }

    /// The first value of a phase.
    fn number(&self, phase: &str, path: &str) -> Option<f64> {
        judge::find(&self.run.phases, phase, path).find_map(Value::as_f64)
    }

    /// The result of the checks in these phases, with the faults.
    fn result(&self, phases: &[impl AsRef<str>]) -> String {
        let is_among = |name: &str| phases.iter().any(|phase| phase.as_ref() == name);
        let checks = self
            .guest
            .checks
            .iter()
            .filter(|check| is_among(&check.phase));
        let faults = judge::violated(checks, &self.run.phases).join("; ");
        let is_reached = self
            .run
            .phases
            .iter()
            .any(|phase| phase["phase"].as_str().is_some_and(is_among));
        match faults.as_str() {
            "" if is_reached => "passed".to_owned(),
            // The guest lacks the program.
            "" => "SKIPPED".to_owned(),
            _ => format!("FAILED: {}", faults.replace('|', "/")),
        }
    }

    /// The cells of a program, with all its modes.
    fn program(&self, program: &Program) -> String {
        let modes = MODES.map(|mode| program.phase_in(mode));
        let numbers = |paths: [&str; 2]| -> Vec<f64> {
            let in_phase = |phase: &String| paths.map(|path| self.number(phase, path));
            modes.iter().flat_map(in_phase).flatten().collect()
        };
        let rounded = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
        let largest = |paths| numbers(paths).into_iter().fold(0.0, f64::max);
        let [native, run, preload] = modes.each_ref().map(|phase| self.number(phase, "ns"));
        let ratio = native.zip(run).map_or_else(
            || "-".to_owned(),
            |(native, run)| format!("{:.1}", native / run),
        );
        let counted = modes
            .each_ref()
            .map(|phase| self.text(phase, "counted.served_clocks"));
        let counted: Vec<&str> = counted
            .iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        let back: f64 = numbers(["monotonic.backward", "realtime.backward"])
            .iter()
            .sum();
        let exchange = program.phase_in(SERVED_EXCHANGE);
        let back_then =
            ["backward", "below_others"].map(|path| self.number(&exchange, path).unwrap_or(0.0));
        let calls = self.number(&exchange, "calls");
        let cells = [
            rounded(native),
            rounded(run),
            rounded(preload),
            ratio,
            format!(
                "{} of {}",
                counted.join(" / "),
                self.text(&modes[0], "counted.calls")
            ),
            back.to_string(),
            format!(
                "-{} +{}",
                largest(["monotonic.below_os_ns", "realtime.below_os_ns"]),
                largest(["monotonic.above_os_ns", "realtime.above_os_ns"])
            ),
            calls.map_or_else(
                || "-".to_owned(),
                |calls| format!("{calls} calls, {} back", back_then[0] + back_then[1]),
            ),
            self.result(&program.phases()),
        ];
        cells.join(" | ")
    }

    /// The cells of Postgres' own measurements, in each mode.
    fn postgres(&self) -> String {
        let all = |key: &str| {
            let path = format!("figures.{key}");
            let figure = |mode| self.number(&format!("{POSTGRES} {mode}"), &path);
            MODES
                .map(|mode| figure(mode).map_or("-".to_owned(), |ns| format!("{ns:.0}")))
                .join(" / ")
        };
        ["pg_test_timing_ns", "explain_on_ms", "explain_off_ms"]
            .map(all)
            .join(" | ")
    }

    /// The cells of a step of the package or its unit, or of a program that ran during the steps.
    fn step(&self, step: &str) -> String {
        let [command, mut unit, mut served] =
            ["command", "state", "serving"].map(|path| self.text(step, path));
        if let Some(calls) = self.number(step, "calls") {
            unit = format!("{calls} calls in {} answers", self.text(step, "answers"));
            served = format!("{} back", self.text(step, "backward"));
        }
        [command, unit, served, self.result(&[step])].join(" | ")
    }

    /// The cells of a guest's figures.
    fn figures(&self) -> Vec<String> {
        let text = |phase: &str, path: &str| self.text(phase, path);
        let largest = |phase: &str, path: &str| {
            judge::find(&self.run.phases, phase, path)
                .filter_map(Value::as_u64)
                .max()
                .unwrap_or(0)
        };
        let state = |phase: &str| {
            format!("{} {}", text(phase, "state"), text(phase, "reason"))
                .trim_end()
                .to_owned()
        };
        let outside = ["before", "after"]
            .map(|phase| largest(phase, "ahead_ns").max(largest(phase, "behind_ns")));
        let percent = largest("end", "cost.os_to_now_percent");
        let cells = [
            word(&self.verdict).to_owned(),
            text("before", "clocksource"),
            text("before", "comparison.found"),
            state("before"),
            state("after"),
            format!("{}k", largest("end", "readers.readings") / 1_000),
            format!("{}k", largest("end", "readers.exchanges") / 1_000),
            text("end", "readers.backward"),
            outside[0].max(outside[1]).to_string(),
            largest("set_clock", "work.after_us").to_string(),
            format!("{}.{:02}x", percent / 100, percent % 100),
        ];
        vec![cells.join(" | ")]
    }

    /// The cells of the readings of UTC in a scenario.
    fn utc(&self, name: &str) -> String {
        let number = |path, unit: f64| {
            self.number(name, path)
                .map_or_else(String::new, |value| (value / unit).floor().to_string())
        };
        let kinds = judge::find(&self.run.phases, name, "in_order").find_map(Value::as_array);
        let kinds: Vec<&str> = kinds
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let cells = [
            number("readings", 1.0),
            number("answered", 1.0),
            number("missed", 1.0),
            number("missed_ns", 1e6),
            number("narrowest_ns", 1e3),
            kinds.join(", "),
        ];
        cells.join(" | ")
    }

    /// The cells of the first printed finding, for each phase with an expected finding.
    fn found(&self) -> Vec<String> {
        let printed = |[phase, _, code]: &[String; 3]| {
            let clocksource = Some(self.text(phase, "clocksource")).filter(|name| !name.is_empty());
            let clocksource = clocksource.unwrap_or_else(|| "unknown".to_owned());
            let gain = self.number(phase, "finding.gain_ratio");
            let gain = gain.map_or_else(String::new, |ratio| format!("{ratio:.1}x"));
            format!(
                "{clocksource} | `{code}` | {} | {gain}",
                self.text(phase, "finding.code")
            )
        };
        self.guest.findings.iter().map(printed).collect()
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
    let kernels = rows
        .iter()
        .flat_map(|row| judge::find(&row.run.phases, "machine", "kernel"));
    let conditions = conditions(
        kernels
            .filter_map(Value::as_str)
            .next()
            .unwrap_or("unknown"),
    );
    for table in tables_of(rows) {
        let block = format!("{conditions}\n\n{}", table.merged(guests, rows)?);
        files::store_block(table.file, table.block, &block)?;
    }
    Ok(())
}

/// The date, the kernel, the emulator and the machine of a run, as text.
fn conditions(kernel: &str) -> String {
    let first_line = |line: &str| {
        output_of(line).map_or("unknown".into(), |text| {
            text.lines().next().unwrap_or("").to_owned()
        })
    };
    let (date, qemu) = (
        first_line("date -u +%F"),
        first_line(&format!("{QEMU} --version")),
    );
    format!("{date}; Linux {kernel}; {qemu}; on {}.", host_description())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::guest;
    use super::*;

    /// Two files state how much faster readings are with a slow OS clock. The stored table must
    /// agree.
    #[test]
    fn files_say_what_the_stored_table_does() {
        let read = |name| files::read(name).unwrap();
        let column = |title| {
            GUESTS
                .titles
                .split(" | ")
                .position(|one| one == title)
                .unwrap()
        };
        let (source, ratio) = (column("clocksource"), column("OS/now"));
        let ratios: Vec<f64> = read(GUESTS.file)
            .lines()
            .map(|row| {
                row.trim_matches(['|', ' '])
                    .split(" | ")
                    .collect::<Vec<_>>()
            })
            .filter(|cells| {
                cells
                    .get(source)
                    .is_some_and(|name| ["hpet", "acpi_pm"].contains(name))
            })
            .filter_map(|cells| cells.get(ratio)?.split('x').next()?.parse().ok())
            // The counter serves in these guests.
            .filter(|ratio| *ratio > 1.5)
            .collect();
        let (least, most) = ratios
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| {
                (least.min(*ratio), most.max(*ratio))
            });
        let words = format!("{least:.0} to {most:.0} times as fast");
        for file in ["benches/README.md", "README.md"] {
            let text = read(file).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&words), "{file} should have: {words}");
        }
    }

    #[test]
    fn a_row_has_the_result_of_its_own_program() {
        let guests = guest::all().unwrap();
        let guest = guests.iter().find(|guest| guest.name == "hpet-1").unwrap();
        let phases = vec![
            json!({ "phase": "unavailable", "what": "not built: Go" }),
            json!({ "phase": "machine", "clocksource": "hpet" }),
            json!({ "phase": "Go with C served exchange", "answers": 4, "backward": 0, "below_others": 0 }),
        ];
        let run = Run {
            phases,
            broken: None,
        };
        let rows = PROGRAMS.rows(&[Row {
            guest,
            verdict: judge::judge(guest, &run),
            run,
        }]);
        let result = |program: &str| {
            let start = format!("| hpet-1 | {program} | ");
            rows.lines()
                .find(|row| row.starts_with(&start))
                .unwrap()
                .rsplit(" | ")
                .next()
                .unwrap()
        };
        assert_eq!([result("Go"), result(THE_GUEST)], ["SKIPPED |", "passed |"]);
        assert!(
            result("Go with C").starts_with("FAILED: Go with C served exchange: answers is 4"),
            "{rows}"
        );
    }

    #[test]
    fn the_stored_tables_have_a_row_for_each_guest_and_the_expected_findings() {
        let (guests, advice) = (guest::all().unwrap(), "run `cargo xtask vm --write`");
        for table in TABLES {
            let block = files::block(table.file, table.block).unwrap();
            let (_, stored) = block.split_once("\n\n").expect(advice);
            assert_eq!(
                stored,
                table.merged(&guests, &[]).expect(advice),
                "{advice}"
            );
        }
        let findings = files::block(FINDINGS.file, FINDINGS.block).unwrap();
        let expected = guests.iter().flat_map(|guest| &guest.findings);
        for ([_, about, code], row) in expected.zip(findings.lines().skip(4)) {
            assert!(row.contains(&format!("| {about} | ")), "{advice}: {row}");
            assert!(
                row.contains(&format!("| `{code}` | {code} | ")),
                "{advice}: {row}"
            );
        }
    }
}
