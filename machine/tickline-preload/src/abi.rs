//! The functions to which the redirected vDSO symbols lead. Like the vDSO's own functions
//! (vdso(7)), they return 0 or a negative error number, and leave `errno` as it is.

use core::ffi::c_int;
use core::ptr;

use tickline_page::lease::Timescale;

use crate::original::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, NANOS, Timespec, Timeval};
use crate::serve::{self, Original};
use crate::state::state;

/// `clock_gettime`, for callers of the vDSO. The trampoline passes the vDSO's address as `vdso`.
/// For a clock that the page does not serve, only the vDSO or the kernel accesses `time`.
///
/// # Safety
///
/// The condition of libc's function: `time` is null, or points to memory for a time.
pub(crate) unsafe extern "C" fn clock_gettime(
    clock: c_int,
    time: *mut Timespec,
    vdso: *mut u8,
) -> c_int {
    state().set_vdso_start(vdso);
    // SAFETY: the caller promises that `time` is null or valid.
    unsafe { clock_gettime_inline(clock, time) }
        .unwrap_or_else(|| original::clock_gettime(clock, time))
}

/// `gettimeofday`, for callers of the vDSO. The trampoline passes the vDSO's address as `vdso`.
///
/// # Safety
///
/// The condition of libc's function: each pointer is null, or points to memory for its value.
pub(crate) unsafe extern "C" fn gettimeofday(
    time: *mut Timeval,
    zone: *mut u64,
    vdso: *mut u8,
) -> c_int {
    state().set_vdso_start(vdso);
    if !zone.is_null() {
        return original::gettimeofday(time, zone);
    }
    // SAFETY: the caller promises that `time` is null or valid.
    if unsafe { serve_time_of_day(time) } {
        return 0;
    }
    original::gettimeofday(time, ptr::null_mut())
}

/// `clock_gettime`, inlined into its callers. A call between functions would be a large part of a
/// reading's cost, most of all in an emulator. `None` in a process without a page, and for a call
/// without memory for a time: the caller's original clock must answer.
///
/// # Safety
///
/// The condition of [`clock_gettime`].
#[inline(always)]
pub(crate) unsafe fn clock_gettime_inline(clock: c_int, time: *mut Timespec) -> Option<c_int> {
    let state = state();
    let (attached, attachment) = state.attached()?;
    if time.is_null() {
        return None; // the kernel decides what a null pointer means
    }
    let timescale = match clock {
        CLOCK_MONOTONIC => match serve::monotonic_by_line_ns(state, attached, attachment) {
            // SAFETY: `time` is not null, so the caller promises that it is valid.
            Some(ns) => return Some(unsafe { store(time, ns) }),
            None => Timescale::Monotonic,
        },
        CLOCK_REALTIME => Timescale::Unix,
        _ => return Some(original::clock_gettime(clock, time)),
    };
    // SAFETY: `time` is not null, so the caller promises that it is valid.
    Some(unsafe { serve_out_of_line(clock, time, timescale) })
}

/// Serves a reading that the fast path cannot serve. Not inlined, because it needs all registers.
///
/// # Safety
///
/// `time` must point to memory for a time.
#[inline(never)]
unsafe fn serve_out_of_line(clock: c_int, time: *mut Timespec, timescale: Timescale) -> c_int {
    match serve::time_ns(timescale, &Original::new()) {
        // SAFETY: the caller promises that `time` is valid.
        Some(ns) => unsafe { store(time, ns) },
        None => original::clock_gettime(clock, time),
    }
}

/// Stores `ns` at `time`, which may be unaligned, because the kernel accepts that too.
///
/// # Safety
///
/// `time` must point to memory for a time.
#[inline(always)]
unsafe fn store(time: *mut Timespec, ns: i64) -> c_int {
    // SAFETY: the caller promises that `time` is valid.
    unsafe { time.write_unaligned(timespec(ns)) };
    0
}

/// Serves `gettimeofday` without a time zone, inlined into its callers. Returns whether the page
/// serves the call. Otherwise the caller's original clock must answer.
///
/// # Safety
///
/// `time` must be null, or point to memory for a time.
#[inline(always)]
pub(crate) unsafe fn serve_time_of_day(time: *mut Timeval) -> bool {
    if time.is_null() {
        return false;
    }
    let Some(ns) = serve::time_ns(Timescale::Unix, &Original::by_time_of_day()) else {
        return false;
    };
    let Timespec { seconds, nanos } = timespec(ns);
    let time_of_day = Timeval {
        seconds,
        micros: nanos / 1_000,
    };
    // SAFETY: `time` is not null, so the caller promises that it is valid.
    unsafe { time.write_unaligned(time_of_day) };
    true
}

/// Splits `ns` into seconds and the nanoseconds within the second.
#[inline(always)]
#[expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "both parts of a time from 1970 on are positive and below 2^63"
)]
pub(crate) const fn timespec(ns: i64) -> Timespec {
    if ns < 0 {
        return Timespec {
            seconds: ns.div_euclid(NANOS),
            nanos: ns.rem_euclid(NANOS),
        };
    }
    // An unsigned division takes half as many instructions as a signed one.
    let (ns, second) = (ns as u64, NANOS as u64);
    Timespec {
        seconds: (ns / second) as i64,
        nanos: (ns % second) as i64,
    }
}

const _: () = {
    let [last, first, year_2262] = [timespec(-1), timespec(0), timespec(i64::MAX)];
    assert!(
        last.seconds == -1 && last.nanos == 999_999_999 && first.seconds == 0 && first.nanos == 0
    );
    assert!(year_2262.seconds == 9_223_372_036 && year_2262.nanos == 854_775_807);
};
