//! The functions that stand before libc's in a program with `LD_PRELOAD`: -1 and `errno` in case of
//! an error, as libc has it.

use core::ffi::{c_char, c_int, c_void};

use crate::abi;
use crate::original::{CLOCK_REALTIME, Timespec, Timeval};

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
    /// The address of libc's `dlsym`; null where the program has none: before glibc 2.34 it is in a
    /// library of its own.
    fn tickline_dlsym() -> *mut c_void;
}

core::arch::global_asm!(
    ".weak dlsym",
    ".hidden tickline_dlsym",
    ".globl tickline_dlsym",
    "tickline_dlsym:",
    "mov rax, [rip + dlsym@GOTPCREL]",
    "ret",
);

/// What libc's function returns for the kernel's result.
fn with_errno(result: c_int) -> c_int {
    if result >= 0 {
        return result;
    }
    // SAFETY: libc's own function.
    let errno = unsafe { __errno_location() };
    // SAFETY: the thread's own variable.
    unsafe { *errno = -result };
    -1
}

/// # Safety
///
/// As libc's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    // SAFETY: by the caller's promise.
    with_errno(unsafe { abi::clock_gettime(clock, time) })
}

/// # Safety
///
/// As libc's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut Timeval, zone: *mut u64) -> c_int {
    // SAFETY: by the caller's promise.
    with_errno(unsafe { abi::gettimeofday(time, zone) })
}

const TIME_UTC: c_int = 1;

/// `RTLD_NEXT`: the next library that has the symbol.
const NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);

/// # Safety
///
/// As libc's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(time: *mut Timespec, base: c_int) -> c_int {
    if base == TIME_UTC && !time.is_null() {
        // SAFETY: by the caller's promise.
        let result = unsafe { abi::clock_gettime(CLOCK_REALTIME, time) };
        return if result == 0 { base } else { 0 };
    }
    // SAFETY: takes no argument.
    let dlsym = unsafe { tickline_dlsym() };
    if dlsym.is_null() {
        return 0;
    }
    // SAFETY: libc's function of this name, whose type this is.
    let dlsym: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void =
        unsafe { core::mem::transmute(dlsym) };
    // SAFETY: a name with a zero at its end.
    let next = unsafe { dlsym(NEXT, c"timespec_get".as_ptr()) };
    if next.is_null() {
        return 0;
    }
    // SAFETY: libc's function of this name, whose type this is.
    let next: unsafe extern "C" fn(*mut Timespec, c_int) -> c_int = unsafe { core::mem::transmute(next) };
    // SAFETY: by the caller's promise.
    unsafe { next(time, base) }
}
