//! Tests that tables are tables on 80 columns, the width of most consoles.

use std::path::Path;
use std::process::Command;

use crate::common::{entries, text, tickline};

/// The folder of the recorded machines.
fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts"))
}

/// What the command shows on 80 columns. Checks that no table with one of these first headings is
/// paragraphs, which begin like this: "  clock rdtsc: cost ns 9.00".
fn shown(command: &mut Command, first_headings: &[&str]) -> String {
    let output = command.env("COLUMNS", "80").current_dir(folder()).output();
    let shown = text(&output.expect("the program").stdout);
    for heading in first_headings {
        let start = format!("  {heading} ");
        let mut rests = shown.lines().filter_map(|line| line.strip_prefix(&start));
        let is_table = rests.all(|rest| rest.starts_with(' '));
        assert!(is_table, "{command:?}: {heading}: {shown}");
    }
    shown
}

/// Symptom: two lines of prose for each clock, or for each difference.
#[test]
fn every_table_about_a_recorded_machine_is_a_table() {
    let names = entries(folder());
    for name in &names {
        let shown = shown(&mut tickline(&["--facts", name]), &["clock"]);
        assert!(shown.contains("\n  clock  "), "{name}: {shown}");
    }
    for pair in names.windows(2) {
        let headings = ["Differences", "Known on one side only"];
        let shown = shown(tickline(&["compare"]).args(pair), &headings);
        let has_table = shown.contains("\n  Differences  ");
        let differ = !shown.starts_with("Differences: 0.");
        assert_eq!(has_table, differ, "{pair:?}: {shown}");
    }
    let shown = shown(tickline(&["compare"]).args(&names), &["differs in"]);
    assert!(shown.contains("\n  differs in  "), "{shown}");
}

#[test]
fn every_table_about_this_machine_is_a_table() {
    for (arguments, first_heading) in [
        (&["doctor", "--duration", "1s"][..], "clock"),
        (&["bench", "--rounds", "2", "--calls", "100"], "clock"),
        (&["warp"], "CPUs"),
        (&["who", "--duration", "1s"], "PID"),
    ] {
        shown(&mut tickline(arguments), &[first_heading]);
    }
}
