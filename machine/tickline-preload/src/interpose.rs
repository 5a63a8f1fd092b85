//! The functions that replace libc's in a program with `LD_PRELOAD`. Like libc's functions, they
//! report an error by -1 and `errno`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::abi;
use crate::libc_name::is_of_libc;
use crate::original::{self, CLOCK_REALTIME, Timespec, Timeval};

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// Converts the kernel's result to libc's convention.
fn with_errno(result: c_int) -> c_int {
    if result >= 0 {
        return result;
    }
    // SAFETY: this is libc's function, which has no conditions.
    let errno = unsafe { __errno_location() };
    // SAFETY: the variable belongs to this thread, and is valid as long as the thread.
    unsafe { *errno = -result };
    -1
}

/// # Safety
///
/// The condition of libc's function: `time` is null, or points to memory for a time.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    // SAFETY: the caller promises that `time` is null or valid.
    match unsafe { abi::clock_gettime_inline(clock, time) } {
        Some(result) => with_errno(result),
        // SAFETY: the caller promises that `time` is null or valid.
        None => unsafe { unattached_clock_gettime(clock, time) },
    }
}

/// The call in a process that is not attached, or without memory for a time: the next library's, if
/// this one stands back, or else the vDSO's.
///
/// # Safety
///
/// The condition of libc's function: `time` is null, or points to memory for a time.
#[cold]
#[inline(never)]
unsafe fn unattached_clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    let Some(function) = hidden_function(&CLOCK_GETTIME) else {
        return with_errno(original::clock_gettime(clock, time));
    };
    // SAFETY: this is the type of libc's function of this name, and of one that replaces it.
    let function: unsafe extern "C" fn(c_int, *mut Timespec) -> c_int =
        unsafe { core::mem::transmute(function.as_ptr()) };
    // SAFETY: the caller promises that `time` is null or valid.
    unsafe { function(clock, time) }
}

/// # Safety
///
/// The condition of libc's function: each pointer is null, or points to memory for its value.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut Timeval, zone: *mut u64) -> c_int {
    if !zone.is_null() {
        // SAFETY: the caller promises that each pointer is null or valid.
        return unsafe { unserved_gettimeofday(time, zone) };
    }
    // SAFETY: the caller promises that `time` is null or valid.
    if unsafe { abi::serve_time_of_day(time) } {
        return 0;
    }
    // SAFETY: the caller promises that `time` is null or valid.
    unsafe { unserved_gettimeofday(time, ptr::null_mut()) }
}

/// The call that the page does not serve.
///
/// # Safety
///
/// The condition of libc's function: each pointer is null, or points to memory for its value.
#[cold]
#[inline(never)]
unsafe fn unserved_gettimeofday(time: *mut Timeval, zone: *mut u64) -> c_int {
    // A libc's answer about the time zone may differ from the kernel's.
    let function = if zone.is_null() {
        hidden_function(&GETTIMEOFDAY)
    } else {
        next_function(&GETTIMEOFDAY)
    };
    let Some(function) = function else {
        return with_errno(original::gettimeofday(time, zone));
    };
    // SAFETY: this is the type of libc's function of this name, and of one that replaces it.
    let function: unsafe extern "C" fn(*mut Timeval, *mut u64) -> c_int =
        unsafe { core::mem::transmute(function.as_ptr()) };
    // SAFETY: the caller promises that each pointer is null or valid.
    unsafe { function(time, zone) }
}

const TIME_UTC: c_int = 1;

/// # Safety
///
/// The condition of libc's function: `time` is null, or points to memory for a time.
#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(time: *mut Timespec, base: c_int) -> c_int {
    if base == TIME_UTC {
        // SAFETY: the caller promises that `time` is null or valid.
        if let Some(result) = unsafe { abi::clock_gettime_inline(CLOCK_REALTIME, time) } {
            return if result == 0 { base } else { 0 };
        }
    }
    let is_utc = base == TIME_UTC && !time.is_null();
    let function = if is_utc {
        hidden_function(&TIMESPEC_GET)
    } else {
        next_function(&TIMESPEC_GET)
    };
    let Some(function) = function else {
        let is_read = is_utc && original::clock_gettime(CLOCK_REALTIME, time) == 0;
        return if is_read { base } else { 0 };
    };
    // SAFETY: this is the type of libc's function of this name, and of one that replaces it.
    let function: unsafe extern "C" fn(*mut Timespec, c_int) -> c_int =
        unsafe { core::mem::transmute(function.as_ptr()) };
    // SAFETY: the caller promises that `time` is null or valid.
    unsafe { function(time, base) }
}

/// Functions that some libcs do not have. Static programs have none of them.
#[repr(C)]
pub(crate) struct OptionalFunctions {
    /// glibc has this function since 2.16.
    pub(crate) getauxval: Option<unsafe extern "C" fn(usize) -> usize>,
    /// Before glibc 2.34, this function is in `libdl`.
    pub(crate) dlsym: Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>,
    /// As `dlsym`.
    dladdr: Option<unsafe extern "C" fn(*const c_void, *mut DlInfo) -> c_int>,
}

/// `Dl_info` of dladdr(3).
#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *const c_void,
    symbol: *const c_char,
    address: *const c_void,
}

