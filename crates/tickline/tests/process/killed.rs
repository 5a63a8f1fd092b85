//! Threads that end in the middle of an iteration: a seccomp filter kills them, or a signal handler
//! makes the system call `exit`. The clock's thread, which ends while it sleeps, is in
//! `seccomp.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, ptr};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use tickline::background::BackgroundThread;
use tickline::{Clock, ClockState, CounterComparison, Driver, ErrorKind, Event, Probes, Reason};

use crate::common::procfs::{status_field, timers};
use crate::common::{assert_right_if_possible, handle, skip, wait_until_fast};
use tickline_observe::fork::{CANNOT, code_of_fork};

// A thread that is killed frees nothing, so AddressSanitizer may not look for leaks.
// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel, &[("ASAN_OPTIONS", "detect_leaks=0")];
    a_thread_that_is_killed_in_an_iteration_costs_the_others_nothing,
    a_thread_that_is_killed_while_it_collects_the_facts_costs_the_others_nothing,
    a_first_thread_that_ends_in_an_iteration_costs_the_others_nothing,
    a_thread_that_is_killed_in_a_start_leaves_no_thread_behind,
    a_start_that_is_killed_leaves_the_clock_to_readers,
    a_thread_that_is_killed_before_it_begins_leaves_the_clock_to_readers,
    a_background_thread_that_is_killed_before_it_begins_is_an_error,
    a_thread_that_is_killed_before_it_begins_leaves_no_descriptor,
    a_comparison_whose_thread_is_killed_is_impossible,
    a_lock_that_stays_held_is_in_the_status_and_costs_no_wake_ups,
    a_child_that_is_forked_in_an_iteration_of_another_thread_takes_the_lock_over,
}

const NO_FILTERS: &str = "this machine has no seccomp filters";

/// How a thread ends at the system call that its filter does not allow.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The filter kills the thread.
    Killed,
    /// The filter raises SIGSYS, and the handler makes the system call `exit`.
    ExitInHandler,
}

const ENDS: [End; 2] = [End::Killed, End::ExitInHandler];

extern "C" fn exit_this_thread(_: libc::c_int) {
    // SAFETY: ends this thread, which is in the middle of an iteration.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// What a filter does not allow: numbers of system calls, and rules for their arguments.
type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

/// The calling thread ends at its next call `number`. Returns whether this machine has filters.
fn end_at(number: libc::c_long, end: End) -> bool {
    end_by(BTreeMap::from([(number, vec![])]), end)
}

/// The calling thread ends at its next call by these rules.
fn end_by(rules: Rules, end: End) -> bool {
    handle(libc::SIGSYS, exit_this_thread as *const (), 0);
    let action = match end {
        End::Killed => SeccompAction::KillThread,
        End::ExitInHandler => SeccompAction::Trap,
    };
    let architecture = env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).is_ok()
}

/// Runs `work` on a thread that ends at its first call `number`, and waits for its end. Returns
/// `false` if this machine has no filters, or the thread has survived.
fn dies_at(number: libc::c_long, end: End, work: impl FnOnce() + Send + 'static) -> bool {
    dies_by(BTreeMap::from([(number, vec![])]), end, work)
}

fn dies_by(rules: Rules, end: End, work: impl FnOnce() + Send + 'static) -> bool {
    let (sender, started) = std::sync::mpsc::channel();
    // Not joined: the thread never returns.
    let thread = std::thread::spawn(move || {
        let own = std::fs::canonicalize("/proc/thread-self").unwrap();
        let has_filter = end_by(rules, end);
        sender.send(has_filter.then_some(own)).unwrap();
        if has_filter {
            work();
        }
    });
    let Some(task) = started.recv().unwrap() else {
        return false;
    };
    while task.exists() {
        std::thread::yield_now();
    }
    let survived = thread.is_finished();
    std::mem::forget(thread);
    !survived
}

/// A clock that the program drives, and that has a line; `None`, with a message, without a counter.
fn manual_clock() -> Option<&'static Clock> {
    let clock = Box::leak(Box::new(unjudged_clock()));
    let begun = Instant::now();
    while clock.status().state != ClockState::Fast {
        if let ClockState::Fallback(reason) = clock.status().state {
            skip(format_args!("no usable counter here: {reason}"));
            return None;
        }
        clock.maintain();
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            clock.status()
        );
    }
    Some(clock)
}

