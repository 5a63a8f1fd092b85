//! Tests of the comparison of a fleet.

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
        side_facts(Path::new(&file), document, ABOVE_PERCENT)
    });
    compare(machines.collect(), Vec::new(), ABOVE_PERCENT)
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
    assert_eq!(group.health, Level::Slow);
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
fn a_group_is_painted_by_its_health() {
    for (health, style) in [
        (Level::Wrong, BAD),
        (Level::Slow, SLOW),
        (Level::Unsure, SLOW),
        (Level::Ok, Style::new().bold()),
    ] {
        assert_eq!(style_of(health), style, "{health:?}");
    }
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
    assert_eq!(found.own, ["command line"]);
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
    assert_eq!(found.own, ["command line"]);
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
