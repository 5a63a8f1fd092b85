//! `tickline compare A B C ...`: which machines differ from the rest, and in what.
//!
//! In each fact the rest is the value on which more than half of the machines that know the fact
//! agree. Costs and rates agree within their tolerance. Machines with the same differences are one
//! group, because a fault in a fleet is usually the same on several machines. A document that can't
//! be read is left out, with its reason: one host that is down must not cost the comparison of the
//! others.

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use anstyle::Style;
use serde::Serialize;

use super::compared_facts::{Fact, FactValue, not_found};
use super::shared_values::{SharedFact, shared_values};
use super::{Side, SideFacts, side_facts};
use crate::document::Level;
use crate::exit::Exit;
use crate::input;
use crate::output::{JsonOutput, line_to_stderr};
use crate::screen::{BAD, SLOW, Screen};
use crate::words::plain;

/// The schema's name.
pub(crate) const SCHEMA: &str = "tickline-compare-fleet/1";

/// The default of `--above`, percent. Machines of several generations differ by less, and a system
/// call in place of the vDSO costs several times as much.
const ABOVE_PERCENT: f64 = 100.0;

/// The name of the fact that has a machine's health.
const HEALTH: &str = "health";

// What the text shows at most, so that an operator reads it in a minute.
const MAX_GROUPS: usize = 10;
const MAX_NAMES: usize = 12;
const MAX_ROWS: usize = 6;
const MAX_VALUES: usize = 3;

/// The comparison of three documents or more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FleetDiff {
    /// The name and version of this schema.
    schema: &'static str,
    /// The limit of `--above`, percent: costs that differ by no more count as equal.
    above_percent: f64,
    /// All documents, in the order of the command line.
    documents: Vec<Side>,
    /// The machines that differ from the rest, in groups with the same differences; the worst
    /// health first, and then the largest group.
    different: Vec<Group>,
    /// Facts on which no majority of the machines agrees.
    split: Vec<Split>,
    /// The names of facts whose value is another on each machine. They do not count as
    /// differences.
    own: Vec<String>,
    /// The number of facts and figures that are equal on all machines that know them.
    equal: usize,
    /// The documents that can't be read, and are not compared.
    left_out: Vec<LeftOut>,
}

/// A document that can't be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LeftOut {
    /// The file's path, as given.
    file: String,
    /// Why it can't be read, in words.
    reason: String,
}

impl LeftOut {
    fn line(&self) -> String {
        plain(&format!("Left out: {} ({}).", self.file, self.reason))
    }
}

/// Machines with the same differences from the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Group {
    /// The health that this program finds: `wrong`, `slow`, `unsure`, `unknown` or `ok`.
    #[cfg_attr(test, schemars(with = "String"))]
    health: Level,
    /// The documents' paths, as given.
    files: Vec<String>,
    /// The facts and figures in which these machines differ from the rest.
    differences: Vec<Difference>,
}

/// A fact in which machines differ from the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Difference {
    /// The fact's name, in words.
    name: String,
    /// The figures' unit; null for words.
    unit: Option<&'static str>,
    /// The value on these machines; of figures, the smallest.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    value: FactValue,
    /// The largest of the figures on these machines; null for words.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    largest: Option<FactValue>,
    /// The value of the rest.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    rest: FactValue,
    /// The number of machines whose value is that of the rest.
    rest_machines: usize,
}

/// A fact on which no majority of the machines agrees.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Split {
    /// The fact's name, in words.
    name: String,
    /// The figures' unit; null for words.
    unit: Option<&'static str>,
    /// The values, the most frequent first.
    values: Vec<Shared>,
}

/// A value that several machines share.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Shared {
    /// The value; of figures, that of one of the machines.
    #[cfg_attr(test, schemars(with = "serde_json::Value"))]
    value: FactValue,
    /// The number of machines with this value.
    machines: usize,
}

