//! The error of an operation on a page's file.

use std::boxed::Box;
use std::format;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::page_file::trust::FileError;

/// The error of a process that cannot open, make or write to a page's file. The text names the
/// file, the wrong value and its limit, and the system's error. The error has no source.
#[derive(Debug)]
pub struct PageError {
    path: PathBuf,
    cause: ErrorCause,
}

/// The cause of a [`PageError`]. It is a [`FileError`] if the file cannot be used.
pub(super) type ErrorCause = Box<dyn core::error::Error + Send + Sync>;

/// The error of a `user` who would write to a page that another user owns.
pub(super) fn foreign_owner(owner: u32, user: u32) -> ErrorCause {
    format!("the page belongs to user {owner}, not to user {user}").into()
}

impl PageError {
    pub(super) fn new(path: &Path, cause: impl Into<ErrorCause>) -> Self {
        Self {
            path: path.into(),
            cause: cause.into(),
        }
    }

    /// The page's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        let missing = Errno::NOENT.raw_os_error();
        matches!(self.cause.downcast_ref(), Some(FileError::System { errno, .. }) if *errno == missing)
    }
}

impl core::fmt::Display for PageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.cause)
    }
}

impl core::error::Error for PageError {}
