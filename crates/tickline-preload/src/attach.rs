//! Finds the page, and decides whether this process is served. Runs once, before the program does.

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::AtomicU32;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use tickline_page::program::{self, Outcome};
use tickline_page::{Attached, FileFacts, Machine, PAGE_BYTES, Page, is_in_memory, judge_file};

use crate::state::state;

/// Whether the vDSO is fast here, as far as the kernel tells.
pub(crate) fn is_fast() -> bool {
    let mut text = [0; 64];
    read(program::CLOCKSOURCE, &mut text).is_some_and(program::is_fast)
}

/// Attaches to the page at `path`.
///
/// # Safety
///
/// To be called once, while there is one thread.
pub(crate) unsafe fn attach(path: &CStr) -> Outcome {
    // RDTSC would end the program where it is denied (prctl(2), PR_SET_TSC).
    match rustix::process::time_stamp_counter_readability() {
        Ok(rustix::process::TimeStampCounterReadability::Readable) => {}
        _ => return Outcome::CounterDenied,
    }
    let (page, is_in_memory) = match open(path) {
        Ok(found) => found,
        Err(outcome) => return outcome,
    };
    let machine = Machine::find_for(page, is_in_memory).ok();
    let Some(attached) = machine.and_then(|machine| page.attach(&machine).ok()) else {
        return Outcome::OtherMachine;
    };
    let Some(here) = wiped_on_fork() else { return Outcome::OldKernel };
    // SAFETY: by the caller's promise.
    unsafe { begin(attached, here) };
    Outcome::Served
}

/// # Safety
///
/// As [`attach`].
unsafe fn begin(attached: Attached<'static>, here: &'static AtomicU32) {
    attached.begin(&crate::serve::Original::new(), &state().floor);
    // SAFETY: by the caller's promise.
    unsafe { state().attach(attached, here) };
}

/// Opens and maps the page, if it may be trusted. And whether its file is in memory.
fn open(path: &CStr) -> Result<(&'static Page, bool), Outcome> {
    let bytes = path.to_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/').filter(|_| bytes.starts_with(b"/"));
    let Some(slash) = slash else { return Err(Outcome::NotAbsolute) };
    // Without the slash, behind which the kernel would follow a link.
    let (folder, name) =
        (bytes.get(..slash.max(1)).unwrap_or_default(), bytes.get(slash + 1..).unwrap_or_default());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, flags, Mode::empty()).map_err(|_| Outcome::NoPage)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = openat(&folder, name, flags, Mode::empty()).map_err(|_| Outcome::NoPage)?;
    let facts = FileFacts::of(&file, &folder).map_err(|_| Outcome::NoPage)?;
    judge_file(&facts).map_err(|_| Outcome::NotTrusted)?;
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let start = unsafe { mmap(ptr::null_mut(), PAGE_BYTES, ProtFlags::READ, MapFlags::SHARED, &file, 0) }
        .map_err(|_| Outcome::NoPage)?;
    // SAFETY: the mapping is readable, as long as the program lives: nobody unmaps it. Its writer
    // makes atomic stores.
    Ok((unsafe { Page::at(start.cast_const().cast()) }, is_in_memory(&file)))
}

/// Memory that a forked child finds full of zeros (madvise(2), MADV_WIPEONFORK: Linux 4.14).
fn wiped_on_fork() -> Option<&'static AtomicU32> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the mapping that was just made.
    unsafe { madvise(start, PAGE_BYTES, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: a page of zeros, aligned, never unmapped, and used as an atomic alone.
    Some(unsafe { &*start.cast::<AtomicU32>() })
}

/// The beginning of a small file.
fn read<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut *buffer).ok()?;
    buffer.get(..length)
}
