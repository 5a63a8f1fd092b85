//! The memory through which this thread tells the kernel of its restartable sequence.
//!
//! A thread has one such area. glibc registers it from version 2.35 on, and says where it is by
//! `__rseq_offset` and `__rseq_size`. Where libc does not (musl), this crate registers its own.

use core::cell::Cell;
use core::ffi::CStr;
use core::mem::offset_of;
use core::ptr::NonNull;
use std::boxed::Box;
use std::sync::OnceLock;

/// `struct rseq` of `linux/rseq.h`, as it was first: what every kernel since 4.18 accepts.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct Area {
    cpu_id_start: u32,
    /// Negative as long as the thread is not registered.
    cpu_id: i32,
    /// The descriptor of the present sequence; 0 for none.
    pub(super) sequence: u64,
    flags: u32,
    _reserved: [u32; 3],
}

const _: () = assert!(size_of::<Area>() == 32 && offset_of!(Area, sequence) == 8);

/// What stands before a sequence's abort handler (`RSEQ_SIG` of glibc on x86).
pub(super) const SIGNATURE: u32 = 0x5305_3053;

std::thread_local! {
    /// The area that this crate has registered for the thread; or that it may not.
    static OWN: Cell<Option<Option<NonNull<Area>>>> = const { Cell::new(None) };
}

/// This thread's area, if it has one.
pub(super) fn area() -> Option<NonNull<Area>> {
    match of_libc() {
        Some(area) => Some(area),
        None => OWN.get().unwrap_or_else(|| {
            let own = register();
            OWN.set(Some(own));
            own
        }),
    }
}

/// Where glibc has put the areas of all threads, from the thread pointer on.
fn of_libc() -> Option<NonNull<Area>> {
    static OFFSET: OnceLock<Option<isize>> = OnceLock::new();
    let offset = (*OFFSET.get_or_init(|| {
        // SAFETY: `unsigned int` and `ptrdiff_t` (sys/rseq.h).
        let size = unsafe { symbol::<u32>(c"__rseq_size") }?;
        // SAFETY: as above.
        let offset = unsafe { symbol::<isize>(c"__rseq_offset") }?;
        (size > 0).then_some(offset)
    }))?;
    let thread: *mut u8;
    // SAFETY: the first word behind the thread pointer is the thread pointer (System V ABI, x86-64
    // supplement, variant II of thread-local storage).
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly, preserves_flags));
    }
    let area = NonNull::new(thread.wrapping_offset(offset).cast::<Area>())?;
    // SAFETY: within glibc's area of this thread, which has at least these 32 bytes.
    let place = unsafe { area.byte_add(offset_of!(Area, cpu_id)) }.cast::<i32>();
    // SAFETY: the area lives as long as the thread. The kernel changes it while the thread does not
    // run, hence the volatile load.
    let cpu_id = unsafe { place.read_volatile() };
    (cpu_id >= 0).then_some(area)
}

/// The value of a constant of libc's; `None` if there is none of this name.
///
/// # Safety
///
/// If libc has the constant, its type must be `T`.
unsafe fn symbol<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: the name is a C string.
    let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: of type `T`, by the caller's promise; libc does not change it after its start.
    NonNull::new(place).map(|place| unsafe { place.cast::<T>().read() })
}

/// Registers an area for this thread, where libc has not.
fn register() -> Option<NonNull<Area>> {
    // Never freed: the kernel writes to it for as long as the thread runs.
    let area = NonNull::from(Box::leak(Box::new(Area {
        cpu_id_start: 0,
        cpu_id: -1,
        sequence: 0,
        flags: 0,
        _reserved: [0; 3],
    })));
    let (bytes, flags) = (32_u32, 0_u32);
    // SAFETY: the area is 32 bytes at a multiple of 32 and lives for ever. If the thread has
    // another one already, the kernel refuses.
    let result = unsafe { libc::syscall(libc::SYS_rseq, area.as_ptr(), bytes, flags, SIGNATURE) };
    (result == 0).then_some(area)
}
