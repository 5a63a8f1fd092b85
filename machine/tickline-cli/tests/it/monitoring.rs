//! The alert rules and the dashboard in `machine/docs` name only metrics, labels and values that
//! the program writes. `openmetrics.sh` runs the rules by Prometheus' own program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::common::{text, tickline};

/// The program's stored outputs, which its tests compare with the program.
const METRICS: [&str; 2] = [
    include_str!("../data/openmetrics_expected.txt"),
    include_str!("../data/openmetrics_page_expected.txt"),
];

/// The labels that Prometheus adds to each sample of a machine.
const ADDED: [&str; 2] = ["job", "instance"];

/// The labels whose values the stored outputs list completely.
const COMPLETE: [&str; 4] = ["level", "state", "phase", "reads"];

fn document(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    fs::read_to_string(format!("{folder}/{name}")).expect("a document")
}

/// The labels of each metric, and the values of each label.
type Labels = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn known_metrics() -> Labels {
    let mut metrics = Labels::new();
    let samples = METRICS.iter().flat_map(|text| text.lines());
    for line in samples.filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        let labels = metrics.entry(name.to_owned()).or_default();
        // The parser of selectors knows no escapes.
        let labelled = line[name.len()..].replace("\\\\", "").replace("\\\"", "");
        for Selector { label, value, .. } in selectors(&labelled) {
            labels.entry(label).or_default().insert(value);
        }
    }
    metrics
}

/// What an expression asks of a label.
struct Selector {
    label: String,
    operator: String,
    value: String,
}

/// The selectors in the braces at the start of the text; none if the text does not start with a
/// brace. No value has a brace or an escape.
fn selectors(text: &str) -> Vec<Selector> {
    let Some((inside, _)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut rest = inside;
    while let Some((before, after)) = rest.split_once('"') {
        let (value, after) = after.split_once('"').expect("the value's end");
        let before = before.trim_matches([',', ' ']);
        let label = before.trim_end_matches(['=', '~', '!']);
        found.push(Selector {
            label: label.to_owned(),
            operator: before[label.len()..].to_owned(),
            value: value.to_owned(),
        });
        rest = after;
    }
    found
}

/// Each metric that an expression names, with its selectors.
fn used(expression: &str) -> Vec<(String, Vec<Selector>)> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let starts = expression
        .match_indices("tickline_")
        .map(|(start, _)| start);
    starts
        .map(|start| {
            let rest = &expression[start..];
            let end = rest.find(|character| !is_part(character));
            let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
            (name.to_owned(), selectors(after))
        })
        .collect()
}

/// Checks an expression of PromQL.
#[track_caller]
fn assert_known(expression: &str, metrics: &Labels) {
    let named = used(expression);
    assert!(!named.is_empty(), "no metric in: {expression}");
    for (name, selectors) in named {
        let Some(labels) = metrics.get(&name) else {
            panic!("the program writes no {name}: {expression}");
        };
        for Selector {
            label,
            operator,
            value,
        } in selectors
        {
            if ADDED.contains(&label.as_str()) {
                continue;
            }
            let Some(values) = labels.get(&label) else {
                panic!("{name} has no label {label}: {expression}");
            };
            if COMPLETE.contains(&label.as_str()) {
                assert!(operator.len() <= 2, "{operator}");
                for value in value.split('|') {
                    assert!(
                        values.contains(value),
                        "{label} is never {value}: {expression}"
                    );
                }
            }
            if label == "code" {
                let explained = tickline(&["explain", &value])
                    .output()
                    .expect("the program");
                assert!(explained.status.success(), "no code {value}: {expression}");
            }
            if label == "clock" {
                assert!(values.contains(&value), "no clock {value}: {expression}");
            }
        }
    }
}

/// The text behind `key: ` of each line that has this key.
fn values_of<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let start = format!("{key}: ");
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix(&start))
        .collect()
}

#[test]
fn each_alert_names_metrics_labels_and_values_that_the_program_writes() {
    let alerts = document("alerts.yaml");
    let metrics = known_metrics();
    let expressions = values_of(&alerts, "expr");
    assert_eq!(expressions.len(), alerts.matches("- alert: ").count());
    assert!(expressions.len() > 10, "{expressions:?}");
    for expression in expressions {
        assert_known(expression, &metrics);
    }
}

