//! What can be wrong with a page's file.

use std::boxed::Box;
use std::format;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::host::trust::FileError;

/// Why a page's file was not opened, made or written to. The text names the file, the wrong value
/// and its limit, and the system's error. The error has no source.
#[derive(Debug)]
pub struct PageError {
    path: PathBuf,
    why: Why,
}

/// What is wrong, in words. A [`FileError`] where the file cannot be used.
pub(super) type Why = Box<dyn core::error::Error + Send + Sync>;

/// The page belongs to another user than the one that would write to it.
pub(super) fn foreign(owner: u32, user: u32) -> Why {
    format!("the page belongs to user {owner}, not to user {user}").into()
}

impl PageError {
    pub(super) fn new(path: &Path, why: impl Into<Why>) -> Self {
        Self { path: path.into(), why: why.into() }
    }

    /// The page's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is no such file.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        let missing = Errno::NOENT.raw_os_error();
        matches!(self.why.downcast_ref(), Some(FileError::System { errno, .. }) if *errno == missing)
    }
}

impl core::fmt::Display for PageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl core::error::Error for PageError {}
