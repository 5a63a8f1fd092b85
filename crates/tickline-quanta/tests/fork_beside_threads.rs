//! An upkeep in a child that is forked while other threads begin and end.
#![cfg(unix)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use quanta::Upkeep;

/// Symptom: the thread of a child never ran, and the drop of its handle waited for ever. Cause: at
/// the fork, another thread of std was beginning, and held a lock of std.
#[test]
fn a_child_that_is_forked_while_a_thread_begins_can_run_an_upkeep() {
    let is_done = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // ORDERING: Relaxed: a flag on its own.
                while !is_done.load(Ordering::Relaxed) {
                    thread::spawn(|| ()).join().unwrap();
                }
            });
        }
        let result = (0..1_000)
            .map(|_| status_of_child())
            .find(|ended| *ended != 0);
        // ORDERING: Relaxed: a flag on its own.
        is_done.store(true, Ordering::Relaxed);
        result
    });
    assert_eq!(
        result, None,
        "the child's end: a signal, or 256 times its exit code"
    );
}

/// The end of a child that starts an upkeep, and ends it.
fn status_of_child() -> i32 {
    // SAFETY: the child only allocates, makes a thread and ends; libc allows both after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `alarm` has no precondition. The signal ends a child that hangs.
        unsafe { libc::alarm(20) };
        let is_good = Upkeep::new(Duration::from_millis(1)).start().is_ok();
        // SAFETY: `_exit` has no precondition.
        unsafe { libc::_exit(i32::from(!is_good)) };
    }
    let mut status = -1;
    // SAFETY: `status` is valid for a write.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status
}