/// Reads the documents, and compares those that can be read. A difference decides the exit code,
/// since a job may ask for it. Without a difference, the code is an error's if a document can't be
/// read.
///
/// # Errors
///
/// If fewer than two documents can be read.
pub(super) fn run(
    files: &[&Path],
    above_percent: Option<f64>,
    output: JsonOutput,
) -> io::Result<Exit> {
    let above_percent = above_percent.unwrap_or(ABOVE_PERCENT);
    let mut machines = Vec::new();
    let mut left_out = Vec::new();
    for file in files {
        match input::read_document_without_name(file) {
            Ok((_, document)) => machines.push(side_facts(file, &document, above_percent)),
            Err(error) => left_out.push(LeftOut {
                file: file.display().to_string(),
                reason: error.to_string(),
            }),
        }
    }
    for left_out in &left_out {
        line_to_stderr(&format!("tickline: {}", left_out.line()));
    }
    if machines.len() < 2 {
        return Err(io::Error::other(format!(
            "a comparison needs two documents or more, and of these {} files {} can be read",
            files.len(),
            machines.len()
        )));
    }
    let found = compare(machines, left_out, above_percent);
    output.emit(&found, &text(&found))?;
    Ok(if !found.different.is_empty() || !found.split.is_empty() {
        Exit::Negative
    } else if !found.left_out.is_empty() {
        Exit::Error
    } else {
        Exit::Success
    })
}

/// A machine's differences from the rest.
struct Different {
    health: Level,
    file: String,
    differences: Vec<Difference>,
}

fn compare(machines: Vec<SideFacts>, left_out: Vec<LeftOut>, above_percent: f64) -> FleetDiff {
    let (documents, mut facts): (Vec<Side>, Vec<Vec<Fact>>) = machines
        .into_iter()
        .map(|machine| (machine.side, machine.facts))
        .unzip();
    add_missing_findings(&mut facts);
    let mut different: Vec<Different> = documents
        .iter()
        .zip(&facts)
        .map(|(side, facts)| Different {
            health: health(facts),
            file: side.file.clone(),
            differences: Vec::new(),
        })
        .collect();
    let mut split = Vec::new();
    let mut own = Vec::new();
    let mut equal = 0;
    // Readers of a page come and go.
    let mut compared = names(&facts, |fact| fact.name != "page: readers");
    compared.sort_by_key(|fact| (fact.name != HEALTH, !fact.is_finding));
    for Fact { name, unit, .. } in compared {
        let of_machine = |facts: &Vec<Fact>| facts.iter().find(|fact| fact.name == name).cloned();
        let known: Vec<Option<Fact>> = facts.iter().map(of_machine).collect();
        match Agreement::of(known.iter().flatten()) {
            Agreement::All => equal += 1,
            Agreement::Most(rest) => {
                for (machine, fact) in different.iter_mut().zip(known) {
                    let Some(fact) = fact.filter(|fact| !rest.fact.equals(fact)) else {
                        continue;
                    };
                    machine.differences.push(Difference {
                        name: name.clone(),
                        unit,
                        largest: fact.value.figure().map(|_| fact.value.clone()),
                        value: fact.value,
                        rest: rest.fact.value.clone(),
                        rest_machines: rest.machines,
                    });
                }
            }
            Agreement::Split(shared) => {
                let values = shared.into_iter().map(|shared| Shared {
                    value: shared.fact.value,
                    machines: shared.machines,
                });
                split.push(Split {
                    name,
                    unit,
                    values: values.collect(),
                });
            }
            Agreement::EachItsOwn => own.push(name),
        }
    }
    different.retain(|machine| !machine.differences.is_empty());
    FleetDiff {
        schema: SCHEMA,
        above_percent,
        documents,
        different: groups(different),
        split,
        own,
        equal,
        left_out,
    }
}

/// Adds the findings of other machines as not found: a document is known not to have them.
fn add_missing_findings(machines: &mut [Vec<Fact>]) {
    let findings: Vec<Fact> = names(machines, |fact| fact.is_finding);
    for machine in machines {
        for finding in &findings {
            if machine.iter().all(|fact| fact.name != finding.name) {
                machine.push(finding.with(not_found()));
            }
        }
    }
}

