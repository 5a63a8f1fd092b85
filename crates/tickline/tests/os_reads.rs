//! How often one reading asks the OS while the counter is switched off. This program defines
//! `clock_gettime`, which tickline then calls in place of libc's.
#![cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]

use std::cell::Cell;
use std::hint::black_box;

use tickline::Clock;
use tickline::backend::{OsClock, Reference as _};

mod common;

thread_local! {
    /// This thread's calls of [`clock_gettime`].
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Counts the call, and asks the kernel.
///
/// # Safety
///
/// As for libc's function: `time` is valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    CALLS.set(CALLS.get() + 1);
    // SAFETY: the caller's promise is passed on.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    libc::c_int::try_from(result).unwrap_or(-1)
}

/// The times that `read` asks the OS, on a clock whose counter is switched off. `None`, with a
/// message, if tickline asks it by another function: by the system call where the process may not
/// read the counter, by `clock_gettime64` where `long` has 32 bits, and times have 64.
fn calls_of(read: impl Fn(&Clock)) -> Option<u32> {
    OsClock.monotonic_ns(); // the first one chooses how to ask
    CALLS.set(0);
    OsClock.monotonic_ns();
    if CALLS.get() == 0 {
        common::skip("tickline does not ask the OS by clock_gettime here");
        return None;
    }
    let clock = Clock::default();
    clock.disable();
    CALLS.set(0);
    read(&clock);
    Some(CALLS.get())
}

/// Asserts that `read` asks the OS once.
#[track_caller]
fn assert_asks_once(read: impl Fn(&Clock)) {
    if let Some(calls) = calls_of(read) {
        assert_eq!(calls, 1);
    }
}

#[test]
fn now_asks_once() {
    assert_asks_once(|clock| _ = black_box(clock.now()));
}

#[test]
fn unix_now_asks_once() {
    assert_asks_once(|clock| _ = black_box(clock.unix_now()));
}

/// Symptom: a reading with bounds took three times as long as a call of the OS clock.
#[test]
fn a_reading_with_bounds_asks_once() {
    assert_asks_once(|clock| _ = black_box(clock.reading()));
}

#[test]
fn a_reading_of_unix_time_with_bounds_asks_once() {
    assert_asks_once(|clock| _ = black_box(clock.unix_reading()));
}
