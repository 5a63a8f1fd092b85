//! Opens the page, and decides whether it serves this process. Runs once, before the program.

use core::ffi::CStr;
use core::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::{TimeStampCounterReadability, time_stamp_counter_readability};
use tickline_page::lease::Attachment;
use tickline_page::page_file::{FileError, PageFile};
use tickline_page::program::StartResult;

use crate::state::state;

/// Attaches to the page at `path`.
///
/// # Safety
///
/// The caller must call this once, while the process has one thread.
pub(crate) unsafe fn attach(path: &CStr) -> StartResult {
    // If the kernel denies RDTSC, its execution would end the program (prctl(2), PR_SET_TSC).
    if time_stamp_counter_readability() != Ok(TimeStampCounterReadability::Readable) {
        return StartResult::CounterDenied;
    }
    let path = path.to_bytes();
    if !path.starts_with(b"/") {
        return StartResult::NotAbsolute;
    }
    let file = match PageFile::open(path) {
        Ok(file) => file,
        Err(FileError::NoFileName | FileError::SymbolicLink | FileError::System { .. }) => {
            return StartResult::NoPage;
        }
        Err(_) => return StartResult::NotTrusted,
    };
    let Ok(context) = file.boot_context() else {
        return StartResult::OtherMachine;
    };
    let Ok(attached) = file.leak().attach(&context) else {
        return StartResult::OtherMachine;
    };
    let Some(attachment) = wiped_on_fork() else {
        return StartResult::OldKernel;
    };
    attached.raise_to_os_clock(&crate::serve::Original::new(), &state().process_high_water);
    // SAFETY: the caller promises that this is the only call, and that there is one thread.
    unsafe { state().attach(attached, attachment) };
    StartResult::Served
}

/// Maps memory that the kernel fills with zeros in a forked child (madvise(2), MADV_WIPEONFORK:
/// Linux 4.14).
fn wiped_on_fork() -> Option<&'static Attachment> {
    const MAPPED_BYTES: usize = size_of::<Attachment>();
    const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
    // SAFETY: the kernel chooses the address of the new mapping.
    let start =
        unsafe { mmap_anonymous(ptr::null_mut(), MAPPED_BYTES, READ_WRITE, MapFlags::PRIVATE) }
            .ok()?;
    // SAFETY: the range is the new mapping. The kernel rounds its length up to whole pages.
    unsafe { madvise(start, MAPPED_BYTES, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: the memory is aligned, never unmapped, and used only as an `Attachment`. Zeros, which
    // it holds now and again in each forked child, are a valid one: its fields are atomics.
    Some(unsafe { &*start.cast::<Attachment>() })
}