/// Whether the program can drive the clock: some of these calls publish a line.
fn iterates(clock: &Clock) -> bool {
    let lines = || {
        let events = clock.status().events;
        events.get(Event::Replacement) + events.get(Event::FirstPublication)
    };
    let before = lines();
    (0..1_000).any(|_| {
        clock.maintain();
        lines() > before
    })
}

fn unjudged_clock() -> Clock {
    Clock::builder().driver(Driver::Manual).build().unwrap()
}

/// Symptom: no line for the rest of the process's life, whoever called.
fn a_thread_that_is_killed_in_an_iteration_costs_the_others_nothing() {
    for end in ENDS {
        let Some(clock) = manual_clock() else { return };
        let dies = dies_at(libc::SYS_clock_adjtime, end, move || _ = clock.maintain());
        if !dies {
            return skip(NO_FILTERS);
        }
        assert!(iterates(clock), "{end:?}: the lock is lost");
        // A forked child has the lock free, or takes it over.
        let code = code_of_fork(|| i32::from(!iterates(clock)));
        assert_eq!(code, 0, "{end:?}");
    }
}

/// A thread that judges holds both locks, that of the clock and that of the collected facts.
fn a_thread_that_is_killed_while_it_collects_the_facts_costs_the_others_nothing() {
    for end in ENDS {
        let clock = Box::leak(Box::new(unjudged_clock()));
        let clock: &'static Clock = clock;
        let dies = dies_at(libc::SYS_openat, end, move || _ = clock.maintain());
        if !dies {
            return skip(NO_FILTERS);
        }
        clock.maintain();
        assert!(clock.status().is_judged, "{end:?}: a lock is lost");
    }
    for end in ENDS {
        let clock = Box::leak(Box::new(
            Clock::builder().driver(Driver::Reader).build().unwrap(),
        ));
        let clock: &'static Clock = clock;
        let dies = dies_at(libc::SYS_openat, end, move || {
            loop {
                std::hint::black_box(clock.now());
            }
        });
        if !dies {
            return skip(NO_FILTERS);
        }
        wait_until_fast(clock);
        assert!(
            clock.status().is_judged,
            "{end:?}: the collector's lock is lost"
        );
    }
}

/// Runs `before` and then an iteration of `clock` on the first thread of a forked child, which ends
/// there, and `after` on another thread, whose result is the child's exit code.
fn after_the_first_thread(clock: &'static Clock, end: End, after: fn(&Clock) -> i32) -> i32 {
    code_of_fork(|| {
        std::thread::spawn(move || {
            let begun = Instant::now();
            while status_field(&PathBuf::from("/proc/self"), "State:").unwrap() != "Z (zombie)" {
                if begun.elapsed() > Duration::from_secs(20) {
                    exit_at_once(9);
                }
                std::thread::yield_now();
            }
            exit_at_once(after(clock));
        });
        if !end_at(libc::SYS_clock_adjtime, end) {
            return CANNOT;
        }
        clock.maintain();
        8
    })
}

fn exit_at_once(code: i32) -> ! {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(code) }
}

/// The kernel knows the id of a process's first thread until the process ends.
fn a_first_thread_that_ends_in_an_iteration_costs_the_others_nothing() {
    for end in ENDS {
        let Some(clock) = manual_clock() else { return };
        let code = after_the_first_thread(clock, end, |clock| i32::from(!iterates(clock)));
        assert_right_if_possible(NO_FILTERS, code);
    }
}

