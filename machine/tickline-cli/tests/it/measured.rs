//! Tests of the output of the commands that measure. Each command runs once with the counter and
//! once without it, and all tests read these results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;
use std::thread;

use serde_json::Value;

use crate::common::{code, entries, skip, text, tickline};
use crate::watch::check_csv;

/// The output of a command.
pub(crate) struct Measured {
    pub(crate) output: Output,
    pub(crate) json: Value,
    folder: PathBuf,
}

impl Measured {
    fn text(&self) -> String {
        text(&self.output.stdout)
    }
}

const COMMANDS: [&[&str]; 6] = [
    &[
        "doctor",
        "--duration",
        "1s",
        "--openmetrics",
        "tickline.prom",
    ],
    &["bench", "--rounds", "5", "--calls", "1000"],
    &["warp"],
    &[
        "watch",
        "--duration",
        "1s",
        "--interval",
        "200ms",
        "--csv",
        "samples.csv",
    ],
    &["report", "--duration", "1s", "--out", "report.html"],
    &["who", "--duration", "1s"],
];

fn all() -> &'static BTreeMap<(&'static str, &'static str), Measured> {
    static ALL: OnceLock<BTreeMap<(&str, &str), Measured>> = OnceLock::new();
    ALL.get_or_init(|| {
        // The folders are never removed, because a static is not dropped.
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("measured");
        let measure = |arguments: &'static [&'static str], counter: &'static str| {
            let folder = root.join(format!("{}-{counter}", arguments[0]));
            fs::remove_dir_all(&folder).ok();
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("out.json"), "what was there before").expect("a file");
            let mut command = tickline(arguments);
            command
                .args(["--json", "out.json"])
                .env("TICKLINE", counter)
                .current_dir(&folder);
            let output = command.output().expect("the program");
            code(&output);
            let json = fs::read(folder.join("out.json")).expect("the document");
            let json = serde_json::from_slice(&json).expect("JSON");
            (
                (arguments[0], counter),
                Measured {
                    output,
                    json,
                    folder,
                },
            )
        };
        thread::scope(|scope| {
            let runs = ["on", "off"].map(|counter| {
                COMMANDS.map(|arguments| scope.spawn(move || measure(arguments, counter)))
            });
            runs.into_iter()
                .flatten()
                .map(|run| run.join().expect("a result"))
                .collect()
        })
    })
}

