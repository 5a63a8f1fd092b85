//! The thread of a `Utc`: who has one, and when it ends.
#![cfg(all(target_os = "linux", not(miri)))]

use std::fs::{self, DirEntry};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tickline::{Clock, Driver, Probes};
use tickline_observe::{fork, wait_until};
use tickline_utc::{Utc, UtcUnknown};

/// The tests count the threads of this process, so one runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of threads that ask for UTC.
fn asking_threads() -> usize {
    let name = |task: io::Result<DirEntry>| fs::read_to_string(task.ok()?.path().join("comm")).ok();
    let tasks = fs::read_dir("/proc/self/task").expect("a list of threads");
    tasks
        .filter_map(name)
        .filter(|name| name == "tickline-utc\n")
        .count()
}

/// Waits until `count` threads ask: a thread gives itself its name.
fn wait_for_threads(count: usize) {
    let is_reached = wait_until(Duration::from_secs(20), || asking_threads() == count);
    assert!(is_reached, "{count} threads, not {}", asking_threads());
}

/// A clock that never has a line: a reading of UTC then asks whether there is a thread.
fn clock_without_line(probes: Probes) -> Clock {
    let builder = Clock::builder().driver(Driver::Manual).probes(probes);
    builder.build().expect("a clock without a thread")
}

#[test]
fn the_thread_ends_with_the_last_clone() {
    let _alone = alone();
    let utc = Utc::start(&clock_without_line(Probes::Full)).expect("a thread");
    wait_for_threads(1);
    let clone = utc.clone();
    drop(utc);
    assert_ne!(clone.now(), Err(UtcUnknown::NoThread));
    assert_eq!(asking_threads(), 1);
    drop(clone);
    wait_for_threads(0);
}

/// A seccomp filter may kill a process for the calls of a request, or of the thread's start.
#[test]
fn with_minimal_probes_there_is_no_thread() {
    let _alone = alone();
    let utc = Utc::start(&clock_without_line(Probes::Minimal)).expect("no thread to start");
    assert_eq!(utc.now(), Err(UtcUnknown::NoSource));
    assert_eq!(asking_threads(), 0);
}

/// A timeout of hundreds of years is not waited for where nobody can ever answer.
#[test]
fn a_wait_ends_at_once_where_nobody_is_asked() {
    let _alone = alone();
    let utc = Utc::start(&clock_without_line(Probes::Minimal)).expect("no thread to start");
    let failed = utc
        .wait_until_within(Duration::MAX, Duration::MAX)
        .expect_err("no source");
    assert_eq!(failed.last(), Err(UtcUnknown::NoSource));
    assert_eq!(failed.waited(), Duration::ZERO);
}

/// The alarm of the child would end a drop that waits for the thread, which the child does not
/// have.
#[test]
fn a_forked_child_has_no_thread_until_it_starts_its_own() {
    let _alone = alone();
    let clock = clock_without_line(Probes::Full);
    let utc = Utc::start(&clock).expect("a thread");
    let code = fork::code_of_fork(move || {
        if utc.now() != Err(UtcUnknown::NoThread) {
            return 1;
        }
        drop(utc);
        let Ok(own) = Utc::start(&clock) else {
            return 2;
        };
        i32::from(own.now() == Err(UtcUnknown::NoThread)) * 3
    });
    assert_eq!(code, 0, "of the child");
    wait_for_threads(0); // the closure had this process's `Utc`, too
}
