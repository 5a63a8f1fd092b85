//! `tickline report` as users run it. `cargo xtask page` checks the layout of the page in a
//! browser.

mod common;

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use common::{entries, text};

fn report() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
    command.args(["report", "--secs", "1"]).env_remove("TICKLINE");
    command
}

fn succeeds(output: &Output) {
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    assert_eq!(text(&output.stderr), "", "no progress bar where stderr is no terminal");
}

fn fails(output: &Output, reason: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
}

/// The data in a page.
fn data(page: &str) -> Value {
    let data = page.split("type=\"application/json\">").nth(1).expect("data").split("</script>").next();
    serde_json::from_str(data.expect("its end")).expect("JSON")
}

#[test]
fn the_page_holds_what_json_holds() {
    let folder = tempfile::tempdir().unwrap();
    let (page, json) = (folder.path().join("page.html"), folder.path().join("data.json"));
    fs::write(&page, "what was there before").unwrap();
    let output = report().arg("--out").arg(&page).arg("--json").arg(&json).output().unwrap();
    succeeds(&output);
    assert!(text(&output.stdout).contains("page.html"), "{}", text(&output.stdout));
    assert_eq!(entries(folder.path()), ["data.json", "page.html"]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    let json: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(data(&page), json);
    assert_eq!(json["latencies"].as_array().unwrap().len(), 2);
    assert!(json["findings"].is_array() && json["warp"]["cpus"].is_array());
    for part in ["Cost of a call", "Offset from CLOCK_MONOTONIC", "How long single readings take", "Gates"] {
        assert!(page.contains(part), "no {part}");
    }
}

#[test]
fn page_or_data_go_to_standard_output_and_nothing_else_does() {
    let page = report().args(["--out", "-"]).output().unwrap();
    succeeds(&page);
    let page = text(&page.stdout);
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));

    let folder = tempfile::tempdir().unwrap();
    let output =
        report().arg("--out").arg(folder.path().join("page.html")).args(["--json", "-"]).output().unwrap();
    succeeds(&output);
    serde_json::from_slice::<Value>(&output.stdout).unwrap();
    assert_eq!(entries(folder.path()), ["page.html"]);
}

#[test]
fn one_place_cannot_hold_two_documents() {
    let folder = tempfile::tempdir().unwrap();
    fails(&report().args(["--out", "-", "--json", "-"]).output().unwrap(), "one place for two documents");
    for names in [["--out", "-", "--json", "/dev/stdout"], ["--out", "/dev/stdout", "--json", "-"]] {
        fails(&report().args(names).output().unwrap(), "one place for two documents");
    }
    let mut command = report();
    command.current_dir(folder.path()).args(["--secs", "3600", "--out", "x", "--json", "./x"]);
    fails(&command.output().unwrap(), "one place for two documents");
    assert!(entries(folder.path()).is_empty());
}

/// The JSON replaced the page: neither existed yet, and their folder had two names.
#[cfg(unix)]
#[test]
fn one_place_by_two_names_is_one_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::os::unix::fs::symlink("data", folder.path().join("link")).unwrap();
    let mut command = report();
    command.current_dir(folder.path()).args(["--secs", "3600", "--out", "data/x", "--json", "link/x"]);
    fails(&command.output().unwrap(), "one place for two documents");
    assert!(entries(&folder.path().join("data")).is_empty());
}

#[test]
fn a_place_is_needed_and_must_be_one() {
    fails(&report().output().unwrap(), "--out");
    fails(&report().args(["--out="]).output().unwrap(), "neither a file nor -");
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such/folder/page.html");
    let output = report().args(["--secs", "3600", "--out"]).arg(&missing).output().unwrap();
    fails(&output, "no/such/folder/page.html");
    fails(
        &report().args(["--out", "page.html", "--secs", "3601"]).output().unwrap(),
        "3601 is not a whole number from 1 to 3600",
    );
}

/// An interruption during the measurement leaves all files as they were.
#[cfg(unix)]
#[test]
fn an_interrupted_measurement_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    fs::write(&page, "what was there before").unwrap();
    let mut child =
        report().args(["--secs", "60", "--out"]).arg(&page).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entries(folder.path()), ["page.html"]);
    assert_eq!(fs::read_to_string(page).unwrap(), "what was there before");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child =
        report().args(["--out", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    succeeds(&child.wait_with_output().unwrap());
}

#[test]
fn a_closed_gate_has_a_page_too() {
    let output = report().args(["--out", "-"]).env("TICKLINE", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let page = text(&output.stdout);
    assert!(page.contains("tickline serves the OS clock") && page.contains("closed"), "{page}");
    assert_eq!(data(&page)["reason"], "switched_off");
}
