//! The table of scenarios, printed and stored: a row with the verdict, and with figures that
//! matter even if everything passed.

use serde_json::Value;

use super::image::QEMU;
use super::judge::{self, Verdict};
use super::qemu::Run;
use super::scenario::Scenario;
use crate::files;
use crate::step::said;

/// Where the table is kept, seen from the workspace's root.
const STORED: &str = "docs/guests.md";

/// A scenario that was run.
pub(super) struct Row<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
    pub(super) run: Run,
}

/// The columns that are both printed and stored.
const COLUMNS: usize = 11;

const TITLES: [&str; COLUMNS] = [
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
    "spans",
];

impl Row<'_> {
    fn cells(&self) -> [String; COLUMNS] {
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
        let times = |percent: u64| format!("{}.{:02}x", percent / 100, percent % 100);
        let spans = judge::find(&self.run.phases, "spans", "work.over_std_percent").find_map(Value::as_u64);
        [
            text("before", "clocksource"),
            text("before", "comparison.found"),
            state("before"),
            state("after"),
            format!("{}k", largest("end", "readers.readings") / 1_000),
            format!("{}k", largest("end", "readers.exchanges") / 1_000),
            text("end", "readers.backward"),
            outside[0].max(outside[1]).to_string(),
            largest("set_clock", "work.after_us").to_string(),
            times(largest("end", "cost.os_to_now_percent")),
            spans.map(times).unwrap_or_default(),
        ]
    }
}

