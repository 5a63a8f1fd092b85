//! The functions that stand before libc's in a program with `LD_PRELOAD`: -1 and `errno` in case of
//! an error, as libc has it.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

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
    with_errno(unsafe { abi::clock_gettime_inline(clock, time) })
}

/// # Safety
///
/// As libc's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut Timeval, zone: *mut u64) -> c_int {
    // About the time zone, each libc has an answer of its own, which may differ from the kernel's.
    let own = if zone.is_null() { None } else { own(&GETTIMEOFDAY) };
    if let Some(own) = own {
        // SAFETY: libc's function of this name, whose type this is.
        let own: unsafe extern "C" fn(*mut Timeval, *mut u64) -> c_int =
            unsafe { core::mem::transmute(own.as_ptr()) };
        // SAFETY: by the caller's promise.
        return unsafe { own(time, zone) };
    }
    // SAFETY: by the caller's promise.
    with_errno(unsafe { abi::gettimeofday_inline(time, zone) })
}

const TIME_UTC: c_int = 1;

/// `RTLD_NEXT`: the next library that has the symbol.
const NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// # Safety
///
/// As libc's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(time: *mut Timespec, base: c_int) -> c_int {
    if base == TIME_UTC && !time.is_null() {
        // SAFETY: by the caller's promise.
        let result = unsafe { abi::clock_gettime_inline(CLOCK_REALTIME, time) };
        return if result == 0 { base } else { 0 };
    }
    let Some(own) = own(&TIMESPEC_GET) else { return 0 };
    // SAFETY: libc's function of this name, whose type this is.
    let own: unsafe extern "C" fn(*mut Timespec, c_int) -> c_int =
        unsafe { core::mem::transmute(own.as_ptr()) };
    // SAFETY: by the caller's promise.
    unsafe { own(time, base) }
}

/// Libc's own functions; null where they are not found, or not yet.
static GETTIMEOFDAY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static TIMESPEC_GET: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn own(function: &AtomicPtr<c_void>) -> Option<NonNull<c_void>> {
    // ORDERING: Relaxed: the address of what is there all the time.
    NonNull::new(function.load(Ordering::Relaxed))
}

/// Finds libc's own functions. To be called when the library is loaded: later, the linker's lock
/// could be held by a thread that a fork has left behind.
pub(crate) fn find_own() {
    for (place, name) in [(&GETTIMEOFDAY, c"gettimeofday"), (&TIMESPEC_GET, c"timespec_get")] {
        let found = next(name).map_or(ptr::null_mut(), NonNull::as_ptr);
        // ORDERING: Relaxed, as in `own`.
        place.store(found, Ordering::Relaxed);
    }
}

/// Libc's function of this name; `None` where that is not found.
fn next(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the code above, which loads an address, and changes no register but its result's.
    let dlsym = NonNull::new(unsafe { tickline_dlsym() })?;
    // SAFETY: libc's function of this name, whose type this is.
    let dlsym: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void =
        unsafe { core::mem::transmute(dlsym.as_ptr()) };
    // SAFETY: a name with a zero at its end.
    NonNull::new(unsafe { dlsym(NEXT, name.as_ptr()) })
}
