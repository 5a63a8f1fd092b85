//! What can be wrong with a page's file.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::lease::Lost;
use crate::{ClaimError, FileError, PAGE_BYTES, Refusal};

/// Why a page's file is not opened, made or written to. The text names the file, the value that is
/// wrong, and its limit.
#[derive(Debug)]
pub struct PageError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
pub(super) enum Why {
    /// The file cannot be used.
    File(FileError),
    /// The file, of so many bytes, does not begin as a page does.
    NotAPage(u64),
    /// The page does not count here.
    Page(Refusal),
    /// The page is of the first boot; the second one runs.
    Boot([u8; 16], [u8; 16]),
    /// The page belongs to another user than the one that would write to it.
    Foreign(u32, u32),
    /// A process writes to the page: its number, where that can be known.
    Taken(Option<u32>),
    /// The offset of the writer's time namespace is not known.
    Offset(u64),
    /// The page is another's.
    Claim(ClaimError),
    /// Another process has changed the page's word.
    Lost,
}

impl From<FileError> for Why {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl Why {
    /// The machine cannot be known.
    pub(super) const fn machine(error: Errno) -> Self {
        let action = "/proc/sys/kernel/random/boot_id or /proc/self/ns/time cannot be read";
        Self::File(FileError::System(action, error))
    }

    /// The error for this file.
    pub(super) fn at(self, path: &Path) -> PageError {
        PageError { path: path.into(), why: self }
    }
}

impl PageError {
    /// The page's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is no such file.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self.why, Why::File(FileError::System(_, Errno::NOENT)))
    }
}

/// As `/proc/sys/kernel/random/boot_id` spells it, without the hyphens.
struct Boot([u8; 16]);

impl core::fmt::Display for Boot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::fmt::Display for PageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.why {
            Why::File(error) => write!(f, "{error}"),
            Why::NotAPage(size) => write!(
                f,
                "this file of {size} bytes is no page, and stays as it is: it does not begin with `tickline`, a version and a size of {PAGE_BYTES} to {size}; name another file, or move this one away"
            ),
            Why::Page(refusal) => write!(f, "{refusal}"),
            Why::Boot(found, running) => {
                write!(f, "the page is of boot {}, and this is boot {}", Boot(*found), Boot(*running))
            }
            Why::Foreign(owner, user) => write!(f, "the page belongs to user {owner}, not to user {user}"),
            Why::Taken(Some(pid)) => write!(f, "process {pid} serves this page; a page has one server"),
            Why::Taken(None) => f.write_str("another process serves this page; a page has one server"),
            Why::Offset(namespace) => write!(
                f,
                "the offset of this process's time namespace {namespace} is not known, and readers in others need it"
            ),
            Why::Claim(error) => write!(f, "{error}"),
            Why::Lost => write!(f, "{Lost}"),
        }
    }
}

impl core::error::Error for PageError {
    /// What the system said; the text has all else.
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.why {
            Why::File(FileError::System(_, error)) => Some(error),
            _ => None,
        }
    }
}
