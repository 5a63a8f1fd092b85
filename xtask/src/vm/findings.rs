//! The findings of the program `tickline` in the guests, expected and printed: a row for each
//! call.

use std::fmt::Write as _;

use serde_json::Value;

use super::judge;
use super::scenario::Scenario;
use super::table::{self, Row};
use crate::files;

/// Where the table is kept, seen from the workspace's root.
const STORED: &str = "docs/findings.md";

const HEAD: &str = "\
# Findings

What `tickline doctor` finds first in guests with bad clocks, under QEMU's emulation
(`tests/vm/README.md`): the last run of `cargo xtask vm --findings`, which writes this file. What
is expected, and of which guests: `tests/vm/guests.toml`.

";

const TITLE: &str = "\
| guest | asked | clocksource | expected | printed | what | fix | gain |
|---|---|---|---|---|---|---|---|
";

const LEGEND: &str = "
- *Printed*: the first finding's code. Its fix was also compared with what it must say.
- *Gain*: what `clock_gettime` costs in the guest, as a multiple of coarse clock plus counter.
";

/// The rows of one guest, without those that need its run.
fn row_starts(scenario: &Scenario) -> Vec<String> {
    let cells = scenario.findings.iter();
    cells.map(|expected| format!("| `{}` | {} | ", scenario.name, expected.about)).collect()
}

fn lines(scenario: &Scenario, row: &Row<'_>) -> String {
    let mut lines = String::new();
    for (expected, start) in scenario.findings.iter().zip(row_starts(scenario)) {
        let text = |path: &str| match judge::find(&row.run.phases, &expected.phase, path).next() {
            Some(Value::String(text)) => text.replace('|', "\\|"),
            Some(Value::Number(ratio)) => format!("{:.1}x", ratio.as_f64().unwrap_or_default()),
            _ => String::new(),
        };
        let cells = ["finding.code", "finding.what", "finding.fix", "finding.gain_ratio"].map(text);
        let clocksource = Some(text("clocksource")).filter(|name| !name.is_empty());
        let clocksource = clocksource.unwrap_or_else(|| "unknown".to_owned());
        writeln!(lines, "{start}{clocksource} | `{}` | {} |", expected.code, cells.join(" | ")).ok();
    }
    lines
}

/// Every row of the guests that were run.
fn table(rows: &[Row<'_>]) -> String {
    rows.iter().map(|row| lines(row.scenario, row)).collect()
}

pub(super) fn print(rows: &[Row<'_>]) {
    let table = table(rows);
    if !table.is_empty() {
        println!("\nWhat the program found:\n\n{TITLE}{table}");
    }
}

/// Writes the table to the workspace.
pub(super) fn store(rows: &[Row<'_>]) -> Result<(), String> {
    let text = format!("{HEAD}{}\n\n{TITLE}{}{LEGEND}", table::conditions(rows), table(rows));
    files::store(STORED, &text)
}

#[cfg(test)]
mod tests {
    use super::super::scenario;
    use super::*;

    #[test]
    fn the_stored_table_has_a_row_for_each_finding_and_they_are_the_expected_ones() {
        let stored = files::read(STORED).unwrap();
        let advice = "run `cargo xtask vm --findings`";
        assert!(stored.starts_with(HEAD) && stored.ends_with(LEGEND), "another text: {advice}");
        let (_, rows) = stored.split_once(TITLE).expect(advice);
        let mut rows = rows.lines();
        for scenario in scenario::all().unwrap() {
            for (expected, start) in scenario.findings.iter().zip(row_starts(&scenario)) {
                let row = rows.next().expect(advice);
                let code = &expected.code;
                assert!(row.starts_with(&start), "{advice}: {row}");
                assert!(row.contains(&format!("| `{code}` | {code} | ")), "{advice}: {row}");
            }
        }
        assert!(!rows.next().expect(advice).starts_with("| `"), "{advice}");
    }
}
