//! Opens and maps a page's file, if the file is trusted. No function here allocates if the path is
//! shorter than 256 bytes, because the preload library calls them before the program begins.

use core::ptr::{self, NonNull};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::boot_context::is_on_tmpfs;
use super::file_error::FileError;
use super::trust::FileFacts;
use crate::BootContext;
use crate::layout::{PAGE_BYTES, Page};

/// The flags of every file that this crate opens by a page's path: no link is followed, a program
/// that this process executes does not inherit the file, and a terminal of this name does not
/// become the process's controlling terminal.
pub(crate) const GUARDED: OFlags = OFlags::NOFOLLOW
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// The flags of a page's folder.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(GUARDED);

/// The flags of a page's file. If a pipe has its name, the open must not block.
const FILE: OFlags = OFlags::NONBLOCK.union(GUARDED);

impl FileError {
    /// Converts an error of the system into one that states the `problem`.
    pub(crate) fn system(problem: &'static str) -> impl Fn(Errno) -> Self {
        move |error| Self::System {
            problem,
            errno: error.raw_os_error(),
        }
    }
}

/// The path of a page: its folder, which is open, and its name in the folder.
#[derive(Debug)]
pub(crate) struct PagePath<'a> {
    pub(crate) folder: OwnedFd,
    pub(crate) name: &'a [u8],
}

impl<'a> PagePath<'a> {
    /// Opens the folder of `path`, without following a link.
    pub(crate) fn resolve(path: &'a [u8]) -> Result<Self, FileError> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if matches!(name, b"" | b"." | b"..") {
            return Err(FileError::NoFileName);
        }
        let mut folder = path
            .strip_suffix(name)
            .filter(|folder| !folder.is_empty())
            .unwrap_or(b".");
        // If the path ended with a slash, or a slash and a dot, the kernel would follow a link.
        let shorter = |folder: &'a [u8]| {
            folder
                .strip_suffix(b"/")
                .or_else(|| folder.strip_suffix(b"/."))
        };
        while let Some(rest) = shorter(folder).filter(|rest| !rest.is_empty()) {
            folder = rest;
        }
        let folder = openat(CWD, folder, FOLDER, Mode::empty()).map_err(|error| {
            let problem = match error {
                Errno::NOTDIR => "its folder is a link, which is not followed, or no folder",
                _ => "its folder can't be opened",
            };
            FileError::system(problem)(error)
        })?;
        Ok(Self { folder, name })
    }

    /// Opens the page's file, without following a link, and checks that it is trusted.
    pub(crate) fn open(&self, access: OFlags) -> Result<(OwnedFd, FileFacts), FileError> {
        let (file, facts) = self.open_any(access)?;
        facts.judge_page()?;
        Ok((file, facts))
    }

    /// Opens the file, without following a link, and collects the facts about it.
    fn open_any(&self, access: OFlags) -> Result<(OwnedFd, FileFacts), FileError> {
        let flags = access.union(FILE);
        let file =
            openat(&self.folder, self.name, flags, Mode::empty()).map_err(|error| match error {
                Errno::LOOP => FileError::SymbolicLink,
                // The kernel opens no folder for writing.
                Errno::ISDIR => self.not_a_file(error),
                error => FileError::system("it can't be opened")(error),
            })?;
        let facts = FileFacts::collect(&file, &self.folder)
            .map_err(FileError::system("its owner can't be known"))?;
        Ok((file, facts))
    }

    /// The error for a folder in place of the page, whose open has failed by `error`.
    fn not_a_file(&self, error: Errno) -> FileError {
        match statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => FileError::NotRegular {
                mode: found.st_mode,
            },
            Err(_) => FileError::system("it can't be opened")(error),
        }
    }
}

/// Judges any file as [`PageFile::open`] judges a page's, but for its size: whether it is a regular
/// file, and no user but root and this process's may write to it or to its folder. Never panics.
///
/// ```
/// use tickline_page::page_file::{FileError, judge_file};
///
/// assert!(matches!(judge_file("/dev/null"), Err(FileError::NotRegular { .. })));
/// ```
///
/// # Errors
///
/// If the file is not trusted, or can't be opened for reading. A link is not followed.
pub fn judge_file(path: impl AsRef<[u8]>) -> Result<(), FileError> {
    let path = PagePath::resolve(path.as_ref())?;
    path.open_any(OFlags::RDONLY)?.1.judge()
}

/// A shared mapping of a page's file. A drop unmaps it.
#[derive(Debug)]
pub(crate) struct Mapping(pub(crate) NonNull<u8>);

// SAFETY: the mapping belongs to the process, not to a thread, and is used as a `&Page`, which has
// only atomics.
unsafe impl Send for Mapping {}
// SAFETY: threads share the mapping only as a `&Page`, which has only atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(crate) fn new(file: impl AsFd, protection: ProtFlags) -> Result<Self, FileError> {
        // SAFETY: the kernel chooses an unused address for the new mapping.
        unsafe {
            mmap(
                ptr::null_mut(),
                PAGE_BYTES,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
        }
        .and_then(|start| NonNull::new(start.cast()).map(Self).ok_or(Errno::FAULT))
        .map_err(FileError::system("it can't be mapped"))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: only this drop unmaps the mapping, and every borrow of it has ended.
        unsafe { munmap(self.0.as_ptr().cast(), PAGE_BYTES) }.ok();
    }
}

/// A page's file that this process trusts, mapped read-only. A drop unmaps it.
#[derive(Debug)]
pub struct PageFile {
    mapping: Mapping,
    owner: u32,
    is_on_tmpfs: bool,
}

impl PageFile {
    /// Opens and maps a page, if its file is trusted (the README's "What a reader must do", 1).
    /// Does not follow a link to the file or to its folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or mapped, or is not trusted.
    pub fn open(path: impl AsRef<[u8]>) -> Result<Self, FileError> {
        let (file, facts) = PagePath::resolve(path.as_ref())?.open(OFlags::RDONLY)?;
        let mapping = Mapping::new(&file, ProtFlags::READ)?;
        Ok(Self {
            mapping,
            owner: facts.owner,
            is_on_tmpfs: is_on_tmpfs(&file),
        })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &Page {
        // SAFETY: a mapping begins at a page's start, is readable, and lives as long as `self`.
        // Only the writer's atomic stores change it, in this process or another one.
        unsafe { Page::from_ptr(self.mapping.0.as_ptr()) }
    }

    /// Keeps the mapping for as long as the program lives.
    #[must_use]
    pub const fn leak(self) -> &'static Page {
        let start = self.mapping.0;
        core::mem::forget(self);
        // SAFETY: as in `page`, and the mapping is never unmapped, because its drop never runs.
        unsafe { Page::from_ptr(start.as_ptr()) }
    }

    /// The id of the user who owns the file.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    /// The boot and the time namespace of this process, by [`BootContext::current`]. If `/proc`
    /// hides the boot id (`ProcSubset=pid` of systemd), the method returns the page's boot id,
    /// provided that the page's file is on tmpfs: such a file does not outlive its boot.
    ///
    /// # Errors
    ///
    /// The errors of [`BootContext::current`].
    pub fn boot_context(&self) -> Result<BootContext, FileError> {
        let header = if self.is_on_tmpfs {
            self.page().header()
        } else {
            None
        };
        BootContext::current_or(header.map(|header| header.boot_id))
    }
}