/// The number of threads that drive the global clock, once it is `wanted`, or after 20 s.
fn clock_threads(wanted: usize) -> usize {
    let is_clocks = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "tickline\n")
    };
    let begun = Instant::now();
    loop {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let count = tasks.map(|task| task.path()).filter(is_clocks).count();
        if count == wanted || begun.elapsed() > Duration::from_secs(20) {
            return count;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The start waits on a futex until the clock's thread has begun. The thread runs on, and nothing
/// has its handle.
///
/// Symptom: one more thread that woke twice a second, for each such death.
fn a_thread_that_is_killed_in_a_start_leaves_no_thread_behind() {
    let wait = u64::from((libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG).unsigned_abs());
    let is_wait =
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, wait).unwrap();
    let rules = BTreeMap::from([(
        libc::SYS_futex,
        vec![SeccompRule::new(vec![is_wait]).unwrap()],
    )]);
    let dies = dies_by(rules, End::Killed, || {
        loop {
            drop(tickline::start());
        }
    });
    if !dies {
        return skip(NO_FILTERS);
    }
    let guard = tickline::start().unwrap();
    assert_eq!(clock_threads(1), 1, "with a guard");
    drop(guard);
    assert_eq!(clock_threads(0), 0, "without a guard");
}

/// The thread is registered before it is created.
///
/// Symptom: no reader drove the clock, and the recent time stood still, until the next start.
fn a_start_that_is_killed_leaves_the_clock_to_readers() {
    let clock = Clock::global();
    if wait_until_fast(clock).is_none() {
        return;
    }
    let calls = [libc::SYS_clone3, libc::SYS_clone].map(|number| (number, vec![]));
    let dies = dies_by(BTreeMap::from(calls), End::Killed, || {
        std::mem::forget(tickline::start());
    });
    if !dies {
        return skip(NO_FILTERS);
    }
    let begun = Instant::now();
    while clock.status().driver != Some(Driver::Reader) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            clock.status()
        );
        std::hint::black_box(clock.now());
    }
}

/// Runs `start` on a thread whose filter kills every thread that gives itself a name. `None`, with
/// a message, without filters.
fn run_with_threads_killed_before_they_begin<T: Send + 'static>(
    start: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let name = u64::try_from(libc::PR_SET_NAME).unwrap();
    let is_name =
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, name).unwrap();
    let rules = BTreeMap::from([(
        libc::SYS_prctl,
        vec![SeccompRule::new(vec![is_name]).unwrap()],
    )]);
    let starter = std::thread::spawn(move || end_by(rules, End::Killed).then(start));
    let started = starter.join().unwrap();
    if started.is_none() {
        skip(NO_FILTERS);
    }
    started
}

/// The thread inherits the filter of the thread that starts it.
///
/// Symptom: no line for as long as the guard lived, and for later guards.
fn a_thread_that_is_killed_before_it_begins_leaves_the_clock_to_readers() {
    let clock = Clock::global();
    if wait_until_fast(clock).is_none() {
        return;
    }
    let started = run_with_threads_killed_before_they_begin(tickline::start);
    let Some(first) = started else { return };
    assert_eq!(first.unwrap_err().kind(), ErrorKind::ThreadNotStarted);
    assert_eq!(clock.status().driver, Some(Driver::Reader));
    let second = tickline::start().unwrap();
    assert_eq!(clock.status().driver, Some(Driver::Thread));
    drop(second);
    assert_eq!(clock.status().driver, Some(Driver::Reader));
}

/// Symptom: it counted as running for ever.
fn a_background_thread_that_is_killed_before_it_begins_is_an_error() {
    let started = run_with_threads_killed_before_they_begin(|| {
        BackgroundThread::start(c"sleeper", 256 << 10, |_| ())
    });
    let Some(started) = started else { return };
    assert_eq!(started.unwrap_err().kind(), ErrorKind::ThreadNotStarted);
}

/// Symptom: each such start left a timer descriptor open.
fn a_thread_that_is_killed_before_it_begins_leaves_no_descriptor() {
    let started = run_with_threads_killed_before_they_begin(|| {
        BackgroundThread::start(c"sleeper", 256 << 10, |_| ())
    });
    if started.is_some() {
        assert_eq!(timers().len(), 0);
    }
}

