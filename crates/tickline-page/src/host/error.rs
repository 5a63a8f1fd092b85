//! What can be wrong with a page's file.

use std::boxed::Box;
use std::format;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::trust::FileError;

/// Why a page's file is not opened, made or written to. The text names the file, the value that is
/// wrong, and its limit.
#[derive(Debug)]
pub struct PageError {
    path: PathBuf,
    why: Why,
}

/// What is wrong, in words. A [`FileError`] where the file cannot be used.
pub(super) type Why = Box<dyn core::error::Error + Send + Sync>;

/// What the system refused where the machine cannot be known.
pub(super) const UNKNOWN_MACHINE: &str =
    "/proc/sys/kernel/random/boot_id or /proc/self/ns/time cannot be read";

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
        self.by_system() == Some(&Errno::NOENT)
    }

    fn by_system(&self) -> Option<&Errno> {
        match self.why.downcast_ref()? {
            FileError::System(_, error) => Some(error),
            _ => None,
        }
    }
}

impl core::fmt::Display for PageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl core::error::Error for PageError {
    /// What the system said; the text has all else.
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.by_system().map(|error| error as _)
    }
}
