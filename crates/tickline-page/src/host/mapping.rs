//! A page in this process's memory, and the way to its file.

use core::ptr::{self, NonNull};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};

use super::error::{PageError, Why};
use crate::layout::{PAGE_BYTES, Page, WORD_OFFSET, WritablePage};
use crate::{FileFacts, judge_file};

/// A mapping of a page's file; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping(NonNull<u8>);

// SAFETY: the mapping belongs to the process, not to a thread, and is used as a `&Page`, which is
// of atomics alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the file for a reader.
    pub(super) fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        Self::with(file, ProtFlags::READ)
    }

    fn with(file: impl AsFd, protection: ProtFlags) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice; no memory of the program's is
        // touched.
        let start = unsafe { mmap(ptr::null_mut(), PAGE_BYTES, protection, MapFlags::SHARED, file, 0) }?;
        NonNull::new(start.cast()).map(Self).ok_or(Errno::FAULT)
    }

    pub(super) const fn page(&self) -> &Page {
        // SAFETY: a mapping begins at a page's start, is readable, and lives as long as `self`.
        // What changes it are the writer's atomic stores, in this process or another one.
        unsafe { Page::at(self.0.as_ptr()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is unmapped once, and every borrow of it has ended.
        unsafe { munmap(self.0.as_ptr().cast(), PAGE_BYTES) }.ok();
    }
}

/// A mapping that may be written to.
#[derive(Debug)]
pub(super) struct WritableMapping(Mapping);

impl WritableMapping {
    /// Maps the file for its writer.
    pub(super) fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        Mapping::with(file, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    pub(super) const fn page(&self) -> &WritablePage {
        // SAFETY: as in `Mapping`, and writable.
        unsafe { WritablePage::at(self.0.0.as_ptr()) }
    }

    /// Where the page's word is.
    pub(super) const fn word(&self) -> NonNull<u64> {
        // SAFETY: the offset is within the mapping.
        let word = unsafe { self.0.0.add(WORD_OFFSET) };
        word.cast()
    }

    /// Keeps the page in memory, so that a store never waits for a disk.
    pub(super) fn lock(&self) -> rustix::io::Result<()> {
        // SAFETY: the range is this mapping.
        unsafe { mlock(self.0.0.as_ptr().cast(), PAGE_BYTES) }
    }
}

/// The folder that a page is in, and its name there.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    pub(super) folder: OwnedFd,
    pub(super) name: &'a OsStr,
}

impl<'a> Place<'a> {
    pub(super) fn of(path: &'a Path) -> Result<Self, PageError> {
        let name = path.file_name().ok_or_else(|| PageError::new(path, Why::NoName))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, folder.unwrap_or(Path::new(".")), flags, Mode::empty())
            .map_err(|error| PageError::system(path, "its folder cannot be opened", error))?;
        Ok(Self { path, folder, name })
    }

    /// The name of a file beside the page's.
    pub(super) fn beside(&self, ending: &str) -> OsString {
        let mut name = OsString::from(self.name);
        name.push(ending);
        name
    }

    /// Opens the page's file, without following a link, and judges it.
    pub(super) fn open(&self, access: OFlags) -> Result<(OwnedFd, FileFacts), PageError> {
        // A pipe or a device of this name must neither block nor become the terminal.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&self.folder, self.name, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP => PageError::new(self.path, Why::Link),
            error => self.failed("it cannot be opened", error),
        })?;
        let facts = FileFacts::of(&file, &self.folder)
            .map_err(|error| self.failed("its owner cannot be known", error))?;
        self.judge(&facts)?;
        Ok((file, facts))
    }

    /// Judges the folder alone, before anything is made there.
    pub(super) fn judge_folder(&self) -> Result<(), PageError> {
        let folder =
            fstat(&self.folder).map_err(|error| self.failed("its folder's owner cannot be known", error))?;
        let reader = rustix::process::geteuid().as_raw();
        self.judge(&FileFacts {
            // Those of the file that would be made.
            mode: 0o100_644,
            owner: folder.st_uid,
            size: PAGE_BYTES as u64,
            folder_mode: folder.st_mode,
            folder_owner: folder.st_uid,
            reader,
            is_mounted_read_only: false,
        })
    }

    fn judge(&self, facts: &FileFacts) -> Result<(), PageError> {
        judge_file(facts).map_err(|refusal| PageError::new(self.path, Why::File(refusal, facts.reader)))
    }

    pub(super) fn failed(&self, action: &'static str, error: Errno) -> PageError {
        PageError::system(self.path, action, error)
    }
}
