//! Clocks under seccomp filters that kill. `PLATFORM.md`, "System calls", has the same lists.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;
use std::{env, mem};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};
use tickline::background::{BackgroundThread, StoppableSleep, WakeCause};
use tickline::{Clock, ClockState, Driver, Event, Probes, Reason};

use crate::common::{goes_on, skip, wait_until_fast};
use tickline_observe::fork::{CANNOT, status_of_fork};

// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel:
    minimal_probes_live_under_a_filter_that_kills,
    full_probes_are_killed_by_the_same_filter,
    without_a_thread_a_clock_needs_two_system_calls,
    the_global_clock_may_be_calibrated_before_the_filter,
    a_guard_of_a_killed_thread_does_not_stop_the_next_one,
    a_thread_that_was_killed_does_not_stop_the_recent_time,
    a_background_thread_that_was_killed_neither_runs_nor_is_joined,
}

/// The calls of tickline itself with minimal probes, if libc has to ask the kernel for the time,
/// and no clock with full probes was started before.
const MINIMAL: &[libc::c_long] = &[libc::SYS_clock_gettime, libc::SYS_getpid];

/// The further calls of the thread driver, once it runs.
const PARKING: &[libc::c_long] = &[libc::SYS_futex];

/// The calls of libc that create and end a thread. The filter checks `madvise`'s advice,
/// too.
const THREADS: &[libc::c_long] = &[
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_brk,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_set_robust_list,
    RSEQ,
    libc::SYS_exit,
];

/// The calls of libc that end a running thread.
const END: &[libc::c_long] = &[
    libc::SYS_munmap,
    libc::SYS_rt_sigprocmask,
    libc::SYS_madvise,
    libc::SYS_exit,
];

/// The calls of the tests: to sleep, to allocate, and to end.
const TEST: &[libc::c_long] = &[
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_brk,
    libc::SYS_exit_group,
];

/// `rseq`, which not every libc's crate names: `arch/x86/entry/syscalls/syscall_64.tbl` of the
/// kernel, and `include/uapi/asm-generic/unistd.h` for newer architectures.
const RSEQ: libc::c_long = if cfg!(target_arch = "x86_64") {
    334
} else {
    293
};

/// `MADV_DONTNEED`, and the guard pages of newer kernels
/// (`include/uapi/asm-generic/mman-common.h`): what libc does with a thread's stack. Not
/// `MADV_WIPEONFORK`.
const STACK_ADVICE: [u64; 3] = [4, 102, 103];

/// Kills the process at every system call that is not in `lists`, from now on, in all its threads.
/// Returns whether this machine has such filters.
fn allow_only(lists: &[&[libc::c_long]]) -> bool {
    let mut rules: BTreeMap<_, _> = lists
        .iter()
        .copied()
        .flatten()
        .map(|number| (*number, vec![]))
        .collect();
    if lists.contains(&THREADS) {
        let is =
            |advice| SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, advice);
        let rule = |advice| SeccompRule::new(vec![is(advice).unwrap()]).unwrap();
        rules.insert(libc::SYS_madvise, STACK_ADVICE.map(rule).to_vec());
    }
    install(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// Installs a filter in all threads of this process. Returns whether this machine has filters.
fn install(
    rules: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    others: SeccompAction,
    listed: SeccompAction,
) -> bool {
    let architecture = env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, others, listed, architecture).unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    let installed = apply_filter_all_threads(&program);
    // Freeing it may be a system call.
    mem::forget(program);
    installed.is_ok()
}

/// Runs `body` in a forked child, which finds nothing wrong, or ends by the signal `killed`.
fn run_under_a_filter(killed: Option<i32>, body: impl FnOnce() -> i32) {
    let status = status_of_fork(body);
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    if signal.is_none() && libc::WEXITSTATUS(status) == CANNOT {
        return skip("this machine has no seccomp filters");
    }
    assert_eq!(signal, killed, "the signal that killed the child");
    assert!(
        signal.is_some() || status == 0,
        "the child found fault {}",
        libc::WEXITSTATUS(status)
    );
}

/// Everything that can be asked of a clock. Returns whether its time went on.
fn use_clock(clock: &Clock) -> bool {
    let mut last = 0;
    for _ in 0..5_000 {
        if !goes_on(clock, &mut last) {
            return false;
        }
        black_box((clock.now(), clock.unix_now(), clock.recent()));
        black_box((clock.reading(), clock.unix_reading()));
    }
    clock.maintain();
    clock.disable();
    clock.enable();
    clock.maintain();
    black_box((clock.now(), clock.status()));
    goes_on(clock, &mut last)
}

fn minimal_probes_live_under_a_filter_that_kills() {
    use_each_driver_under_a_filter(Probes::Minimal, None);
}

/// The control.
fn full_probes_are_killed_by_the_same_filter() {
    use_each_driver_under_a_filter(Probes::Full, Some(libc::SIGSYS));
}

fn use_each_driver_under_a_filter(probes: Probes, killed: Option<i32>) {
    for driver in [Driver::Thread, Driver::Reader, Driver::Manual] {
        run_under_a_filter(killed, || {
            let threads = &[MINIMAL, TEST, PARKING, THREADS];
            if !allow_only(if driver == Driver::Thread {
                threads
            } else {
                &threads[..2]
            }) {
                return CANNOT;
            }
            let settings = Clock::builder().probes(probes).driver(driver);
            let Ok(clock) = settings.interval(Duration::from_millis(2)).build() else {
                return 1;
            };
            if !use_clock(&clock) {
                return 2;
            }
            std::thread::sleep(Duration::from_millis(20));
            let status = clock.status();
            drop(clock);
            // On targets without a counter that reason comes first.
            let is_honest = matches!(
                status.state,
                ClockState::Fallback(Reason::KernelUnknown | Reason::Untested | Reason::NoCounter)
            );
            if is_honest && status.driver == Some(driver) {
                0
            } else {
                3
            }
        });
    }
}

