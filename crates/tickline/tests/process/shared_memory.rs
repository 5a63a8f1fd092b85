//! Two processes in one memory: `clone(CLONE_VM)` without `CLONE_THREAD`, as `vfork` and sandboxes
//! do.

use std::io::{PipeWriter, Read as _, Write as _};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tickline::{Clock, ClockState, Driver, Probes};
use tickline_observe::{Bracket, monotonic_ns};

use crate::common::{in_fork, skip, until};

in_processes! { in_child_of_a_kernel:
    two_processes_in_one_memory_do_not_iterate_at_once,
    the_coarse_time_goes_on_in_a_process_that_outlives_its_memory,
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
    let (start_ns, mut last_ns) = (monotonic_ns(), 0);
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
    let stack = Vec::leak(vec![0_u128; STACK_BYTES / 16]).as_mut_ptr_range().end;
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
    let _minimal = Clock::builder().probes(Probes::Minimal).driver(Driver::Manual).start().unwrap();
    let settings = Clock::builder().driver(Driver::Manual).interval(Duration::from_millis(1));
    let clock = settings.start().unwrap();
    until(&clock, || {
        clock.maintain();
        clock.status().state != ClockState::Calibrating
    });
    if let ClockState::Fallback(reason) = clock.status().state {
        return skip(&format!("no usable counter here: {reason}"));
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
    println!("{READINGS:?} readings, {BACK:?} back, {farthest_ns} ns off at most; {:?}", clock.status());
    assert_eq!(BACK.load(Ordering::Relaxed), 0, "readings stepped back");
    assert!(farthest_ns < MAX_OFF_NS, "a reading was {farthest_ns} ns off");
}

/// The argument of `outlive`: the parent, and a pipe for 1 (success), 2 or 3 (the failed check).
struct Shared<'a> {
    parent: libc::pid_t,
    answer: &'a PipeWriter,
}

/// Runs in a process that shares its parent's memory, and outlives it.
extern "C" fn outlive(shared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent has passed the pointer, and the process still has the parent's memory.
    let mut shared = unsafe { shared.cast::<Shared>().read() };
    // SAFETY: the call has no precondition.
    while unsafe { libc::getppid() } == shared.parent {
        // SAFETY: the call takes a number.
        unsafe { libc::usleep(1_000) };
    }
    // The clock's thread may end a while after the process that it belongs to.
    let first = tickline::recent_ns();
    let goes_on = (0..20_000).any(|_| {
        // SAFETY: the call takes a number.
        unsafe { libc::usleep(1_000) };
        tickline::recent_ns() >= first + 20_000_000
    });
    let is_alone = Clock::global().status().driver == Driver::Reader;
    let answer = match (goes_on, is_alone) {
        (true, true) => 1,
        (false, _) => 2,
        (true, false) => 3,
    };
    shared.answer.write_all(&[answer]).map_or(1, |()| 0)
}

/// Symptom: the coarse time stood still forever in a process that shares the memory of a process
/// that has ended (`clone` with `CLONE_VM`).
fn the_coarse_time_goes_on_in_a_process_that_outlives_its_memory() {
    let (mut reader, answer) = std::io::pipe().unwrap();
    in_fork(|| {
        // SAFETY: the call has no precondition.
        let parent = unsafe { libc::getpid() };
        let shared = Box::leak(Box::new(Shared { parent, answer: &answer }));
        let guard = tickline::start().unwrap();
        // Waits until the thread runs, because the thread sets up the mark that reports its end.
        let first = tickline::recent_ns();
        while tickline::recent_ns() == first {
            // SAFETY: the call takes a number.
            unsafe { libc::usleep(1_000) };
        }
        std::mem::forget(guard);
        assert!(clone_in_this_memory(outlive, (&raw mut *shared).cast()) >= 0);
    });
    drop(answer);
    let mut found = [0];
    reader.read_exact(&mut found).expect("an answer");
    assert_eq!(found, [1], "see `Shared`");
}
