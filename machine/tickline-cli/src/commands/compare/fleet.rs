//! `tickline compare A B C ...`: which machines differ from the rest, and in what.
//!
//! In each fact the rest is the value on which more than half of the machines agree that know the
//! fact. Costs and rates agree within their tolerance. Machines with the same differences are one
//! group, because a fault in a fleet is usually the same on several machines.

use std::io;
use std::path::Path;

use anstyle::Style;
use serde::Serialize;

use super::compared_facts::{Fact, FactValue, not_found};
use super::shared_values::shared_values;
use super::{Side, side};
use crate::exit::Exit;
use crate::input;
use crate::output::JsonOutput;
use crate::screen::{BAD, SLOW, Screen};
use crate::words::plain;

/// The schema's name.
pub(crate) const SCHEMA: &str = "tickline-compare-fleet/1";

/// The default of `--above`, percent. Machines of several generations differ by less, and a system
/// call in place of the vDSO costs several times as much.
const ABOVE_PERCENT: f64 = 100.0;

/// The name of the fact that has a machine's health.
const HEALTH: &str = "health";

/// The levels of health, the worst first.
const LEVELS: [&str; 5] = ["wrong", "slow", "unsure", "unknown", "ok"];

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
    /// Facts on which no half of the machines agrees.
    split: Vec<Split>,
    /// The names of facts whose value is another on each machine. They do not count as
    /// differences.
    own: Vec<String>,
    /// The number of facts and figures that are equal on all machines that know them.
    equal: usize,
}

/// Machines with the same differences from the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Group {
    /// The health that this program finds: `wrong`, `slow`, `unsure`, `unknown` or `ok`.
    health: String,
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

/// A fact on which no half of the machines agrees.
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

/// Reads the documents, and compares them.
pub(super) fn run(
    files: &[&Path],
    above_percent: Option<f64>,
    output: JsonOutput,
) -> io::Result<Exit> {
    let above_percent = above_percent.unwrap_or(ABOVE_PERCENT);
    let mut machines = Vec::new();
    for file in files {
        let (_, document) = input::read_document(file)?;
        machines.push(side(file, &document, above_percent));
    }
    let found = compare(machines, above_percent);
    output.emit(&found, &text(&found))?;
    Ok(if found.different.is_empty() && found.split.is_empty() {
        Exit::Success
    } else {
        Exit::Negative
    })
}

/// A machine's differences from the rest.
struct Different {
    health: String,
    file: String,
    differences: Vec<Difference>,
}

