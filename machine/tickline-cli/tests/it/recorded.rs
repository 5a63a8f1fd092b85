//! Tests of the program's findings on recorded machines.

mod machines;
mod samples;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::common::{entries, text, tickline};
use crate::measured::{document_schema, faults};
use machines::{MACHINES, Recorded};

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

/// The text of the machine's file.
fn facts(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts");
    fs::read_to_string(folder.join(name).with_extension("json")).unwrap()
}

/// The document that the program makes from the machine's facts, and its exit code.
fn diagnosed_machine(name: &str) -> (Value, Option<i32>) {
    diagnosed(&serde_json::from_str(&facts(name)).unwrap())
}

/// The text of `tickline doctor` about the machine.
fn shown(name: &str) -> String {
    text_about(&facts(name))
}

/// The text of `tickline doctor` about these facts.
fn text_about(facts: &str) -> String {
    text(&output(&[], facts).stdout)
}

fn findings(document: &Value) -> &[Value] {
    document["findings"].as_array().unwrap()
}

#[test]
fn each_recorded_machine_is_in_the_table() {
    let files: Vec<_> = MACHINES
        .iter()
        .map(|machine| format!("{}.json", machine.name))
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts");
    assert_eq!(entries(&folder), files);
}

#[test]
fn a_recorded_machine_has_the_keys_of_the_schema_and_names_its_source() {
    let schema = document_schema();
    for Recorded { name, .. } in MACHINES {
        let recorded: Value = serde_json::from_str(&facts(name)).unwrap();
        assert_eq!(faults(&schema, &recorded), [""; 0], "{name}");
        let source = recorded["source"].as_str().unwrap_or_default();
        assert!(source.len() > 20, "{name}: its source is '{source}'");
    }
}

#[test]
fn the_diagnosis_of_a_recorded_machine_is_what_the_schema_says() {
    let schema = document_schema();
    for Recorded { name, .. } in MACHINES {
        let (document, _) = diagnosed_machine(name);
        assert_eq!(faults(&schema, &document), [""; 0], "{name}");
    }
}

#[test]
fn the_findings_about_a_recorded_machine_are_those_of_the_table() {
    for Recorded { name, findings, .. } in MACHINES {
        let (document, _) = diagnosed_machine(name);
        let found: Vec<_> = self::findings(&document)
            .iter()
            .map(|finding| finding["code"].as_str().unwrap())
            .collect();
        assert_eq!(found, findings, "{name}: {document}");
    }
}

#[test]
fn the_first_finding_has_evidence_and_the_fix_of_the_table() {
    for Recorded { name, fix, .. } in MACHINES {
        let (document, _) = diagnosed_machine(name);
        let Some(finding) = findings(&document).first() else {
            continue;
        };
        let shown = finding["fix"].as_str().unwrap();
        assert!(shown.contains(fix), "{name}: no {fix} in {shown}");
        let evidence = finding["evidence"].as_array().unwrap();
        assert!(!evidence.is_empty(), "{name}: {finding}");
    }
}

#[test]
fn the_exit_code_is_1_if_a_finding_is_wrong_or_slow() {
    for Recorded { name, .. } in MACHINES {
        let (document, code) = diagnosed_machine(name);
        let is_bad = findings(&document)
            .iter()
            .any(|finding| finding["severity"] == "wrong" || finding["severity"] == "slow");
        assert_eq!(code, Some(i32::from(is_bad)), "{name}: with --json");
        let code = output(&[], &facts(name)).status.code();
        assert_eq!(code, Some(i32::from(is_bad)), "{name}: as text");
    }
}

/// A monitoring system takes the first line, and the exit code.
#[test]
fn a_check_is_one_line_whose_exit_code_agrees_with_the_findings() {
    for Recorded { name, .. } in MACHINES {
        let (document, _) = diagnosed_machine(name);
        let has_only_notes = findings(&document)
            .iter()
            .all(|finding| finding["severity"] == "note");
        let check = output(&["--check"], &facts(name));
        let line = text(&check.stdout);
        assert_eq!(line.lines().count(), 1, "{name}: {line}");
        let code = check.status.code().unwrap();
        let status = ["OK", "WARNING", "CRITICAL", "UNKNOWN"][usize::try_from(code).unwrap()];
        let start = format!("TICKLINE {status} - ");
        assert!(line.starts_with(&start), "{name}: {code}: {line}");
        // Without a finding the NTP state, or the answerer of the clocks, may still be unknown.
        let allowed = if has_only_notes { [0, 3] } else { [1, 2] };
        assert!(allowed.contains(&code), "{name}: {code}: {line}");
    }
}

/// Symptom: a line that names two faults had the code of one.
#[test]
fn a_check_has_the_code_of_each_finding_but_of_no_note() {
    for Recorded { name, .. } in MACHINES {
        let (document, _) = diagnosed_machine(name);
        let faults = findings(&document)
            .iter()
            .filter(|finding| finding["severity"] != "note");
        let codes: Vec<_> = faults
            .map(|finding| finding["code"].as_str().unwrap())
            .collect();
        let line = text(&output(&["--check"], &facts(name)).stdout);
        let (line, _) = line.split_once(" |").unwrap_or((line.trim_end(), ""));
        let shown = line.rsplit_once(" [").map_or("", |(_, shown)| shown);
        let expected = if codes.is_empty() {
            String::new()
        } else {
            codes.join(", ") + "]"
        };
        assert_eq!(shown, expected, "{name}: {line}");
    }
}

#[test]
fn a_check_has_the_costs_and_the_error_of_unix_time_as_performance_data() {
    let line = text(
        &output(
            &["--check", "--max-error", "100ms"],
            &facts("arm-chosen-timer"),
        )
        .stdout,
    );
    let (_, figures) = line.split_once(" | ").unwrap();
    assert_eq!(
        figures,
        "clock_gettime=0.9800us;;;0 possible=0.0530us;;;0 utc_error=0.014900s;0.100000;;0\n"
    );
}