unsafe extern "C" {
    static tickline_optional: OptionalFunctions;
}

// The dynamic linker writes the addresses, and 0 for a weak symbol that it does not find.
core::arch::global_asm!(
    ".weak getauxval, dlsym, dladdr",
    ".hidden tickline_optional",
    ".globl tickline_optional",
    ".pushsection .data.rel.ro.tickline, \"aw\"",
    ".balign 8",
    "tickline_optional: .quad getauxval, dlsym, dladdr",
    ".popsection",
);

pub(crate) fn optional_functions() -> &'static OptionalFunctions {
    // SAFETY: each word is 0, or the address of a function of the field's type. The dynamic linker
    // writes the words before it runs code of this library.
    unsafe { &tickline_optional }
}

/// The next library's functions: libc's, or those of a library that replaces libc's, as libfaketime
/// does. Null until `find_next_functions` finds them.
static CLOCK_GETTIME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static GETTIMEOFDAY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static TIMESPEC_GET: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn next_function(function: &AtomicPtr<c_void>) -> Option<NonNull<c_void>> {
    // ORDERING: Relaxed: the function at this address exists as long as the program.
    NonNull::new(function.load(Ordering::Relaxed))
}

/// Whether this library stands back for one that it hides. Set when the library is loaded.
static STANDS_BACK: AtomicBool = AtomicBool::new(false);

/// The next library's function, if this library stands back.
fn hidden_function(function: &AtomicPtr<c_void>) -> Option<NonNull<c_void>> {
    // ORDERING: Relaxed: the functions were stored before, by the same thread, and at a time when
    // no other thread called this library.
    if STANDS_BACK.load(Ordering::Relaxed) {
        next_function(function)
    } else {
        None
    }
}

/// `RTLD_NEXT`: the next library that has the symbol.
const NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// Finds the next library's functions. Called only when the library is loaded, because a forked
/// child might wait for ever: a thread that the child does not have may hold the linker's lock.
pub(crate) fn find_next_functions() {
    let Some(dlsym) = optional_functions().dlsym else {
        return;
    };
    for (function, name) in [
        (&CLOCK_GETTIME, c"clock_gettime"),
        (&GETTIMEOFDAY, c"gettimeofday"),
        (&TIMESPEC_GET, c"timespec_get"),
    ] {
        // SAFETY: the name ends with a zero.
        let found = unsafe { dlsym(NEXT, name.as_ptr()) };
        // ORDERING: Relaxed: the function at this address exists as long as the program.
        function.store(found, Ordering::Relaxed);
    }
}

/// Stands back if this library hides another one that replaces libc's functions, as libfaketime
/// does. Otherwise some of the program's calls would get the other library's time, and some the
/// page's. A library in front of this one is not hidden, and asks this one as it would ask libc.
/// `vdso` is the vDSO's start, or null. Called once, after `find_next_functions`. Returns whether
/// this library stands back.
pub(crate) fn stand_back_if_hiding(vdso: *const c_void) -> bool {
    let hides = [&CLOCK_GETTIME, &GETTIMEOFDAY, &TIMESPEC_GET]
        .into_iter()
        .filter_map(next_function)
        .any(|function| is_of_another_library(function.as_ptr(), vdso));
    // ORDERING: Relaxed, for the reason given in `hidden_function`.
    STANDS_BACK.store(hides, Ordering::Relaxed);
    hides
}

/// Whether `function` is in no part of libc, and not in the vDSO, to which glibc's `gettimeofday`
/// leads.
fn is_of_another_library(function: *const c_void, vdso: *const c_void) -> bool {
    let Some(found) = object_of(function) else {
        return false;
    };
    if found.base == vdso || found.file.is_null() {
        return false;
    }
    // SAFETY: the dynamic linker's names end with a zero, and live as long as the object.
    let path = unsafe { CStr::from_ptr(found.file) }.to_bytes();
    !is_of_libc(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

/// The object that contains `address`; `None` if there is none.
fn object_of(address: *const c_void) -> Option<DlInfo> {
    let dladdr = optional_functions().dladdr?;
    let mut info = DlInfo {
        file: ptr::null(),
        base: ptr::null(),
        symbol: ptr::null(),
        address: ptr::null(),
    };
    // SAFETY: `info` has room for the result, and `dladdr` accepts any address.
    let found = unsafe { dladdr(address, &raw mut info) };
    (found != 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there is no vDSO.
    fn is_of_another(function: *const c_void) -> bool {
        is_of_another_library(function, ptr::null())
    }

    const OF_THE_PROGRAM: *const c_void = is_of_another as *const c_void;

    #[test]
    fn a_function_of_libc_is_of_no_other_library() {
        assert!(!is_of_another(libc::getppid as *const c_void));
    }

    #[test]
    fn a_function_outside_of_libc_is_of_another_library() {
        assert!(is_of_another(OF_THE_PROGRAM));
    }

    #[test]
    fn a_function_of_the_vdso_is_of_no_other_library() {
        let vdso = object_of(OF_THE_PROGRAM).unwrap().base;
        assert!(!is_of_another_library(OF_THE_PROGRAM, vdso));
    }

    #[test]
    fn an_address_without_an_object_is_of_no_other_library() {
        assert!(!is_of_another(ptr::null()));
    }
}
