//! The clock's thread: when it runs, what it does not change, and concurrent starts.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tickline::background::{BackgroundThread, StoppableSleep};
use tickline::exchange;
use tickline::{
    Clock, ClockGuard, ClockState, CounterComparison, Driver, Error, ErrorKind, Event, Gate,
    Probes, Reason, Trust,
};
use tickline_observe::{clock_ns, monotonic_ns};

use crate::allocator::{ASLEEP, SLEEPS};
use crate::common::procfs::{
    await_tickline_threads, own_signals, signals, status_field, tickline_threads,
};
use crate::common::{run_in_fork, skip, skipped_as_too_slow, wait_until, wait_until_fast};

// Tests: the functions of these names.
in_processes! { run_in_child:
    a_reading_starts_no_thread,
    guards_share_the_thread_until_the_last_is_dropped,
    a_driver_is_the_thread_only_between_start_and_drop,
    a_start_with_another_interval_beside_a_thread_fails,
    a_start_with_another_interval_names_both_values,
    a_start_with_another_interval_names_the_call_that_started_the_thread,
    a_start_with_another_interval_says_what_to_do,
    a_second_builder_with_another_interval_says_what_to_do,
    a_clock_of_its_own_ends_its_thread,
    clones_share_the_clock,
    clones_share_the_thread_until_the_last_is_dropped,
    disabling_the_global_clock_counts_for_the_default_one,
    starts_and_drops_that_meet_keep_one_thread_at_most,
    without_a_thread_the_recent_time_is_the_present,
    the_recent_time_follows_the_thread,
    the_recent_time_is_in_order_after_the_threads_end,
    the_recent_time_is_stored_between_recalibrations,
    errno_survives_a_reading,
    errno_survives_a_judgement,
    errno_survives_a_review,
    a_clocksource_that_cannot_be_read_closes_a_gate,
    a_review_that_cannot_read_the_clocksource_closes_a_gate,
    the_counters_are_compared_if_the_result_matters,
    a_start_that_waits_for_another_one_sleeps,
    a_background_thread_has_the_stack_that_its_user_chose,
}

// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel:
    the_thread_wakes_up_only_for_its_iterations,
    the_thread_blocks_all_signals_and_leaves_the_callers_alone,
    a_child_that_is_forked_during_a_start_can_start,
    with_minimal_probes_a_start_gives_up_in_a_child_that_is_forked_during_one,
    with_minimal_probes_the_drop_of_an_inherited_guard_does_not_wait,
    a_child_that_is_forked_while_a_thread_begins_can_start,
    a_child_that_is_forked_while_a_thread_begins_can_pin_one,
}

/// Symptom: threads that need little had 2 MiB, which `mlockall(MCL_FUTURE)` locks in memory.
fn a_background_thread_has_the_stack_that_its_user_chose() {
    const MORE_BYTES: usize = 1 << 20;
    let least = 256 << 10;
    let [small, large] = [least, least + MORE_BYTES].map(stack_of_a_thread_with);
    assert!(small >= least, "{small}");
    assert_eq!(large - small, MORE_BYTES);
}

/// The whole stack of a background thread that was started with this size, bytes.
fn stack_of_a_thread_with(stack_bytes: usize) -> usize {
    let (sender, receiver) = std::sync::mpsc::channel();
    let work = move |_: &StoppableSleep| sender.send(own_stack_bytes()).unwrap();
    let thread = BackgroundThread::start(c"stack", stack_bytes, work).unwrap();
    let found = receiver.recv().unwrap();
    drop(thread);
    found
}

/// The size of this thread's stack, bytes.
fn own_stack_bytes() -> usize {
    // SAFETY: plain data, which the next call fills.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call has no precondition.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: this thread runs, and `attributes` is valid for a write.
    let error = unsafe { libc::pthread_getattr_np(thread, &raw mut attributes) };
    assert_eq!(error, 0);
    let mut start = std::ptr::null_mut();
    let mut bytes = 0;
    // SAFETY: `attributes` was filled, and both results are valid for a write.
    let error = unsafe {
        libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes)
    };
    // SAFETY: `attributes` was filled, and is used no more.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    assert_eq!(error, 0);
    bytes
}

