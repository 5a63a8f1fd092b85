//! Signal handlers and allocators: code that may not lock, allocate or be entered twice may still
//! read a clock.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tickline::{Clock, ClockState, Driver};

use crate::common::{goes_on, handle, wait_until_fast};

// Tests: the functions of these names.
in_processes! { run_in_child:
    a_global_allocator_may_read_the_clock,
    the_first_call_may_come_from_a_signal_handler,
    handlers_may_interrupt_every_other_call,
}

/// Whether the allocator reads the clock: only in its own test.
static READS: AtomicBool = AtomicBool::new(false);

/// The number of its readings.
static READINGS: AtomicU64 = AtomicU64::new(0);

/// The number of its calls in a handler, or while it read.
static REENTRIES: AtomicU32 = AtomicU32::new(0);

/// The number of its readings that stepped back within a thread.
static STEPS_BACK: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread is in a handler, or reads the clock in the allocator.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static LAST_NS: Cell<u64> = const { Cell::new(0) };
}

/// Reads the global clock for each block, and counts what handlers allocate.
pub(crate) fn read_in_the_allocator() {
    if INSIDE.get() {
        REENTRIES.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if !READS.load(Ordering::Relaxed) {
        return;
    }
    INSIDE.set(true);
    let now = tickline::now_ordered_ns();
    STEPS_BACK.fetch_add(u32::from(now < LAST_NS.replace(now)), Ordering::Relaxed);
    black_box((tickline::unix_ns(), tickline::recent_ns()));
    READINGS.fetch_add(1, Ordering::Relaxed);
    INSIDE.set(false);
}

/// The allocator's first call is the process's first reading; then it reads through a start,
/// recalibrations and a drop.
fn a_global_allocator_may_read_the_clock() {
    READS.store(true, Ordering::Relaxed);
    let work = || {
        let mut kept: Vec<String> = Vec::new();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(200) {
            kept.push("a block".to_owned());
            if kept.len() > 100 {
                kept.clear();
            }
        }
    };
    work();
    for _ in 0..3 {
        let guard = Clock::builder()
            .interval(Duration::from_millis(1))
            .start_global()
            .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(work);
            work();
        });
        drop(guard);
    }
    READS.store(false, Ordering::Relaxed);
    assert!(READINGS.load(Ordering::Relaxed) > 1_000);
    assert_eq!(REENTRIES.load(Ordering::Relaxed), 0, "a reading allocates");
    assert_eq!(STEPS_BACK.load(Ordering::Relaxed), 0);
    assert!(Clock::global().status().is_judged);
    wait_until_fast(Clock::global());
}

extern "C" fn first_reader(_: libc::c_int) {
    INSIDE.set(true);
    let clock = Clock::global();
    let mut last = 0;
    for _ in 0..5_000 {
        STEPS_BACK.fetch_add(u32::from(!goes_on(clock, &mut last)), Ordering::Relaxed);
        black_box((
            clock.now(),
            clock.unix_now(),
            clock.reading(),
            clock.unix_reading(),
        ));
    }
    INSIDE.set(false);
}

/// A handler makes the first call of the process: it judges the gates, makes the token and
/// calibrates, without allocating.
fn the_first_call_may_come_from_a_signal_handler() {
    handle(libc::SIGUSR1, first_reader as *const (), libc::SA_RESTART);
    // SAFETY: the signal goes to this thread, whose handler is installed.
    assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
    assert!(Clock::global().status().is_judged);
    assert_eq!(STEPS_BACK.load(Ordering::Relaxed), 0);
    assert_eq!(REENTRIES.load(Ordering::Relaxed), 0, "a reading allocates");
    wait_until_fast(Clock::global());
}

static INTERRUPTIONS: AtomicU32 = AtomicU32::new(0);

extern "C" fn interrupter(_: libc::c_int) {
    let was_inside = INSIDE.replace(true);
    let clock = Clock::global();
    let now = clock.now_ordered().as_nanos();
    STEPS_BACK.fetch_add(u32::from(now < LAST_NS.get()), Ordering::Relaxed);
    black_box((clock.unix_now(), clock.reading(), clock.maintain()));
    if INTERRUPTIONS.load(Ordering::Relaxed).is_multiple_of(16) {
        clock.disable();
        clock.enable();
    }
    let later = clock.now_ordered().as_nanos();
    STEPS_BACK.fetch_add(u32::from(later < now), Ordering::Relaxed);
    LAST_NS.set(later);
    INTERRUPTIONS.fetch_add(1, Ordering::Relaxed);
    INSIDE.set(was_inside);
}

/// Handlers interrupt readings, iterations, switches and starts of the same thread anywhere, and
/// finish. None waits for the call that it has interrupted.
fn handlers_may_interrupt_every_other_call() {
    handle(libc::SIGPROF, interrupter as *const (), libc::SA_RESTART);
    // CPU time, so that a busy machine sends fewer signals; real time limits what hangs.
    let interrupt_every_us = |tv_usec| {
        let period = libc::timeval { tv_sec: 0, tv_usec };
        let timer = libc::itimerval {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: the timer is valid; the old one is not asked for.
        let set =
            unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
        assert_eq!(set, 0);
    };
    interrupt_every_us(200);
    let clock = Clock::global();
    let start = Instant::now();
    // If starting and stopping threads takes most of the time, two seconds contain little CPU time.
    let enough =
        || INTERRUPTIONS.load(Ordering::Relaxed) > 20 || start.elapsed() > Duration::from_secs(60);
    while start.elapsed() < Duration::from_secs(2) || !enough() {
        for _ in 0..200 {
            let now = clock.now_ordered().as_nanos();
            black_box((now, clock.unix_now(), clock.reading(), clock.maintain()));
        }
        clock.disable();
        clock.enable();
        drop(tickline::start().unwrap());
    }
    interrupt_every_us(0);
    assert!(
        INTERRUPTIONS.load(Ordering::Relaxed) > 20,
        "{INTERRUPTIONS:?}"
    );
    assert_eq!(STEPS_BACK.load(Ordering::Relaxed), 0);
    assert_eq!(REENTRIES.load(Ordering::Relaxed), 0, "a reading allocates");
    let own = Clock::builder().driver(Driver::Reader).build().unwrap();
    wait_until_fast(&own);
    assert_ne!(
        Clock::global().status().state,
        ClockState::Fallback(tickline::Reason::DisabledByProgram)
    );
}