pub(crate) fn measured(command: &'static str) -> &'static Measured {
    &all()[&(command, "on")]
}

pub(crate) fn schema(name: &str) -> Value {
    // Read the file at run time, because another test rewrites it after this one is compiled.
    let path = format!("{}/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&fs::read_to_string(path).expect("the schema")).expect("a JSON Schema")
}

/// The violations of the schema in a document.
pub(crate) fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let schema = jsonschema::draft202012::new(schema).expect("a JSON Schema");
    schema
        .iter_errors(document)
        .map(|fault| format!("{} {fault}", fault.instance_path()))
        .collect()
}

pub(crate) fn document_schema() -> Value {
    schema("tickline-2")
}

/// The keys that a document lacks if the command does not measure them, or has found nothing.
const PARTS: &str = "health findings costs served_unknown track host_clock latencies warp bench watch who per_cpu untested_cpus changes";

/// The schema for a document that a command writes: without unknown keys, so that each new key must
/// be in the schema, and with all others. Only facts that a person has collected may lack keys.
pub(crate) fn closed(mut schema: Value) -> Value {
    let mut structures = schema["$defs"].take();
    for object in structures
        .as_object_mut()
        .expect("structures")
        .values_mut()
        .chain([&mut schema])
    {
        let Some(properties) = object["properties"].as_object() else {
            continue;
        };
        let required = properties
            .keys()
            .filter(|key| PARTS.split(' ').all(|part| part != *key));
        object["required"] = required.cloned().collect();
        object["additionalProperties"] = false.into();
    }
    schema["$defs"] = structures;
    schema
}

#[test]
fn every_command_writes_what_the_schema_says() {
    let schema = closed(document_schema());
    for ((command, counter), measured) in all() {
        assert_eq!(
            faults(&schema, &measured.json),
            [""; 0],
            "{command}, {counter}"
        );
        assert_eq!(measured.json["command"], *command);
        assert_eq!(
            text(&measured.output.stderr),
            "",
            "{command}: no progress bar for no terminal"
        );
        let is_temporary = |name: &String| name.starts_with('.');
        assert!(
            !entries(&measured.folder).iter().any(is_temporary),
            "a temporary file is left"
        );
    }
    // Show that the check above can fail.
    let mut bad = measured("doctor").json.clone();
    (bad["costs"][0]["cost_ns"], bad["an_unknown_key"]) = ("fast".into(), 1.into());
    bad["machine"].as_object_mut().unwrap().remove("cpu");
    assert_eq!(faults(&schema, &bad).len(), 3);
}

#[test]
fn a_comparison_is_what_its_schema_says() {
    let facts = |name: &str| format!("{}/tests/facts/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let words = [
        "compare",
        &facts("guest-hpet"),
        &facts("xen-aws-p3"),
        "--json",
        "-",
    ];
    let found: Value = serde_json::from_slice(&tickline(&words).output().unwrap().stdout).unwrap();
    let schema = closed(schema("tickline-compare-1"));
    assert!(
        !found["differences"].as_array().unwrap().is_empty(),
        "{found}"
    );
    assert_eq!(faults(&schema, &found), [""; 0]);
    let shown = text(&tickline(&words[..3]).output().unwrap().stdout);
    for part in [
        "\n  Differences ",
        "\n  clocksource  ",
        "\n  kernel\n      A: ",
        "\n  Known on one side only ",
    ] {
        assert!(shown.contains(part), "no {part} in:\n{shown}");
    }
}

#[test]
fn texts_say_what_was_measured() {
    for (command, parts) in [
        (
            "doctor",
            &[
                "\ntickline ",
                "Machine",
                "Gates",
                "Clocks: ",
                "clock_gettime MONOTONIC",
                "Offset from",
            ][..],
        ),
        (
            "bench",
            &[
                "5 rounds",
                "median",
                "std::time::Instant",
                "Long run: 1000 calls",
            ],
        ),
        (
            "watch",
            &[
                "offset ns",
                "skew ppb",
                "Watched for ",
                "as requested",
                "bound",
                "skew",
                "events",
            ],
        ),
        ("report", &["The report is in report.html."]),
    ] {
        let out = measured(command).text();
        for part in parts {
            assert!(out.contains(part), "{command}: no {part} in:\n{out}");
        }
    }
}

#[test]
fn texts_that_go_to_a_file_have_no_colours() {
    for command in ["doctor", "bench", "watch", "report"] {
        let out = measured(command).text();
        assert!(!out.contains('\u{1b}'), "{command}: {out}");
    }
}

#[test]
fn the_doctors_text_begins_with_the_machines_level() {
    let out = measured("doctor").text();
    let levels = [
        "OK: ",
        "FAST, NOT KNOWN RIGHT: ",
        "SLOW",
        "WRONG: ",
        "UNKNOWN: ",
    ];
    assert!(levels.iter().any(|level| out.starts_with(level)), "{out}");
}

#[test]
fn the_doctors_text_is_100_columns_wide_at_most() {
    let out = measured("doctor").text();
    assert!(
        out.lines().all(|line| line.chars().count() <= 100),
        "too wide: {out}"
    );
}

#[test]
fn the_doctors_exit_code_is_0_if_tickline_reads_the_counter_and_no_clock_is_bad() {
    let doctor = measured("doctor");
    let level = &doctor.json["health"]["level"];
    let is_bad = level == "slow" || level == "wrong";
    let is_good = doctor.json["fast"] == true && !is_bad;
    assert_eq!(code(&doctor.output) == 0, is_good, "{}", doctor.json);
}

#[test]
fn the_doctors_document_has_all_gates_and_some_samples() {
    let document = &measured("doctor").json;
    assert_eq!(document["gates"].as_array().unwrap().len(), 9);
    assert!(!document["track"]["points"].as_array().unwrap().is_empty());
}

#[test]
fn the_fastest_round_is_below_the_median_and_that_below_the_90th_percentile() {
    for cost in measured("bench").json["costs"].as_array().unwrap() {
        let figures = ["cost_ns", "median_ns", "p90_ns"].map(|name| cost[name].as_f64());
        assert!(figures.is_sorted(), "{cost}");
    }
}

#[test]
fn clocks_that_only_the_kernel_knows_are_answered_by_a_system_call() {
    let document = &measured("doctor").json;
    if let Some(reason) = document["served_unknown"].as_str() {
        return skip(format_args!("it is unknown who answers here: {reason}"));
    }
    let served_by = |clock: &str| {
        let mut costs = document["costs"].as_array().unwrap().iter();
        let cost = costs.find(|cost| cost["clock"] == clock);
        cost.map_or(Value::Null, |cost| cost["served_by"].clone())
    };
    if cfg!(target_os = "linux") {
        assert_eq!(served_by("clock_gettime PROCESS_CPUTIME"), "system_call");
        assert_eq!(served_by("clock_gettime THREAD_CPUTIME"), "system_call");
    }
    assert!(served_by("clock_gettime MONOTONIC").is_string());
    assert!(served_by("rdtsc").is_null(), "a counter has no answerer");
}

/// What warp has measured; `None`, with a message, if it could compare no counters.
fn measured_warp() -> Option<&'static Value> {
    let warp = &measured("warp").json["warp"];
    if let Some(why) = warp["unknown"].as_str() {
        skip(why);
        return None;
    }
    Some(warp)
}