fn a_reading_starts_no_thread() {
    wait_until_fast(Clock::global());
    await_tickline_threads(0);
}

/// So it wakes twice a second at the default interval. An iteration now and then publishes no line,
/// because the machine is busy.
fn the_thread_wakes_up_only_for_its_iterations() {
    const LINES: u64 = 50;
    let clock = Clock::global();
    let settings = Clock::builder().interval(Duration::from_millis(20));
    let _guard = settings.start_global().unwrap();
    if wait_until_fast(clock).is_none() {
        return;
    }
    await_tickline_threads(1);
    let thread = &tickline_threads()[0];
    let wake_ups = || -> u64 {
        let count = status_field(thread, "voluntary_ctxt_switches:").expect("the thread");
        count.parse().unwrap()
    };
    let lines = || clock.status().events.get(Event::Replacement);
    // The time of the first count contains that of the second, so a thread that is late adds lines.
    let lines_before = lines();
    let woken_before = wake_ups();
    wait_until(clock, || lines() >= lines_before + LINES);
    let woken = wake_ups() - woken_before;
    let published = lines() - lines_before;
    assert!(
        woken <= published + published / 2,
        "{woken} wake-ups for {published} lines"
    );
}

fn guards_share_the_thread_until_the_last_is_dropped() {
    let first = tickline::start().unwrap();
    let second = tickline::start().unwrap();
    await_tickline_threads(1);
    drop(first);
    await_tickline_threads(1);
    drop(second);
    await_tickline_threads(0);
}

fn a_driver_is_the_thread_only_between_start_and_drop() {
    let driver = || Clock::global().status().driver;
    let guard = tickline::start().unwrap();
    assert_eq!(driver(), Some(Driver::Thread));
    drop(guard);
    assert_eq!(driver(), Some(Driver::Reader));
}

/// Starts the global clock's thread with another interval than the default.
fn start_with_another_interval() -> Result<ClockGuard, Error> {
    let builder = Clock::builder().interval(Duration::from_millis(2));
    builder.start_global()
}

fn a_start_with_another_interval_beside_a_thread_fails() {
    let _guard = start_with_another_interval().unwrap();
    let error = Clock::builder().start_global().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyRunning, "{error}");
}

fn a_start_with_another_interval_names_both_values() {
    let _guard = start_with_another_interval().unwrap();
    let text = Clock::builder().start_global().unwrap_err().to_string();
    assert!(text.contains("its interval is 2ms, not 500ms"), "{text}");
}

/// Symptom: in a program whose library had called `start`, nothing told which call came first.
fn a_start_with_another_interval_names_the_call_that_started_the_thread() {
    let by_start = {
        let _guard = tickline::start().unwrap();
        start_with_another_interval().unwrap_err().to_string()
    };
    assert!(by_start.starts_with("`tickline::start` "), "{by_start}");
    let by_builder = {
        let _guard = start_with_another_interval().unwrap();
        Clock::builder().start_global().unwrap_err().to_string()
    };
    assert!(
        by_builder.starts_with("`ClockBuilder::start_global` "),
        "{by_builder}"
    );
}

fn a_start_with_another_interval_says_what_to_do() {
    let _guard = tickline::start().unwrap();
    let text = start_with_another_interval().unwrap_err().to_string();
    let advice = "call `ClockBuilder::start_global` before it, or drop every guard before this call. \
        To share the thread as it is, call `tickline::start`";
    assert!(text.ends_with(advice), "{text}");
}

/// Symptom: each of two builders was told to be called before the other.
fn a_second_builder_with_another_interval_says_what_to_do() {
    let _guard = Clock::builder().start_global().unwrap();
    let text = start_with_another_interval().unwrap_err().to_string();
    let advice = "give both calls the same settings, or drop every guard before this call. To share \
        the thread as it is, call `tickline::start`";
    assert!(text.ends_with(advice), "{text}");
}

fn a_clock_of_its_own_ends_its_thread() {
    let clock = Clock::builder().build().unwrap();
    await_tickline_threads(1);
    drop(clock);
    await_tickline_threads(0);
}

