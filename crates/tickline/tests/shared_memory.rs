//! Two processes in one memory: `clone(CLONE_VM)` without `CLONE_THREAD`, as `vfork` and sandboxes
//! do. Runs in a process of its own.
#![cfg(target_os = "linux")]

mod common;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{in_child, os_monotonic_ns, skip, skipped_in_an_emulator};
use tickline::{Clock, Driver, Probes, State};

/// Readings further than this from `CLOCK_MONOTONIC` are wrong, ns.
const FAR_NS: u64 = 1_000_000;

const STACK_BYTES: usize = 256 << 10;

/// What both processes found.
static READINGS: AtomicU32 = AtomicU32::new(0);
static FARTHEST_NS: AtomicU64 = AtomicU64::new(0);
static BACK: AtomicU32 = AtomicU32::new(0);

/// Iterations and readings for a second. Allocates nothing: it runs in both processes at once.
fn use_up(clock: &Clock) {
    let (start_ns, mut last_ns) = (os_monotonic_ns(), 0);
    loop {
        clock.maintain();
        for _ in 0..50 {
            let before_ns = os_monotonic_ns();
            let now_ns = clock.now_ordered_ns();
            let after_ns = os_monotonic_ns();
            let off_ns = before_ns.saturating_sub(now_ns).max(now_ns.saturating_sub(after_ns));
            FARTHEST_NS.fetch_max(off_ns, Ordering::Relaxed);
            BACK.fetch_add(u32::from(now_ns < last_ns), Ordering::Relaxed);
            READINGS.fetch_add(1, Ordering::Relaxed);
            last_ns = now_ns;
            if after_ns - start_ns > 1_000_000_000 {
                return;
            }
        }
    }
}

extern "C" fn second_process(clock: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the first process waits for this one before it drops the clock.
    use_up(unsafe { &*clock.cast::<Clock>() });
    0
}

/// The lock's owner was the process id, where a process had asked for minimal probes before it had
/// any other clock. Each of two processes in one memory then took the lock from the other in the
/// middle of an iteration.
#[test]
fn two_processes_in_one_memory_do_not_iterate_at_once() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("two_processes_in_one_memory_do_not_iterate_at_once", &[], || {
        let _minimal = Clock::builder().probes(Probes::Minimal).driver(Driver::Manual).start().unwrap();
        let settings = Clock::builder().driver(Driver::Manual).interval(Duration::from_millis(1));
        let clock = settings.start().unwrap();
        let start = Instant::now();
        while clock.status().state != State::Fast {
            clock.maintain();
            if let State::Fallback(reason) = clock.status().state {
                return skip(&format!("no usable counter here: {reason}"));
            }
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        let mut stack = vec![0_u128; STACK_BYTES / 16];
        let top = stack.as_mut_ptr_range().end.cast::<libc::c_void>();
        let argument = (&raw const clock).cast_mut().cast::<libc::c_void>();
        // SAFETY: the stack is the new process's own until it has ended. It runs a function that takes
        // nothing which belongs to a thread but its errno.
        let child = unsafe { libc::clone(second_process, top, libc::CLONE_VM | libc::SIGCHLD, argument) };
        if child < 0 {
            return skip("this machine has no clone(CLONE_VM)");
        }
        use_up(&clock);
        let mut status = 0;
        // SAFETY: `status` is valid for a write.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        drop(stack);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "the second one ended with {status:#x}"
        );
        let farthest_ns = FARTHEST_NS.load(Ordering::Relaxed);
        println!("{READINGS:?} readings, {BACK:?} back, {farthest_ns} ns off at most; {:?}", clock.status());
        assert_eq!(BACK.load(Ordering::Relaxed), 0, "readings stepped back");
        assert!(farthest_ns < FAR_NS, "a reading was {farthest_ns} ns off");
    });
}
