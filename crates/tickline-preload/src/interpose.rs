//! The functions that replace libc's in a program with `LD_PRELOAD`. As libc's functions do, they
//! report an error by -1 and `errno`.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::abi;
use crate::original::{CLOCK_REALTIME, Timespec, Timeval};

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// Converts the kernel's result to libc's convention.
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
    // Each libc answers about the time zone in its own way, which may differ from the kernel's.
    let function = if zone.is_null() { None } else { libc_function(&GETTIMEOFDAY) };
    if let Some(function) = function {
        // SAFETY: this is the type of libc's function of this name.
        let function: unsafe extern "C" fn(*mut Timeval, *mut u64) -> c_int =
            unsafe { core::mem::transmute(function.as_ptr()) };
        // SAFETY: by the caller's promise.
        return unsafe { function(time, zone) };
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
    let Some(function) = libc_function(&TIMESPEC_GET) else { return 0 };
    // SAFETY: this is the type of libc's function of this name.
    let function: unsafe extern "C" fn(*mut Timespec, c_int) -> c_int =
        unsafe { core::mem::transmute(function.as_ptr()) };
    // SAFETY: by the caller's promise.
    unsafe { function(time, base) }
}

/// Functions that not every libc, and no static program, has.
#[repr(C)]
pub(crate) struct OptionalFunctions {
    /// glibc has it since 2.16.
    pub(crate) getauxval: Option<unsafe extern "C" fn(usize) -> usize>,
    /// Before glibc 2.34 it is in a library of its own.
    pub(crate) dlsym: Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>,
}

unsafe extern "C" {
    static tickline_optional: OptionalFunctions;
}

// The dynamic linker writes the addresses. A weak symbol that it does not find is 0.
core::arch::global_asm!(
    ".weak getauxval, dlsym",
    ".hidden tickline_optional",
    ".globl tickline_optional",
    ".pushsection .data.rel.ro.tickline, \"aw\"",
    ".balign 8",
    "tickline_optional: .quad getauxval, dlsym",
    ".popsection",
);

pub(crate) fn optional_functions() -> &'static OptionalFunctions {
    // SAFETY: the words above, which are 0, or addresses of functions of these types. The dynamic
    // linker has written them before it runs code of this library.
    unsafe { &tickline_optional }
}

/// Libc's own functions; null until `find_libc_functions` finds them.
static GETTIMEOFDAY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static TIMESPEC_GET: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn libc_function(function: &AtomicPtr<c_void>) -> Option<NonNull<c_void>> {
    // ORDERING: Relaxed: the function at this address is there all the time.
    NonNull::new(function.load(Ordering::Relaxed))
}

/// Finds libc's own functions. Called only when the library is loaded. In a forked child, the
/// linker's lock may belong to a thread of the parent, which does not exist in the child.
pub(crate) fn find_libc_functions() {
    let Some(dlsym) = optional_functions().dlsym else { return };
    for (place, name) in [(&GETTIMEOFDAY, c"gettimeofday"), (&TIMESPEC_GET, c"timespec_get")] {
        // SAFETY: a name with a zero at its end.
        let found = unsafe { dlsym(NEXT, name.as_ptr()) };
        // ORDERING: Relaxed, as in `libc_function`.
        place.store(found, Ordering::Relaxed);
    }
}
