//! The rseq area, in which the kernel finds a thread's restartable sequence.
//!
//! A thread has one such area. glibc 2.35 and later registers it, and states its address by
//! `__rseq_offset` and `__rseq_size`. If libc registers none (musl), this crate registers one.

use core::cell::Cell;
use core::ffi::CStr;
use core::mem::offset_of;
use core::ptr::NonNull;
use std::boxed::Box;
use std::sync::OnceLock;

/// The first version of `struct rseq` (`linux/rseq.h`), which every kernel since 4.18 accepts.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct Area {
    cpu_id_start: u32,
    /// The thread's CPU; negative while the area is not registered.
    cpu_id: i32,
    /// The address of the current sequence's descriptor; 0 outside of a sequence.
    pub(super) sequence: u64,
    flags: u32,
    _reserved: [u32; 3],
}

const _: () = assert!(size_of::<Area>() == 32 && offset_of!(Area, sequence) == 8);

/// The 4 bytes before a sequence's abort handler (`RSEQ_SIG` of glibc on x86).
pub(super) const SIGNATURE: u32 = 0x5305_3053;

std::thread_local! {
    /// The area that this crate has registered for the thread. `Some(None)` if the kernel refused,
    /// `None` before the first attempt.
    static REGISTERED: Cell<Option<Option<NonNull<Area>>>> = const { Cell::new(None) };
}

/// This thread's area, if it has one.
pub(super) fn area() -> Option<NonNull<Area>> {
    match libc_area() {
        Some(area) => Some(area),
        None => REGISTERED.get().unwrap_or_else(|| {
            let area = register();
            REGISTERED.set(Some(area));
            area
        }),
    }
}

/// The area that glibc has registered for this thread, at a fixed offset from the thread pointer.
fn libc_area() -> Option<NonNull<Area>> {
    static OFFSET: OnceLock<Option<isize>> = OnceLock::new();
    let offset = (*OFFSET.get_or_init(|| {
        // SAFETY: the constant is an `unsigned int` (sys/rseq.h).
        let size = unsafe { symbol::<u32>(c"__rseq_size") }?;
        // SAFETY: the constant is a `ptrdiff_t` (sys/rseq.h).
        let offset = unsafe { symbol::<isize>(c"__rseq_offset") }?;
        (size > 0).then_some(offset)
    }))?;
    let thread: *mut u8;
    // SAFETY: the word at the thread pointer is the thread pointer itself (System V ABI, x86-64
    // supplement, variant II of thread-local storage).
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly, preserves_flags));
    }
    let area = NonNull::new(thread.wrapping_offset(offset).cast::<Area>())?;
    // SAFETY: the field is within glibc's area of this thread, which has at least these 32 bytes.
    let cpu_id = unsafe { area.byte_add(offset_of!(Area, cpu_id)) }.cast::<i32>();
    // SAFETY: the area lives as long as the thread. The load is volatile, because the kernel
    // changes the field while the thread does not run.
    let cpu_id = unsafe { cpu_id.read_volatile() };
    (cpu_id >= 0).then_some(area)
}

/// The value of libc's constant `name`; `None` if libc has no such constant.
///
/// # Safety
///
/// If libc has the constant, its type must be `T`.
unsafe fn symbol<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: the name is a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the caller promises that the type is `T`. After its start, libc does not change the
    // constant.
    NonNull::new(address).map(|address| unsafe { address.cast::<T>().read() })
}

/// Registers an area for this thread, if libc has registered none.
fn register() -> Option<NonNull<Area>> {
    // Never freed, because the kernel writes to the area for as long as the thread runs.
    let area = NonNull::from(Box::leak(Box::new(Area {
        cpu_id_start: 0,
        cpu_id: -1,
        sequence: 0,
        flags: 0,
        _reserved: [0; 3],
    })));
    let bytes = 32_u32;
    let flags = 0_u32;
    // SAFETY: the area is 32 bytes at a multiple of 32, and is never freed. If the thread already
    // has another area, the kernel refuses.
    let result = unsafe { libc::syscall(libc::SYS_rseq, area.as_ptr(), bytes, flags, SIGNATURE) };
    (result == 0).then_some(area)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// glibc 2.35 and later; the size is 0 if the kernel has refused.
    #[test]
    fn an_area_that_libc_has_registered_is_used() {
        // SAFETY: the constant is an `unsigned int` (sys/rseq.h).
        let size = unsafe { symbol::<u32>(c"__rseq_size") };
        assert_eq!(libc_area().is_some(), size.is_some_and(|size| size != 0));
    }
}