/// Symptom: a server that was restarted again and again raised no alert, because each outage was
/// shorter than the times after `for`.
#[test]
fn a_page_that_comes_and_goes_raises_an_alert_without_a_long_outage() {
    let alerts = document("alerts.yaml");
    let rule = alerts
        .split("- alert: ")
        .find(|rule| rule.starts_with("TicklinePageFlaps\n"))
        .expect("the rule");
    assert!(rule.contains("changes(tickline_page_serving["), "{rule}");
    assert!(!rule.contains("for: "), "{rule}");
}

/// Symptom: an administrator who switched the page off and on three times in an hour got an alert.
#[test]
fn no_alert_of_a_missing_page_is_about_one_that_was_switched_off() {
    let alerts = document("alerts.yaml");
    for (name, switched_off) in [
        ("TicklinePageNotServed", "tickline_page_switched_off == 1"),
        (
            "TicklinePageWithoutServer",
            "(tickline_page_switched_off == 1 ",
        ),
        (
            "TicklinePageFlaps",
            "max_over_time(tickline_page_switched_off[1h]) == 1",
        ),
    ] {
        let rule = alerts
            .split("- alert: ")
            .find(|rule| rule.starts_with(&format!("{name}\n")))
            .expect("the rule");
        let guard = format!(" unless on (job, instance) {switched_off}");
        assert!(values_of(rule, "expr")[0].contains(&guard), "{rule}");
    }
}

#[test]
fn each_label_in_an_alerts_text_is_known() {
    let alerts = document("alerts.yaml");
    let metrics = known_metrics();
    let known: BTreeSet<&str> = metrics
        .values()
        .flat_map(BTreeMap::keys)
        .map(String::as_str)
        .chain(ADDED)
        .collect();
    let texts = alerts.split("$labels.").skip(1);
    for label in texts.filter_map(|text| text.split([' ', '}']).next()) {
        assert!(known.contains(label), "{label}");
    }
}

#[test]
fn each_alert_has_a_severity_and_says_what_to_do() {
    let alerts = document("alerts.yaml");
    let count = alerts.matches("- alert: ").count();
    for key in ["severity", "summary", "description", "runbook_url"] {
        assert_eq!(values_of(&alerts, key).len(), count, "{key}");
    }
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        words
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// Symptom: ten alerts led to the head of one page of 40 codes.
#[test]
fn each_alert_leads_to_a_section_that_exists() {
    let alerts = document("alerts.yaml");
    let urls = values_of(&alerts, "runbook_url");
    assert_eq!(urls.len(), alerts.matches("- alert: ").count());
    for url in urls {
        let (_, path) = url.split_once("/blob/main/machine/").expect("a page");
        let (file, anchor) = path.split_once('#').unwrap_or((path, ""));
        let page = document(&format!("../{file}"));
        assert!(anchors(&page).contains(anchor), "{url}");
    }
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&document("dashboard.json")).expect("JSON");
    dashboard["panels"].as_array().expect("panels").clone()
}

#[test]
fn each_panel_names_metrics_labels_and_values_that_the_program_writes() {
    let metrics = known_metrics();
    for panel in panels() {
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            assert_known(target["expr"].as_str().expect("PromQL"), &metrics);
        }
    }
}

/// Grafana asks for the data source when it imports a dashboard whose panels refer to an input.
#[test]
fn each_panel_takes_its_data_source_from_the_input_of_the_import() {
    let dashboard: Value = serde_json::from_str(&document("dashboard.json")).expect("JSON");
    assert_eq!(dashboard["__inputs"][0]["name"], "DS_PROMETHEUS");
    let mut ids = BTreeSet::new();
    for panel in panels() {
        assert_eq!(panel["datasource"]["uid"], "${DS_PROMETHEUS}", "{panel}");
        assert!(ids.insert(panel["id"].as_u64()), "two panels: {panel}");
    }
}

