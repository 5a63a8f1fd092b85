use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::{eprintln, thread};

use crate::{Counter, HardwareCounter};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use tickline_observe::skip;

use super::*;

/// Reads the counter and swaps in two steps, with the same time in between as in a sequence.
fn swap_in_two_steps(
    word: &AtomicU64,
    [from, to]: [u64; 2],
    pauses: u64,
) -> (Option<SwapResult>, u64) {
    let tick = now();
    for _ in 0..pauses {
        core::hint::spin_loop();
    }
    // ORDERING: SeqCst. This test does not depend on a weaker one.
    let swapped = word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    (
        Some(if swapped.is_ok() {
            SwapResult::Done
        } else {
            SwapResult::OtherWord
        }),
        tick,
    )
}

fn now() -> u64 {
    HardwareCounter::if_present().unwrap().now_ordered()
}

/// Where there are none, the other tests are skipped.
#[test]
fn sequences_are_available_exactly_if_one_can_run() {
    let Some(counter) = HardwareCounter::if_present() else {
        return skip("this process may not read the counter");
    };
    let word = AtomicU64::new(5);
    let address = NonNull::new(word.as_ptr()).unwrap();
    let now = counter.now_ordered();
    // SAFETY: the address is that of a local atomic.
    let found = unsafe { try_swap(address, [5, 6], now..now + (1 << 62)) };
    assert_eq!(is_available(), found.is_some());
}

#[test]
fn a_restartable_sequence_swaps_only_between_its_two_ticks() {
    if !is_available() {
        return skip("this kernel has no restartable sequences");
    }
    let word = AtomicU64::new(5);
    let far = 1 << 62;
    let now = now();
    for (from, ticks, swapped, left, case) in [
        (5, now..now + far, SwapResult::Done, 6, "in time"),
        (5, now..now + far, SwapResult::OtherWord, 6, "another word"),
        (6, now..now + 1, SwapResult::OutOfTime, 6, "too late"),
        (
            6,
            now + far..now + far + 1,
            SwapResult::OutOfTime,
            6,
            "too early",
        ),
        (6, now..now + far, SwapResult::Done, 7, "in time"),
    ] {
        let address = NonNull::new(word.as_ptr()).unwrap();
        // SAFETY: the address is that of a local atomic.
        let found = unsafe { try_swap(address, [from, from + 1], ticks) };
        // ORDERING: SeqCst, though the test has only one thread.
        assert_eq!(
            (found, word.load(Ordering::SeqCst)),
            (Some(swapped), left),
            "{case}"
        );
    }
}

/// The memory that a stopped child shares with its parent.
struct Shared {
    /// The number of swaps.
    word: AtomicU64,
    /// The tick that swap N has read is in entry N, modulo the length.
    ticks: [AtomicU64; 1024],
}

impl Shared {
    fn tick(&self, number: u64) -> &AtomicU64 {
        &self.ticks[usize::try_from(number % 1024).expect("below 1024")]
    }
}

/// Pins this thread and its children to its current CPU. So while the parent runs, a child does not
/// have the CPU. On two CPUs, the parent could continue a child before the child has lost its CPU.
/// The child would then never have been stopped, and its sequence would go on.
fn stay_on_this_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(sched_getcpu());
    sched_setaffinity(None, &cpus).unwrap();
}

/// How a child reads the counter and swaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swap {
    InOneSequence,
    InTwoSteps,
}

/// Stops a child again and again while it swaps. Returns the number of stops after which the next
/// swap used a tick from before the stop.
fn swaps_with_old_ticks(stops: u32, way: Swap) -> u32 {
    const PAUSES: u64 = 2_000;
    let bytes = size_of::<Shared>();
    // SAFETY: new memory, shared with the child of the fork below.
    let memory = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )
    }
    .unwrap();
    // SAFETY: the memory is zeros, which are valid atomics, and is never unmapped.
    let shared = unsafe { &*memory.cast::<Shared>() };
    // SAFETY: the child makes only the calls of the loop, which neither allocate nor lock.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let area = registered::area();
        loop {
            // ORDERING: SeqCst: only this process swaps the word.
            let from = shared.word.load(Ordering::SeqCst);
            let ends = [from, from + 1];
            let (swapped, tick) = match area {
                Some(area) if way == Swap::InOneSequence => {
                    let word = NonNull::from(&shared.word).cast();
                    // SAFETY: the area is this thread's, and the word is in the shared memory.
                    unsafe { attempt(area, word, ends, &(0..u64::MAX >> 1), PAUSES) }
                }
                _ => swap_in_two_steps(&shared.word, ends, PAUSES),
            };
            if swapped == Some(SwapResult::Done) {
                // ORDERING: SeqCst, before the next swap, for which the parent waits.
                shared.tick(from).store(tick, Ordering::SeqCst);
            }
        }
    }
    let wait_for = |count: u64| {
        // ORDERING: SeqCst, pairs with the child's swaps.
        while shared.word.load(Ordering::SeqCst) < count {
            thread::yield_now();
        }
    };
    wait_for(10);
    let mut old = 0;
    for _ in 0..stops {
        let mut state = 0;
        // SAFETY: this is a child of this process, and only this thread waits for it.
        unsafe { libc::kill(child, libc::SIGSTOP) };
        // SAFETY: `state` is valid for a write.
        let stopped = unsafe { libc::waitpid(child, &raw mut state, libc::WUNTRACED) };
        assert_eq!(stopped, child);
        assert!(libc::WIFSTOPPED(state));
        // ORDERING: SeqCst, pairs with the child's swaps; the child is stopped.
        let (stopped, next) = (now(), shared.word.load(Ordering::SeqCst));
        // SAFETY: the child still exists, because it has not been waited for.
        unsafe { libc::kill(child, libc::SIGCONT) };
        // The child stores the first swap's tick before it makes the second swap.
        wait_for(next + 2);
        // ORDERING: SeqCst, after the load that has seen the second swap.
        let tick = shared.tick(next).load(Ordering::SeqCst);
        old += u32::from(tick < stopped);
        thread::yield_now();
    }
    // SAFETY: the child still exists, because it has not been waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: a null pointer asks for no state.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    old
}

/// Rule W2: no stop comes between the read of the counter and the store. In two steps, stops do.
#[test]
fn rule_w2_no_stop_comes_between_read_and_store() {
    if !is_available() {
        return skip("this kernel has no restartable sequences");
    }
    const STOPS: u32 = 200;
    stay_on_this_cpu();
    let [in_two_steps, in_one] =
        [Swap::InTwoSteps, Swap::InOneSequence].map(|way| swaps_with_old_ticks(STOPS, way));
    eprintln!("{STOPS} stops: {in_two_steps} old ticks in two steps, {in_one} in one sequence");
    assert!(
        in_two_steps > 0,
        "no stop came between the two steps: the test shows nothing"
    );
    assert_eq!(in_one, 0);
}
