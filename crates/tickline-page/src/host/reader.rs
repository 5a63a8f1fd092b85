//! A page's file, open for reading.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::error::PageError;
use super::mapped::MappedPage;
use super::snapshot::Snapshot;
use crate::lease::{LeaseMemory, LeasePhase};
use crate::{AttachedPage, Counter, Page};

/// A page's file that this process trusts, mapped read-only; unmapped when dropped.
#[derive(Debug)]
pub struct PageFile {
    mapped: MappedPage,
    path: PathBuf,
}

impl PageFile {
    /// Opens and maps a page, if it is trusted ([`MappedPage::open`]).
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is not trusted.
    pub fn open(path: &Path) -> Result<Self, PageError> {
        let mapped = MappedPage::open(path.as_os_str().as_bytes());
        let mapped = mapped.map_err(|error| PageError::new(path, error))?;
        Ok(Self { mapped, path: path.into() })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &Page {
        self.mapped.page()
    }

    /// The file's name, as it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user that the file belongs to.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.mapped.owner()
    }

    /// Attaches to the page ([`Page::attach`]), with [`MappedPage::boot_context`]. Allocates nothing
    /// unless it fails.
    ///
    /// # Errors
    ///
    /// If the page does not count here, or the process does not know where it runs.
    pub fn attach_here(&self) -> Result<AttachedPage<'_>, PageError> {
        let context = self.mapped.boot_context().map_err(|error| PageError::new(&self.path, error))?;
        self.page().attach(&context).map_err(|refusal| PageError::new(&self.path, refusal))
    }

    /// What readers may do now.
    #[must_use]
    pub fn phase(&self) -> LeasePhase {
        self.page().words().word().phase()
    }

    /// The page as [`attach_here`](Self::attach_here) has returned it before in this process, with
    /// [`shift_ns`](AttachedPage::shift_ns) from then.
    #[inline]
    #[must_use]
    pub const fn attached(&self, shift_ns: i64) -> AttachedPage<'_> {
        AttachedPage::again(self.page(), shift_ns)
    }

    /// What the page serves now. Reads the counter if the page names lines.
    #[must_use]
    pub fn snapshot(&self, counter: &impl Counter) -> Snapshot {
        Snapshot::of(self.page().words(), counter)
    }
}
