//! The functions to which the redirected vDSO symbols lead. Like the kernel's own (vdso(7)), they
//! return 0 or a negative error number, and leave `errno` as it is.

use core::ffi::c_int;

use tickline_page::protocol::Timescale;

use crate::original::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, NANOS, Timespec, Timeval};
use crate::serve::{self, Original};
use crate::state::state;

/// `clock_gettime`, for callers of the vDSO. The trampoline passes the vDSO's address as `vdso`.
/// Never faults for a clock that the page does not serve.
///
/// # Safety
///
/// As `clock_gettime`: `time` is null, or there is room for a time at it.
pub(crate) unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec, vdso: *mut u8) -> c_int {
    state().set_vdso_start(vdso);
    // SAFETY: by the caller's promise.
    unsafe { clock_gettime_inline(clock, time) }
}

/// `gettimeofday`, likewise.
///
/// # Safety
///
/// As `gettimeofday`: each is null, or there is room at it.
pub(crate) unsafe extern "C" fn gettimeofday(time: *mut Timeval, zone: *mut u64, vdso: *mut u8) -> c_int {
    state().set_vdso_start(vdso);
    // SAFETY: by the caller's promise.
    unsafe { gettimeofday_inline(time, zone) }
}

/// `clock_gettime`, inlined into its callers. Calls between functions would be a large part of a
/// reading's cost, most of all in an emulator.
///
/// # Safety
///
/// As [`clock_gettime`].
#[inline(always)]
pub(crate) unsafe fn clock_gettime_inline(clock: c_int, time: *mut Timespec) -> c_int {
    let state = state();
    // The kernel decides what a null pointer means.
    let Some((attached, service)) = state.attached().filter(|_| !time.is_null()) else {
        return original::clock_gettime(clock, time);
    };
    let timescale = match clock {
        CLOCK_MONOTONIC => match serve::monotonic_by_line_ns(state, attached, service) {
            // SAFETY: not null.
            Some(ns) => return unsafe { store(time, ns) },
            None => Timescale::Monotonic,
        },
        CLOCK_REALTIME => Timescale::Unix,
        _ => return original::clock_gettime(clock, time),
    };
    // SAFETY: not null.
    unsafe { serve_out_of_line(time, clock, timescale) }
}

/// Serves a reading that the fast path could not. It is a function of its own because it needs
/// all registers.
///
/// # Safety
///
/// There is room for a time at `time`.
#[inline(never)]
unsafe fn serve_out_of_line(time: *mut Timespec, clock: c_int, timescale: Timescale) -> c_int {
    match serve::time_ns(timescale, &Original::new()) {
        // SAFETY: by the caller's promise.
        Some(ns) => unsafe { store(time, ns) },
        None => original::clock_gettime(clock, time),
    }
}

/// # Safety
///
/// There is room for a time at `time`. `time` may be unaligned, as the kernel accepts that too.
#[inline(always)]
unsafe fn store(time: *mut Timespec, ns: i64) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { time.write_unaligned(timespec(ns)) };
    0
}

/// `gettimeofday`.
///
/// # Safety
///
/// As [`gettimeofday`].
#[inline(always)]
pub(crate) unsafe fn gettimeofday_inline(time: *mut Timeval, zone: *mut u64) -> c_int {
    if !zone.is_null() || time.is_null() {
        return original::gettimeofday(time, zone);
    }
    match serve::time_ns(Timescale::Unix, &Original::by_time_of_day()) {
        Some(ns) => {
            let Timespec { seconds, nanos } = timespec(ns);
            let time_of_day = Timeval { seconds, micros: nanos / 1_000 };
            // SAFETY: as in `clock_gettime`.
            unsafe { time.write_unaligned(time_of_day) };
            0
        }
        None => original::gettimeofday(time, zone),
    }
}

/// Splits `ns` into seconds and the nanoseconds within the second.
#[inline(always)]
#[expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "both parts of a time from 1970 on are less"
)]
pub(crate) const fn timespec(ns: i64) -> Timespec {
    if ns < 0 {
        return Timespec { seconds: ns.div_euclid(NANOS), nanos: ns.rem_euclid(NANOS) };
    }
    // Unsigned division takes half as many instructions.
    let (ns, second) = (ns as u64, NANOS as u64);
    Timespec { seconds: (ns / second) as i64, nanos: (ns % second) as i64 }
}

const _: () = {
    let [last, first, year_2262] = [timespec(-1), timespec(0), timespec(i64::MAX)];
    assert!(last.seconds == -1 && last.nanos == 999_999_999 && first.seconds == 0 && first.nanos == 0);
    assert!(year_2262.seconds == 9_223_372_036 && year_2262.nanos == 854_775_807);
};
