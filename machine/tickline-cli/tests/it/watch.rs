//! Tests of a running `tickline watch`: signals, readers that exit, and its rows.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{send, text, tickline, wait_for};

/// Checks that every row has every column, and that figures are figures. Returns the number of
/// samples.
pub(crate) fn check_csv(path: &Path) -> usize {
    let bytes = fs::read(path).expect("the table");
    assert_eq!(bytes.last(), Some(&b'\n'), "a half row: {}", text(&bytes));
    let mut samples = 0;
    for row in csv::Reader::from_reader(&bytes[..]).deserialize() {
        let row: BTreeMap<String, String> = row.expect("a row as long as the headings");
        let is_figure = |name: &str| row[name].parse::<f64>().is_ok();
        assert!(is_figure("at_s") && is_figure("offset_ns"), "{row:?}");
        assert!(
            ["fast", "calibrating", "disrupted", "fallback"].contains(&row["state"].as_str()),
            "{row:?}"
        );
        assert!(
            row["skew_ppb"].is_empty() || is_figure("skew_ppb"),
            "{row:?}"
        );
        let is_own = row["cpu"].is_empty();
        samples += usize::from(is_own);
        assert!(
            is_figure(if is_own { "replacement_events" } else { "cpu" }),
            "{row:?}"
        );
    }
    samples
}

/// Waits for the child for a limited time. Returns its exit code.
pub(crate) fn ended(mut child: Child) -> i32 {
    wait_for("the child ends", || child.try_wait().expect("a child"))
        .code()
        .unwrap_or(-1)
}

#[test]
fn a_signal_ends_watch_with_whole_rows_and_a_summary_if_it_can() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.csv");
        let mut command = tickline(&["watch", "--interval", "50ms", "--csv"]);
        let mut child = command.arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        for _ in 0..4 {
            lines.read_line(&mut text).unwrap();
        }
        send(&child, signal);
        let code = ended(child);
        lines.read_to_string(&mut text).unwrap();
        assert!(
            check_csv(&path) >= 3,
            "{signal}: each row is there before its line is"
        );
        let can_end_well = signal != libc::SIGKILL;
        assert_eq!(
            [0, 1].contains(&code),
            can_end_well,
            "{signal}: exit code {code}"
        );
        let says = |part| text.contains(part);
        assert_eq!(
            says("until stopped") && says("Watched for"),
            can_end_well,
            "{signal}: {text}"
        );
    }
}

/// Symptom: a hangup ended `watch` under `nohup`, which makes the program ignore hangups.
#[cfg(target_os = "linux")]
#[test]
fn an_ignored_signal_does_not_end_the_watch() {
    let program = env!("CARGO_BIN_EXE_tickline");
    let script =
        format!("trap '' HUP; exec '{program}' watch --interval 50ms --duration 2s --json -");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the program handles signals", || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"))?;
        let caught = u64::from_str_radix(caught, 16).unwrap();
        (caught >> (libc::SIGTERM - 1) & 1 == 1).then_some(())
    });
    send(&child, libc::SIGHUP);
    let mut json = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut json)
        .unwrap();
    child.wait().unwrap();
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["watch"]["ended_by"], "time");
}
