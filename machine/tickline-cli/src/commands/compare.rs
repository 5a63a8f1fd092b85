//! `tickline compare A B`: compares two machines, or one machine at two dates.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::args;
use crate::diagnose::diagnose;
use crate::document::{Document, Finding, Health};
use crate::exit::Exit;
use crate::input;
use crate::output::JsonOutput;
use crate::screen::Screen;
use crate::words::{cell, plain, split_unit};

/// The schema's name. This JSON is a comparison, not a document of a machine.
pub(crate) const SCHEMA: &str = "tickline-compare/1";

/// The comparison of two documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DocumentDiff {
    /// The name and version of this schema.
    schema: &'static str,
    /// The first document.
    first: Side,
    /// The second document.
    second: Side,
    /// The limit of `--above`, percent: costs that differ by no more count as equal.
    above_percent: f64,
    /// Facts and figures that differ.
    differences: Vec<DiffRow>,
    /// Facts that only one document has. They do not count as differences.
    known_once: Vec<DiffRow>,
    /// The number of facts and figures that are equal.
    equal: usize,
}

/// One document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Side {
    /// The file's path, as given.
    file: String,
    /// The time of the document's measurement, RFC 3339; null if the document does not have it.
    taken_at: Option<String>,
    /// The version of the program that wrote the document; null if the document does not have it.
    program_version: Option<String>,
}

/// One fact or figure, in the first document and in the second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiffRow {
    /// The fact's name, in words.
    name: String,
    /// The figures' unit; null for words.
    unit: Option<&'static str>,
    /// The value in the first document; null if unknown.
    first: Value,
    /// The value in the second document; null if unknown.
    second: Value,
    /// The second figure divided by the first; null for words.
    ratio: Option<f64>,
}

pub(crate) fn run(args: &args::Compare) -> io::Result<Exit> {
    let output = JsonOutput::open(&args.json)?;
    let read = |file| Ok::<_, io::Error>(side(file, &input::read_document(file)?.1, args.above));
    let found = compare(read(&args.first)?, read(&args.second)?, args.above);
    output.emit(&found, &comparison_text(&found))?;
    Ok(if found.differences.is_empty() {
        Exit::Success
    } else {
        Exit::Negative
    })
}

/// Compares figures by their names.
fn compare(
    (first, left): (Side, Vec<Fact>),
    (second, right): (Side, Vec<Fact>),
    above_percent: f64,
) -> DocumentDiff {
    let (mut differences, mut known_once, mut equal) = (Vec::new(), Vec::new(), 0);
    let mut differs = |fact: &Fact, first: Value, second: Value| {
        let known = !first.is_null() && !second.is_null();
        let ratio = first
            .as_f64()
            .zip(second.as_f64())
            .map(|(first, second)| second / first);
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        let row = DiffRow {
            name: fact.name.clone(),
            unit: fact.unit,
            first,
            second,
            ratio,
        };
        if known {
            &mut differences
        } else {
            &mut known_once
        }
        .push(row);
    };
    for fact in &left {
        match right.iter().find(|other| other.name == fact.name) {
            None => differs(fact, fact.value.clone(), fact.absent()),
            Some(other) if fact.equals(other) => equal += 1,
            Some(other) => differs(fact, fact.value.clone(), other.value.clone()),
        }
    }
    for other in right
        .iter()
        .filter(|other| left.iter().all(|fact| fact.name != other.name))
    {
        differs(other, other.absent(), other.value.clone());
    }
    DocumentDiff {
        schema: SCHEMA,
        first,
        second,
        above_percent,
        differences,
        known_once,
        equal,
    }
}

/// The document's description, and the facts to compare. Costs are equal within `above_percent`.
fn side(file: &Path, document: &Document, above_percent: f64) -> (Side, Vec<Fact>) {
    let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let side = Side {
        file: file.display().to_string(),
        taken_at: known(&document.taken_at),
        program_version: known(&document.program_version),
    };
    (side, facts_of(document, above_percent))
}

/// The comparison as text.
fn comparison_text(found: &DocumentDiff) -> String {
    let mut screen = Screen::for_stdout();
    let DocumentDiff {
        equal,
        above_percent,
        ..
    } = found;
    let result = format!(
        "Differences: {}. Equal facts and figures: {equal} (costs within {above_percent} %).",
        found.differences.len()
    );
    screen.say("", &result);
    for (name, side) in [("A", &found.first), ("B", &found.second)] {
        let taken = side.taken_at.as_deref().unwrap_or("at an unknown time");
        screen.line(&format!(
            "  {name}: {}, {}",
            plain(&side.file),
            plain(taken)
        ));
    }
    rows("Differences", &found.differences, &mut screen);
    rows("Known on one side only", &found.known_once, &mut screen);
    screen.text
}

/// Adds the rows with short values as a table, then the rows with long values.
fn rows(title: &str, differences: &[DiffRow], screen: &mut Screen) {
    /// The longest value that fits into a column, characters.
    const SHORT: usize = 16;
    let row = |difference: &DiffRow| {
        let unit = difference
            .unit
            .map_or_else(String::new, |unit| format!(", {unit}"));
        let [first, second] = [&difference.first, &difference.second].map(cell);
        let ratio = difference
            .ratio
            .map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        vec![format!("{}{unit}", difference.name), first, second, ratio]
    };
    let is_short = |row: &Vec<String>| row[1..].iter().all(|value| value.chars().count() <= SHORT);
    let (short, long): (Vec<_>, Vec<_>) = differences.iter().map(row).partition(is_short);
    if !differences.is_empty() {
        screen.line("");
        screen.table(&[title, "A", "B", "B/A"], &short);
    }
    for row in long {
        screen.line(&format!(
            "  {}\n      A: {}\n      B: {}",
            plain(&row[0]),
            row[1],
            row[2]
        ));
    }
}

