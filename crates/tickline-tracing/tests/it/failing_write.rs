//! What a user learns of a write that fails. Each test runs itself again in a process whose files
//! may have 8 KiB.

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, mem};

use tempfile::tempdir;
use tickline_tracing::trace_file::{TraceFile, TraceFileGuard};
use tracing::info_span;

use crate::common::run_timed;

/// The variable with the path of the trace.
const TRACE: &str = "TICKLINE_TEST_LIMITED_TRACE";

/// POSIX counts the limit in blocks of 512 bytes. Unless the signal is ignored, it ends the process.
const LIMIT_AND_RUN: &str = "trap '' XFSZ && ulimit -f 16 && exec \"$@\"";

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(3_600);

/// Calls `run` with a path in a process of its own, and checks that the process then has written
/// these lines of this crate to standard error, in which PATH is the path. `test` is the name of the
/// test that calls this.
#[track_caller]
fn assert_lines(test: &str, expected: &[&str], run: impl FnOnce(&Path)) {
    if let Some(path) = env::var_os(TRACE) {
        return run(Path::new(&path));
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let output = Command::new("sh")
        .args(["-c", LIMIT_AND_RUN, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &format!("failing_write::{test}")])
        .env(TRACE, &path)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("1 passed"), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr).replace(path.to_str().unwrap(), "PATH");
    let lines = errors.lines().filter(|line| line.starts_with("tickline: "));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

const LINE: &str = "tickline: the trace is incomplete and has ended: PATH: File too large (os error 27); \
                    remove the cause, and begin another trace";

/// Records more than the file may have, after a flush of the file's beginning. Nothing flushes the
/// rest until the program asks for it.
fn record_too_much(path: &Path) -> TraceFileGuard {
    let (trace, guard) = TraceFile::builder().flush_every(LONG).create(path).unwrap();
    run_timed(trace, || {
        assert!(guard.flusher().flush(LONG));
        (0..1_000).for_each(|_| info_span!("work").in_scope(|| ()));
    });
    guard
}

/// Symptom: the program went on without a trace, and nothing said so.
#[test]
fn a_failing_write_is_said_while_the_program_runs() {
    assert_lines(
        "a_failing_write_is_said_while_the_program_runs",
        &[LINE],
        |path| {
            let guard = record_too_much(path);
            assert!(!guard.flusher().flush(LONG));
            mem::forget(guard);
        },
    );
}

#[test]
fn an_error_that_was_said_is_said_once() {
    assert_lines("an_error_that_was_said_is_said_once", &[LINE], |path| {
        let guard = record_too_much(path);
        for _ in 0..2 {
            assert!(!guard.flusher().flush(LONG));
        }
        drop(guard);
    });
}

/// Symptom: nothing said that the trace was incomplete.
#[test]
fn a_guard_that_is_dropped_says_the_error_of_its_last_write() {
    assert_lines(
        "a_guard_that_is_dropped_says_the_error_of_its_last_write",
        &[LINE],
        |path| drop(record_too_much(path)),
    );
}

#[test]
fn an_error_that_finish_returns_is_not_said_too() {
    assert_lines(
        "an_error_that_finish_returns_is_not_said_too",
        &[],
        |path| {
            record_too_much(path).finish().unwrap_err();
        },
    );
}

#[test]
fn an_error_that_was_said_is_returned_too() {
    assert_lines("an_error_that_was_said_is_returned_too", &[LINE], |path| {
        let guard = record_too_much(path);
        assert!(!guard.flusher().flush(LONG));
        let error = guard.finish().unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
    });
}
