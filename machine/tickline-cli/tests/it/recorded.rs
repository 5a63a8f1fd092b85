//! Tests of the program's findings on recorded machines.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde::Deserialize;
use serde_json::Value;

use crate::common::{entries, text, tickline};
use crate::measured::{document_schema, faults};

/// Runs the program on these facts.
fn output(words: &[&str], facts: &str) -> Output {
    let mut command = tickline(words);
    command
        .args(["--facts", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = command.spawn().expect("the program");
    program
        .stdin
        .take()
        .expect("a pipe")
        .write_all(facts.as_bytes())
        .expect("it reads");
    program.wait_with_output().expect("it ends")
}

/// The document that the program makes from facts, and its exit code.
pub(crate) fn diagnosed(facts: &Value) -> (Value, Option<i32>) {
    let output = output(&["doctor", "--json", "-"], &facts.to_string());
    (
        serde_json::from_slice(&output.stdout).expect("JSON"),
        output.status.code(),
    )
}

/// A row of `recorded.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Expected {
    /// The findings' codes.
    codes: Vec<String>,
    /// A part of the first finding's fix.
    fix: String,
    /// Parts of the text.
    parts: Vec<String>,
}

/// The sentence about the machine: the wrapped first lines of the text.
fn first_line(shown: &str) -> String {
    let rest = shown
        .find("\nThis machine was recorded")
        .expect("what follows");
    shown[..rest].replace('\n', " ")
}

/// The folder of the facts as the table links to it, and the table with the first line and the exit
/// codes of each machine. `TICKLINE_WRITE_MACHINES=1 cargo test -p tickline-cli --test it recorded`
/// rewrites the table.
const FACTS: &str = "../tickline-cli/tests/facts";
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/machines.md");

#[test]
fn recorded_machines_are_diagnosed() {
    let all: BTreeMap<String, Expected> =
        serde_json::from_str(include_str!("recorded.json")).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts");
    let files: Vec<_> = all.keys().map(|name| format!("{name}.json")).collect();
    assert_eq!(
        entries(&folder),
        files,
        "each recorded machine has its row in recorded.json"
    );
    let (mut rows, schema) = (String::new(), document_schema());
    for (name, Expected { codes, fix, parts }) in all {
        let facts = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let recorded: Value = serde_json::from_str(&facts).unwrap();
        assert_eq!(faults(&schema, &recorded), [""; 0], "{name}");
        assert!(
            recorded["source"]
                .as_str()
                .is_some_and(|source| source.len() > 20),
            "{name}: its source"
        );
        let (document, code) = diagnosed(&recorded);
        let findings = document["findings"].as_array().unwrap();
        let found: Vec<_> = findings
            .iter()
            .map(|finding| finding["code"].as_str().unwrap())
            .collect();
        assert_eq!(found, codes, "{name}: {document}");
        let is_well = findings.iter().all(|finding| finding["severity"] == "note");
        let is_bad = findings.iter().any(|finding| {
            ["wrong", "slow"]
                .map(Value::from)
                .contains(&finding["severity"])
        });
        assert_eq!(code, Some(i32::from(is_bad)), "{name}");
        if let Some(finding) = findings.first() {
            assert!(
                finding["fix"].as_str().unwrap().contains(&fix),
                "{name}: {finding}"
            );
            assert!(
                !finding["evidence"].as_array().unwrap().is_empty(),
                "{name}: {finding}"
            );
        }
        let is_host = findings
            .iter()
            .any(|finding| finding["steps"]["place"] == "host");
        assert_eq!(
            is_host,
            name == "virtualbox-debian7",
            "{name}: commands for the host"
        );
        let shown = output(&[], &facts);
        assert_eq!(shown.status.code(), code, "{name}");
        let shown = text(&shown.stdout);
        assert!(
            parts.iter().all(|part| shown.contains(part)),
            "{name}: {shown}"
        );
        let check = output(&["--check"], &facts);
        let line = text(&check.stdout);
        assert_eq!(line.lines().count(), 1, "{name}: {line}");
        let (result, check) = (first_line(&shown), check.status.code().unwrap());
        let known: &[i32] = if is_well { &[0, 3] } else { &[1, 2] };
        assert!(known.contains(&check), "{name}: {check}");
        rows += &format!(
            "| [`{name}`]({FACTS}/{name}.json) | {result} | {} | {check} |\n",
            code.unwrap()
        );
        let metrics = text(&output(&["--openmetrics", "-"], &facts).stdout);
        // Symptoms: the figure 0 and an unknown source, for machines on which tickline has not run.
        assert_eq!(
            metrics.contains("\ntickline_fast "),
            recorded["gates"].is_array(),
            "{name}: {metrics}"
        );
        let is_utc_asked = ["utc_source", "utc_unknown"]
            .iter()
            .any(|key| recorded["clock"][key].is_string());
        assert_eq!(
            metrics.contains("\ntickline_utc_info{"),
            is_utc_asked,
            "{name}: {metrics}"
        );
        for code in codes {
            assert!(
                metrics.contains(&format!("tickline_finding{{code=\"{code}\"")),
                "{name}: {metrics}"
            );
        }
    }
    let table = fs::read_to_string(TABLE).unwrap();
    let (head, _) = table
        .split_once("|---|---|---|---|\n")
        .expect("a table at its end");
    let now = format!("{head}|---|---|---|---|\n{rows}");
    if std::env::var_os("TICKLINE_WRITE_MACHINES").is_some() {
        fs::write(TABLE, &now).unwrap();
    }
    let table = fs::read_to_string(TABLE).unwrap();
    assert!(
        table == now,
        "TICKLINE_WRITE_MACHINES=1 rewrites {TABLE}:\n{rows}"
    );
}

/// A wrong argument must not look like a wrong clock.
#[test]
fn a_check_that_fails_is_unknown() {
    let run = |words: &[&str]| tickline(words).output().unwrap();
    for output in [
        run(&["--check", "--facts", "no/such"]),
        run(&["--check", "--secs", "x"]),
        run(&["--check", "--x"]),
        // The answerer of the clocks is unknown. Symptom: the level was "fast, not known right".
        output(&["--check"], r#"{ "schema": "tickline/2", "machine": {} }"#),
        output(
            &["--check"],
            &include_str!("../facts/chronyd-alone.json").replace("costs", "no"),
        ),
    ] {
        let line = text(&output.stdout);
        assert!(
            line.starts_with("TICKLINE UNKNOWN - ") && line.lines().count() == 1,
            "{line}"
        );
        assert_eq!(output.status.code(), Some(3), "{line}");
    }
}

/// Facts may come from a hostile file.
#[test]
fn facts_do_not_steer_the_terminal() {
    let evil = "\\u001b]0;title\\u0007\\u009b2J\\u202e";
    let machine =
        format!(r#"{{ "cpu": "{evil}", "clocksource": "hpet{evil}", "counters": "{evil}" }}"#);
    for schema in ["tickline/2", evil] {
        let costs = format!(r#"[{{ "clock": "{evil}" }}]"#);
        let facts = format!(
            r#"{{ "schema": "{schema}", "machine": {machine}, "costs": {costs}, "served_unknown": "{evil}" }}"#
        );
        let output = output(&[], &facts);
        let shown = [output.stdout, output.stderr]
            .map(|out| String::from_utf8(out).unwrap())
            .concat();
        assert!(shown.contains("]0;title"), "{shown}");
        assert!(
            shown
                .chars()
                .all(|character| character == '\n' || !character.is_control()),
            "{shown:?}"
        );
        assert!(!shown.contains('\u{202e}'), "{shown:?}");
    }
}
