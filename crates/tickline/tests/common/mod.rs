//! Helpers of the integration tests.
#![allow(dead_code, reason = "each test binary uses some of them")]

use std::ffi::OsStr;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use tickline::{Clock, Driver, Reason, State};

const CHILD: &str = "TICKLINE_TEST_CHILD";

/// Says aloud that a test did not run: straight to stderr, because the test harness hides what passing tests print.
pub(crate) fn skip(why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {why}").ok();
}

/// The program, with its arguments, that runs programs of this target, where that is an emulator.
const RUNNER: &str = "TICKLINE_TEST_RUNNER";

/// Whether this runs in a user-mode emulator. QEMU's accepts `MADV_WIPEONFORK` without doing it, and keeps some signals
/// for itself, so tests of those say that they were skipped.
pub(crate) fn skipped_in_an_emulator() -> bool {
    let emulated = std::env::var_os(RUNNER).is_some();
    if emulated {
        skip("a user-mode emulator does not do what a kernel does here");
    }
    emulated
}

/// Runs `body` in a process of its own: the test named `name` of this binary, started again with `environment`. What the
/// child prints is shown if it fails.
pub(crate) fn in_child(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        body();
        return;
    }
    let own = std::env::current_exe().expect("this test's path");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace().map(OsStr::new).chain([own.as_os_str()]);
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .envs(environment.iter().copied())
        .output()
        .expect("this test, once more");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the child ended with {}:\n{text}", output.status);
    assert!(text.contains("1 passed"), "the child ran no test:\n{text}");
}

/// Calls the clock until it is fast. `None`, with a loud word, where a gate keeps the counter closed.
pub(crate) fn until_fast(clock: &Clock) -> Option<()> {
    let start = Instant::now();
    loop {
        for _ in 0..100 {
            std::hint::black_box(clock.now_ns());
        }
        let status = clock.status();
        let patient = start.elapsed() < Duration::from_secs(20);
        match status.state {
            State::Fast => return Some(()),
            // The clock's thread is about to compare the CPUs' counters.
            State::Fallback(Reason::Untested) if patient && status.driver == Driver::Thread => {}
            State::Fallback(reason) => {
                skip(&format!("no usable counter here: {reason}"));
                return None;
            }
            _ => assert!(patient, "still {status:?}"),
        }
    }
}

/// Waits until so many threads are called tickline: a new one takes a moment to give itself a name, an old one to leave
/// procfs after it was joined.
#[cfg(target_os = "linux")]
pub(crate) fn await_tickline_threads(expected: usize) {
    let start = Instant::now();
    while tickline_threads() != expected {
        assert!(start.elapsed() < Duration::from_secs(20), "{} threads, not {expected}", tickline_threads());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The threads of this process that are called tickline.
#[cfg(target_os = "linux")]
pub(crate) fn tickline_threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("procfs")
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "tickline")
        .count()
}
