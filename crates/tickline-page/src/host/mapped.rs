//! A page's file, opened and mapped if it is trusted. Nothing here allocates for a path of less
//! than 256 bytes: a program that has the preload library does this before it begins.

use core::ptr::{self, NonNull};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::find::is_on_tmpfs;
use super::trust::{FileError, FileFacts, refused};
use crate::BootContext;
use crate::layout::{PAGE_BYTES, Page};

/// The folder that a page is in, and its name there.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) folder: OwnedFd,
    pub(crate) name: &'a [u8],
}

impl<'a> Place<'a> {
    pub(crate) fn of(path: &'a [u8]) -> Result<Self, FileError> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if matches!(name, b"" | b"." | b"..") {
            return Err(FileError::NoName);
        }
        let mut folder = path.strip_suffix(name).filter(|folder| !folder.is_empty()).unwrap_or(b".");
        // Behind a slash, or a slash and a dot, the kernel would follow a link.
        let shorter = |folder: &'a [u8]| folder.strip_suffix(b"/").or_else(|| folder.strip_suffix(b"/."));
        while let Some(rest) = shorter(folder).filter(|rest| !rest.is_empty()) {
            folder = rest;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder =
            openat(CWD, folder, flags, Mode::empty()).map_err(refused("its folder cannot be opened"))?;
        Ok(Self { folder, name })
    }

    /// Opens the page's file, without following a link, and judges it.
    pub(crate) fn open(&self, access: OFlags) -> Result<(OwnedFd, FileFacts), FileError> {
        // A pipe or a device of this name must neither block nor become the terminal.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&self.folder, self.name, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP => FileError::Link,
            error => refused("it cannot be opened")(error),
        })?;
        let facts = FileFacts::of(&file, &self.folder).map_err(refused("its owner cannot be known"))?;
        facts.judge()?;
        Ok((file, facts))
    }
}

/// A mapping of a page's file; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping(pub(crate) NonNull<u8>);

// SAFETY: the mapping belongs to the process, not to a thread, and is used as a `&Page`, which has
// only atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn of(file: impl AsFd, protection: ProtFlags) -> Result<Self, FileError> {
        // SAFETY: a new mapping at a place of the kernel's choice; no memory of the program's is
        // touched.
        unsafe { mmap(ptr::null_mut(), PAGE_BYTES, protection, MapFlags::SHARED, file, 0) }
            .and_then(|start| NonNull::new(start.cast()).map(Self).ok_or(Errno::FAULT))
            .map_err(refused("it cannot be mapped"))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is unmapped once, and every borrow of it has ended.
        unsafe { munmap(self.0.as_ptr().cast(), PAGE_BYTES) }.ok();
    }
}

/// A page's file that this process trusts, mapped read-only; unmapped when dropped.
#[derive(Debug)]
pub struct PageFile {
    mapping: Mapping,
    owner: u32,
    is_on_tmpfs: bool,
}

impl PageFile {
    /// Opens and maps a page, if it is trusted (the README's "What a reader must do", 1). Follows
    /// no link, neither to the file nor to its folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is not trusted.
    pub fn open(path: &[u8]) -> Result<Self, FileError> {
        let (file, facts) = Place::of(path)?.open(OFlags::RDONLY)?;
        let mapping = Mapping::of(&file, ProtFlags::READ)?;
        Ok(Self { mapping, owner: facts.owner, is_on_tmpfs: is_on_tmpfs(&file) })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &Page {
        // SAFETY: a mapping begins at a page's start, is readable, and lives as long as `self`.
        // What changes it are the writer's atomic stores, in this process or another one.
        unsafe { Page::at(self.mapping.0.as_ptr()) }
    }

    /// The page, for as long as the program lives.
    #[must_use]
    pub const fn leak(self) -> &'static Page {
        let start = self.mapping.0;
        core::mem::forget(self);
        // SAFETY: as in `page`, and nobody unmaps it.
        unsafe { Page::at(start.as_ptr()) }
    }

    /// The user that the file belongs to.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    /// Where this process runs, as [`BootContext::find`] says. `/proc` may hide the boot's id
    /// (`ProcSubset=pid` of systemd). The method then takes the id of the page, if the page's file
    /// is in memory: such a file does not outlive its boot.
    ///
    /// # Errors
    ///
    /// As those of [`BootContext::find`].
    pub fn boot_context(&self) -> Result<BootContext, FileError> {
        let header = self.page().header().filter(|_| self.is_on_tmpfs);
        BootContext::find_or(header.map(|header| header.boot_id))
    }
}
