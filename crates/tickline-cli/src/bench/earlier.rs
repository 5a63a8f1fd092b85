//! An earlier run, read from its JSON, and the comparison with it.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::document::{Compared, ComparedClock, Document, upgrade};
use crate::input;

/// What `--compare` reads from an earlier document, of any command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Earlier {
    file: String,
    program_version: String,
    machine: Machine,
    costs: Vec<Cost>,
}

/// The facts of a machine that matter to a comparison.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
struct Machine {
    cpu: Option<String>,
    kernel: Option<String>,
    clocksource: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Cost {
    clock: String,
    cost_ns: Option<f64>,
}

/// The parts of the document that are read. All are optional, so that an error can name the
/// missing one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parts {
    program_version: Option<String>,
    command: Option<String>,
    machine: Machine,
    costs: Vec<Cost>,
}

/// Reads the JSON of an earlier run.
pub(crate) fn read(path: &Path) -> io::Result<Earlier> {
    let name = path.display();
    let fail =
        |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("--compare: {name}: {what}"));
    let text = input::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("--compare: {name}: {error}")))?;
    parse(text.as_bytes(), name.to_string()).map_err(fail)
}

fn parse(text: &[u8], file: String) -> Result<Earlier, String> {
    let unreadable = |error: serde_json::Error| format!("not the JSON of a run of this program: {error}");
    let mut document: Value = serde_json::from_slice(text).map_err(unreadable)?;
    if !document.is_object() {
        return Err("not the JSON of a run of this program: it is no object".to_owned());
    }
    upgrade(&mut document)?;
    let parts: Parts = serde_json::from_value(document).map_err(unreadable)?;
    let bad = |cost: &&Cost| cost.cost_ns.is_some_and(|ns| ns <= 0.0);
    if let Some(Cost { clock, cost_ns: Some(ns) }) = parts.costs.iter().find(bad) {
        return Err(format!("the cost of {clock} is {ns} ns, which no clock can have"));
    }
    if parts.costs.is_empty() {
        let command = parts.command.unwrap_or_else(|| "?".to_owned());
        return Err(format!("it has no costs; tickline {command} measures none (doctor and bench do)"));
    }
    Ok(Earlier {
        file,
        program_version: parts.program_version.unwrap_or_else(|| "unknown".to_owned()),
        machine: parts.machine,
        costs: parts.costs,
    })
}

impl Earlier {
    /// Compares the present document's costs with these. `fail_above_percent` is the largest growth
    /// of a cost that passes.
    pub(crate) fn against(&self, document: &Document, fail_above_percent: Option<f64>) -> Compared {
        let now: Vec<(&str, f64)> =
            document.costs.iter().filter_map(|row| Some((row.clock, row.cost_ns?))).collect();
        let then: Vec<(&str, f64)> =
            self.costs.iter().filter_map(|cost| Some((cost.clock.as_str(), cost.cost_ns?))).collect();
        let only = |these: &[(&str, f64)], those: &[(&str, f64)]| {
            let missing = these.iter().filter(|(clock, _)| those.iter().all(|(other, _)| other != clock));
            missing.map(|(clock, _)| (*clock).to_owned()).collect()
        };
        let both = now.iter().filter_map(|(clock, now_ns)| {
            let (_, then_ns) = then.iter().find(|(other, _)| other == clock)?;
            let clock = (*clock).to_owned();
            Some(ComparedClock { clock, then_ns: *then_ns, now_ns: *now_ns, ratio_to_then: now_ns / then_ns })
        });
        let clocks: Vec<ComparedClock> = both.collect();
        let too_slow = |row: &&ComparedClock| {
            fail_above_percent.is_some_and(|percent| row.ratio_to_then > 1.0 + percent / 100.0)
        };
        let too_slow = clocks.iter().filter(too_slow).map(|row| row.clock.clone()).collect();
        Compared {
            file: self.file.clone(),
            program_version: self.program_version.clone(),
            differences: self.differences(document),
            clocks,
            only_then: only(&then, &now),
            only_now: only(&now, &then),
            fail_above_percent,
            too_slow,
        }
    }

