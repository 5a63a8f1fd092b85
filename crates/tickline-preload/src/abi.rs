//! The functions to which the vDSO's symbols lead: a result of 0, or a negative error number, as
//! the kernel's own have it (vdso(7)); `errno` stays as it is.

use core::ffi::c_int;

use crate::original::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, NANOS, Timespec, Timeval};
use crate::serve::{self, Clock};

/// `clock_gettime`. Never faults for a clock that the page does not serve.
///
/// # Safety
///
/// As `clock_gettime`: `time` is null, or there is room for a time at it.
pub(crate) unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    let served = match clock {
        CLOCK_MONOTONIC => Clock::Monotonic,
        CLOCK_REALTIME => Clock::Unix,
        _ => return original::clock_gettime(clock, time),
    };
    // The kernel has its own answer to a null pointer.
    if time.is_null() {
        return original::clock_gettime(clock, time);
    }
    match serve::time_ns(served) {
        Some(ns) => {
            // SAFETY: not null, so there is room, by the caller's promise. It may be unaligned
            // for all that the kernel would care.
            unsafe { time.write_unaligned(timespec(ns)) };
            0
        }
        None => original::clock_gettime(clock, time),
    }
}

/// `gettimeofday`.
///
/// # Safety
///
/// As `gettimeofday`: each is null, or there is room at it.
pub(crate) unsafe extern "C" fn gettimeofday(time: *mut Timeval, zone: *mut u64) -> c_int {
    if !zone.is_null() || time.is_null() {
        return original::gettimeofday(time, zone);
    }
    match serve::time_ns(Clock::TimeOfDay) {
        Some(ns) => {
            let time_of_day = Timeval { seconds: ns.div_euclid(NANOS), micros: ns.rem_euclid(NANOS) / 1_000 };
            // SAFETY: as in `clock_gettime`.
            unsafe { time.write_unaligned(time_of_day) };
            0
        }
        None => original::gettimeofday(time, zone),
    }
}

/// Seconds, and the nanoseconds of the second.
#[inline(always)]
pub(crate) const fn timespec(ns: i64) -> Timespec {
    Timespec { seconds: ns.div_euclid(NANOS), nanos: ns.rem_euclid(NANOS) }
}