/// How far machines agree on a fact.
enum Agreement {
    /// They have one value, or none knows the fact.
    All,
    /// More than half have this value.
    Most(SharedFact),
    /// No value is that of more than half, and some share one.
    Split(Vec<SharedFact>),
    /// Each has another value.
    EachItsOwn,
}

impl Agreement {
    /// The agreement of the machines that know a fact.
    fn of<'a>(known: impl Iterator<Item = &'a Fact>) -> Self {
        let mut shared = shared_values(known);
        let machines: usize = shared.iter().map(|shared| shared.machines).sum();
        let Some(most) = shared.first() else {
            return Self::All;
        };
        if shared.len() == 1 {
            Self::All
        } else if 2 * most.machines > machines {
            Self::Most(shared.swap_remove(0))
        } else if shared.len() == machines {
            Self::EachItsOwn
        } else {
            Self::Split(shared)
        }
    }
}

/// One fact of each name, in the order in which the machines have them.
fn names(machines: &[Vec<Fact>], is_wanted: impl Fn(&Fact) -> bool) -> Vec<Fact> {
    let mut names: Vec<Fact> = Vec::new();
    for fact in machines.iter().flatten().filter(|fact| is_wanted(fact)) {
        if names.iter().all(|known| known.name != fact.name) {
            names.push(fact.clone());
        }
    }
    names
}

fn health(facts: &[Fact]) -> Level {
    let health = facts.iter().find_map(|fact| match fact.value {
        FactValue::Health(level) => Some(level),
        _ => None,
    });
    health.unwrap_or(Level::Unknown)
}

/// The place of a group with this health, the worst first.
const fn rank(health: Level) -> u8 {
    match health {
        Level::Wrong => 0,
        Level::Slow => 1,
        Level::Unsure => 2,
        Level::Unknown => 3,
        Level::Ok => 4,
    }
}

/// Puts machines with the same differences together. Figures are the same if they differ from the
/// same value.
fn groups(machines: Vec<Different>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for machine in machines {
        let group = groups.iter_mut().find(|group| {
            group.health == machine.health && are_same(&group.differences, &machine.differences)
        });
        match group {
            Some(group) => {
                group.files.push(machine.file);
                for (of_group, other) in group.differences.iter_mut().zip(&machine.differences) {
                    of_group.widen(other);
                }
            }
            None => groups.push(Group {
                health: machine.health,
                files: vec![machine.file],
                differences: machine.differences,
            }),
        }
    }
    groups.sort_by_key(|group| (rank(group.health), std::cmp::Reverse(group.files.len())));
    groups
}

fn are_same(of_group: &[Difference], of_machine: &[Difference]) -> bool {
    let is_same = |(one, other): (&Difference, &Difference)| {
        one.name == other.name && (one.largest.is_some() || one.value == other.value)
    };
    of_group.len() == of_machine.len() && of_group.iter().zip(of_machine).all(is_same)
}

impl Difference {
    /// Widens the range of figures by those of another machine.
    fn widen(&mut self, other: &Self) {
        let figure = |value: &FactValue| value.figure().unwrap_or_default();
        if figure(&other.value) < figure(&self.value) {
            self.value = other.value.clone();
        }
        if let (Some(largest), Some(others)) = (&self.largest, &other.largest)
            && figure(others) > figure(largest)
        {
            self.largest = Some(others.clone());
        }
    }

    /// The values on these machines.
    fn here(&self) -> String {
        let least = self.value.cell();
        match self.largest.as_ref().map(FactValue::cell) {
            Some(largest) if largest != least => format!("{least} to {largest}"),
            _ => least,
        }
    }
}

