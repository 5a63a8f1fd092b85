//! Starting and stopping beside what else a process does: a start that takes long, forks meanwhile,
//! a process that shares its memory. Each test runs in a process of its own.
#![cfg(target_os = "linux")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Answer, await_tickline_threads, in_child, in_fork, os_ns, skipped_in_an_emulator};
use tickline::{Clock, Driver};

/// Sleeps in the first allocation of a thread that asks for it.
struct Slow;

/// How long that takes.
const HELD: Duration = Duration::from_millis(1_500);

thread_local! {
    static SLEEPS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a thread sleeps in the allocator.
static ASLEEP: AtomicBool = AtomicBool::new(false);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Slow {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if SLEEPS.replace(false) {
            ASLEEP.store(true, Ordering::Release);
            std::thread::sleep(HELD);
            ASLEEP.store(false, Ordering::Release);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Slow = Slow;

/// Runs `body` while another thread is in the middle of a start, and holds its lock: the first thing
/// that a start does under the lock is to allocate.
fn while_a_start_takes_long(body: impl FnOnce()) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            SLEEPS.set(true);
            drop(tickline::start().expect("a thread"));
        });
        while !ASLEEP.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        body();
    });
}

/// Symptom: a thread with real-time priority spun for 40 s while a thread without, on the same CPU,
/// held the lock.
#[test]
fn a_start_that_waits_for_another_one_sleeps() {
    in_child("a_start_that_waits_for_another_one_sleeps", &[], || {
        while_a_start_takes_long(|| {
            let (start_ns, start_cpu_ns) =
                (os_ns(libc::CLOCK_MONOTONIC), os_ns(libc::CLOCK_THREAD_CPUTIME_ID));
            let guard = tickline::start().unwrap();
            let waited_ns = os_ns(libc::CLOCK_MONOTONIC) - start_ns;
            let used_ns = os_ns(libc::CLOCK_THREAD_CPUTIME_ID) - start_cpu_ns;
            assert!(waited_ns > 100_000_000, "the other start did not hold the lock: {waited_ns} ns");
            assert!(used_ns < waited_ns / 20, "{used_ns} ns of CPU time in {waited_ns} ns of waiting");
            drop(guard);
        });
        await_tickline_threads(0);
    });
}

/// A child that is forked while another thread holds the lock takes it over, with a thread of its
/// own. The guard's drop in it, too, waits for nobody.
#[test]
fn a_child_that_is_forked_during_a_start_can_start() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("a_child_that_is_forked_during_a_start_can_start", &[], || {
        while_a_start_takes_long(|| {
            in_fork(|| {
                let Ok(guard) = tickline::start() else { return 1 };
                if Clock::global().status().driver != Driver::Thread {
                    return 2;
                }
                let Ok(second) = tickline::start() else { return 3 };
                drop((guard, second));
                i32::from(Clock::global().status().driver != Driver::Reader) * 4
            });
            assert!(ASLEEP.load(Ordering::Acquire), "the lock was free before the child had ended");
        });
    });
}

/// The number of timer descriptors of this process.
fn timers() -> usize {
    let is_timer = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains("timerfd"))
    };
    std::fs::read_dir("/proc/self/fd").expect("procfs").flatten().filter(is_timer).count()
}

/// A child that drops the clocks and guards that it has inherited is rid of their descriptors. The
/// parent keeps its own.
#[test]
fn an_inherited_clock_is_dropped_with_its_descriptor() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("an_inherited_clock_is_dropped_with_its_descriptor", &[], || {
        let guard = RefCell::new(Some(tickline::start().unwrap()));
        let clock = RefCell::new(Some(Clock::builder().start().unwrap()));
        assert_eq!(timers(), 2);
        in_fork(|| {
            drop(clock.take());
            if timers() != 1 {
                return 1;
            }
            drop(guard.take());
            i32::from(timers() != 0) * 2
        });
        in_fork(|| {
            let own = tickline::start(); // forgets the inherited thread
            i32::from(own.is_err() || timers() != 2)
        });
        assert_eq!(timers(), 2);
    });
}

/// Not a test of tickline: that the processes above take their time is what makes them tests.
#[test]
fn the_lock_is_held_for_a_while() {
    in_child("the_lock_is_held_for_a_while", &[], || {
        let start = Instant::now();
        while_a_start_takes_long(|| {});
        assert!(start.elapsed() >= HELD);
    });
}

// ---- a shared memory ------------------------------------------------------------------------------------------------

/// What the process below finds: 0 while it looks, 1 for nothing wrong, else 1 plus the number of the
/// first check that failed.
struct Shared {
    parent: libc::pid_t,
    answer: Answer,
}

/// Runs in a process that shares its parent's memory, and outlives it.
extern "C" fn outlive(shared: *mut libc::c_void) -> libc::c_int {
    // SAFETY: passed by the parent, whose memory this still is.
    let shared = unsafe { &*shared.cast::<Shared>() };
    // SAFETY: takes nothing.
    while unsafe { libc::getppid() } == shared.parent {
        // SAFETY: passes a number.
        unsafe { libc::usleep(1_000) };
    }
    // The clock's thread may end a while after the process that it belongs to.
    let first = tickline::recent_ns();
    let goes_on = (0..20_000).any(|_| {
        // SAFETY: passes a number.
        unsafe { libc::usleep(1_000) };
        tickline::recent_ns() >= first + 20_000_000
    });
    let code = if !goes_on {
        2
    } else if Clock::global().status().driver != Driver::Reader {
        3
    } else {
        1
    };
    shared.answer.give(code);
    0
}

/// Symptom: the coarse time stood still for ever in a process that shares the memory of one that has
/// ended (`clone` with `CLONE_VM`).
#[test]
fn the_coarse_time_goes_on_in_a_process_that_outlives_its_memory() {
    if skipped_in_an_emulator() {
        return;
    }
    in_child("the_coarse_time_goes_on_in_a_process_that_outlives_its_memory", &[], || {
        let answer = Answer::new();
        in_fork(|| {
            // SAFETY: takes nothing.
            let parent = unsafe { libc::getpid() };
            let shared = Box::leak(Box::new(Shared { parent, answer }));
            let stack = Vec::leak(vec![0_u128; 16 * 1024]).as_mut_ptr_range().end;
            let Ok(guard) = tickline::start() else { return 1 };
            // Until the thread works: a mark that it has set tells of its end.
            let first = tickline::recent_ns();
            while tickline::recent_ns() == first {
                // SAFETY: passes a number.
                unsafe { libc::usleep(1_000) };
            }
            std::mem::forget(guard);
            let flags = libc::CLONE_VM | libc::SIGCHLD;
            // SAFETY: the stack is that function's alone, and what is passed to it is never freed.
            let child = unsafe { libc::clone(outlive, stack.cast(), flags, (&raw mut *shared).cast()) };
            i32::from(child < 0) * 2
        });
        assert_eq!(answer.take(), 1, "see `outlive`");
    });
}
