//! The functions that replace libc's in a program with `LD_PRELOAD`. Like libc's functions, they
//! report an error by -1 and `errno`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::abi;
use crate::original::{self, CLOCK_REALTIME, Timespec, Timeval};
use crate::state::state;

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

/// The call in a process that is not attached: the next library's, if this one stands back, or else
/// the vDSO's.
///
/// # Safety
///
/// The condition of libc's function: `time` is null, or points to memory for a time.
#[cold]
#[inline(never)]
unsafe fn unattached_clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    let Some(function) = libc_function(&CLOCK_GETTIME) else {
        return with_errno(original::clock_gettime(clock, time));
    };
    // SAFETY: this is the type of libc's function of this name, which another library replaces.
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
    // A libc's answer about the time zone may differ from the kernel's.
    let function = if zone.is_null() && state().attached().is_some() {
        None
    } else {
        libc_function(&GETTIMEOFDAY)
    };
    if let Some(function) = function {
        // SAFETY: this is the type of libc's function of this name.
        let function: unsafe extern "C" fn(*mut Timeval, *mut u64) -> c_int =
            unsafe { core::mem::transmute(function.as_ptr()) };
        // SAFETY: the caller promises that each pointer is null or valid.
        return unsafe { function(time, zone) };
    }
    // SAFETY: the caller promises that each pointer is null or valid.
    with_errno(unsafe { abi::gettimeofday_inline(time, zone) })
}

const TIME_UTC: c_int = 1;

/// `RTLD_NEXT`: the next library that has the symbol.
const NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// # Safety
///
/// The condition of libc's function: `time` is null, or points to memory for a time.
#[unsafe(no_mangle)]
unsafe extern "C" fn timespec_get(time: *mut Timespec, base: c_int) -> c_int {
    if base == TIME_UTC && !time.is_null() {
        // SAFETY: the caller promises that `time` is valid.
        let result = match unsafe { abi::clock_gettime_inline(CLOCK_REALTIME, time) } {
            Some(result) => result,
            // SAFETY: the caller promises that `time` is valid.
            None => unsafe { unattached_clock_gettime(CLOCK_REALTIME, time) },
        };
        return if result == 0 { base } else { 0 };
    }
    let Some(function) = libc_function(&TIMESPEC_GET) else {
        return 0;
    };
    // SAFETY: this is the type of libc's function of this name.
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

/// The next library's `clock_gettime`, if that library is not libc; else null.
static CLOCK_GETTIME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Libc's own functions, or those of another library before it; null until `find_libc_functions` finds them.
static GETTIMEOFDAY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static TIMESPEC_GET: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn libc_function(function: &AtomicPtr<c_void>) -> Option<NonNull<c_void>> {
    // ORDERING: Relaxed: the function at this address exists as long as the program.
    NonNull::new(function.load(Ordering::Relaxed))
}

/// Finds libc's own functions. Called only when the library is loaded. In a forked child, the
/// linker's lock may belong to a thread of the parent, which does not exist in the child.
pub(crate) fn find_libc_functions() {
    let Some(dlsym) = optional_functions().dlsym else {
        return;
    };
    for (function, name) in [
        (&GETTIMEOFDAY, c"gettimeofday"),
        (&TIMESPEC_GET, c"timespec_get"),
    ] {
        // SAFETY: the name ends with a zero.
        let found = unsafe { dlsym(NEXT, name.as_ptr()) };
        // ORDERING: Relaxed: the function at this address exists as long as the program.
        function.store(found, Ordering::Relaxed);
    }
}

/// `RTLD_DEFAULT`: the first library that has the symbol.
const FIRST: *mut c_void = ptr::null_mut();

/// Whether another library, or the program, replaces a call for the time, as libfaketime does. This
/// library then stands back: otherwise some of the program's calls would get the other library's
/// time, and some the page's. `vdso` is the vDSO's start, or null. Called when the library is
/// loaded, and before it redirects the vDSO's symbols.
pub(crate) fn stands_back(vdso: *const c_void) -> bool {
    let Some(dlsym) = optional_functions().dlsym else {
        return false;
    };
    let names = [c"clock_gettime", c"gettimeofday", c"time", c"timespec_get"];
    let is_replaced = names.iter().any(|name| {
        [FIRST, NEXT].into_iter().any(|from| {
            // SAFETY: the name ends with a zero.
            let found = unsafe { dlsym(from, name.as_ptr()) };
            is_of_another_library(found, vdso)
        })
    });
    if is_replaced {
        // SAFETY: the name ends with a zero.
        let next = unsafe { dlsym(NEXT, c"clock_gettime".as_ptr()) };
        // ORDERING: Relaxed: the function at this address exists as long as the program.
        CLOCK_GETTIME.store(next, Ordering::Relaxed);
    }
    is_replaced
}

/// Whether `function` is in no part of libc, not in the vDSO and not in this library.
fn is_of_another_library(function: *const c_void, vdso: *const c_void) -> bool {
    let Some(found) = object_of(function) else {
        return false;
    };
    let own = object_of(unattached_clock_gettime as *const c_void);
    if found.base == vdso || own.is_none_or(|own| found.base == own.base) || found.file.is_null() {
        return false;
    }
    // SAFETY: the dynamic linker's names end with a zero.
    let path = unsafe { CStr::from_ptr(found.file) }.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    // Older glibcs have parts of these functions in librt. Musl's linker is its libc.
    let of_libc: [&[u8]; 5] = [b"libc.", b"libc-", b"librt", b"libpthread", b"ld-"];
    !of_libc.iter().any(|start| name.starts_with(start))
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
