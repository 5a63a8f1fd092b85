//! `tickline compare A B`: compares two machines, or one machine at two dates. With more documents
//! it finds the machines that differ from the rest (`fleet.rs`).

mod compared_facts;
pub(crate) mod fleet;
mod shared_values;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::args;
use crate::document::Document;
use crate::exit::Exit;
use crate::input;
use crate::output::JsonOutput;
use crate::screen::Screen;
use crate::words::{figure, or_dash, plain};

use compared_facts::{Fact, FactValue, facts_of, not_found};

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
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    first: Option<FactValue>,
    /// The value in the second document; null if unknown.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    second: Option<FactValue>,
    /// The second figure divided by the first; null for words.
    ratio: Option<f64>,
}

/// The default of `--above` for two documents, percent: two measurements of a machine differ by
/// less.
const ABOVE_OF_TWO_PERCENT: f64 = 10.0;

pub(crate) fn run(args: &args::Compare) -> io::Result<Exit> {
    let output = JsonOutput::open(args.json.target.as_deref())?;
    let more = args.more.iter().map(PathBuf::as_path);
    let files: Vec<&Path> = [args.first.as_path(), &args.second]
        .into_iter()
        .chain(more)
        .collect();
    output.check_inputs(&files)?;
    if files.len() > 2 {
        return fleet::run(&files, args.above, output);
    }
    let above_percent = args.above.unwrap_or(ABOVE_OF_TWO_PERCENT);
    let read = |file| {
        let (_, document) = input::read_document(file)?;
        Ok::<_, io::Error>(side_facts(file, &document, above_percent))
    };
    let found = compare(read(&args.first)?, read(&args.second)?, above_percent);
    output.emit(&found, &comparison_text(&found))?;
    Ok(if found.differences.is_empty() {
        Exit::Success
    } else {
        Exit::Negative
    })
}

/// A document, and what is compared of it.
struct SideFacts {
    side: Side,
    facts: Vec<Fact>,
}

/// Compares figures by their names.
fn compare(first: SideFacts, second: SideFacts, above_percent: f64) -> DocumentDiff {
    let mut differences = Vec::new();
    let mut known_once = Vec::new();
    let mut equal = 0;
    for fact in &first.facts {
        let value = Some(fact.value.clone());
        match second.facts.iter().find(|other| other.name == fact.name) {
            Some(other) if fact.equals(other) => equal += 1,
            Some(other) => differences.push(row(fact, value, Some(other.value.clone()))),
            None if fact.is_finding => differences.push(row(fact, value, Some(not_found()))),
            None => known_once.push(row(fact, value, None)),
        }
    }
    for other in &second.facts {
        let value = Some(other.value.clone());
        if first.facts.iter().any(|fact| fact.name == other.name) {
            continue;
        }
        if other.is_finding {
            differences.push(row(other, Some(not_found()), value));
        } else {
            known_once.push(row(other, None, value));
        }
    }
    DocumentDiff {
        schema: SCHEMA,
        first: first.side,
        second: second.side,
        above_percent,
        differences,
        known_once,
        equal,
    }
}

/// The row of a fact, with its values in both documents.
fn row(fact: &Fact, first: Option<FactValue>, second: Option<FactValue>) -> DiffRow {
    let known_figure = |value: &Option<FactValue>| value.as_ref()?.figure();
    let figures = known_figure(&first).zip(known_figure(&second));
    let ratio = figures.map(|(first, second)| second / first);
    DiffRow {
        name: fact.name.clone(),
        unit: fact.unit,
        first,
        second,
        ratio: ratio.filter(|ratio| ratio.is_finite()),
    }
}

/// The document's description, and the facts to compare. Costs are equal within `above_percent`.
fn side_facts(file: &Path, document: &Document, above_percent: f64) -> SideFacts {
    let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let side = Side {
        file: file.display().to_string(),
        taken_at: known(&document.taken_at),
        program_version: known(&document.program_version),
    };
    SideFacts {
        side,
        facts: facts_of(document, above_percent),
    }
}

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
    show("Differences", &found.differences, &mut screen);
    show("Known on one side only", &found.known_once, &mut screen);
    screen.text
}

/// Adds the rows with short values as a table, then the rows with long values.
fn show(title: &str, rows: &[DiffRow], screen: &mut Screen) {
    /// The longest value that fits into a column, characters.
    const SHORT: usize = 16;
    let cells = |row: &DiffRow| {
        let unit = row
            .unit
            .map_or_else(String::new, |unit| format!(", {unit}"));
        let cell = |value: &Option<FactValue>| or_dash(value.as_ref().map(FactValue::cell));
        let ratio = row
            .ratio
            .map_or_else(String::new, |ratio| figure(Some(ratio)));
        vec![
            format!("{}{unit}", row.name),
            cell(&row.first),
            cell(&row.second),
            ratio,
        ]
    };
    let is_short = |row: &Vec<String>| row[1..].iter().all(|value| value.chars().count() <= SHORT);
    let (short, long): (Vec<_>, Vec<_>) = rows.iter().map(cells).partition(is_short);
    if !rows.is_empty() {
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

#[cfg(test)]
mod tests;