/// Each start returns a guard of a thread that runs, and the last guard ends it.
fn starts_and_drops_that_meet_keep_one_thread_at_most() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let guard = tickline::start().unwrap();
                    assert_eq!(Clock::global().status().driver, Some(Driver::Thread));
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(Clock::global().status().driver, Some(Driver::Reader));
    await_tickline_threads(0);
}

/// Clones are one clock, on every thread.
fn clones_share_the_clock() {
    let clock = Clock::builder().build().unwrap();
    let clone = clock.clone();
    let disable = move || {
        let start_ns = clone.now_ordered().as_nanos();
        assert!(clone.now_ordered().as_nanos() >= start_ns);
        clone.disable();
    };
    std::thread::spawn(disable).join().unwrap();
    assert_eq!(
        clock.status().state,
        ClockState::Fallback(Reason::DisabledByProgram)
    );
}

fn clones_share_the_thread_until_the_last_is_dropped() {
    let clock = Clock::builder().build().unwrap();
    let clone = clock.clone();
    await_tickline_threads(1);
    drop(clock);
    assert_eq!(clone.status().driver, Some(Driver::Thread));
    drop(clone);
    await_tickline_threads(0);
}

fn disabling_the_global_clock_counts_for_the_default_one() {
    let global = Clock::default();
    Clock::global().disable();
    assert_eq!(
        global.status().state,
        ClockState::Fallback(Reason::DisabledByProgram)
    );
}

fn the_thread_blocks_all_signals_and_leaves_the_callers_alone() {
    let before = own_signals("SigBlk:");
    let _guard = tickline::start().unwrap();
    assert_eq!(own_signals("SigBlk:"), before);
    await_tickline_threads(1);
    // All but KILL and STOP, and the first real-time ones, which libc keeps for itself (glibc
    // two, musl three).
    let unblocked = !signals(&tickline_threads()[0], "SigBlk:") & !(1 << 8 | 1 << 18 | 0b111 << 31);
    assert_eq!(unblocked, 0, "{unblocked:#x}");
}

fn without_a_thread_the_recent_time_is_the_present() {
    let before = tickline::recent_ns();
    std::thread::sleep(Duration::from_millis(1));
    assert!(tickline::recent_ns() > before);
}

/// Starts the global clock's thread, which stores the recent time each millisecond.
fn start_with_recent_time() -> ClockGuard {
    let builder = Clock::builder().recent_every(Duration::from_millis(1));
    builder.start_global().unwrap()
}

/// Reads the recent time, in order, until it has gone on by 20 ms. Returns the last one, ns.
fn follow_the_recent_time() -> u64 {
    let first = tickline::recent_ns();
    let mut last = first;
    wait_until(Clock::global(), || {
        let recent = tickline::recent_ns();
        assert!(recent >= last && recent <= tickline::now_ordered_ns());
        last = recent;
        recent > first + 20_000_000
    });
    last
}

fn the_recent_time_follows_the_thread() {
    let _guard = start_with_recent_time();
    follow_the_recent_time();
}

fn the_recent_time_is_in_order_after_the_threads_end() {
    let guard = start_with_recent_time();
    let last = follow_the_recent_time();
    drop(guard);
    assert!(tickline::recent_ns() >= last);
}

/// The thread stores it as often as the program asks, however rarely it recalibrates.
fn the_recent_time_is_stored_between_recalibrations() {
    let clock = Clock::builder()
        .recent_every(Duration::from_millis(1))
        .build()
        .unwrap();
    if wait_until_fast(&clock).is_none() {
        return;
    }
    wait_until(&clock, || clock.status().interval_ns > Some(200_000_000));
    let recalibrations = || clock.status().events.get(Event::Replacement);
    let before = recalibrations();
    let mut last = clock.recent();
    let mut stored = 0;
    wait_until(&clock, || {
        let recent = clock.recent();
        stored += u64::from(recent > last);
        last = recent;
        stored == 20
    });
    let recalibrated = recalibrations() - before;
    assert!(
        recalibrated < 10,
        "{recalibrated} for {stored} recent times"
    );
}

