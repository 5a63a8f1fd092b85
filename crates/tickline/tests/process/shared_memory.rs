//! Two processes in one memory: `clone(CLONE_VM)` without `CLONE_THREAD`, as `vfork` and sandboxes
//! do.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tickline::{Clock, ClockState, Driver, ErrorKind, Event, Probes};
use tickline_observe::{Bracket, monotonic_ns};

use crate::common::{skip, wait_until};
use crate::threads::run_while_a_start_holds_the_lock;

// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel:
    two_processes_in_one_memory_do_not_iterate_at_once,
    two_processes_in_one_memory_do_not_start_at_once,
}

/// Readings further than this from `CLOCK_MONOTONIC` are wrong, ns.
const MAX_OFF_NS: u64 = 1_000_000;

const STACK_BYTES: usize = 256 << 10;

/// The findings of both processes.
static READINGS: AtomicU32 = AtomicU32::new(0);
static FARTHEST_NS: AtomicU64 = AtomicU64::new(0);
static BACK: AtomicU32 = AtomicU32::new(0);

/// Runs iterations and readings for a second. It may not allocate: both processes run it at once.
fn use_clock(clock: &Clock) {
    let start_ns = monotonic_ns();
    let mut last_ns = 0;
    loop {
        clock.maintain();
        for _ in 0..50 {
            let at = Bracket::around(|| clock.now_ordered().as_nanos());
            FARTHEST_NS.fetch_max(at.ahead_ns().max(at.behind_ns()), Ordering::Relaxed);
            BACK.fetch_add(u32::from(at.now_ns < last_ns), Ordering::Relaxed);
            READINGS.fetch_add(1, Ordering::Relaxed);
            last_ns = at.now_ns;
            if at.after_ns - start_ns > 1_000_000_000 {
                return;
            }
        }
    }
}

/// Starts a process in this memory, with a stack of its own, which is never freed.
fn clone_in_this_memory(
    run: extern "C" fn(*mut libc::c_void) -> libc::c_int,
    argument: *mut libc::c_void,
) -> i32 {
    let stack = Vec::leak(vec![0_u128; STACK_BYTES / 16])
        .as_mut_ptr_range()
        .end;
    // SAFETY: the stack is the new process's own. It runs a function that uses no thread-local data
    // except for errno, and its argument outlives it.
    unsafe { libc::clone(run, stack.cast(), libc::CLONE_VM | libc::SIGCHLD, argument) }
}

extern "C" fn second_process(clock: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the first process waits for this one before it drops the clock.
    use_clock(unsafe { &*clock.cast::<Clock>() });
    0
}

/// Symptom: the lock's owner was the process id if a process had asked for minimal probes before it
/// had any other clock. Each of two processes in one memory then took the lock from the other in
/// the middle of an iteration.
fn two_processes_in_one_memory_do_not_iterate_at_once() {
    let _minimal = Clock::builder()
        .probes(Probes::Minimal)
        .driver(Driver::Manual)
        .build()
        .unwrap();
    let settings = Clock::builder()
        .driver(Driver::Manual)
        .interval(Duration::from_millis(1));
    let clock = settings.build().unwrap();
    // `until` gives the CPU away between two calls. On a busy machine that takes longer than a
    // calibration at this interval may.
    wait_until(&clock, || {
        (0..1_000).any(|_| {
            clock.maintain();
            clock.status().state != ClockState::Calibrating
        })
    });
    if let ClockState::Fallback(reason) = clock.status().state {
        return skip(format_args!("no usable counter here: {reason}"));
    }
    let child = clone_in_this_memory(second_process, (&raw const clock).cast_mut().cast());
    if child < 0 {
        return skip("this machine has no clone(CLONE_VM)");
    }
    use_clock(&clock);
    let mut status = 0;
    // SAFETY: `status` is valid for a write.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the second one ended with {status:#x}"
    );
    let farthest_ns = FARTHEST_NS.load(Ordering::Relaxed);
    println!(
        "{READINGS:?} readings, {BACK:?} back, {farthest_ns} ns off at most; {:?}",
        clock.status()
    );
    assert_eq!(BACK.load(Ordering::Relaxed), 0, "readings stepped back");
    let status = clock.status();
    let lost = status.events.get(Event::GateClosed);
    assert!(
        lost == 0 || status.reason().is_some(),
        "a lock was taken over: {status:?}"
    );
    assert!(
        farthest_ns < MAX_OFF_NS,
        "a reading was {farthest_ns} ns off"
    );
}

/// Starts the global clock's thread, and ends the process with the result.
extern "C" fn start_and_exit(_: *mut libc::c_void) -> libc::c_int {
    let code = match tickline::start() {
        Err(error) if error.kind() == ErrorKind::TimedOut => 0,
        Err(_) => 1,
        Ok(_) => 2,
    };
    // SAFETY: ends the process, with the thread that it may have.
    unsafe { libc::_exit(code) }
}

/// Symptom: with minimal probes, a start in one process took the lock from a start in the other,
/// and both changed the same data.
fn two_processes_in_one_memory_do_not_start_at_once() {
    drop(Clock::builder().probes(Probes::Minimal).start_global());
    run_while_a_start_holds_the_lock(|| {
        let child = clone_in_this_memory(start_and_exit, std::ptr::null_mut());
        if child < 0 {
            return skip("this machine has no clone(CLONE_VM)");
        }
        let mut status = 0;
        // SAFETY: `status` is valid for a write. This thread shares its thread-local data with the
        // child, and does nothing else meanwhile.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(
            libc::WIFEXITED(status),
            "the second one ended with {status:#x}"
        );
        assert_eq!(libc::WEXITSTATUS(status), 0, "the second one started");
    });
}
