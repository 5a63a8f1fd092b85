//! Traces in a child that is forked while other threads begin and end. At such a fork, another
//! thread may hold a lock of std, for which the child's threads of std wait for ever.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::io;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::tempdir;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::TraceFile;

/// Runs `body` in a thousand children, until it fails in one.
fn run_in_forks_while_threads_begin(body: impl Fn() -> bool) {
    static THREADS: Once = Once::new();
    THREADS.call_once(|| {
        for _ in 0..8 {
            let begin_one = || thread::spawn(|| ()).join().unwrap();
            thread::spawn(move || std::iter::repeat_with(begin_one).for_each(drop));
        }
    });
    for _ in 0..1_000 {
        // SAFETY: the child only allocates, makes a thread and ends; libc allows both after a fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: `alarm` has no precondition. The signal ends a child that hangs.
            unsafe { libc::alarm(20) };
            let code = i32::from(!body());
            // SAFETY: `_exit` has no precondition.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: `status` is valid for a write.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "a signal, or 256 times the child's exit code");
    }
}

/// Symptom: the child's thread never wrote, and the end of the trace waited for it for ever.
#[test]
fn a_child_that_is_forked_while_a_thread_begins_can_write_a_trace() {
    run_in_forks_while_threads_begin(|| {
        let (_trace, guard) = TraceFile::builder().build(io::sink()).unwrap();
        guard.finish().is_ok()
    });
}

#[test]
fn a_child_that_is_forked_while_a_thread_begins_can_write_in_the_background() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    run_in_forks_while_threads_begin(|| {
        let recorder = FlightRecorder::builder().build().unwrap();
        let written = recorder.write_last_in_background(&path, Duration::MAX);
        let start = Instant::now();
        while !path.exists() && start.elapsed() < Duration::from_secs(15) {
            thread::yield_now();
        }
        written.is_ok() && std::fs::remove_file(&path).is_ok()
    });
}