/// Shows that the check above can fail.
#[test]
fn an_unknown_metric_label_or_value_is_noticed() {
    let metrics = known_metrics();
    for expression in [
        "tickline_helth == 1",
        "tickline_health{lvl=\"ok\"}",
        "tickline_health{level=\"fine\"}",
        "tickline_finding{code=\"no_such_code\"}",
    ] {
        let check = std::panic::catch_unwind(|| assert_known(expression, &metrics));
        assert!(check.is_err(), "{expression}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_figures_of_a_missing_page_are_written_before_the_program_fails() {
    let words = [
        "serve",
        "status",
        "--page",
        "/no/such/page",
        "--openmetrics",
        "-",
    ];
    let output = tickline(&words).output().expect("the program");
    assert_eq!(output.status.code(), Some(2));
    assert!(crate::common::text(&output.stdout).contains("\ntickline_page_found 0\n"));
}

/// Symptom: `tickline_page_found 0`, and an alert that the page serves nothing, where only the list
/// of processes could not be read.
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
#[test]
fn a_page_whose_state_cannot_be_read_was_found() {
    use crate::common::{filter, server, text};

    let (_folder, page) = server::folder();
    drop(tickline_page::page_file::LockedPageFile::create(&page).unwrap());
    let mut command = tickline(&["serve", "status", "--openmetrics", "-", "--page"]);
    command.arg(&page);
    let no_list = filter::filter(
        &serde_json::json!({ "errno": 1 }),
        &serde_json::json!([{ "syscall": "getdents64" }]),
    );
    filter::put_under(&mut command, no_list.unwrap());
    let output = command.output().expect("the program");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let figures = text(&output.stdout);
    assert!(figures.contains("\ntickline_page_found 1\n"), "{figures}");
    assert!(!figures.contains("\ntickline_page_serving "), "{figures}");
}

/// Symptom: "programs are slow, and right" of a page that programs might still read, because the
/// command did not trust the page, or found it truncated.
#[cfg(target_os = "linux")]
#[test]
fn a_page_that_cannot_be_opened_was_found() {
    use std::os::unix::fs::PermissionsExt as _;

    use crate::common::server;

    let (_folder, page) = server::folder();
    drop(tickline_page::page_file::LockedPageFile::create(&page).unwrap());
    let assert_found = |message: &str| {
        let mut command = tickline(&["serve", "status", "--openmetrics", "-", "--page"]);
        let output = command.arg(&page).output().expect("the program");
        crate::common::assert_fails(&output, 2, message);
        let figures = text(&output.stdout);
        assert!(figures.contains("\ntickline_page_found 1\n"), "{figures}");
        assert!(!figures.contains("\ntickline_page_serving "), "{figures}");
    };
    let folder = page.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o775)).unwrap();
    assert_found("; chmod go-w ");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::File::create(&page).unwrap();
    assert_found("0 bytes");
}

#[cfg(target_os = "linux")]
#[test]
fn the_figures_of_a_page_are_for_the_action_status() {
    let output = tickline(&["serve", "on", "--openmetrics", "-"]).output();
    let output = output.expect("the program");
    let advice = "tip: it is for status: tickline serve status --openmetrics FILE";
    crate::common::assert_fails(&output, 78, advice);
}

/// `serve status` begins with the page's name, and exits with 1 also if an administrator has
/// switched the page off.
#[test]
fn the_guides_check_of_a_page_is_one_line_with_nagios_codes() {
    let guide = document("fleet.md");
    let (_, script) = guide.split_once("#!/bin/sh\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let check = |status: &str, code: i32| {
        let is_off = status.contains("switched off");
        let json = format!("{{\\n  \"switched_off\": {is_off},\\n}}\\n");
        let status = format!(
            "tickline() {{ case $* in *--json*) printf '{json}' ;; *) printf '{status}' ;; esac; \
             return {code}; }}\n"
        );
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", &(status + script)]).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    for (status, code, expected, line) in [
        (
            "page    P\\nphase   published: programs\\n",
            0,
            0,
            "published: programs\n",
        ),
        (
            "page    P\\nphase   no_line: there\\nreaders 0\\n",
            1,
            1,
            "no_line: there\n",
        ),
        (
            "phase   off: switched off: run\\n",
            1,
            0,
            "off: switched off: run\n",
        ),
        ("tickline: there is no page\\n", 2, 2, "there is no page\n"),
        // Symptom: only the first of the lines into which the text was broken.
        (
            "phase   off: switched off: run\\n        then start\\nreaders 0\\n        more\\n",
            1,
            0,
            "off: switched off: run then start\n",
        ),
    ] {
        assert_eq!(check(status, code), (Some(expected), line.to_owned()));
    }
}