    fn differences(&self, document: &Document) -> Vec<String> {
        let machine = &document.machine;
        let parts = [
            ("CPU", &self.machine.cpu, &machine.cpu),
            ("kernel", &self.machine.kernel, &machine.kernel),
            ("clocksource", &self.machine.clocksource, &machine.clocksource),
        ];
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let differing = parts.into_iter().filter(|(_, then, now)| then != now);
        differing
            .map(|(part, then, now)| format!("{part}: {} then, {} now", known(then), known(now)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::SCHEMA;

    fn error(text: &str) -> String {
        parse(text.as_bytes(), String::new()).unwrap_err()
    }

    #[test]
    fn what_cannot_be_compared_is_named() {
        assert!(error("{").contains("not the JSON of a run"));
        assert!(error("[1]").contains("not the JSON of a run"));
        assert!(error("{}").contains("no 'schema'"));
        let other = error(r#"{"schema": "other/7"}"#);
        assert!(other.contains("its schema is 'other/7'; this program reads 'tickline/2'"), "{other}");
        let none = format!(r#"{{"schema": "{SCHEMA}", "command": "warp"}}"#);
        assert!(error(&none).contains("tickline warp measures none"));
        for bad in ["0", "-3.5"] {
            let costs = format!(r#"{{"schema": "{SCHEMA}", "costs": [{{"clock": "a", "cost_ns": {bad}}}]}}"#);
            assert!(error(&costs).contains(&format!("the cost of a is {bad} ns")), "{}", error(&costs));
        }
    }

    #[test]
    fn clocks_are_compared_by_name_and_missing_ones_are_named() {
        let document = Document::new("bench").costed(&[
            cost("a", Some(30.0)),
            cost("b", Some(5.0)),
            cost("c", None),
            cost("d", Some(7.0)),
        ]);
        let text = format!(
            r#"{{"schema": "{SCHEMA}", "program_version": "0.0.9", "machine": {{"cpu": "another"}}, "unknown": [1],
            "costs": [{{"clock": "a", "cost_ns": 10.0, "more": 1}}, {{"clock": "c", "cost_ns": 4.0}},
                      {{"clock": "d", "cost_ns": null}}, {{"clock": "e", "cost_ns": 1.0}}]}}"#
        );
        let compared = parse(text.as_bytes(), "old.json".to_owned()).unwrap().against(&document, None);
        assert_eq!(compared.clocks.len(), 1);
        assert_eq!((compared.clocks[0].clock.as_str(), compared.clocks[0].ratio_to_then), ("a", 3.0));
        assert_eq!(compared.only_then, ["c", "e"]);
        assert_eq!(compared.only_now, ["b", "d"]);
        assert!(compared.differences[0].starts_with("CPU: another then, "), "{:?}", compared.differences);
        assert_eq!(compared.program_version, "0.0.9");
    }

    #[test]
    fn growth_above_the_limit_is_named() {
        let document = Document::new("bench").costed(&[cost("a", Some(11.0)), cost("b", Some(12.0))]);
        let text = format!(
            r#"{{"schema": "{SCHEMA}", "costs": [{{"clock": "a", "cost_ns": 10.0}}, {{"clock": "b", "cost_ns": 10.0}}]}}"#
        );
        let earlier = parse(text.as_bytes(), String::new()).unwrap();
        for (percent, too_slow) in
            [(None, &[][..]), (Some(15.0), &["b"]), (Some(5.0), &["a", "b"]), (Some(30.0), &[])]
        {
            assert_eq!(earlier.against(&document, percent).too_slow, too_slow, "{percent:?}");
        }
    }

    fn cost(name: &'static str, ns: Option<f64>) -> crate::measure::costs::Cost {
        crate::measure::costs::Cost { name, ns, median_ns: ns, p90_ns: ns }
    }
}