pub(super) fn print(rows: &[Row<'_>], seconds: f64) {
    println!("\nscenario | result | s | {}", TITLES.join(" | "));
    for row in rows {
        let (word, cells) = (row.verdict.word(), row.cells().join(" | "));
        println!("{:<16} | {word} | {:.1} | {cells}", row.scenario.name, row.seconds);
    }
    let count = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
    println!(
        "{} passed, {} failed, {} skipped, in {seconds:.0} s",
        count("passed"),
        count("FAILED"),
        count("SKIPPED")
    );
}

const HEAD: &str = "\
# Guests

Real kernels with bad clocks, in guests under QEMU's emulation (`tests/vm/README.md`), and what
tickline does in them: the last run of `cargo xtask vm --write`, which writes this file. What is
expected of each guest, and why: `tests/vm/guests.toml`.

";

const LEGEND: &str = "
- *Counters*: what the comparison of the CPUs' counters has found: nothing yet where the kernel
  keeps time with them and CPUID names no hypervisor, because nobody needs a comparison there.
- *Before the act*, *after it*: what serves at the end of two seconds of readings; if it is the OS
  clock, with the reason.
- *Readings*, *exchanges*, *backward*: the ordered readings of one thread on each CPU; how many of
  them followed another thread's; and how many were smaller than one that was complete before they
  began.
- *Outside*: how far a reading was at most outside its bracket of two readings of the OS clock,
  before and after the act. Guests with two CPUs and another clocksource than the TSC are not
  judged by it, because the emulator's TSC jumps.
- *Unix*: the longest time that Unix time took to follow a clock that was set.
- *OS/now*: what the guest's own `clock_gettime` costs, as a multiple of `now_ns`.
- *Spans*: what a span of tracing costs with tickline-tracing's layer over std, as a multiple of
  the same over tickline.
";

fn head_of_table() -> String {
    format!("| scenario | result | {} |\n|---|---|{}\n", TITLES.join(" | "), "---|".repeat(COLUMNS))
}

fn row_start(scenario: &Scenario) -> String {
    format!("| `{}`: {} | ", scenario.name, scenario.about)
}

fn line(row: &Row<'_>) -> String {
    let result = row.verdict.word();
    format!("{}{result} | {} |\n", row_start(row.scenario), row.cells().join(" | "))
}

/// Replaces single rows of the table in the workspace, or adds them. Its head stays that of the last
/// run of all.
pub(super) fn store_some(scenarios: &[Scenario], rows: &[Row<'_>]) -> Result<(), String> {
    let stored = files::read(STORED)?;
    let head = head_of_table();
    let (before, rest) = stored.split_once(&head).ok_or("another table is stored")?;
    let end = rest.find("\n\n").map_or(rest.len(), |end| end + 1);
    let (old, after) = rest.split_at(end);
    let lines: String = scenarios
        .iter()
        .filter_map(|one| {
            let new = rows.iter().find(|row| row.scenario.name == one.name).map(line);
            let start = format!("| `{}`: ", one.name);
            new.or_else(|| Some(format!("{}\n", old.lines().find(|old| old.starts_with(&start))?)))
        })
        .collect();
    files::store(STORED, &format!("{before}{head}{lines}{after}"))
}

/// Writes the table to the workspace.
pub(super) fn store(rows: &[Row<'_>]) -> Result<(), String> {
    let lines: String = rows.iter().map(line).collect();
    let faults: String = rows
        .iter()
        .flat_map(|row| {
            row.verdict.lines().into_iter().map(|line| format!("- `{}`: {line}\n", row.scenario.name))
        })
        .collect();
    let faults = if faults.is_empty() { faults } else { format!("\nWhat failed:\n\n{faults}") };
    let text = format!("{HEAD}{}\n\n{}{lines}{faults}{LEGEND}", conditions(rows), head_of_table(),);
    files::store(STORED, &text)
}

/// When and on what the guests were run.
pub(super) fn conditions(rows: &[Row<'_>]) -> String {
    let kernels = rows.iter().flat_map(|row| judge::find(&row.run.phases, "machine", "kernel"));
    on(kernels.filter_map(Value::as_str).next().unwrap_or("unknown"))
}

/// The same, with guests of this kernel.
pub(super) fn on(kernel: &str) -> String {
    let first_line =
        |line: &str| said(line).map_or("unknown".into(), |text| text.lines().next().unwrap_or("").to_owned());
    let (date, qemu) = (first_line("date -u +%F"), first_line(&format!("{QEMU} --version")));
    format!("{date}; Linux {kernel}; {qemu}; on {}.", processor())
}

/// The machine below.
fn processor() -> String {
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
        let place = |title| 2 + TITLES.iter().position(|one| *one == title).unwrap();
        let (source, ratio) = (place("clocksource"), place("OS/now"));
        let ratios: Vec<f64> = read(STORED)
            .lines()
            .map(|row| row.trim_matches(['|', ' ']).split(" | ").collect::<Vec<_>>())
            .filter(|cells| cells.get(source).is_some_and(|name| ["hpet", "acpi_pm"].contains(name)))
            .filter_map(|cells| cells.get(ratio)?.trim_end_matches('x').parse().ok())
            // Where the counter serves.
            .filter(|ratio| *ratio > 1.5)
            .collect();
        let (least, most) = ratios
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
        let beginning = "whose counter serves: ";
        let said = format!("{beginning}{least:.0} to {most:.0} times as fast");
        for (page, must_say) in [("benches/README.md", true), ("README.md", false)] {
            let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                text.contains(&said) || !must_say && !text.contains(beginning),
                "{page} should have: {said}"
            );
        }
    }

    #[test]
    fn the_stored_table_has_a_row_for_each_scenario() {
        let stored = files::read(STORED).unwrap();
        let advice = "run `cargo xtask vm --write`";
        assert!(stored.starts_with(HEAD) && stored.ends_with(LEGEND), "another text: {advice}");
        let (_, rows) = stored.split_once(&head_of_table()).expect(advice);
        let rows: Vec<&str> = rows.lines().take_while(|row| row.starts_with("| `")).collect();
        assert_eq!(rows.len(), scenario::all().unwrap().len(), "{advice}");
        for (one, row) in scenario::all().unwrap().iter().zip(rows) {
            assert!(row.starts_with(&row_start(one)), "{advice}: {row}");
        }
    }
}
