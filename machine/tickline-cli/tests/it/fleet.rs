//! `tickline compare` of many recorded machines.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{entries, text, tickline};
use crate::measured::{closed, faults, schema};

/// Writes the recorded machine under this name.
fn add(folder: &Path, recorded: &str, name: &str) {
    let facts = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts");
    let document = fs::read(format!("{facts}/{recorded}.json")).expect("a recorded machine");
    fs::write(folder.join(name).with_extension("json"), document).expect("it is ours");
}

/// Writes a hundred machines: 91 are well, 5 have lost their TSC, 3 follow a server without a
/// reference clock, and the time of one is wrong.
fn write_fleet(folder: &Path) {
    for number in 0..91 {
        add(folder, "chronyd-x", &format!("web{number:02}"));
    }
    for number in 0..5 {
        add(folder, "xeon-hpet", &format!("db{number}"));
    }
    for number in 0..3 {
        add(folder, "behind-a-local-clock", &format!("edge{number}"));
    }
    add(folder, "chrony-slewing", "bad");
}

/// Compares all files of the folder.
fn compare(folder: &Path, options: &[&str]) -> Output {
    let mut command = tickline(&["compare"]);
    command.args(options).args(entries(folder));
    command.current_dir(folder).output().expect("the program")
}

#[test]
fn a_hundred_machines_give_a_table_with_those_that_differ_the_worst_first() {
    let folder = tempfile::tempdir().unwrap();
    write_fleet(folder.path());
    let output = compare(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    let starts = shown.starts_with("Machines: 100. As the rest: 91. Different: 9.");
    assert!(starts, "{shown}");
    let groups = [
        "\nWRONG, 1: bad\n",
        "\nSLOW, 5: db0, db1, db2, db3, db4\n",
        "\nUNSURE, 3: edge0, edge1, edge2\n",
    ];
    let places = groups.map(|group| shown.find(group));
    assert!(places.iter().all(Option::is_some), "{shown}");
    assert!(places.is_sorted(), "{shown}");
    assert!(shown.lines().count() <= 60, "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn the_json_of_a_fleet_is_what_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    write_fleet(folder.path());
    let output = compare(folder.path(), &["--json", "-"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        faults(&closed(schema("tickline-compare-fleet-1")), &found),
        [""; 0]
    );
    assert_eq!(found["documents"].as_array().unwrap().len(), 100);
    let slow = &found["different"][1];
    let clocksource = slow["differences"].as_array().unwrap().iter();
    let clocksource: Vec<_> = clocksource
        .filter(|difference| difference["name"] == "clocksource")
        .collect();
    assert_eq!(clocksource[0]["value"], "hpet", "{slow}");
    assert_eq!(clocksource[0]["rest"], "tsc", "{slow}");
}

#[test]
fn a_fleet_of_equal_machines_has_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        add(folder.path(), "chronyd-x", name);
    }
    let output = compare(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Symptom: one empty file, that of a host that was down, and there was no table.
#[test]
fn a_document_that_cannot_be_read_is_left_out_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        add(folder.path(), "chronyd-x", name);
    }
    fs::write(folder.path().join("dead.json"), "").unwrap();
    fs::write(folder.path().join("half.json"), "{").unwrap();
    let output = compare(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let shown = text(&output.stdout);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Machines: 3. As the rest: 3. Different: 0.",
        "dead.json (it is empty).",
        "half.json (it is not a document that --json writes: ",
    ] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
}

/// Symptom: beside the file of a host that was down, a machine that differs did not give 1.
#[test]
fn a_difference_decides_the_exit_code_beside_a_document_that_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        add(folder.path(), "chronyd-x", name);
    }
    add(folder.path(), "xeon-hpet", "c");
    fs::write(folder.path().join("dead.json"), "").unwrap();
    let output = compare(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn standard_error_names_what_was_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        add(folder.path(), "chronyd-x", name);
    }
    fs::write(folder.path().join("dead.json"), "").unwrap();
    let output = compare(folder.path(), &[]);
    let errors = text(&output.stderr);
    assert!(errors.contains("dead.json (it is empty)."), "{errors}");
}

/// Symptom: of one document that could be read, "Different: 0".
#[test]
fn fewer_than_two_documents_are_no_comparison() {
    let folder = tempfile::tempdir().unwrap();
    add(folder.path(), "chronyd-x", "a");
    for name in ["dead.json", "down.json"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let output = compare(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    let errors = text(&output.stderr);
    let says_so = errors.contains("two documents or more, and of these 3 files 1 can be read");
    assert!(says_so, "{errors}");
}

#[test]
fn the_json_names_what_was_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        add(folder.path(), "chronyd-x", name);
    }
    fs::write(folder.path().join("dead.json"), "").unwrap();
    let output = compare(folder.path(), &["--json", "-"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [dead] = &found["left_out"].as_array().unwrap()[..] else {
        panic!("{found}");
    };
    assert_eq!(dead["reason"], "it is empty");
    assert!(
        dead["file"].as_str().unwrap().ends_with("dead.json"),
        "{dead}"
    );
    assert_eq!(found["documents"].as_array().unwrap().len(), 2);
}

/// Machines that have nothing in common.
#[test]
fn the_table_of_all_recorded_machines_is_short() {
    let facts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts"));
    let output = compare(facts, &[]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.lines().count() <= 150, "{shown}");
}