/// Lets this process open no further file.
fn forbid_further_files() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: lowers this process's own limit; the struct is valid.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) };
    assert_eq!(result, 0);
}

/// Asserts that `errno` is the same after `calls`, in which the opening of a file fails.
fn assert_errno_survives(calls: impl FnOnce()) {
    forbid_further_files();
    // SAFETY: the call has no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: this thread's own errno.
    unsafe { *errno = 77 };
    calls();
    // SAFETY: this thread's own errno.
    assert_eq!(unsafe { *errno }, 77);
}

fn clock_of_readers() -> Clock {
    Clock::builder().driver(Driver::Reader).build().unwrap()
}

fn clock_of_the_program() -> Clock {
    Clock::builder().driver(Driver::Manual).build().unwrap()
}

/// Readings with an iteration among them, whose first opens a file.
fn read_often(clock: &Clock) {
    for _ in 0..1_000 {
        black_box((clock.now(), clock.unix_now()));
    }
}

/// Iterations of a clock that is judged; one of them reviews the facts.
fn review(clock: &Clock) {
    (0..16).for_each(|_| _ = black_box(clock.maintain()));
}

fn errno_survives_a_reading() {
    let clock = clock_of_readers();
    assert_errno_survives(|| read_often(&clock));
}

fn errno_survives_a_judgement() {
    let clock = clock_of_the_program();
    assert_errno_survives(|| _ = black_box(clock.maintain()));
}

fn errno_survives_a_review() {
    let clock = clock_of_the_program();
    black_box(clock.maintain());
    assert_errno_survives(|| review(&clock));
}

fn a_clocksource_that_cannot_be_read_closes_a_gate() {
    let clock = clock_of_readers();
    forbid_further_files();
    read_often(&clock);
    assert!(clock.status().reason().is_some());
}

fn a_review_that_cannot_read_the_clocksource_closes_a_gate() {
    let clock = clock_of_the_program();
    black_box(clock.maintain());
    forbid_further_files();
    review(&clock);
    assert!(clock.status().reason().is_some());
}

/// A thread compares the counters if the result matters. The result is the process's, and the
/// thread ends.
fn the_counters_are_compared_if_the_result_matters() {
    if skipped_as_too_slow() {
        return;
    }
    let clock = Clock::builder()
        .trust(Trust::Measured)
        .interval(Duration::from_millis(10))
        .build()
        .unwrap();
    wait_until_fast(&clock);
    let status = clock.status();
    if !status.is_virtual && status.state == ClockState::Fast {
        skip("the kernel has compared the counters of this machine itself");
        return;
    }
    let closed =
        [Gate::Supported, Gate::Readable, Gate::Cost].map(|gate| status.verdict(gate).closed_by());
    if closed.iter().any(Option::is_some) {
        skip("no counter to compare, or none that is worth it");
        return;
    }
    let start = Instant::now();
    while clock.status().comparison == CounterComparison::Pending {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no comparison was made"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let reader = Clock::builder().driver(Driver::Reader).build().unwrap();
    assert_eq!(
        reader.status().comparison,
        clock.status().comparison,
        "it is the process's"
    );
}

// ---- starts that meet others ------------------------------------------------------------------

/// Runs `body` while another thread holds the lock of starts: in the middle of `call`, whose first
/// allocation is under the lock, the thread sleeps until `body` has ended, or clears [`ASLEEP`].
fn run_while_a_call_holds_the_lock(call: fn(), body: impl FnOnce()) {
    /// Wakes the thread also if `body` panics.
    struct Woken;
    impl Drop for Woken {
        fn drop(&mut self) {
            ASLEEP.store(false, Ordering::Release);
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            SLEEPS.set(true);
            call();
        });
        while !ASLEEP.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let _woken = Woken;
        body();
    });
}

/// Runs `body` while another thread is in the middle of a start.
pub(crate) fn run_while_a_start_holds_the_lock(body: impl FnOnce()) {
    run_while_a_call_holds_the_lock(|| drop(tickline::start().expect("a thread")), body);
}