/// The comparison as text.
fn text(found: &FleetDiff) -> String {
    let mut screen = Screen::for_stdout();
    let machines = found.documents.len();
    let differ: usize = found.different.iter().map(|group| group.files.len()).sum();
    let result = format!(
        "Machines: {machines}. As the rest: {}. Different: {differ}. Equal facts and figures: {} \
         (costs within {} %).",
        machines - differ,
        found.equal,
        found.above_percent
    );
    screen.say("", &result);
    for left_out in &found.left_out {
        screen.say("", &left_out.line());
    }
    let paths: Vec<&str> = found
        .documents
        .iter()
        .map(|side| side.file.as_str())
        .collect();
    for group in found.different.iter().take(MAX_GROUPS) {
        say_group(group, &paths, &mut screen);
    }
    let hidden = found.different.iter().skip(MAX_GROUPS);
    let hidden: usize = hidden.map(|group| group.files.len()).sum();
    if hidden > 0 {
        screen.line("");
        screen.say(
            "",
            &format!("Other machines that differ: {hidden}. --json lists them."),
        );
    }
    if !found.split.is_empty() {
        screen.heading("No majority of the machines agrees on");
    }
    for split in &found.split {
        say_split(split, &mut screen);
    }
    if !found.own.is_empty() {
        screen.heading("Another value on each machine");
        screen.say("  ", &found.own.join("; "));
    }
    screen.text
}

/// The style of the heading of a group with this health.
const fn style_of(health: Level) -> Style {
    match health {
        Level::Wrong => BAD,
        Level::Slow | Level::Unsure => SLOW,
        Level::Unknown | Level::Ok => Style::new().bold(),
    }
}

fn say_group(group: &Group, paths: &[&str], screen: &mut Screen) {
    let names = group.files.iter().map(|file| short_name(file, paths));
    let mut shown: Vec<String> = names.take(MAX_NAMES).collect();
    let hidden = group.files.len().saturating_sub(MAX_NAMES);
    if hidden > 0 {
        shown.push(format!("and {hidden} more"));
    }
    let style = style_of(group.health);
    let level = group.health.code().to_uppercase();
    let head = format!("{level}, {}: ", group.files.len());
    screen.line("");
    screen.say_painted(&head, &shown.join(", "), head.len(), style);
    let rows: Vec<Vec<String>> = group
        .differences
        .iter()
        .take(MAX_ROWS)
        .map(|difference| {
            let unit = difference
                .unit
                .map_or_else(String::new, |unit| format!(", {unit}"));
            vec![
                format!("{}{unit}", difference.name),
                cut(&difference.here()),
                cut(&difference.rest.cell()),
                difference.rest_machines.to_string(),
            ]
        })
        .collect();
    screen.table(&["differs in", "here", "the rest", "machines"], &rows);
    let hidden = group.differences.len().saturating_sub(MAX_ROWS);
    if hidden > 0 {
        screen.line(&format!("  and {hidden} more"));
    }
}

fn say_split(split: &Split, screen: &mut Screen) {
    let unit = split
        .unit
        .map_or_else(String::new, |unit| format!(" {unit}"));
    let value =
        |shared: &Shared| format!("{}{unit} ({})", cut(&shared.value.cell()), shared.machines);
    let mut shown: Vec<String> = split.values.iter().take(MAX_VALUES).map(value).collect();
    let hidden = split.values.len().saturating_sub(MAX_VALUES);
    if hidden > 0 {
        shown.push(format!("other values: {hidden}"));
    }
    screen.say("  ", &format!("{}: {}", split.name, shown.join(", ")));
}

/// The beginning of a value, as long as a column holds.
fn cut(value: &str) -> String {
    const MOST: usize = 28;
    if value.chars().count() <= MOST {
        return value.to_owned();
    }
    let start: String = value.chars().take(MOST - 3).collect();
    format!("{start}...")
}

/// The name of a document without folder and ending, if no other document has that name.
fn short_name(file: &str, files: &[&str]) -> String {
    let stem = |file: &str| Path::new(file).file_stem().map(std::ffi::OsStr::to_owned);
    let is_same = |other: &&&str| stem(other) == stem(file);
    match stem(file) {
        Some(name) if files.iter().filter(is_same).count() == 1 => plain(&name.to_string_lossy()),
        _ => plain(file),
    }
}
