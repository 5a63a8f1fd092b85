//! What the guest has reported of the programs' own tests for time, and of the package under
//! systemd, against what must hold.

use std::collections::BTreeMap;

use serde_json::Value;

use super::judge::HANDED_OVER;
use super::{Row, Run, Suite};
use crate::vm::judge;

const MODES: [&str; 3] = ["native", "run", "preload"];

pub(super) const TITLES: &str = "program | mode | tests that ran | failed | skipped";
pub(super) const STEPS: &str = "step | command | the unit is | a page is served";

/// The rows of these suites; another one for the guest, if it has come to no end.
pub(super) fn rows(suites: &[Suite], run: &Run) -> Vec<Row> {
    let mut rows: Vec<Row> = suites.iter().flat_map(|suite| suite_rows(suite, run)).collect();
    let machine = run.lines.iter().find(|line| line["phase"] == "machine").unwrap_or(&Value::Null);
    let mut faults: Vec<String> = run.broken.iter().cloned().collect();
    if machine["clocksource"] != "hpet" {
        faults.push(format!("the clocksource is {}", machine["clocksource"]));
    }
    if !faults.is_empty() {
        rows.push(Row {
            cells: ["the guest", "", "", "", ""].map(str::to_owned).into(),
            notes: Vec::new(),
            faults,
        });
    }
    rows
}

fn suite_rows(suite: &Suite, run: &Run) -> Vec<Row> {
    let mut rows = Vec::new();
    let native = Seen::of(suite, "native", run);
    for mode in MODES.into_iter().filter(|mode| *mode != "preload" || !suite.is_static) {
        let seen = Seen::of(suite, mode, run);
        let mut faults = Vec::new();
        if seen.ran() == 0 {
            faults.push(format!("no test ran: {}", seen.line));
        }
        if seen.line["serving"] != true {
            faults.push(format!("no page was served at its end: serving is {}", seen.line["serving"]));
        }
        let is_served = seen.line["tickline"].as_str().is_some_and(|said| said.contains(" the clock of "));
        if mode == "run" && !is_served {
            faults.push(format!("`tickline run` says {}", seen.line["tickline"]));
        }
        if seen.ran() != native.ran() {
            let other = |one: &Seen, two: &Seen| -> Vec<String> {
                one.results.keys().filter(|test| one.has_run(test) && !two.has_run(test)).cloned().collect()
            };
            faults.push(format!(
                "{} tests ran, natively {}; only natively: {}; only here: {}",
                seen.ran(),
                native.ran(),
                other(&native, &seen).join(", "),
                other(&seen, &native).join(", ")
            ));
        }
        let failed = seen.failed();
        faults.extend(
            failed
                .iter()
                .filter(|test| native.has_passed(test))
                .map(|test| format!("{test} fails, and not natively; repeated alone: {}", seen.told(test))),
        );
        let repeated = seen.repeats.keys().filter(|test| seen.is(test, "failed") && seen.has_passed(test));
        let repeated = repeated.map(|test| format!("{test}: failed; alone: {}", seen.told(test)));
        let failed_too = (!failed.is_empty()).then(|| format!("{} failed", failed.join(", ")));
        let counts =
            [seen.ran(), failed.len(), seen.results.len() - seen.ran()].map(|count| count.to_string());
        rows.push(Row {
            cells: [&[suite.name.clone(), mode.to_owned()][..], &counts].concat(),
            notes: failed_too.into_iter().chain(repeated).collect(),
            faults,
        });
    }
    rows
}

/// What a guest has reported of a suite in a mode.
struct Seen<'a> {
    line: &'a Value,
    results: BTreeMap<String, &'a str>,
    /// How each repeated test went alone.
    repeats: BTreeMap<String, Vec<&'a str>>,
}

impl<'a> Seen<'a> {
    fn of(suite: &Suite, mode: &str, run: &'a Run) -> Self {
        let phase = |phase: &'static str| {
            run.lines.iter().filter(move |line| {
                line["phase"] == phase && line["suite"] == suite.name && line["mode"] == mode
            })
        };
        let line = phase("suite").next().unwrap_or(&Value::Null);
        let results = line["results"].as_object().into_iter().flatten();
        let repeats = phase("repeat").map(|line| {
            let outcomes =
                line["outcomes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            (line["test"].as_str().unwrap_or_default().to_owned(), outcomes)
        });
        Self {
            line,
            results: results.filter_map(|(test, result)| Some((test.clone(), result.as_str()?))).collect(),
            repeats: repeats.collect(),
        }
    }

    fn is(&self, test: &str, result: &str) -> bool {
        self.results.get(test).is_some_and(|it| *it == result)
    }

    fn has_run(&self, test: &str) -> bool {
        self.is(test, "passed") || self.is(test, "failed")
    }

    fn ran(&self) -> usize {
        self.results.keys().filter(|test| self.has_run(test)).count()
    }

    /// Whether it has passed; if it was repeated, that counts.
    fn has_passed(&self, test: &str) -> bool {
        self.repeats.get(test).map_or_else(|| self.is(test, "passed"), |alone| alone.contains(&"passed"))
    }

    fn failed(&self) -> Vec<String> {
        self.results.keys().filter(|test| self.has_run(test) && !self.has_passed(test)).cloned().collect()
    }

    fn told(&self, test: &str) -> String {
        self.repeats.get(test).map_or_else(|| "not".to_owned(), |alone| alone.join(", "))
    }
}

/// The steps of the package and its unit under systemd, and the programs that ran meanwhile.
pub(super) fn steps(run: &Run) -> Vec<Row> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |cells: [String; 4], is_expected: bool, line: &Value| Row {
        cells: cells.into(),
        notes: Vec::new(),
        faults: if is_expected { Vec::new() } else { vec![line.to_string()] },
    };
    let mut rows = Vec::new();
    for line in &run.lines {
        if line["phase"] == "unit" {
            let cells = ["step", "command", "state", "serving"].map(|key| text(&line[key]));
            let is_expected = line["done"] == true
                && line["expected"] == serde_json::json!([line["state"], line["serving"]]);
            rows.push(row(cells, is_expected, line));
        } else if line["phase"] == "handover" {
            let calls = format!("{} calls in {} answers", line["calls"], line["answers"]);
            let cells =
                ["meanwhile".to_owned(), text(&line["program"]), calls, format!("{} back", line["backward"])];
            let is_expected = line["is_served"] == true && judge::faults(line, &HANDED_OVER).is_empty();
            rows.push(row(cells, is_expected, line));
        }
    }
    if let Some(why) = &run.broken {
        rows.push(row(["the guest", "", why, ""].map(str::to_owned), false, &Value::Null));
    }
    rows
}
