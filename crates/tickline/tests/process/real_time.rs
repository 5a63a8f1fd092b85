//! Starts and drops in a thread with real-time priority.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::common::skip;

// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel:
    a_start_with_real_time_priority_does_not_starve_beside_others,
}

/// The cycles of a start and a drop by the thread with priority.
const CYCLES: u32 = 50;

/// The cycles that the other thread may do meanwhile. It finishes the one that it is in, and holds
/// the CPU while the first thread waits for the end of the clock's thread.
const OTHERS_CYCLES: u32 = 20 * CYCLES;

/// Puts this process on the first CPU that it may use, and limits the time of real-time threads
/// between two sleeps to 2 s, so that a fault does not stop the machine.
fn share_one_cpu() -> bool {
    // SAFETY: a CPU mask is plain data.
    let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is this thread; the mask is valid for a write of its size.
    unsafe { libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) };
    let Some(cpu) = (0..1_024).find(|cpu| {
        // SAFETY: the number is below the size of the mask.
        unsafe { libc::CPU_ISSET(*cpu, &all) }
    }) else {
        return false;
    };
    // SAFETY: the number is below the size of the mask.
    unsafe { libc::CPU_SET(cpu, &mut one) };
    let limit = libc::rlimit {
        rlim_cur: 2_000_000,
        rlim_max: 2_000_000,
    };
    // SAFETY: lowers this process's own limit; the struct is valid.
    let limited = unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) } == 0;
    // SAFETY: 0 is this thread, whose threads inherit the mask; the mask is valid.
    limited && unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) } == 0
}

/// Gives this thread real-time priority. Returns whether the system permits it.
fn raise_priority() -> bool {
    // SAFETY: plain data, of which all zeros is a valid value; with musl it has more fields.
    let mut priority: libc::sched_param = unsafe { core::mem::zeroed() };
    priority.sched_priority = 1;
    // SAFETY: 0 is this thread; the struct is valid.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0 }
}

/// Symptom: 19.9 s in one start, while another thread on the same CPU started and dropped. The
/// first thread slept for 16 ms between two attempts to take the lock. Whenever it woke, the other
/// one was in its next start.
fn a_start_with_real_time_priority_does_not_starve_beside_others() {
    if !share_one_cpu() {
        return skip("no limit of real-time threads, or no affinity");
    }
    let others = AtomicU32::new(0);
    let is_over = AtomicBool::new(false);
    let cycle = || drop(tickline::start().unwrap());
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The last ones let the first thread finish, whatever happens.
            while !is_over.load(Ordering::Relaxed) && others.load(Ordering::Relaxed) < OTHERS_CYCLES
            {
                cycle();
                others.fetch_add(1, Ordering::Relaxed);
            }
        });
        let with_priority = scope.spawn(|| {
            while others.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let permitted = raise_priority();
            let cycles = || (0..CYCLES).for_each(|_| cycle());
            let done = permitted
                .then(cycles)
                .map(|()| others.load(Ordering::Relaxed));
            is_over.store(true, Ordering::Relaxed);
            done
        });
        with_priority.join().unwrap()
    });
    match done {
        None => skip("this process may not have threads with real-time priority"),
        Some(others) => assert!(
            others < OTHERS_CYCLES,
            "{others} cycles of the other thread during {CYCLES}"
        ),
    }
}
