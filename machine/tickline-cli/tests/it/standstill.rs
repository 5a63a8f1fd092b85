//! Tests of commands whose clocks stand still, or have another pace than the kernel's.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{assert_fails, library, send, skip, text, tickline};

/// A multiple of the time that the slowest of the commands takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every command that measures or waits, without its output.
const COMMANDS: [&[&str]; 7] = [
    &["doctor"],
    &["bench", "--rounds", "2", "--calls", "100"],
    &["warp"],
    &["watch", "--duration", "1s"],
    &["who", "--duration", "1s"],
    &["report", "--duration", "1s", "--out", "/dev/null"],
    &["serve", "--page", "/nonexistent/page"],
];

/// The output of a command with this library in place of libc's clocks. Ends a command that hangs.
fn output(arguments: &[&str], library: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = tickline(arguments);
    command
        .env("LD_PRELOAD", library)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            send(&child, libc::SIGKILL);
            panic!("{arguments:?} did not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// libfaketime; `None`, with a message, if it is not installed.
fn libfaketime() -> Option<PathBuf> {
    const FOLDERS: [&str; 4] = [
        "/usr/lib/x86_64-linux-gnu/faketime",
        "/usr/lib/aarch64-linux-gnu/faketime",
        "/usr/lib64/faketime",
        "/usr/lib/faketime",
    ];
    let files = FOLDERS.map(|folder| Path::new(folder).join("libfaketime.so.1"));
    let found = files.into_iter().find(|file| file.exists());
    if found.is_none() {
        skip("libfaketime is not installed (apt install faketime)");
    }
    found
}

const FROZEN: (&str, &str) = ("FAKETIME", "2020-01-01 00:00:00");

/// Symptom: under `faketime -f '2020-01-01 00:00:00'` these commands did not end.
#[test]
fn no_command_waits_for_ever_by_a_frozen_clock() {
    let Some(library) = libfaketime() else { return };
    for arguments in COMMANDS {
        let output = output(arguments, &library, &[FROZEN]);
        let named = "CLOCK_MONOTONIC and CLOCK_REALTIME stand still";
        assert_fails(&output, 2, named);
        assert_fails(
            &output,
            2,
            &format!("{} replaces libc's", library.display()),
        );
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn a_check_by_a_frozen_clock_is_critical() {
    let Some(library) = libfaketime() else { return };
    let output = output(&["--check"], &library, &[FROZEN]);
    assert_eq!(output.status.code(), Some(2));
    let line = "TICKLINE CRITICAL - CLOCK_MONOTONIC and CLOCK_REALTIME stand still";
    assert!(text(&output.stdout).starts_with(line), "{output:?}");
}

#[test]
fn monotonic_time_that_stands_still_alone_is_named_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library("frozen", &[], folder.path()) else {
        return;
    };
    for arguments in COMMANDS {
        let output = output(arguments, &library, &[]);
        assert_fails(&output, 2, "CLOCK_MONOTONIC stands still");
    }
}

/// Symptom: under `faketime -f '+0 x0.001'` these commands did not end.
#[test]
fn no_command_waits_for_ever_by_a_slow_clock() {
    let Some(library) = libfaketime() else { return };
    for arguments in COMMANDS {
        let output = output(arguments, &library, &[("FAKETIME", "+0 x0.001")]);
        let named = format!("{} replaces libc's", library.display());
        assert_fails(&output, 2, &named);
        assert_fails(&output, 2, "CLOCK_MONOTONIC advanced");
    }
}

#[test]
fn a_check_by_a_slow_clock_is_critical() {
    let Some(library) = libfaketime() else { return };
    let output = output(&["--check"], &library, &[("FAKETIME", "+0 x0.001")]);
    assert_eq!(output.status.code(), Some(2));
    let line = "TICKLINE CRITICAL - CLOCK_MONOTONIC advanced";
    assert!(text(&output.stdout).starts_with(line), "{output:?}");
}

/// A library that gives `CLOCK_MONOTONIC` this pace, from that time on.
fn paced(rate: &str, after_ns: &str, folder: &Path) -> Option<PathBuf> {
    let flags = [format!("-DRATE={rate}"), format!("-DAFTER_NS={after_ns}")];
    library("paced", &flags.each_ref().map(String::as_str), folder)
}

#[test]
fn no_command_waits_for_ever_by_a_clock_that_runs_back() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = paced("-0.001", "0", folder.path()) else {
        return;
    };
    for arguments in COMMANDS {
        let output = output(arguments, &library, &[]);
        assert_fails(&output, 2, "CLOCK_MONOTONIC advanced -");
    }
}

/// Symptom: with `FAKETIME_START_AFTER_SECONDS=1` these commands did not end.
#[test]
fn no_command_waits_for_ever_by_a_clock_that_freezes_later() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = paced("0.0", "1e9", folder.path()) else {
        return;
    };
    let commands: [&[&str]; 3] = [
        &["doctor", "--duration", "3s"],
        &["watch", "--duration", "3s"],
        &["report", "--duration", "3s", "--out", "/dev/null"],
    ];
    for arguments in commands {
        let output = output(arguments, &library, &[]);
        assert_fails(&output, 2, "CLOCK_MONOTONIC stands still");
        assert_fails(&output, 2, "paced.so replaces libc's");
    }
}

/// Symptom: the doctor found nothing wrong, or blamed the kernel for its clock's rate.
#[test]
fn another_pace_of_monotonic_time_alone_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = paced("1.2", "0", folder.path()) else {
        return;
    };
    let output = output(&["doctor"], &library, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    assert!(
        shown.starts_with("WRONG: ") && shown.contains("[clock_interposed]"),
        "{shown}"
    );
    assert!(!shown.contains("frequency_implausible"), "{shown}");
}

/// No command waits by Unix time.
#[test]
fn frozen_unix_time_is_a_finding() {
    let Some(library) = libfaketime() else { return };
    let variables = [FROZEN, ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    let output = output(&["doctor"], &library, &variables);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    assert!(
        shown.starts_with("WRONG: ") && shown.contains("[clock_interposed]"),
        "{shown}"
    );
}