fn compare(machines: Vec<(Side, Vec<Fact>)>, above_percent: f64) -> FleetDiff {
    let (documents, mut facts): (Vec<Side>, Vec<Vec<Fact>>) = machines.into_iter().unzip();
    let findings: Vec<Fact> = names(&facts, |fact| fact.is_finding);
    for machine in &mut facts {
        for finding in &findings {
            if machine.iter().all(|fact| fact.name != finding.name) {
                machine.push(finding.with(not_found()));
            }
        }
    }
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
    // A reader comes and goes.
    let mut compared = names(&facts, |fact| fact.name != "page readers");
    compared.sort_by_key(|fact| (fact.name != HEALTH, !fact.is_finding));
    for Fact { name, unit, .. } in compared {
        let of_machine = |facts: &Vec<Fact>| facts.iter().find(|fact| fact.name == name).cloned();
        let known: Vec<Option<Fact>> = facts.iter().map(of_machine).collect();
        let shared = shared_values(known.iter().flatten());
        let machines: usize = shared.iter().map(|(_, machines)| machines).sum();
        let Some((rest, rest_machines)) = shared.first() else {
            continue;
        };
        if shared.len() == 1 {
            equal += 1;
        } else if 2 * rest_machines > machines {
            for (machine, fact) in different.iter_mut().zip(known) {
                let Some(fact) = fact.filter(|fact| !rest.equals(fact)) else {
                    continue;
                };
                machine.differences.push(Difference {
                    name: name.clone(),
                    unit,
                    largest: fact.value.figure().map(|_| fact.value.clone()),
                    value: fact.value,
                    rest: rest.value.clone(),
                    rest_machines: *rest_machines,
                });
            }
        } else if shared.len() == machines {
            own.push(name);
        } else {
            let values = shared.into_iter().map(|(fact, machines)| Shared {
                value: fact.value,
                machines,
            });
            split.push(Split {
                name,
                unit,
                values: values.collect(),
            });
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

fn health(facts: &[Fact]) -> String {
    let health = facts.iter().find(|fact| fact.name == HEALTH);
    health.map_or_else(String::new, |fact| fact.value.cell())
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
    let rank = |group: &Group| LEVELS.iter().position(|level| *level == group.health);
    groups.sort_by_key(|group| (rank(group), std::cmp::Reverse(group.files.len())));
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
        screen.heading("No half of the machines agrees on");
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

fn say_group(group: &Group, paths: &[&str], screen: &mut Screen) {
    let names = group.files.iter().map(|file| short_name(file, paths));
    let mut shown: Vec<String> = names.take(MAX_NAMES).collect();
    let hidden = group.files.len().saturating_sub(MAX_NAMES);
    if hidden > 0 {
        shown.push(format!("and {hidden} more"));
    }
    let style = match group.health.as_str() {
        "wrong" => BAD,
        "slow" | "unsure" => SLOW,
        _ => Style::new().bold(),
    };
    let head = format!("{}, {}: ", group.health.to_uppercase(), group.files.len());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::machine::Machine;
    use crate::measure::calls::MONOTONIC;
    use crate::measure::costs::CostRow;
    use crate::measure::served_by::ServedBy;

    /// A machine on which a system call takes this time if the clocksource is not tsc.
    fn machine(clocksource: &str, cost_ns: f64) -> Document {
        let served_by = match clocksource {
            "tsc" => ServedBy::Vdso,
            _ => ServedBy::SystemCall,
        };
        Document {
            machine: Machine {
                architecture: Some("x86_64".to_owned()),
                kernel: Some("6.1.0".to_owned()),
                clocksource: Some(clocksource.to_owned()),
                available_clocksources: Some("tsc hpet acpi_pm".to_owned()),
                kernel_log: Some(Vec::new()),
                ..Machine::default()
            },
            costs: vec![CostRow {
                clock: MONOTONIC.to_owned(),
                cost_ns: Some(cost_ns),
                served_by: Some(served_by),
                ..CostRow::default()
            }],
            ..Document::default()
        }
    }

    fn good() -> Document {
        machine("tsc", 24.0)
    }

    fn compared(documents: &[Document]) -> FleetDiff {
        let machines = documents.iter().enumerate().map(|(number, document)| {
            let file = format!("fleet/m{number}.json");
            side(Path::new(&file), document, ABOVE_PERCENT)
        });
        compare(machines.collect(), ABOVE_PERCENT)
    }

    fn difference<'a>(group: &'a Group, name: &str) -> &'a Difference {
        let found = group.differences.iter().find(|row| row.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {group:?}"))
    }

    #[test]
    fn a_fleet_of_equal_machines_has_no_difference() {
        let found = compared(&[good(), good(), good()]);
        assert_eq!(found.different, []);
        assert_eq!(found.split, []);
        assert_eq!(found.own, [""; 0]);
        assert!(found.equal > 4, "{found:?}");
    }

    #[test]
    fn a_machine_differs_from_the_rest_in_what_only_it_has() {
        let found = compared(&[good(), machine("hpet", 1_180.0), good(), good()]);
        let [group] = &found.different[..] else {
            panic!("{found:?}");
        };
        assert_eq!(group.files, ["fleet/m1.json"]);
        assert_eq!(group.health, "slow");
        let clocksource = difference(group, "clocksource");
        assert_eq!(clocksource.value, FactValue::Words("hpet".to_owned()));
        assert_eq!(clocksource.rest, FactValue::Words("tsc".to_owned()));
        assert_eq!(clocksource.rest_machines, 3);
    }

    #[test]
    fn health_and_findings_come_first() {
        let found = compared(&[good(), good(), machine("hpet", 1_180.0)]);
        let rows = &found.different[0].differences;
        let names: Vec<&str> = rows.iter().take(3).map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["health", "finding tsc_not_chosen", "clocksource"]);
        assert_eq!(rows[1].rest, not_found());
    }

    #[test]
    fn machines_with_the_same_differences_are_one_group_with_a_range_of_figures() {
        let found = compared(&[
            good(),
            machine("hpet", 1_180.0),
            good(),
            machine("hpet", 1_050.0),
            good(),
        ]);
        let [group] = &found.different[..] else {
            panic!("{found:?}");
        };
        assert_eq!(group.files, ["fleet/m1.json", "fleet/m3.json"]);
        let cost = difference(group, "cost of clock_gettime MONOTONIC");
        assert_eq!(cost.here(), "1050.00 to 1180.00");
        assert_eq!(cost.rest.cell(), "24.00");
    }

    #[test]
    fn the_worst_health_comes_first_and_then_the_largest_group() {
        let wrong = || {
            let mut document = good();
            document.machine.counter_difference_ticks = Some(900);
            document
        };
        let kernel = |name: &str| {
            let mut document = good();
            document.machine.kernel = Some(name.to_owned());
            document
        };
        let mut fleet = vec![
            kernel("5.9"),
            machine("hpet", 1_180.0),
            wrong(),
            kernel("5.10"),
        ];
        fleet.push(kernel("5.10"));
        fleet.extend(std::iter::repeat_with(good).take(9));
        let found = compared(&fleet);
        let first: Vec<&str> = found
            .different
            .iter()
            .map(|group| group.files[0].as_str())
            .collect();
        let expected = [
            "fleet/m2.json",
            "fleet/m1.json",
            "fleet/m3.json",
            "fleet/m0.json",
        ];
        assert_eq!(first, expected);
    }

    #[test]
    fn a_fact_on_which_no_half_agrees_is_no_difference_of_a_machine() {
        let found = compared(&[good(), good(), machine("hpet", 24.0), machine("hpet", 24.0)]);
        assert_eq!(found.different, []);
        let clocksource = found.split.iter().find(|split| split.name == "clocksource");
        let values = &clocksource.expect("a split").values;
        let machines: Vec<usize> = values.iter().map(|shared| shared.machines).collect();
        assert_eq!(machines, [2, 2]);
    }

    #[test]
    fn a_value_of_its_own_on_each_machine_is_no_difference() {
        let with_disk = |disk: &str| {
            let mut document = good();
            document.machine.kernel_command_line = Some(format!("root=UUID={disk}"));
            document
        };
        let found = compared(&[with_disk("a"), with_disk("b"), with_disk("c")]);
        assert_eq!((found.different, found.split), (vec![], vec![]));
        assert_eq!(found.own, ["kernel command line"]);
    }

    #[test]
    fn a_fact_that_a_machine_does_not_know_is_no_difference() {
        let mut silent = good();
        silent.machine.kernel = None;
        let found = compared(&[good(), silent, good()]);
        assert_eq!(found.different, []);
    }

    #[test]
    fn costs_agree_within_the_limit() {
        let found = compared(&[good(), machine("tsc", 47.0), machine("tsc", 12.5)]);
        assert_eq!(found.different, []);
        let found = compared(&[good(), machine("tsc", 49.0), good()]);
        assert_eq!(found.different.len(), 1);
    }

    /// Symptom: the program did not end, and took all memory. A cost below 0 was not equal to
    /// itself, so the machine that has it was counted without end.
    #[test]
    fn a_cost_below_0_that_a_document_states_is_a_difference_of_its_machine() {
        let found = compared(&[good(), good(), machine("tsc", -1.0)]);
        let [group] = &found.different[..] else {
            panic!("{found:?}");
        };
        assert_eq!(group.files, ["fleet/m2.json"]);
        difference(group, "cost of clock_gettime MONOTONIC");
    }

    #[test]
    fn a_figure_equals_itself_within_each_tolerance() {
        for cost_ns in [
            0.0,
            -1.0,
            f64::MAX,
            f64::MIN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            let found = compared(&[machine("tsc", cost_ns), machine("tsc", cost_ns)]);
            assert_eq!(found.different, [], "{cost_ns}");
            assert_eq!((found.split, found.own), (vec![], vec![]), "{cost_ns}");
        }
    }

    /// Symptom: the time grew with the third power of the machines, and 2,000 took minutes. Each
    /// kernel command line names a disk of its own.
    #[test]
    fn two_thousand_machines_with_a_value_of_their_own_each_are_compared() {
        let with_disk = |number: u32| {
            let mut document = good();
            document.machine.kernel_command_line = Some(format!("root=UUID={number}"));
            document
        };
        let found = compared(&(0..2_000).map(with_disk).collect::<Vec<_>>());
        assert_eq!((found.different, found.split), (vec![], vec![]));
        assert_eq!(found.own, ["kernel command line"]);
    }

    #[test]
    fn a_name_that_two_documents_share_is_shown_with_its_folder() {
        let files = ["a/web1.json", "b/web1.json", "b/web2.json"];
        assert_eq!(short_name(files[0], &files), "a/web1.json");
        assert_eq!(short_name(files[2], &files), "web2");
    }

    /// However the machines differ, an operator reads the text in a minute.
    #[test]
    fn the_text_about_many_machines_is_short() {
        let odd = |number: u32| {
            let mut document = machine("hpet", 1_000.0 + f64::from(number));
            document.machine.kernel = Some(format!("5.{number}"));
            document.machine.cpu = Some(format!("cpu {number}"));
            document.machine.product = Some(format!("product {number}"));
            document
        };
        let mut fleet: Vec<Document> = (0..40).map(odd).collect();
        fleet.extend(std::iter::repeat_with(good).take(60));
        let shown = text(&compared(&fleet));
        assert!(
            shown.contains("\nOther machines that differ: 30."),
            "{shown}"
        );
        assert!(shown.lines().count() < 110, "{shown}");
    }
}
