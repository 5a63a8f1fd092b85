//! Writes the tables of guests. There is a row
//!
//! - for each guest, with the verdict, and with figures that matter even if everything passed,
//! - for each expected finding of the program `tickline`,
//! - for each scenario of UTC,
//! - for each program on Debian,
//! - for each step of the package.

use std::process::Command;

use super::guest::{ExpectedFinding, Guest};
use super::image::QEMU;
use super::judge;
use super::programs::{MODES, POSTGRES, Program, SERVED_EXCHANGE};
use super::qemu::Run;
use super::report::{Figures, Phase, Readings, named};
use crate::command::{command, command_of, output};
use crate::files;
use crate::host::host_description;
use crate::outcome::{NotPassed, counts, word};

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
    cells: |row| row.guest.utc.iter().map(|name| row.utc(name)).collect(),
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
                row.result(&["machine", "states", "end"])
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

/// A text, or an empty cell.
fn text(found: Option<&String>) -> String {
    found.cloned().unwrap_or_default()
}

/// A figure in whole units, or a dash.
fn rounded(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.0}"))
}

impl Row<'_> {
    /// The phases of this name.
    fn phases<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Phase> {
        named(&self.run.phases, name)
    }

    /// The first value of a phase.
    fn first<'a, T>(&'a self, name: &str, value: impl Fn(&'a Phase) -> Option<T>) -> Option<T> {
        let mut phases = self.run.phases.iter().filter(|phase| phase.phase == name);
        phases.find_map(value)
    }

    /// The largest value in all phases of this name; 0 without a value.
    fn largest(&self, name: &str, value: impl Fn(&Phase) -> Option<u64>) -> u64 {
        self.phases(name).filter_map(value).max().unwrap_or(0)
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
        let is_reached = self.run.phases.iter().any(|phase| is_among(&phase.phase));
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
        let mut readings = Vec::<&Readings>::new();
        for phase in modes.iter().flat_map(|mode| self.phases(mode)) {
            readings.extend([&phase.monotonic, &phase.realtime]);
        }
        let back: u64 = readings.iter().filter_map(|one| one.backward).sum();
        let below_ns = readings.iter().filter_map(|one| one.below_os_ns).max();
        let above_ns = readings.iter().filter_map(|one| one.above_os_ns).max();
        let [native_ns, run_ns, preload_ns] = modes
            .each_ref()
            .map(|mode| self.first(mode, |phase| phase.ns));
        let ratio = native_ns
            .zip(run_ns)
            .map(|(native_ns, run_ns)| native_ns / run_ns);
        let counted: Vec<String> = modes
            .iter()
            .filter_map(|mode| self.first(mode, |phase| phase.counted.served_clocks))
            .map(|count| count.to_string())
            .collect();
        let calls = self.first(&modes[0], |phase| phase.counted.calls);
        let exchange = program.phase_in(SERVED_EXCHANGE);
        let exchanged = self.first(&exchange, |phase| {
            let back = phase.backward.unwrap_or(0) + phase.below_others.unwrap_or(0);
            Some(format!("{} calls, {back} back", phase.calls?))
        });
        let cells = [
            rounded(native_ns),
            rounded(run_ns),
            rounded(preload_ns),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")),
            format!(
                "{} of {}",
                counted.join(" / "),
                calls.map_or_else(String::new, |calls| calls.to_string())
            ),
            back.to_string(),
            format!("-{} +{}", below_ns.unwrap_or(0), above_ns.unwrap_or(0)),
            exchanged.unwrap_or_else(|| "-".to_owned()),
            self.result(&program.phases()),
        ];
        cells.join(" | ")
    }

    /// The cells of Postgres' own measurements, in each mode.
    fn postgres(&self) -> String {
        let all = |figure: fn(&Figures) -> Option<f64>| {
            let in_mode = |mode| {
                let phase = format!("{POSTGRES} {mode}");
                rounded(self.first(&phase, |phase| figure(&phase.figures)))
            };
            MODES.map(in_mode).join(" / ")
        };
        [
            all(|figures| figures.pg_test_timing_ns),
            all(|figures| figures.explain_on_ms),
            all(|figures| figures.explain_off_ms),
        ]
        .join(" | ")
    }

    /// The cells of a step of the package or its unit, or of a program that ran during the steps.
    fn step(&self, step: &str) -> String {
        let nothing = Phase::default();
        let phase = self.phases(step).next().unwrap_or(&nothing);
        let number = |found: Option<u64>| found.map_or_else(String::new, |found| found.to_string());
        let (unit, served) = match phase.calls {
            Some(calls) => (
                format!("{calls} calls in {} answers", number(phase.answers)),
                format!("{} back", number(phase.backward)),
            ),
            None => (
                text(phase.state.as_ref()),
                phase.serving.map_or_else(String::new, |is| is.to_string()),
            ),
        };
        [
            text(phase.command.as_ref()),
            unit,
            served,
            self.result(&[step]),
        ]
        .join(" | ")
    }

    /// The cells of a guest's figures.
    fn figures(&self) -> Vec<String> {
        let state = |name: &str| {
            let state = text(self.first(name, |phase| phase.state.as_ref()));
            let reason = text(self.first(name, |phase| phase.reason.as_ref()));
            format!("{state} {reason}").trim_end().to_owned()
        };
        let outside_ns = |name: &str| {
            let ahead_ns = self.largest(name, |phase| phase.ahead_ns);
            ahead_ns.max(self.largest(name, |phase| phase.behind_ns))
        };
        let backward = self.first("end", |phase| phase.readers.backward);
        let percent = self.largest("end", |phase| phase.cost.os_to_now_percent);
        let cells = [
            word(&self.verdict).to_owned(),
            text(self.first("before", |phase| phase.clocksource.as_ref())),
            text(self.first("before", |phase| phase.comparison.found.as_ref())),
            state("before"),
            state("after"),
            format!(
                "{}k",
                self.largest("end", |phase| phase.readers.readings) / 1_000
            ),
            format!(
                "{}k",
                self.largest("end", |phase| phase.readers.exchanges) / 1_000
            ),
            backward.map_or_else(String::new, |backward| backward.to_string()),
            outside_ns("before").max(outside_ns("after")).to_string(),
            self.largest("set_clock", |phase| phase.work.after_us)
                .to_string(),
            format!("{}.{:02}x", percent / 100, percent % 100),
        ];
        vec![cells.join(" | ")]
    }

    /// The cells of the readings of UTC in a scenario.
    fn utc(&self, name: &str) -> String {
        let number = |value: fn(&Phase) -> Option<u64>, unit: u64| {
            let found = self.first(name, value);
            found.map_or_else(String::new, |found| (found / unit).to_string())
        };
        let kinds = self
            .phases(name)
            .next()
            .map(|phase| phase.in_order.join(", "));
        let cells = [
            number(|phase| phase.readings, 1),
            number(|phase| phase.answered, 1),
            number(|phase| phase.missed, 1),
            number(|phase| phase.missed_ns, 1_000_000),
            number(|phase| phase.narrowest_ns, 1_000),
            kinds.unwrap_or_default(),
        ];
        cells.join(" | ")
    }

    /// The cells of the first printed finding, for each phase with an expected finding.
    fn found(&self) -> Vec<String> {
        let printed = |ExpectedFinding { phase, code, .. }: &ExpectedFinding| {
            let clocksource = text(self.first(phase, |phase| phase.clocksource.as_ref()));
            let clocksource = if clocksource.is_empty() {
                "unknown"
            } else {
                &clocksource
            };
            let found = self.first(phase, Phase::finding_code).unwrap_or_default();
            let gain = self.first(phase, |phase| phase.finding.as_ref()?.gain_ratio);
            let gain = gain.map_or_else(String::new, |ratio| format!("{ratio:.1}x"));
            format!("{clocksource} | `{code}` | {found} | {gain}")
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
    let mut kernels = rows
        .iter()
        .filter_map(|row| row.first("machine", |phase| phase.kernel.as_ref()));
    let conditions = conditions(kernels.next().map_or("unknown", String::as_str));
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
            let mut titles = GUESTS.titles.iter();
            titles.position(|one| *one == title).unwrap()
        };
        let source = column("clocksource");
        let ratio = column("OS/now");
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
    fn a_guests_row_has_the_worst_of_its_phases() {
        let guests = guest::all().unwrap();
        let guest = guests.iter().find(|guest| guest.name == "tsc").unwrap();
        let phases = json!([
            { "phase": "before", "clocksource": "tsc", "state": "fast", "ahead_ns": 30, "behind_ns": 70,
              "comparison": { "found": "synchronised" } },
            { "phase": "after", "state": "fallback", "reason": "slow", "ahead_ns": 65, "behind_ns": 1 },
            { "phase": "set_clock", "work": { "reached": true, "after_us": 900 } },
            { "phase": "set_clock", "work": { "reached": true, "after_us": 1_200 } },
            { "phase": "end", "cost": { "os_to_now_percent": 1_205 },
              "readers": { "readings": 9_876_543, "exchanges": 12_345, "backward": 0 } },
        ]);
        let run = Run {
            phases: serde_json::from_value(phases).unwrap(),
            ..Run::default()
        };
        let rows = GUESTS.rows(&[Row {
            guest,
            verdict: Ok(()),
            run,
        }]);
        let about = "the kernel keeps time with the TSC";
        assert_eq!(
            rows,
            format!(
                "| `tsc`: {about} | passed | tsc | synchronised | fast | fallback slow | 9876k | \
                 12k | 0 | 70 | 1200 | 12.05x |\n"
            )
        );
    }

    #[test]
    fn a_row_has_the_result_of_its_own_program() {
        let guests = guest::all().unwrap();
        let guest = guests.iter().find(|guest| guest.name == "hpet-1").unwrap();
        let phases = json!([
            { "phase": "unavailable", "what": "not built: Go" },
            { "phase": "machine", "clocksource": "hpet" },
            { "phase": "Go with C served exchange", "answers": 4, "backward": 0, "below_others": 0 },
        ]);
        let run = Run {
            phases: serde_json::from_value(phases).unwrap(),
            ..Run::default()
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
        let guests = guest::all().unwrap();
        let advice = "run `cargo xtask vm --write`";
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
        for (ExpectedFinding { about, code, .. }, row) in expected.zip(findings.lines().skip(4)) {
            assert!(row.contains(&format!("| {about} | ")), "{advice}: {row}");
            assert!(
                row.contains(&format!("| `{code}` | {code} | ")),
                "{advice}: {row}"
            );
        }
    }
}
