//! The clocks that this library replaces: the vDSO's own functions, or the kernel's system calls.
//! They answer the calls that the page does not serve, and return 0 or a negative error number.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::state::state;

/// `struct timespec`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timespec {
    pub(crate) seconds: i64,
    pub(crate) nanos: i64,
}

/// `struct timeval`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeval {
    pub(crate) seconds: i64,
    pub(crate) micros: i64,
}

pub(crate) const CLOCK_REALTIME: c_int = 0;
pub(crate) const CLOCK_MONOTONIC: c_int = 1;
pub(crate) const CLOCK_REALTIME_COARSE: c_int = 5;

const SYS_GETTIMEOFDAY: usize = 96;
const SYS_CLOCK_GETTIME: usize = 228;

pub(crate) const NANOS: i64 = 1_000_000_000;

/// The function at `offset` bytes from the vDSO's start; `None` for offset 0, which means that the
/// vDSO does not have the function.
#[inline(always)]
fn in_vdso(offset: &AtomicUsize) -> Option<NonNull<u8>> {
    // ORDERING: Relaxed, for both: they are stored before any symbol leads here. Only the start
    // changes later (`set_vdso_start`).
    let start = state().vdso.load(Ordering::Relaxed);
    let offset = offset.load(Ordering::Relaxed);
    if offset == 0 {
        return None;
    }
    NonNull::new(start.wrapping_add(offset))
}

/// The vDSO's own function; `None` without a vDSO.
#[inline(always)]
pub(crate) fn vdso_clock_gettime() -> Option<extern "C" fn(c_int, *mut Timespec) -> c_int> {
    let function = in_vdso(&state().clock_gettime);
    // SAFETY: null, or the address of the vDSO's function, which has this type (vdso(7)).
    unsafe { core::mem::transmute(function) }
}

/// Asks the vDSO itself, or the kernel where there is no vDSO.
pub(crate) fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    match vdso_clock_gettime() {
        Some(vdso) => vdso(clock, time),
        // The kernel reads only the lower half of the register.
        None => system_call(
            SYS_CLOCK_GETTIME,
            clock.cast_unsigned() as usize,
            time as usize,
        ),
    }
}

pub(crate) fn gettimeofday(time: *mut Timeval, zone: *mut u64) -> c_int {
    let Some(function) = in_vdso(&state().gettimeofday) else {
        return system_call(SYS_GETTIMEOFDAY, time as usize, zone as usize);
    };
    // SAFETY: this is the address of the vDSO's function, which has this type (vdso(7)).
    let function: extern "C" fn(*mut Timeval, *mut u64) -> c_int =
        unsafe { core::mem::transmute(function) };
    function(time, zone)
}

/// A system call with two arguments. It bypasses libc, which would set `errno`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel returns 0 or a small negative number"
)]
fn system_call(number: usize, first: usize, second: usize) -> c_int {
    let result: isize;
    // SAFETY: this is the kernel's calling convention on x86_64 (syscall(2)), which changes `rcx`
    // and `r11`. The kernel checks the pointers.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result as c_int
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    const EMPTY: Timespec = Timespec {
        seconds: 0,
        nanos: 0,
    };

    /// Unix time by std, s.
    fn unix_s() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        since.as_secs().cast_signed()
    }

    const REALTIME: usize = CLOCK_REALTIME.cast_unsigned() as usize;

    #[test]
    fn the_kernel_writes_its_time() {
        let mut time = EMPTY;
        let (before_s, address) = (unix_s(), &raw mut time);
        assert_eq!(
            system_call(SYS_CLOCK_GETTIME, REALTIME, address as usize),
            0
        );
        assert!((before_s..=unix_s()).contains(&time.seconds));
    }

    #[test]
    fn the_kernel_writes_its_time_of_day() {
        let mut time = Timeval {
            seconds: 0,
            micros: 0,
        };
        let (before_s, address) = (unix_s(), &raw mut time);
        assert_eq!(system_call(SYS_GETTIMEOFDAY, address as usize, 0), 0);
        assert!((before_s..=unix_s()).contains(&time.seconds));
    }

    #[test]
    fn an_error_of_the_kernel_is_a_negative_number() {
        const EINVAL: c_int = 22;
        const NO_CLOCK: usize = 999;
        let mut time = EMPTY;
        let address = &raw mut time;
        assert_eq!(
            system_call(SYS_CLOCK_GETTIME, NO_CLOCK, address as usize),
            -EINVAL
        );
    }
}
