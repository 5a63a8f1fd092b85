//! The program's findings on machines whose facts were recorded.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::common::{entries, text, tickline};

/// What the program says of facts.
fn output(words: &[&str], facts: &str) -> Output {
    let mut command = tickline(words);
    command.args(["--facts", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().expect("the program");
    program.stdin.take().expect("a pipe").write_all(facts.as_bytes()).expect("it reads");
    program.wait_with_output().expect("it ends")
}

/// The document that the program makes of facts, and its exit code.
pub(crate) fn diagnosed(facts: &Value) -> (Value, Option<i32>) {
    let output = output(&["doctor", "--json", "-"], &facts.to_string());
    (serde_json::from_slice(&output.stdout).expect("JSON"), output.status.code())
}

/// A row of `recorded.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Expected {
    /// The findings' codes.
    codes: Vec<String>,
    /// A part of the first finding's fix; empty where there are notes alone.
    fix: String,
    /// The text's beginning, and parts of it.
    first: String,
    parts: Vec<String>,
}

/// The machine comes first: once the first line was about tickline, or about nothing.
#[test]
fn recorded_machines_are_diagnosed() {
    let all: BTreeMap<String, Expected> = serde_json::from_str(include_str!("recorded.json")).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts");
    let files: Vec<_> = all.keys().map(|name| format!("{name}.json")).collect();
    assert_eq!(entries(&folder), files, "each recorded machine has its row in recorded.json");
    for (name, Expected { codes, fix, first, parts }) in all {
        let facts = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let recorded: Value = serde_json::from_str(&facts).unwrap();
        assert!(recorded["source"].as_str().is_some_and(|source| source.len() > 20), "{name}: its source");
        let (said, code) = diagnosed(&recorded);
        let findings = said["findings"].as_array().unwrap();
        let found: Vec<_> = findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
        assert_eq!(found, codes, "{name}: {said}");
        let is_well = fix.is_empty();
        let exit = Some(i32::from(!is_well));
        assert_eq!(code, exit, "{name}");
        assert!(findings.iter().all(|finding| (finding["severity"] == "note") == is_well), "{name}: {said}");
        if let Some(finding) = findings.first().filter(|_| !is_well) {
            assert!(finding["fix"].as_str().unwrap().contains(&fix), "{name}: {finding}");
            assert!(!finding["evidence"].as_array().unwrap().is_empty(), "{name}: {finding}");
        }
        let is_host = findings.iter().any(|finding| finding["steps"]["place"] == "host");
        assert_eq!(is_host, name == "virtualbox-debian7", "{name}: commands for the host");
        let shown = output(&[], &facts);
        let shown = (text(&shown.stdout), shown.status.code());
        assert!(shown.0.starts_with(&first) && shown.1 == exit, "{name}: {shown:?}");
        assert!(parts.iter().all(|part| shown.0.contains(part)), "{name}: {}", shown.0);
        let check = output(&["--check"], &facts);
        let status = if is_well { "TICKLINE OK - " } else { "TICKLINE WARNING - " };
        let line = text(&check.stdout);
        assert!(line.starts_with(status) && line.lines().count() == 1, "{name}: {line}");
        assert_eq!(check.status.code(), exit, "{name}");
        let metrics = text(&output(&["--openmetrics", "-"], &facts).stdout);
        assert!(
            metrics.starts_with("# TYPE tickline_") && metrics.ends_with("\n# EOF\n"),
            "{name}: {metrics}"
        );
        for code in codes {
            assert!(metrics.contains(&format!("tickline_finding{{code=\"{code}\"")), "{name}: {metrics}");
            let explained = tickline(&["explain", &code]).output().unwrap();
            assert!(explained.status.success() && text(&explained.stdout).starts_with(&code), "{code}");
        }
    }
}

/// An argument that is wrong must not look like a machine that is.
#[test]
fn a_check_that_fails_is_unknown() {
    let run = |words: &[&str]| tickline(words).output().unwrap();
    for output in [
        run(&["--check", "--facts", "no/such"]),
        run(&["--check", "--secs", "x"]),
        run(&["--check", "--x"]),
        // It is unknown who answers.
        output(&["--check"], r#"{ "schema": "tickline/2", "machine": {} }"#),
    ] {
        let line = text(&output.stdout);
        assert!(line.starts_with("TICKLINE UNKNOWN - ") && line.lines().count() == 1, "{line}");
        assert_eq!(output.status.code(), Some(3), "{line}");
    }
}

/// Notes alone give exit code 0, like the text.
#[test]
fn what_is_not_known_or_only_worth_knowing_is_nothing_wrong() {
    let (said, code) = diagnosed(&json!({ "schema": "tickline/2", "machine": {} }));
    assert_eq!((&said["findings"], code), (&json!([]), Some(0)));
    let (said, code) = diagnosed(&json!({ "schema": "tickline/2", "reason": "switched_off", "machine": {} }));
    assert_eq!((&said["findings"][0]["severity"], code), (&"note".into(), Some(0)));
}

/// Facts may come from a hostile file.
#[test]
fn facts_do_not_steer_the_terminal() {
    let evil = "\\u001b]0;title\\u0007\\u009b2J\\u202e";
    let machine = format!(r#"{{ "cpu": "{evil}", "clocksource": "hpet{evil}", "counters": "{evil}" }}"#);
    for schema in ["tickline/2", evil] {
        let costs = format!(r#"[{{ "clock": "{evil}" }}]"#);
        let facts = format!(
            r#"{{ "schema": "{schema}", "machine": {machine}, "costs": {costs}, "served_unknown": "{evil}" }}"#
        );
        let output = output(&[], &facts);
        let said = [output.stdout, output.stderr].map(|out| String::from_utf8(out).unwrap()).concat();
        assert!(said.contains("]0;title"), "{said}");
        assert!(said.chars().all(|character| character == '\n' || !character.is_control()), "{said:?}");
        assert!(!said.contains('\u{202e}'), "{said:?}");
    }
}
