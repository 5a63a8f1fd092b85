//! Tests of `tickline_page::open` in three cases, each in a process of its own: in a time
//! namespace; with the counter denied; under a filter that kills the process if it asks the kernel
//! for the time.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tickline::{Clock, ClockState, Gate, Probes, Reason};
use tickline_observe::fork::{CANNOT, code_in_time_namespace, code_of_fork};
use tickline_observe::page::{AHEAD_NS, served_page, system_call_ns};
use tickline_page::Publisher;
use tickline_page::page_file::PageErrorCause;

use crate::ROLE;
use crate::common::filter::filter;
use crate::common::{skip, text};
use crate::served;

const PAGE: &str = "TICKLINE_TEST_PAGE";

/// Runs `role` in a process behind `prefix`.
fn run_child_behind(prefix: &[&str], role: &str, page: &Path) {
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args(["--exact", "role_named_by_the_variable", "--nocapture"])
        .env(ROLE, role)
        .env(PAGE, page)
        .env_remove("TICKLINE");
    let output = served::behind(prefix, &child).output().unwrap();
    let shown = text(&output.stdout);
    let failed = text(&output.stderr);
    assert!(
        output.status.success() && shown.contains("1 passed"),
        "{role}: {output:?}\n{shown}{failed}"
    );
    // The child's skips go on to where this test's are read.
    for line in failed.lines() {
        if let Some(reason) = line.strip_prefix("SKIPPED: ") {
            skip(reason);
        }
    }
}

/// Plays a role in the child process.
pub(crate) fn play(role: &str) {
    match role {
        "served" => assert!(is_served(&start(Probes::Full))),
        "moved" => play_moved(),
        "denied" => play_denied(),
        "filtered" => play_filtered(),
        _ => panic!("{role}"),
    }
}

/// Runs a role with a page that serves; `None` where the counter may not be read.
fn run(role: &str) -> Option<(TempDir, PathBuf)> {
    let (folder, page) = served_page()?;
    run_child_behind(&[], role, &page);
    Some((folder, page))
}

fn start(probes: Probes) -> Clock {
    tickline_page::open_with_probes(env::var_os(PAGE).unwrap(), probes).unwrap()
}

/// Whether readings come from the page, which is ahead of the kernel. Also checks that each reading
/// is right.
fn is_served(clock: &Clock) -> bool {
    let kernel_ns = || system_call_ns(libc::CLOCK_MONOTONIC);
    let mut is_ahead = false;
    for _ in 0..100 {
        let before_ns = kernel_ns();
        let own_ns = i64::try_from(clock.now_ordered().as_nanos()).unwrap();
        let after_ns = kernel_ns();
        assert!(before_ns <= own_ns, "{} ns below", before_ns - own_ns);
        assert!(
            own_ns <= after_ns + 4 * AHEAD_NS,
            "{} ns above",
            own_ns - after_ns
        );
        is_ahead |= own_ns > after_ns;
    }
    is_ahead
}

#[test]
fn a_clock_in_a_time_namespace_is_served() {
    let Some((_folder, page)) = run("served") else {
        return;
    };
    run_child_behind(&[], "moved", &page);
    let prefix = ["unshare", "-T", "-f", "--monotonic", "100000", "--"];
    let made = served::behind(&prefix, &Command::new("true")).output();
    if made.is_ok_and(|output| output.status.success()) {
        run_child_behind(&prefix, "served", &page);
    } else {
        skip("a clock that starts in a time namespace: unshare -T makes none here");
    }
}

/// Forked children detect that they are in another namespace. With `Probes::Minimal` they do not
/// check, and read the OS clock.
fn play_moved() {
    let clocks = [Probes::Full, Probes::Minimal].map(start);
    assert!(clocks.iter().all(is_served));
    let found = code_in_time_namespace(100_000_000_000_000, || {
        i32::from(!is_served(&clocks[0])) | i32::from(is_served(&clocks[1])) << 1
    });
    if found == CANNOT {
        skip("no time namespace can be made here");
        return;
    }
    assert_eq!(found, 0);
}

#[test]
fn a_process_that_may_not_read_the_counter_has_the_kernels_clock() {
    run("denied");
}

fn play_denied() {
    // SAFETY: the call takes no pointer. It changes only this thread.
    let result = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
    assert_eq!(result, 0);
    let clock = start(Probes::Full);
    assert!(!is_served(&clock));
    let status = clock.status();
    let closed_by = [Gate::User, Gate::Readable].map(|gate| status.verdict(gate).closed_by());
    assert_eq!(closed_by, [None, Some(Reason::Denied)]);
    assert_eq!(status.state, ClockState::Fallback(Reason::Denied));
    assert!(clock.unix_now().as_nanos() > 0);
    let refused = Publisher::start(Clock::default(), "/nowhere").unwrap_err();
    assert_eq!(
        refused.cause(),
        &PageErrorCause::Counter(Reason::Denied),
        "{refused}"
    );
    // SAFETY: the call takes no pointer. Code after the test may ask the vDSO, which reads the
    // counter, so allow the counter again.
    let result = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) };
    assert_eq!(result, 0);
    assert!(!is_served(&clock));
}

/// Neither a reading by a line nor its comparisons make a system call. Symptom: with minimal
/// probes, each reading called getpid.
#[test]
fn a_filter_of_system_calls_sees_no_reading() {
    run("filtered");
}

fn play_filtered() {
    let calls = ["clock_gettime", "gettimeofday", "getpid"].map(|call| json!({ "syscall": call }));
    let filter = filter(&"kill_process".into(), &json!(calls)).unwrap();
    for probes in [Probes::Minimal, Probes::Full] {
        let code = code_of_fork(|| {
            let clock = start(probes);
            assert!(is_served(&clock));
            seccompiler::apply_filter(&filter).unwrap();
            let mut last_ns = 0;
            let is_ordered = (0..1_000).all(|_| {
                let ns = clock.now_ordered().as_nanos();
                let is_ordered = ns >= last_ns && clock.unix_now().as_nanos() > 0;
                last_ns = ns;
                is_ordered
            });
            i32::from(!is_ordered)
        });
        assert_eq!(code, 0, "{probes:?}");
    }
}
