//! `--openmetrics`: where it goes, and what a scraper can parse.

mod common;

use std::fs;
use std::process::{Command, Output};

use common::{code, entries, text};

fn tickline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickline")).args(arguments).output().expect("the program")
}

/// One line of the format: a comment with a name, or a sample.
fn is_well_formed(line: &str) -> bool {
    if let Some(comment) = line.strip_prefix("# ") {
        return comment == "EOF"
            || ["TYPE ", "UNIT ", "HELP "]
                .iter()
                .any(|word| comment.starts_with(&format!("{word}tickline_")));
    }
    let Some((series, value)) = line.rsplit_once(' ') else { return false };
    let name = series.split('{').next().unwrap_or_default();
    name.starts_with("tickline_")
        && series.contains('{') == series.ends_with('}')
        && value.parse::<f64>().is_ok_and(f64::is_finite)
}

#[test]
fn a_file_is_written_whole_for_the_collector() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tickline.prom");
    fs::write(&file, "old").unwrap();
    let name = file.to_str().unwrap();
    let output = tickline(&["doctor", "--openmetrics", name]);
    code(&output);
    assert!(text(&output.stdout).contains("Machine"), "the text goes to standard output all the same");
    // node_exporter reads every file of that name's end: nothing else may stay there.
    assert_eq!(entries(folder.path()), ["tickline.prom"]);
    let written = fs::read_to_string(&file).unwrap();
    for line in written.lines() {
        assert!(is_well_formed(line), "{line}");
    }
    assert!(written.ends_with("# EOF\n"), "{written}");
}

#[test]
fn the_figures_can_go_to_standard_output() {
    for arguments in [&["doctor", "--openmetrics", "-"][..], &["doctor", "--check", "--openmetrics", "-"]] {
        let output = tickline(arguments);
        let said = text(&output.stdout);
        assert!(said.starts_with("# TYPE tickline_") && said.ends_with("# EOF\n"), "{said}");
        assert!(said.lines().all(is_well_formed), "{said}");
    }
}

#[test]
fn one_place_for_two_documents_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    let name = file.to_str().unwrap();
    for arguments in [["--openmetrics", "-", "--json", "-"], ["--openmetrics", name, "--json", name]] {
        let output = tickline(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("one place for two documents"), "{output:?}");
    }
    assert!(!file.exists());
}