/// The comparison's thread inherits the filter from the clock's thread.
///
/// Symptom: the comparison counted as running for ever. A clock whose gate waited for it woke 20
/// times a second.
fn a_comparison_whose_thread_is_killed_is_impossible() {
    let clock = Clock::global();
    if wait_until_fast(clock).is_none() {
        return;
    }
    if !clock.status().is_virtual {
        return skip("the kernel may have compared the counters");
    }
    let starter = std::thread::spawn(|| {
        end_at(libc::SYS_sched_getaffinity, End::Killed).then(|| tickline::start().unwrap())
    });
    let Some(_guard) = starter.join().unwrap() else {
        return skip(NO_FILTERS);
    };
    let begun = Instant::now();
    while clock.status().comparison != CounterComparison::Impossible {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            clock.status()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The text for a lock that stays held: with minimal probes, a first thread that has ended is not
/// noticed.
const STOPPED: &str = "fallback: readings come from the OS clock, because a thread has held the \
    clock's lock for more than a second: it is slow, as on many busy CPUs, or was stopped or \
    killed; the counter serves this clock again when that thread goes on; if it was killed, only \
    another clock or a new process can use the counter";

/// The clock's thread sleeps on a futex, with this interval.
const INTERVAL: Duration = Duration::from_millis(20);

/// Symptom: the thread woke 7,260 times a second, and the status said "until there is a line".
fn a_lock_that_stays_held_is_in_the_status_and_costs_no_wake_ups() {
    let clock = Clock::global();
    if wait_until_fast(clock).is_none() {
        return;
    }
    let code = after_the_first_thread(clock, End::Killed, |clock| {
        let settings = Clock::builder().probes(Probes::Minimal).interval(INTERVAL);
        let Ok(_guard) = settings.start_global() else {
            return 1;
        };
        let others = |task: &PathBuf| {
            let id = task
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            // SAFETY: the call has no precondition.
            let first = unsafe { libc::getpid() };
            // SAFETY: the call has no precondition.
            let known = [first, unsafe { libc::gettid() }];
            id.is_none_or(|id: i32| !known.contains(&id))
        };
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let [ref thread] = tasks
            .map(|task| task.path())
            .filter(others)
            .collect::<Vec<_>>()[..]
        else {
            return 2;
        };
        let wake_ups = || -> u32 {
            status_field(thread, "voluntary_ctxt_switches:")
                .unwrap()
                .parse()
                .unwrap()
        };
        // Until the line has ended, and the lock has been held for a second.
        let begun = Instant::now();
        while clock.status().state.to_string() != STOPPED {
            if begun.elapsed() > Duration::from_secs(20) {
                println!("{:?}", clock.status());
                return 3;
            }
            std::thread::sleep(INTERVAL);
        }
        if clock.status().state != ClockState::Fallback(Reason::DriverStopped) {
            return 4;
        }
        // The time contains both counts: this thread may wait for a CPU between any two calls.
        let begun = Instant::now();
        let before = wake_ups();
        std::thread::sleep(INTERVAL * 20);
        let woken = u128::from(wake_ups() - before);
        let intervals = begun.elapsed().as_nanos() / INTERVAL.as_nanos();
        if woken > 2 * intervals {
            println!("{woken} wake-ups in {intervals} intervals");
            return 5;
        }
        0
    });
    assert_right_if_possible(NO_FILTERS, code);
}

/// A child is forked in the handler of another thread's iteration: that thread does not exist in
/// the child, whose lock is held by nobody.
fn a_child_that_is_forked_in_an_iteration_of_another_thread_takes_the_lock_over() {
    let Some(clock) = manual_clock() else { return };
    let (begin, begun) = std::sync::mpsc::channel();
    extern "C" fn stand_still(_: libc::c_int) {
        // SAFETY: waits for a signal, for ever.
        unsafe { libc::ppoll(ptr::null_mut(), 0, ptr::null(), ptr::null()) };
    }
    std::thread::spawn(move || {
        let own = std::fs::canonicalize("/proc/thread-self").unwrap();
        let has_filter = end_at(libc::SYS_clock_adjtime, End::ExitInHandler);
        handle(libc::SIGSYS, stand_still as *const (), 0);
        begin.send(has_filter.then_some(own)).unwrap();
        clock.maintain();
    });
    let Some(thread) = begun.recv().unwrap() else {
        return skip(NO_FILTERS);
    };
    while status_field(&thread, "State:").unwrap() != "S (sleeping)" || iterates(clock) {
        std::thread::yield_now();
    }
    assert!(!iterates(clock), "it may go on at any moment");
    let code = code_of_fork(|| i32::from(!iterates(clock)));
    assert_eq!(code, 0, "the child found the lock held");
}