/// Symptom: a thread with real-time priority spun for 40 s while a thread without, on the same CPU,
/// held the lock.
fn a_start_that_waits_for_another_one_sleeps() {
    run_while_a_start_holds_the_lock(|| {
        let begins = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begins.wait();
                std::thread::sleep(Duration::from_millis(1_500));
                ASLEEP.store(false, Ordering::Release);
            });
            let (start_ns, start_cpu_ns) =
                (monotonic_ns(), clock_ns(libc::CLOCK_THREAD_CPUTIME_ID));
            begins.wait();
            let guard = tickline::start().unwrap();
            assert!(
                !ASLEEP.load(Ordering::Acquire),
                "the other start did not hold the lock"
            );
            let waited_ns = monotonic_ns() - start_ns;
            let used_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - start_cpu_ns;
            assert!(
                used_ns < waited_ns / 20,
                "{used_ns} ns of CPU time in {waited_ns} ns of waiting"
            );
            drop(guard);
        });
    });
    await_tickline_threads(0);
}

/// A child that is forked while another thread holds the lock takes it over, with a thread of its
/// own. The drop of the guard in the child does not wait either.
fn a_child_that_is_forked_during_a_start_can_start() {
    run_while_a_start_holds_the_lock(|| {
        run_in_fork(|| {
            let guard = tickline::start().unwrap();
            assert_eq!(Clock::global().status().driver, Some(Driver::Thread));
            drop((guard, tickline::start().unwrap()));
            assert_eq!(Clock::global().status().driver, Some(Driver::Reader));
        });
    });
}

/// With minimal probes a child can't take the lock over, because the holder may be a process in the
/// same memory. So a start in the child gives up.
fn with_minimal_probes_a_start_gives_up_in_a_child_that_is_forked_during_one() {
    drop(Clock::builder().probes(Probes::Minimal).start_global());
    run_while_a_start_holds_the_lock(|| {
        run_in_fork(|| {
            let error = tickline::start().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            let what_to_do = "call again; or it was killed, or this process was forked meanwhile, and \
                 then no further call helps. Readers drive the clock while it has no thread";
            assert!(error.to_string().ends_with(what_to_do), "{error}");
            assert_eq!(Clock::global().status().driver, Some(Driver::Reader));
        });
    });
}

/// The drop of an inherited guard, which has no effect in a child, does not wait for the lock. If
/// it did, it would wait for ever.
fn with_minimal_probes_the_drop_of_an_inherited_guard_does_not_wait() {
    let guard = Clock::builder().probes(Probes::Minimal).start_global();
    let guard = RefCell::new(Some(guard.unwrap()));
    // The text of the error is made under the lock.
    let fails = || _ = Clock::builder().start_global().unwrap_err();
    run_while_a_call_holds_the_lock(fails, || run_in_fork(|| drop(guard.take())));
}

/// Symptom: the thread of a child never ran, and the child's drop waited for it for ever. Cause: at
/// the fork, another thread of std was beginning, and held a lock of std.
fn a_child_that_is_forked_while_a_thread_begins_can_start() {
    run_in_forks_while_threads_begin(|| drop(tickline::start().unwrap()));
}

/// The program `tickline` reads the counters on threads that it pins. Symptom: such a thread of a
/// child never ran. Cause: as of `a_child_that_is_forked_while_a_thread_begins_can_start`.
fn a_child_that_is_forked_while_a_thread_begins_can_pin_one() {
    let Some(&cpu) = exchange::cpus().first() else {
        return skip("no CPU that is known");
    };
    run_in_forks_while_threads_begin(|| assert_eq!(exchange::on_cpu(cpu, || 7), Some(7)));
}

fn run_in_forks_while_threads_begin(body: impl Fn()) {
    for _ in 0..8 {
        let begin_one = || std::thread::spawn(|| ()).join().unwrap();
        std::thread::spawn(move || std::iter::repeat_with(begin_one).for_each(drop));
    }
    // A busy machine takes a tenth of a second for each child.
    let start = Instant::now();
    for _ in 0..1_000 {
        run_in_fork(|| {
            // SAFETY: passes a number. The signal has no handler, so it ends a child that hangs.
            unsafe { libc::alarm(60) };
            body();
        });
        if start.elapsed() > Duration::from_secs(40) {
            break;
        }
    }
}
