use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::{eprintln, thread};

use crate::{Counter, HardwareCounter};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use super::*;

/// A look and a swap in two steps, with the same time in between.
fn plain(word: &AtomicU64, [from, to]: [u64; 2], pauses: u64) -> (Option<SwapResult>, u64) {
    let looked = now();
    for _ in 0..pauses {
        core::hint::spin_loop();
    }
    // ORDERING: SeqCst, a test's.
    let swapped = word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    (Some(if swapped.is_ok() { SwapResult::Done } else { SwapResult::OtherWord }), looked)
}

fn now() -> u64 {
    HardwareCounter::if_present().unwrap().now_ordered()
}

#[test]
fn a_sequence_swaps_between_two_ticks_only() {
    if !is_available() {
        return eprintln!("SKIPPED: this kernel has no restartable sequences");
    }
    let word = AtomicU64::new(5);
    let (far, now) = (1 << 62, now());
    for (from, ticks, swapped, left, what) in [
        (5, now..now + far, SwapResult::Done, 6, "in time"),
        (5, now..now + far, SwapResult::OtherWord, 6, "another word"),
        (6, now..now + 1, SwapResult::OutOfTime, 6, "too late"),
        (6, now + far..now + far + 1, SwapResult::OutOfTime, 6, "too early"),
        (6, now..now + far, SwapResult::Done, 7, "in time"),
    ] {
        let place = NonNull::new(word.as_ptr()).unwrap();
        // SAFETY: a word of this test's.
        let found = unsafe { swap(place, [from, from + 1], ticks) };
        // ORDERING: SeqCst: one thread.
        assert_eq!((found, word.load(Ordering::SeqCst)), (Some(swapped), left), "{what}");
    }
}

/// What a stopped child shares with its parent.
struct Shared {
    /// Which swap is the newest.
    word: AtomicU64,
    /// The counter that the swap with this number, modulo the length, had seen.
    looks: [AtomicU64; 1024],
}

impl Shared {
    fn look(&self, number: u64) -> &AtomicU64 {
        &self.looks[usize::try_from(number % 1024).expect("below 1024")]
    }
}

/// Keeps this thread, and its children, on the CPU on which it is. While the parent runs, a child
/// has lost its CPU. On two CPUs the parent can tell a child to go on before the child has lost its
/// CPU. The child has then been stopped for no time, and its sequence goes on, too.
fn stay_on_this_cpu() {
    let mut cpus = CpuSet::new();
    cpus.set(sched_getcpu());
    sched_setaffinity(None, &cpus).unwrap();
}

/// Stops a child again and again while it swaps. Returns how often the first swap after the stop
/// had looked at the counter before the stop.
fn old_looks(stops: u32, is_restartable: bool) -> u32 {
    const PAUSES: u64 = 2_000;
    let bytes = size_of::<Shared>();
    // SAFETY: new memory, shared with the child of the fork below.
    let memory = unsafe {
        mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }
    .unwrap();
    // SAFETY: zeros are valid atomics; the memory is never unmapped.
    let shared = unsafe { &*memory.cast::<Shared>() };
    // SAFETY: the child makes no call but those of the loop, which allocate nothing and lock
    // nothing.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let area = registered::area();
        loop {
            // ORDERING: SeqCst: only this process swaps the word.
            let from = shared.word.load(Ordering::SeqCst);
            let ends = [from, from + 1];
            let (swapped, looked) = match area {
                Some(area) if is_restartable => {
                    let word = NonNull::from(&shared.word).cast();
                    // SAFETY: this thread's area, and the shared word.
                    unsafe { try_swap(area, word, ends, &(0..u64::MAX >> 1), PAUSES) }
                }
                _ => plain(&shared.word, ends, PAUSES),
            };
            if swapped == Some(SwapResult::Done) {
                // ORDERING: SeqCst, before the next swap, which the parent waits for.
                shared.look(from).store(looked, Ordering::SeqCst);
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
        // SAFETY: a child of this process, which nobody else waits for.
        unsafe { libc::kill(child, libc::SIGSTOP) };
        // SAFETY: `state` is valid for a write.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut state, libc::WUNTRACED) }, child);
        assert!(libc::WIFSTOPPED(state));
        // ORDERING: SeqCst, pairs with the child's swaps; the child is stopped.
        let (stopped, next) = (now(), shared.word.load(Ordering::SeqCst));
        // SAFETY: as above.
        unsafe { libc::kill(child, libc::SIGCONT) };
        // The second swap comes after the first one's look is stored.
        wait_for(next + 2);
        // ORDERING: SeqCst, behind the load that has seen the second swap.
        let look = shared.look(next).load(Ordering::SeqCst);
        old += u32::from(look < stopped);
        thread::yield_now();
    }
    // SAFETY: as above.
    unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: a null pointer asks for no state.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    old
}

/// Rule W2: no stop comes between look and store. In two steps, the same stops do.
#[test]
fn rule_w2_no_stop_comes_between_look_and_store() {
    if !is_available() {
        return eprintln!("SKIPPED: this kernel has no restartable sequences");
    }
    const STOPS: u32 = 200;
    stay_on_this_cpu();
    let (plain, restartable) = (old_looks(STOPS, false), old_looks(STOPS, true));
    eprintln!("{STOPS} stops: {plain} old looks in two steps, {restartable} in one sequence");
    assert!(plain > 0, "no stop came between the two steps: the test shows nothing");
    assert_eq!(restartable, 0);
}
