//! The samples of output in the documents are what the program says now.
//!
//! Symptom: `echo tsc` as the first step of a fix, long after the program had begun to ask what the
//! host does to its guest.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{facts, shown, text_about};

/// The first sample in the section of a document with this heading.
fn sample(document: &str, heading: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let page = fs::read_to_string(path).unwrap();
    let (_, section) = page.split_once(heading).expect("the heading");
    let (_, begun) = section.split_once("```text\n").expect("a sample");
    begun.split_once("```\n").expect("its end").0.to_owned()
}

#[test]
fn the_programs_readme_shows_what_the_program_says_of_a_guest_on_hpet() {
    let sample = sample("README.md", "\n## The doctor\n");
    let shown = shown("guest-hpet");
    assert!(shown.starts_with(&sample), "{shown}");
}

/// The figures of its first lines are from one run.
#[test]
fn the_readme_of_the_folder_shows_the_findings_without_an_ntp_daemon() {
    let sample = sample(
        "../README.md",
        "\n## Why is my clock slow, and is it right?\n",
    );
    let (_, findings) = sample.split_once("\nFindings\n").expect("findings");
    let mut machine: serde_json::Value =
        serde_json::from_str(&facts("firecracker-scaled")).unwrap();
    machine.as_object_mut().unwrap().remove("clock");
    let facts = &mut machine["machine"];
    (facts["systemd"], facts["ntp_daemon"]) = (json!(false), json!(null));
    let ntp = &mut facts["ntp"];
    (ntp["synchronised"], ntp["frequency_ppb"]) = (json!(false), json!(0));
    ntp["maximum_error_us"] = json!(16_000_000);
    let shown = text_about(&machine.to_string());
    assert!(
        shown.contains(&format!("\nFindings\n{findings}")),
        "{shown}"
    );
}
