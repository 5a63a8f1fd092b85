//! How often one reading asks the OS while the counter is switched off. This program defines
//! `clock_gettime`, which tickline then calls in place of libc's.
#![cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]

use std::cell::Cell;
use std::hint::black_box;

use tickline::Clock;

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

/// The times that `read` asks the OS, on a clock whose counter is switched off.
fn calls_of(read: impl Fn(&Clock)) -> u32 {
    let clock = Clock::default();
    clock.disable();
    read(&clock); // the first one chooses how to ask
    CALLS.set(0);
    read(&clock);
    CALLS.get()
}

#[test]
fn now_asks_once() {
    assert_eq!(calls_of(|clock| _ = black_box(clock.now())), 1);
}

#[test]
fn unix_now_asks_once() {
    assert_eq!(calls_of(|clock| _ = black_box(clock.unix_now())), 1);
}

/// Symptom: a reading with bounds took three times as long as a call of the OS clock.
#[test]
fn a_reading_with_bounds_asks_once() {
    assert_eq!(calls_of(|clock| _ = black_box(clock.reading())), 1);
}

#[test]
fn a_reading_of_unix_time_with_bounds_asks_once() {
    assert_eq!(calls_of(|clock| _ = black_box(clock.unix_reading())), 1);
}
