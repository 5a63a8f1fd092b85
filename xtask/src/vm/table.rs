//! The tables of guests. One has a row for each guest, with the verdict, and with figures that
//! matter even if everything passed. The other has a row for each expected finding of the program
//! `tickline`.

use serde_json::Value;

use super::image::QEMU;
use super::judge::{self, Verdict};
use super::qemu::Run;
use super::scenario::Scenario;
use crate::files;
use crate::step::output_of;

/// A guest that was run.
pub(super) struct Row<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) verdict: Verdict,
    pub(super) run: Run,
}

/// A table: its page and block, its head, and functions for a guest's rows. One function returns
/// the beginnings of the rows, the other their remaining cells.
struct Table {
    page: &'static str,
    block: &'static str,
    titles: &'static str,
    starts: fn(&Scenario) -> Vec<String>,
    cells: fn(&Row<'_>) -> Vec<String>,
}

const TABLES: [Table; 3] = [
    Table {
        page: "docs/guests.md",
        block: "guests",
        titles: "scenario | result | clocksource | counters | before the act | after it | readings | exchanges | \
                 backward | outside ns | Unix us | OS/now",
        starts: |guest| vec![format!("| `{}`: {} | ", guest.name, guest.about)],
        cells: |row| row.figures(),
    },
    Table {
        page: "docs/findings.md",
        block: "findings",
        titles: "guest | asked | clocksource | expected | printed | gain",
        starts: |guest| {
            guest.findings.iter().map(|[_, about, _]| format!("| `{}` | {about} | ", guest.name)).collect()
        },
        cells: |row| row.found(),
    },
    Table {
        page: "docs/guests.md",
        block: "utc",
        titles: "guest | scenario | readings | with an interval | missed | by ms | narrowest us | sources and \
                 reasons, in order",
        starts: |guest| guest.utc().map(|name| format!("| `{}` | {name} | ", guest.name)).collect(),
        cells: |row| row.scenario.utc().map(|name| row.utc(name)).collect(),
    },
];

impl Table {
    fn rows(&self, rows: &[Row<'_>]) -> String {
        let of = |row: &Row<'_>| (self.starts)(row.scenario).into_iter().zip((self.cells)(row));
        rows.iter().flat_map(of).map(|(start, cells)| format!("{start}{cells} |\n")).collect()
    }

    /// The block, with each guest's new row, or else the stored row.
    fn merged(&self, guests: &[Scenario], rows: &[Row<'_>]) -> Result<String, String> {
        let starts: Vec<String> = guests.iter().flat_map(self.starts).collect();
        let table = files::merged(&starts, &self.rows(rows), &files::block(self.page, self.block)?)?;
        Ok(files::table_head(self.titles) + &table)
    }
}

impl Row<'_> {
    /// The figures that follow the row's beginning.
    fn figures(&self) -> Vec<String> {
        let text = |phase: &str, path: &str| match judge::find(&self.run.phases, phase, path).next() {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        };
        let largest = |phase: &str, path: &str| {
            judge::find(&self.run.phases, phase, path).filter_map(Value::as_u64).max().unwrap_or(0)
        };
        let state =
            |phase: &str| format!("{} {}", text(phase, "state"), text(phase, "reason")).trim_end().to_owned();
        let outside =
            ["before", "after"].map(|phase| largest(phase, "ahead_ns").max(largest(phase, "behind_ns")));
        let percent = largest("end", "cost.os_to_now_percent");
        let cells = [
            self.verdict.word().to_owned(),
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

    /// The readings of UTC in a scenario.
    fn utc(&self, name: &str) -> String {
        let number = |path, unit: u64| {
            let value = judge::find(&self.run.phases, name, path).find_map(Value::as_u64);
            value.map_or_else(String::new, |value| (value / unit).to_string())
        };
        let kinds = judge::find(&self.run.phases, name, "in_order").find_map(Value::as_array);
        let kinds: Vec<&str> = kinds.into_iter().flatten().filter_map(Value::as_str).collect();
        let cells = [
            number("readings", 1),
            number("answered", 1),
            number("missed", 1),
            number("missed_ns", 1_000_000),
            number("narrowest_ns", 1_000),
            kinds.join(", "),
        ];
        cells.join(" | ")
    }

    /// The first finding that the program printed, for each phase with an expected finding.
    fn found(&self) -> Vec<String> {
        let printed = |[phase, _, code]: &[String; 3]| {
            let text = |path: &str| match judge::find(&self.run.phases, phase, path).next() {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(ratio)) => format!("{:.1}x", ratio.as_f64().unwrap_or_default()),
                _ => String::new(),
            };
            let cells = ["finding.code", "finding.gain_ratio"].map(text);
            let clocksource = Some(text("clocksource")).filter(|name| !name.is_empty());
            let clocksource = clocksource.unwrap_or_else(|| "unknown".to_owned());
            format!("{clocksource} | `{code}` | {}", cells.join(" | "))
        };
        self.scenario.findings.iter().map(printed).collect()
    }
}

pub(super) fn print(rows: &[Row<'_>], seconds: f64) {
    for table in TABLES {
        println!("\n{}{}", files::table_head(table.titles), table.rows(rows));
    }
    let count = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
    println!(
        "{} passed, {} failed, {} skipped, in {seconds:.0} s",
        count("passed"),
        count("FAILED"),
        count("SKIPPED")
    );
}

/// Writes the rows into the stored tables, with the date and the machine of the newest rows.
pub(super) fn store(guests: &[Scenario], rows: &[Row<'_>]) -> Result<(), String> {
    let kernels = rows.iter().flat_map(|row| judge::find(&row.run.phases, "machine", "kernel"));
    let conditions = conditions(kernels.filter_map(Value::as_str).next().unwrap_or("unknown"));
    for table in TABLES {
        let block = format!("{conditions}\n\n{}", table.merged(guests, rows)?);
        files::store_block(table.page, table.block, &block)?;
    }
    Ok(())
}

/// The date and the machine on which guests with this kernel were run.
pub(super) fn conditions(kernel: &str) -> String {
    let first_line = |line: &str| {
        output_of(line).map_or("unknown".into(), |text| text.lines().next().unwrap_or("").to_owned())
    };
    let (date, qemu) = (first_line("date -u +%F"), first_line(&format!("{QEMU} --version")));
    format!("{date}; Linux {kernel}; {qemu}; on {}.", processor())
}

/// The processor of the host.
pub(crate) fn processor() -> String {
    let text = files::read("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cpus} CPUs of {}", name.map_or("an unknown processor", |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::super::scenario;
    use super::*;

    /// Pages that state how much faster readings are with a slow OS clock agree with the stored
    /// table.
    #[test]
    fn pages_say_what_the_stored_table_does() {
        let read = |name| files::read(name).unwrap();
        let place = |title| TABLES[0].titles.split(" | ").position(|one| one == title).unwrap();
        let (source, ratio) = (place("clocksource"), place("OS/now"));
        let ratios: Vec<f64> = read(TABLES[0].page)
            .lines()
            .map(|row| row.trim_matches(['|', ' ']).split(" | ").collect::<Vec<_>>())
            .filter(|cells| cells.get(source).is_some_and(|name| ["hpet", "acpi_pm"].contains(name)))
            .filter_map(|cells| cells.get(ratio)?.split('x').next()?.parse().ok())
            // The counter serves in these guests.
            .filter(|ratio| *ratio > 1.5)
            .collect();
        let (least, most) = ratios
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
        let said = format!("{least:.0} to {most:.0} times as fast");
        for page in ["benches/README.md", "README.md"] {
            let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&said), "{page} should have: {said}");
        }
    }

    #[test]
    fn the_stored_tables_have_a_row_for_each_guest_and_the_expected_findings() {
        let (guests, advice) = (scenario::all().unwrap(), "run `cargo xtask vm --write`");
        for table in TABLES {
            let block = files::block(table.page, table.block).unwrap();
            let (_, stored) = block.split_once("\n\n").expect(advice);
            assert_eq!(stored, table.merged(&guests, &[]).expect(advice), "{advice}");
        }
        let findings = files::block(TABLES[1].page, TABLES[1].block).unwrap();
        let expected = guests.iter().flat_map(|guest| &guest.findings);
        for ([_, about, code], row) in expected.zip(findings.lines().skip(4)) {
            assert!(row.contains(&format!("| {about} | ")), "{advice}: {row}");
            assert!(row.contains(&format!("| `{code}` | {code} | ")), "{advice}: {row}");
        }
    }
}
