//! What can be wrong with a page's file.

use std::io;
use std::path::{Path, PathBuf};

use crate::file::UNMAPPED;
use crate::lease::Lost;
use crate::{ClaimError, FileRefusal, Machine, PAGE_BYTES, Refusal};

/// Why a page's file is not opened, made or written to. The text names the file, the value that is
/// wrong, and its limit.
#[derive(Debug)]
pub struct PageError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
pub(super) enum Why {
    /// The system refused `action`.
    System(&'static str, io::Error),
    /// The path does not end with a file's name.
    NoName,
    /// The file is a symbolic link.
    Link,
    /// The file is not trusted by the user of this number.
    File(FileRefusal, u32),
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

impl PageError {
    pub(super) fn new(path: &Path, why: Why) -> Self {
        Self { path: path.into(), why }
    }

    pub(super) fn system(path: &Path, action: &'static str, error: rustix::io::Errno) -> Self {
        Self::new(path, Why::System(action, error.into()))
    }

    pub(super) fn machine(path: &Path, error: rustix::io::Errno) -> Self {
        Self::new(
            path,
            Why::System("/proc/sys/kernel/random/boot_id or /proc/self/ns/time cannot be read", error.into()),
        )
    }

    pub(super) fn page(path: &Path, refusal: Refusal, machine: &Machine, found: Option<[u8; 16]>) -> Self {
        Self::new(
            path,
            match (refusal, found) {
                (Refusal::OtherBoot, Some(found)) => Why::Boot(found, machine.boot_id),
                _ => Why::Page(refusal),
            },
        )
    }

    pub(super) fn claim(path: &Path, error: ClaimError) -> Self {
        Self::new(path, Why::Claim(error))
    }

    pub(super) fn lost(path: &Path) -> Self {
        Self::new(path, Why::Lost)
    }

    /// The page's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is no such file.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&self.why, Why::System(_, error) if error.kind() == io::ErrorKind::NotFound)
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
            Why::System(action, error) => write!(f, "{action}: {error}"),
            Why::NoName => f.write_str("this is not the name of a file"),
            Why::Link => f.write_str("this is a symbolic link, and links are not followed"),
            Why::File(refusal @ FileRefusal::Owner(UNMAPPED), _) => write!(
                f,
                "{refusal}, which in a user namespace is anybody outside of it: mount the page there by itself, read-only"
            ),
            Why::File(refusal @ FileRefusal::Owner(_), reader) => {
                write!(f, "{refusal}, not to root or to user {reader}")
            }
            Why::File(refusal @ FileRefusal::Writable(_), _) => {
                write!(f, "{refusal}, of which 022 must be clear")
            }
            Why::File(refusal @ FileRefusal::Short(_), _) => write!(
                f,
                "{refusal}: it was truncated, or is no page; once no program reads it, delete it, and `tickline serve` makes a new one"
            ),
            Why::File(refusal, _) => write!(f, "{refusal}"),
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
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.why {
            Why::System(_, error) => Some(error),
            Why::File(refusal, _) => Some(refusal),
            Why::Page(refusal) => Some(refusal),
            Why::Claim(error) => Some(error),
            Why::Lost => Some(&Lost),
            Why::NoName
            | Why::Link
            | Why::NotAPage(_)
            | Why::Boot(..)
            | Why::Foreign(..)
            | Why::Taken(_)
            | Why::Offset(_) => None,
        }
    }
}