/// The reader and the manual driver need only the two calls: neither memory nor a futex.
fn without_a_thread_a_clock_needs_two_system_calls() {
    run_under_a_filter(None, || {
        let settings = Clock::builder()
            .probes(Probes::Minimal)
            .driver(Driver::Reader);
        let Ok(clock) = settings.build() else {
            return 1;
        };
        if !allow_only(&[MINIMAL, &[libc::SYS_exit_group]]) {
            return CANNOT;
        }
        if use_clock(&clock) { 0 } else { 2 }
    });
}

/// A clock that calibrates with full probes, and is restricted after that: its verdicts stay, and
/// its thread recalibrates and ends under the filter.
fn the_global_clock_may_be_calibrated_before_the_filter() {
    run_under_a_filter(None, || {
        let fast = wait_until_fast(Clock::global()).is_some();
        // These threads use the heaps that the parent's threads leave, so that the clock's thread
        // gets a heap of its own.
        let (sender, others) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let sender = sender.clone();
            std::thread::spawn(move || {
                sender.send(()).ok();
                std::thread::sleep(Duration::MAX);
            });
            others.recv().ok();
        }
        let interval = Duration::from_millis(2);
        let Ok(guard) = Clock::builder()
            .probes(Probes::Minimal)
            .interval(interval)
            .start_global()
        else {
            return 1;
        };
        // Until the thread has stored the time once, and so is past everything that libc does to
        // start it.
        let clock = Clock::global();
        let first = clock.recent();
        while clock.recent() == first {
            std::thread::yield_now();
        }
        if !allow_only(&[&MINIMAL[..1], PARKING, END, TEST]) {
            return CANNOT;
        }
        let publications = || clock.status().events.get(Event::Replacement);
        let recent = clock.recent();
        let before = publications();
        let goes_on_there = || clock.recent() != recent && (!fast || publications() > before);
        let mut last = 0;
        // For 0.2 s, and on a busy machine until the thread has gone on, for 10 s at most.
        for round in 0..5_000 {
            std::thread::sleep(Duration::from_millis(2));
            if !goes_on(clock, &mut last) {
                return 2;
            }
            if round >= 100 && goes_on_there() {
                break;
            }
        }
        if !goes_on_there() {
            return 3;
        }
        drop(guard);
        // The restriction is permanent, so readers survive as well.
        for _ in 0..100_000 {
            black_box(tickline::now_ns());
        }
        i32::from(clock.status().driver != Some(Driver::Reader)) * 4
    });
}

/// A join would wait for ever.
fn a_background_thread_that_was_killed_neither_runs_nor_is_joined() {
    run_under_a_filter(None, || {
        let sleep = |sleep: &StoppableSleep| {
            while sleep.wait(Duration::from_millis(1)) != WakeCause::Stopped {}
        };
        let Ok(thread) = BackgroundThread::start(c"sleeper", 256 << 10, sleep) else {
            return 1;
        };
        if !thread.is_running() {
            return 2;
        }
        let rules = BTreeMap::from([(libc::SYS_ppoll, vec![])]);
        if !install(rules, SeccompAction::Allow, SeccompAction::KillThread) {
            return CANNOT;
        }
        while thread.is_running() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(thread);
        0
    });
}

/// Symptom: the drop of the first guard stopped the second one's thread.
fn a_guard_of_a_killed_thread_does_not_stop_the_next_one() {
    run_under_a_filter(None, || {
        let Ok(first) = tickline::start() else {
            return 1;
        };
        let rules = BTreeMap::from([(libc::SYS_ppoll, vec![])]);
        if !install(rules, SeccompAction::Allow, SeccompAction::KillThread) {
            return CANNOT;
        }
        let driver = || Clock::global().status().driver;
        // The kernel kills the first thread when that thread sleeps again. This sleep calls no
        // `ppoll`.
        while driver() == Some(Driver::Thread) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // With minimal probes a thread sleeps on a futex.
        let Ok(second) = Clock::builder().probes(Probes::Minimal).start_global() else {
            return 2;
        };
        drop(first);
        let after_first = driver();
        drop(second);
        if (after_first, driver()) == (Some(Driver::Thread), Some(Driver::Reader)) {
            0
        } else {
            3
        }
    });
}

/// Symptom: the recent time stood still for ever in a process that outlives the clock's thread.
fn a_thread_that_was_killed_does_not_stop_the_recent_time() {
    run_under_a_filter(None, || {
        let Ok(guard) = tickline::start() else {
            return 1;
        };
        let rules = BTreeMap::from([(libc::SYS_ppoll, vec![])]);
        if !install(rules, SeccompAction::Allow, SeccompAction::KillThread) {
            return CANNOT;
        }
        // The kernel kills the thread when that thread sleeps again, at most an interval later. So
        // the thread stores no time a second from now.
        let end = tickline::now_ordered_ns() + 1_000_000_000;
        let goes_on = (0..20_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            tickline::recent_ns() > end
        });
        drop(guard);
        i32::from(!goes_on) * 2
    });
}