/// A fact in words, or a figure with its unit.
#[derive(Debug, Clone, PartialEq)]
struct Fact {
    name: String,
    unit: Option<&'static str>,
    value: Value,
    /// The largest relative difference of two figures that count as equal.
    tolerance: f64,
}

/// The tolerance of measured rates. Two measurements of a steady counter differ by less.
const RATE: f64 = 100e-6;

/// Facts that differ from run to run, or from boot to boot.
const SKIPPED: [&str; 5] = [
    "kernel_log",
    "ntp",
    "counter_difference_ticks",
    "clock_gettime_difference_ns",
    "tracer_pid",
];

impl Fact {
    /// A fact, or a figure without a tolerance.
    fn exact(name: impl Into<String>, value: impl Serialize) -> Self {
        Self {
            name: name.into(),
            unit: None,
            value: json!(value),
            tolerance: 0.0,
        }
    }

    /// Whether the fact of another document is the same, within the tolerance.
    fn equals(&self, other: &Self) -> bool {
        match (self.value.as_f64(), other.value.as_f64()) {
            (Some(first), Some(second)) => {
                first.max(second) <= first.min(second) * (1.0 + self.tolerance)
            }
            _ => self.value == other.value,
        }
    }

    /// The value in a document without this fact: null, or "not found" for a finding.
    fn absent(&self) -> Value {
        if self.name.starts_with("finding ") {
            "not found".into()
        } else {
            Value::Null
        }
    }
}

/// Every known fact and figure of the document. This program's rules make the health and the
/// findings, whichever version wrote the document.
fn facts_of(document: &Document, above_percent: f64) -> Vec<Fact> {
    let findings = diagnose(document);
    let mut facts = vec![Fact::exact(
        "health",
        Health::new(document, &findings).level,
    )];
    let exact = |found: &Finding| Fact::exact(format!("finding {}", found.code), found.severity);
    facts.extend(findings.iter().map(exact));
    add_facts("", &json!(document.machine), &mut facts);
    let synchronised = document.machine.ntp.as_ref().map(|ntp| ntp.synchronised);
    facts.push(Fact::exact("NTP synchronised", synchronised));
    facts.push(Fact::exact("counter used", document.counter_used()));
    for gate in &document.gates {
        let state = if gate.open {
            Some("open")
        } else {
            gate.reason.as_deref()
        };
        facts.push(Fact::exact(format!("gate {}", gate.gate), state));
    }
    let rate = Fact::exact("frequency", document.clock.frequency_hz);
    facts.push(Fact {
        unit: Some("Hz"),
        tolerance: RATE,
        ..rate
    });
    for row in &document.costs {
        let cost = Fact::exact(format!("cost of {}", row.clock), row.cost_ns);
        facts.push(Fact {
            unit: Some("ns"),
            tolerance: above_percent / 100.0,
            ..cost
        });
        facts.push(Fact::exact(
            format!("answered by, {}", row.clock),
            row.served_by,
        ));
    }
    facts.retain(|fact| !fact.value.is_null() && fact.value != "");
    facts
}

/// Adds the scalars of an object, and of the objects in it, named by their keys.
fn add_facts(prefix: &str, object: &Value, facts: &mut Vec<Fact>) {
    let entries = object.as_object().into_iter().flatten();
    for (key, value) in entries.filter(|(key, _)| !SKIPPED.contains(&key.as_str())) {
        let (name, unit) = split_unit(key);
        let name = format!("{prefix}{}", name.replace('_', " "));
        match value {
            Value::Object(_) => add_facts(&format!("{name}, "), value, facts),
            Value::Array(_) => {}
            _ => facts.push(Fact {
                unit,
                ..Fact::exact(name, value)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `compare_cases.json` has a document, and cases. A case has the changes that make the second
    /// document. It lists the facts that then differ, and the facts that only one document has. For
    /// each fact it has some keys of the result.
    #[test]
    fn what_differs_is_what_the_table_says() {
        let table: Value =
            serde_json::from_str(include_str!("../../tests/data/compare_cases.json")).unwrap();
        let read = |document: &Value| {
            side(
                Path::new("x.json"),
                &input::parse(document.to_string().as_bytes()).unwrap().1,
                10.0,
            )
        };
        for case in table["cases"].as_array().unwrap() {
            let mut second = table["first"].clone();
            for (pointer, value) in case["changes"].as_object().unwrap() {
                *second.pointer_mut(pointer).unwrap() = value.clone();
            }
            let found = json!(compare(read(&table["first"]), read(&second), 10.0));
            for list in ["differences", "known_once"] {
                let found = found[list].as_array().unwrap();
                let expected = case[list].as_object().cloned().unwrap_or_default();
                let names: Vec<_> = found
                    .iter()
                    .map(|row| row["name"].as_str().unwrap())
                    .collect();
                assert_eq!(
                    names,
                    expected.keys().collect::<Vec<_>>(),
                    "{case}: {found:?}"
                );
                for (row, parts) in found.iter().zip(expected.values()) {
                    for (key, part) in parts.as_object().unwrap() {
                        assert_eq!(&row[key], part, "{case}: {found:?}");
                    }
                }
            }
        }
        // Symptom: a gate that unsynchronised counters have closed read "the clock is not synchronised",
        // which are the words for that code in the row UTC.
        assert_eq!(cell(&"unsynchronised".into()), "unsynchronised");
    }
}
