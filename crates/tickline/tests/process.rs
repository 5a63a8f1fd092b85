//! Threads, forks and memory: each in a process of its own.
#![cfg(target_os = "linux")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use common::{
    await_tickline_threads, in_child, in_fork, skipped_in_an_emulator, tickline_threads, until_fast,
};
use tickline::{Clock, Driver, State};

/// Counts this thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated_after_the_start() {
    for driver in [Driver::Reader, Driver::Manual, Driver::Thread] {
        let clock = Clock::builder().driver(driver).interval(Duration::from_millis(1)).start().unwrap();
        let before = ALLOCATIONS.get();
        for _ in 0..200_000 {
            std::hint::black_box((clock.now_ns(), clock.unix_ns()));
        }
        clock.maintain();
        std::hint::black_box((clock.reading(), clock.unix_reading(), clock.status()));
        clock.disable();
        clock.enable();
        assert_eq!(ALLOCATIONS.get() - before, 0, "{driver:?}");
    }
    let global = ALLOCATIONS.get();
    for _ in 0..200_000 {
        std::hint::black_box(tickline::now_ns());
    }
    assert_eq!(ALLOCATIONS.get(), global);
}

#[test]
fn there_is_a_thread_only_between_start_and_drop() {
    in_child("there_is_a_thread_only_between_start_and_drop", &[], || {
        until_fast(Clock::global());
        await_tickline_threads(0); // reading must not start one
        let (first, second) = (tickline::start().unwrap(), tickline::start().unwrap());
        assert_eq!(Clock::global().status().driver, Driver::Thread);
        await_tickline_threads(1); // guards share it
        drop(first);
        await_tickline_threads(1);
        drop(second);
        await_tickline_threads(0); // the last guard takes it along
        assert_eq!(Clock::global().status().driver, Driver::Reader);
        let other = Clock::builder().interval(Duration::from_millis(2)).start_global().unwrap();
        let error = Clock::builder().start_global().unwrap_err();
        assert_eq!(error.kind(), tickline::ErrorKind::Running, "{error}");
        drop(other);
        drop(Clock::builder().start().unwrap());
        await_tickline_threads(0);
    });
}

#[test]
fn the_thread_blocks_all_signals_and_leaves_the_callers_alone() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("the_thread_blocks_all_signals_and_leaves_the_callers_alone", &[], || {
        let blocked = |task: &std::path::Path| {
            let status = std::fs::read_to_string(task.join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        let mine = std::path::PathBuf::from("/proc/thread-self");
        let before = blocked(&mine);
        let _guard = tickline::start().unwrap();
        assert_eq!(blocked(&mine), before);
        await_tickline_threads(1);
        let thread = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .map(|task| task.unwrap().path())
            .find(|task| std::fs::read_to_string(task.join("comm")).unwrap().trim() == "tickline")
            .expect("the thread");
        // All but KILL and STOP, and the first real-time ones, which libc keeps for itself (glibc
        // two, musl three).
        let unblocked = !blocked(&thread) & !(1 << 8 | 1 << 18 | 0b111 << 31);
        assert_eq!(unblocked, 0, "{unblocked:#x}");
    });
}

#[test]
fn the_coarse_clock_follows_the_thread_and_falls_back_without_one() {
    in_child("the_coarse_clock_follows_the_thread_and_falls_back_without_one", &[], || {
        let before = tickline::recent_ns();
        std::thread::sleep(Duration::from_millis(1));
        assert!(tickline::recent_ns() > before, "without a thread it is the present");
        let guard = Clock::builder().recent_every(Duration::from_millis(1)).start_global().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        let mut last = tickline::recent_ns();
        let first = last;
        for _ in 0..20 {
            let recent = tickline::recent_ns();
            assert!(recent >= last && recent <= tickline::now_ordered_ns());
            last = recent;
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(last > first, "the thread did not store the time");
        drop(guard);
        let after = tickline::recent_ns();
        assert!(after >= last);
    });
}

/// The checks of a forked child. Returns its exit code: the number of the first check that failed,
/// or 0.
fn check_forked_child(clock: &Clock, parents_last: u64) -> i32 {
    if clock.now_ordered_ns() < parents_last {
        return 1;
    }
    if clock.status().driver != Driver::Reader {
        return 2;
    }
    if tickline_threads() != 0 {
        return 3;
    }
    let first = clock.recent_ns();
    // Longer than any line of the parent is valid, so that the child makes its own.
    let mut last = first;
    let end = last + 300_000_000;
    while last < end {
        let now = clock.now_ordered_ns();
        if now < last {
            return 4;
        }
        last = now;
    }
    if clock.recent_ns() < end {
        return 5; // the coarse time of a thread that does not exist here
    }
    // On a busy machine a thread may be preempted for longer than a line lasts, so this asks for
    // the state again and again.
    let start = Instant::now();
    while clock.status().state == State::Calibrating {
        if start.elapsed() > Duration::from_secs(20) {
            return 6;
        }
        // Readers start a line only if calls are frequent, and a status takes longer than many
        // calls.
        for _ in 0..100 {
            std::hint::black_box(clock.now_ordered_ns());
        }
    }
    0
}

#[test]
fn a_forked_child_goes_on_without_its_parents_thread() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("a_forked_child_goes_on_without_its_parents_thread", &[], || {
        let clock = Clock::builder().interval(Duration::from_millis(5)).start().unwrap();
        until_fast(&clock);
        for _ in 0..5 {
            let last = clock.now_ordered_ns();
            in_fork(|| check_forked_child(&clock, last));
        }
    });
}

#[test]
fn a_forked_child_may_drop_what_it_inherited_and_start_anew() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("a_forked_child_may_drop_what_it_inherited_and_start_anew", &[], || {
        let guard = tickline::start().unwrap();
        let clock = Clock::builder().start().unwrap();
        let clock = std::cell::RefCell::new(Some(clock));
        in_fork(|| {
            drop(clock.take());
            let own = tickline::start();
            await_tickline_threads(1);
            i32::from(own.is_err() || Clock::global().status().driver != Driver::Thread)
        });
        drop(guard);
    });
}

/// The parent's guard does not stop the thread that the child has started.
#[test]
fn an_inherited_guard_does_nothing_in_the_child() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("an_inherited_guard_does_nothing_in_the_child", &[], || {
        let guard = tickline::start().unwrap();
        let guard = std::cell::RefCell::new(Some(guard));
        in_fork(|| {
            let own = tickline::start();
            await_tickline_threads(1);
            drop(guard.take());
            // Not at once: a thread that is made to compare counters bears this name at first.
            await_tickline_threads(1);
            i32::from(own.is_err() || Clock::global().status().driver != Driver::Thread)
        });
    });
}

/// A reading leaves `errno` as it was, though the first iteration opens a file, which fails here.
#[test]
fn errno_survives_a_reading() {
    in_child("errno_survives_a_reading", &[], || {
        let clock = Clock::builder().driver(Driver::Reader).start().unwrap();
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: lowers this process's own limit; the struct is valid.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
        // SAFETY: takes nothing.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: this thread's own errno.
        unsafe { *errno = 77 };
        for _ in 0..1_000 {
            std::hint::black_box((clock.now_ns(), clock.unix_ns()));
        }
        // SAFETY: this thread's own errno.
        assert_eq!(unsafe { *errno }, 77);
        let reason = clock.status().reason();
        assert!(reason.is_some(), "a clocksource that cannot be read closes a gate");
    });
}
