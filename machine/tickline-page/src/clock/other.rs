//! Clocks of `tickline` over a page: only on Linux.

use core::fmt;
use std::path::{Path, PathBuf};

use tickline::{Clock, Probes};

/// The error of a process that cannot open a page: this is not Linux.
#[derive(Debug)]
pub struct PageError {
    path: PathBuf,
}

impl PageError {
    /// The page's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file does not exist: not known on this system, so `false`.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        false
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: pages need Linux", self.path.display())
    }
}

impl core::error::Error for PageError {}

/// On Linux, a clock that reads the time from the page at `path`.
///
/// # Errors
///
/// This is not Linux.
pub fn open(path: impl AsRef<Path>) -> Result<Clock, PageError> {
    open_with_probes(path, Probes::Full)
}

/// Like [`open`], with other probes.
///
/// # Errors
///
/// This is not Linux.
pub fn open_with_probes(path: impl AsRef<Path>, _: Probes) -> Result<Clock, PageError> {
    Err(PageError {
        path: path.as_ref().into(),
    })
}
