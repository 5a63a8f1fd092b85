//! `Clock::of_page` in a time namespace, where the counter is denied, and where a filter
//! kills whoever asks the kernel for the time: each in a process of its own, which is this test,
//! executed again.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "what was skipped")]

#[path = "../../tickline/tests/common/fork.rs"]
mod fork;
#[path = "../../tickline-preload/tests/page/mod.rs"]
mod page;

use std::env;
use std::path::Path;
use std::process::Command;

use fork::{CANNOT, code_in_time_namespace, code_of_fork};
use page::{AHEAD_NS, counter_is_readable, served_page, system_call_ns};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use tickline::{Clock, Probes, Reason, State};

const ROLE: &str = "TICKLINE_TEST_ROLE";
const PAGE: &str = "TICKLINE_TEST_PAGE";

/// Runs `role` in a process behind `prefix`.
fn child_of(prefix: &[&str], role: &str, page: &Path) {
    let own = env::current_exe().unwrap();
    let words = [prefix, &[own.to_str().unwrap(), "--exact", "child", "--nocapture"]].concat();
    let output = Command::new(words[0]).args(&words[1..]).env(ROLE, role).env(PAGE, page).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, failed) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{role}: {output:?}\n{said}{failed}");
    said.lines().filter(|line| line.contains("SKIPPED")).for_each(|line| println!("{line}"));
}

#[test]
fn child() {
    match env::var(ROLE).as_deref() {
        Ok("served") => assert!(is_served(&start(Probes::Full))),
        Ok("moved") => moved(),
        Ok("denied") => denied(),
        Ok("filtered") => filtered(),
        _ => {}
    }
}

fn has_counter() -> bool {
    let is_readable = counter_is_readable();
    if !is_readable {
        println!("SKIPPED: the counter may not be read");
    }
    is_readable
}

fn start(probes: Probes) -> Clock {
    Clock::of_page(env::var_os(PAGE).unwrap(), probes).unwrap()
}

/// Whether readings are by the page, which is ahead of the kernel. They are right in any case.
fn is_served(clock: &Clock) -> bool {
    let kernel_ns = || system_call_ns(libc::CLOCK_MONOTONIC);
    let mut is_ahead = false;
    for _ in 0..100 {
        let (before_ns, own_ns, after_ns) =
            (kernel_ns(), i64::try_from(clock.now_ordered_ns()).unwrap(), kernel_ns());
        assert!(before_ns <= own_ns, "{} ns below", before_ns - own_ns);
        assert!(own_ns <= after_ns + 4 * AHEAD_NS, "{} ns above", own_ns - after_ns);
        is_ahead |= own_ns > after_ns;
    }
    is_ahead
}

#[test]
fn a_clock_in_a_time_namespace_is_served() {
    if !has_counter() {
        return;
    }
    let (_folder, page) = served_page();
    child_of(&[], "served", &page);
    child_of(&[], "moved", &page);
    let prefix = ["unshare", "-T", "-f", "--monotonic", "100000", "--"];
    let made = Command::new(prefix[0]).args(&prefix[1..]).arg("true").output();
    if made.is_ok_and(|output| output.status.success()) {
        child_of(&prefix, "served", &page);
    } else {
        println!("SKIPPED: a clock that starts in a time namespace: unshare -T makes none here");
    }
}

/// Children of a fork find out that they are in another namespace. With few probes they don't ask,
/// and have the OS clock.
fn moved() {
    let clocks = [Probes::Full, Probes::Minimal].map(start);
    assert!(clocks.iter().all(is_served));
    let found = code_in_time_namespace(100_000_000_000_000, || {
        i32::from(!is_served(&clocks[0])) | i32::from(is_served(&clocks[1])) << 1
    });
    if found == CANNOT {
        println!("SKIPPED: no time namespace can be made here");
        return;
    }
    assert_eq!(found, 0);
}

#[test]
fn a_process_that_may_not_read_the_counter_has_the_kernels_clock() {
    if has_counter() {
        let (_folder, page) = served_page();
        child_of(&[], "denied", &page);
    }
}

fn denied() {
    // SAFETY: no pointer goes in. Only this thread is concerned.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) }, 0);
    let clock = start(Probes::Full);
    assert!(!is_served(&clock));
    assert_eq!(clock.status().state, State::Fallback(Reason::Denied));
    assert!(clock.unix_ns() > 0);
    // SAFETY: as above. What comes after the test may ask the vDSO, which reads the counter.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) }, 0);
    assert!(!is_served(&clock));
}

/// Readings by a line make no system call, nor does what they compare it with.
#[test]
fn a_filter_of_system_calls_sees_no_reading() {
    if has_counter() {
        let (_folder, page) = served_page();
        child_of(&[], "filtered", &page);
    }
}

fn filtered() {
    let clock = start(Probes::Full);
    assert!(is_served(&clock));
    let code = code_of_fork(|| {
        let rules = [(libc::SYS_clock_gettime, vec![]), (libc::SYS_gettimeofday, vec![])];
        let architecture = env::consts::ARCH.try_into().unwrap();
        let (allow, kill) = (SeccompAction::Allow, SeccompAction::KillProcess);
        let filter = SeccompFilter::new(rules.into_iter().collect(), allow, kill, architecture).unwrap();
        let filter: BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&filter).unwrap();
        let mut last_ns = 0;
        let is_ordered = (0..1_000).all(|_| {
            let ns = clock.now_ordered_ns();
            let is_ordered = ns >= last_ns && clock.unix_ns() > 0;
            last_ns = ns;
            is_ordered
        });
        i32::from(!is_ordered)
    });
    assert_eq!(code, 0);
}