#[test]
fn warp_exits_with_0_only_if_all_counters_are_synchronised() {
    let found = measured("warp");
    let warp = &found.json["warp"];
    let known = warp["synchronised"] == true && warp.get("untested_cpus").is_none();
    assert_eq!(code(&found.output) == 0, known, "{warp}");
}

#[test]
fn warp_reports_every_pair() {
    let Some(warp) = measured_warp() else {
        return;
    };
    let cpus = warp["cpus"].as_array().unwrap().len();
    let count = if cpus <= 64 {
        cpus * (cpus - 1) / 2
    } else {
        cpus - 1
    };
    let pairs = warp["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), count, "{warp}");
    for pair in pairs {
        assert!(
            pair["from_cpu"].as_u64() < pair["to_cpu"].as_u64(),
            "{pair}"
        );
    }
}

#[test]
fn a_pair_has_an_interval_of_its_offset_if_it_has_a_verdict() {
    let Some(warp) = measured_warp() else {
        return;
    };
    for pair in warp["pairs"].as_array().unwrap() {
        let [least, most] = ["offset_least_ns", "offset_most_ns"].map(|key| pair[key].as_f64());
        assert_eq!(least.is_some(), pair["synchronised"].is_boolean(), "{pair}");
        // A reversed interval would mean a changed rate of the counter, or a wrong computation.
        assert!(least <= most, "{pair}");
    }
}

#[test]
fn a_pair_has_a_largest_warp_if_it_has_warps() {
    let Some(warp) = measured_warp() else {
        return;
    };
    for pair in warp["pairs"].as_array().unwrap() {
        assert_eq!(pair["warps"] != 0, pair["largest_warp_ns"] != 0.0, "{pair}");
    }
}

#[test]
fn warp_shows_its_pairs_and_exchanges() {
    let Some(warp) = measured_warp() else {
        return;
    };
    let has_pairs = !warp["pairs"].as_array().unwrap().is_empty();
    let out = measured("warp").text();
    for part in ["Pairs: ", "exchanges", "largest warp"] {
        assert!(!has_pairs || out.contains(part), "no {part} in:\n{out}");
    }
}

/// The samples of `watch`, by its summary.
fn watched_samples() -> usize {
    let samples = &measured("watch").json["watch"]["samples"];
    usize::try_from(samples.as_u64().unwrap()).unwrap()
}

#[test]
fn watch_writes_a_summary() {
    let value = &measured("watch").json;
    assert_eq!(value["watch"]["ended_by"], "time");
    assert!(value["watch"]["events"]["replacement"].is_u64());
    assert!(
        value["watch"]["most_offset_ns"].as_f64() >= value["watch"]["least_offset_ns"].as_f64()
    );
    assert!(
        value["watch"]["cpus"][0]["samples"].as_u64() > Some(0),
        "{value}"
    );
    assert!(value["watch"].get("changes").is_none(), "{value}");
}

#[test]
fn watch_writes_a_row_for_each_sample() {
    let samples = watched_samples();
    let rows = check_csv(&measured("watch").folder.join("samples.csv"));
    assert!(samples >= 2 && rows == samples, "{rows} of {samples}");
}

#[test]
fn watch_writes_a_line_for_each_sample_in_their_order() {
    let samples = watched_samples();
    let out = measured("watch").text();
    let at = out
        .lines()
        .skip(1)
        .map_while(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    assert!(at.clone().count() == samples && at.is_sorted(), "{out}");
}

/// The page that `tickline report` has written.
fn html() -> String {
    fs::read_to_string(measured("report").folder.join("report.html")).unwrap()
}

#[test]
fn the_report_is_a_whole_page() {
    let report = html();
    assert!(report.starts_with("<!DOCTYPE html>") && report.trim_end().ends_with("</html>"));
}

#[test]
fn the_report_holds_what_json_holds() {
    let report = html();
    let (_, data) = report.split_once("type=\"application/json\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data, measured("report").json);
}

#[test]
fn a_report_has_findings_latencies_and_compared_counters() {
    let json = &measured("report").json;
    assert_eq!(json["latencies"].as_array().unwrap().len(), 2);
    assert!(json["findings"].is_array() && json["warp"]["cpus"].is_array());
}

#[test]
fn the_report_has_a_heading_for_each_measurement() {
    let report = html();
    for part in [
        "Cost of a call",
        "Offset from CLOCK_MONOTONIC",
        "How long single readings take",
        "Gates",
    ] {
        assert!(report.contains(part), "no {part}");
    }
}

/// Symptom: the heading had 22 for a cost that was 22.5 elsewhere.
#[test]
fn a_cost_is_rounded_in_one_way() {
    let report = html();
    let json = &measured("report").json;
    let costs = json["costs"].as_array().unwrap();
    let os = costs
        .iter()
        .find(|cost| cost["clock"] == "clock_gettime MONOTONIC");
    let ns = format!("{:.0}", os.unwrap()["cost_ns"].as_f64().unwrap());
    let heading = format!("<strong>{ns} ns</strong><span>a clock_gettime</span>");
    assert!(report.contains(&heading), "{ns}");
    let result = json["result"].as_str().unwrap();
    // Where the counter is not read, or not for long, the result has no cost.
    if json["fast"] != false && !result.contains("its state is disrupted") {
        let cost = format!("clock_gettime takes {ns},");
        assert!(result.contains(&cost), "{result}");
    }
}

/// Symptom: without `--out` the report was refused, and a trace of `flight` was not.
#[test]
fn a_report_without_a_file_is_the_page_alone_on_standard_output() {
    let output = tickline(&["report", "--duration", "1s"]).output().unwrap();
    code(&output);
    let page = text(&output.stdout);
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.trim_end().ends_with("</html>"), "{page}");
}

/// What this command has measured without the counter.
fn without_counter(command: &'static str) -> &'static Measured {
    &all()[&(command, "off")]
}

#[test]
fn without_the_counter_each_command_works_and_says_why() {
    for ((command, _), found) in all().iter().filter(|((_, counter), _)| *counter == "off") {
        assert_eq!(found.json["fast"], false, "{command}");
        assert_eq!(found.json["reason"], "disabled_by_environment", "{command}");
        let is_judged = ["doctor", "bench", "watch", "report"].contains(command);
        assert!(
            !is_judged || found.output.status.code() == Some(1),
            "{command}: {:?}",
            found.output.status
        );
    }
}

#[test]
fn without_the_counter_the_result_of_the_doctor_names_the_switch() {
    let result = without_counter("doctor").json["result"].as_str().unwrap();
    assert!(
        result.contains("the environment variable TICKLINE is off"),
        "{result}"
    );
}

#[test]
fn without_the_counter_the_watch_counts_no_reading_by_it_and_knows_no_skew() {
    let out = without_counter("watch").text();
    assert!(
        out.contains(" fallback") && out.contains("TICKLINE is off"),
        "{out}"
    );
    assert!(
        out.contains(" 0 by the counter") && out.contains("skew     unknown"),
        "{out}"
    );
}

#[test]
fn without_the_counter_the_report_says_which_clock_is_read() {
    let report = without_counter("report").folder.join("report.html");
    let report = fs::read_to_string(report).unwrap();
    assert!(
        report.contains("tickline reads the OS clock") && report.contains("closed"),
        "{report}"
    );
}

/// The findings must be the same after the facts were saved and read back.
#[test]
fn a_machine_that_was_saved_is_diagnosed_alike() {
    let Measured {
        json: live, folder, ..
    } = measured("doctor");
    let path = folder.join("out.json");
    let path = path.to_str().unwrap();
    let saved = tickline(&["--facts", path, "--json", "-"])
        .output()
        .unwrap();
    let saved: Value = serde_json::from_slice(&saved.stdout).unwrap();
    assert_eq!(live["machine"], saved["machine"]);
    // A figure may change in its last bit when it is saved and read back.
    let findings = |document: &Value| -> Vec<[Value; 3]> {
        let found = document["findings"].as_array().unwrap().iter();
        found
            .map(|finding| ["code", "severity", "fix"].map(|key| finding[key].clone()))
            .collect()
    };
    assert_eq!(findings(live), findings(&saved));
    let same = tickline(&["compare", path, path]).output().unwrap();
    assert_eq!(same.status.code(), Some(0), "{same:?}");
}

#[test]
fn an_openmetrics_text_is_complete_and_no_temporary_file_remains() {
    let Measured { folder, .. } = measured("doctor");
    // node_exporter reads every file with this suffix, so no temporary file may remain.
    assert_eq!(entries(folder), ["out.json", "tickline.prom"]);
    let file = fs::read_to_string(folder.join("tickline.prom")).unwrap();
    let check = tickline(&["doctor", "--check", "--openmetrics", "-"])
        .output()
        .unwrap();
    for metrics in [file, text(&check.stdout)] {
        assert!(
            metrics.starts_with("# TYPE tickline_") && metrics.ends_with("\n# EOF\n"),
            "{metrics}"
        );
    }
}

/// Symptom: without tracefs, `who` measured costs for seconds, and then showed none.
#[test]
fn who_measures_no_costs_if_it_cannot_count() {
    let who = &measured("who").json;
    let is_counted = who["who"]["obstacle"].is_null();
    assert_eq!(who.get("costs").is_some(), is_counted, "{who}");
}