/// The commands that users run on the host, not on the machine itself.
#[test]
fn only_the_fix_of_virtualbox_has_commands_for_the_host() {
    for Recorded { name, .. } in MACHINES {
        let (document, _) = diagnosed_machine(name);
        let has_host = findings(&document)
            .iter()
            .any(|finding| finding["steps"]["place"] == "host");
        assert_eq!(has_host, name == "virtualbox-debian7", "{name}");
    }
}

#[test]
fn commands_for_the_host_are_shown_with_their_check_and_their_undoing() {
    let shown = shown("virtualbox-debian7");
    for part in [
        "run:  the following commands on the host",
        "first: VBoxManage showvminfo ",
        "--paravirtprovider kvm && VBoxManage setextradata ",
        "undo keep: VBoxManage modifyvm ",
    ] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
}

#[test]
fn a_fix_of_several_steps_is_numbered_and_its_code_is_explained() {
    let shown = shown("hpet-listed-tsc");
    for part in [
        "\n         fix:  1. run `tickline warp` when idle",
        "\n         fix:  2. ",
        "\n         fix:  only if the rate is steady: boot with",
        "\n  What a code in brackets means: tickline explain tsc_skew\n",
    ] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
}

#[test]
fn a_kernels_error_that_no_daemon_has_set_is_not_shown_as_a_claim() {
    for (name, row) in [
        ("chronyd-alone", "synchronised, no claim of its error"),
        (
            "raspberry-pi-4",
            "synchronised, no claim of its error, rate corrected",
        ),
    ] {
        let shown = shown(name);
        assert!(shown.contains(row), "no {row} in {shown}");
    }
}

#[test]
fn the_error_of_unix_time_by_a_hardware_clock_is_shown() {
    let shown = shown("chronyd-phc");
    assert!(shown.contains("Unix time is off by 3.7 us at"), "{shown}");
}

/// Symptom: the figure 0, for machines on which tickline has not run.
#[test]
fn metrics_say_whether_the_counter_is_used_only_if_the_gates_were_recorded() {
    for Recorded { name, .. } in MACHINES {
        let recorded: Value = serde_json::from_str(&facts(name)).unwrap();
        let metrics = metrics(name);
        assert_eq!(
            metrics.contains("\ntickline_fast "),
            recorded["gates"].is_array(),
            "{name}: {metrics}"
        );
    }
}

/// Symptom: an unknown source, for machines on which tickline has not run.
#[test]
fn metrics_name_the_source_of_utc_only_if_one_was_asked() {
    for Recorded { name, .. } in MACHINES {
        let recorded: Value = serde_json::from_str(&facts(name)).unwrap();
        let clock = &recorded["clock"];
        let is_asked = clock["utc_source"].is_string() || clock["utc_unknown"].is_string();
        let metrics = metrics(name);
        assert_eq!(
            metrics.contains("\ntickline_utc_info{"),
            is_asked,
            "{name}: {metrics}"
        );
    }
}

#[test]
fn metrics_have_each_finding() {
    for Recorded { name, findings, .. } in MACHINES {
        let metrics = metrics(name);
        for code in findings {
            let sample = format!("tickline_finding{{code=\"{code}\"");
            assert!(metrics.contains(&sample), "{name}: {metrics}");
        }
    }
}

/// The figures for a metrics collector.
fn metrics(name: &str) -> String {
    text(&output(&["--openmetrics", "-"], &facts(name)).stdout)
}

/// `TICKLINE_WRITE=1 cargo test -p tickline-cli --test it recorded` rewrites the table of
/// the first line and the exit codes of each machine.
#[test]
fn the_table_of_recorded_machines_is_up_to_date() {
    const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/machines.md");
    /// The folder of the facts as the table links to it.
    const FACTS: &str = "../tickline-cli/tests/facts";
    const HEAD: &str = "|---|---|---|---|---|\n";
    let row = |machine: &Recorded| {
        let Recorded { name, .. } = machine;
        let facts = facts(name);
        let doctor = output(&[], &facts);
        let [code, check] = [&doctor, &output(&["--check"], &facts)]
            .map(|output| output.status.code().expect("an exit code"));
        let result = first_line(&text(&doctor.stdout));
        let recorded: Value = serde_json::from_str(&facts).unwrap();
        let source = recorded["source"].as_str().unwrap().replace('|', "\\|");
        format!("| [`{name}`]({FACTS}/{name}.json) | {result} | {code} | {check} | {source} |\n")
    };
    let rows: String = MACHINES.iter().map(row).collect();
    let stored = fs::read_to_string(TABLE).unwrap();
    let (before, _) = stored.split_once(HEAD).expect("a table at its end");
    let now = format!("{before}{HEAD}{rows}");
    if std::env::var_os("TICKLINE_WRITE").is_some() {
        fs::write(TABLE, &now).unwrap();
    } else {
        assert!(stored == now, "TICKLINE_WRITE=1 rewrites {TABLE}:\n{rows}");
    }
}

/// The sentence about the machine: the wrapped first lines of the text.
fn first_line(shown: &str) -> String {
    let rest = shown
        .find("\nThis machine was recorded")
        .expect("what follows");
    shown[..rest].replace('\n', " ")
}

/// A wrong argument must not look like a wrong clock.
#[test]
fn a_check_that_fails_is_unknown() {
    let run = |words: &[&str]| tickline(words).output().unwrap();
    for output in [
        run(&["--check", "--facts", "no/such"]),
        run(&["--check", "--duration", "x"]),
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
