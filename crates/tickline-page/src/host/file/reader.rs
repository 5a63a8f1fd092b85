//! What programs with `std` do with a page's file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::string::ToString as _;

use super::error::{PageError, Why};
use super::snapshot::PageSnapshot;
use crate::host::mapped::PageFile;
use crate::lease::{LeaseMemory, LeasePhase};
use crate::{AttachedPage, Counter};

impl PageFile {
    /// Opens a page ([`open`](Self::open)) and attaches to it
    /// ([`Page::attach`](crate::Page::attach)), with [`boot_context`](Self::boot_context). Returns
    /// the file, and the page's [`shift_ns`](AttachedPage::shift_ns) here.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or is not trusted, the page does not count here, or the process
    /// does not know where it runs. The error names the file.
    pub fn attach(path: &Path) -> Result<(Self, i64), PageError> {
        let attach = || -> Result<_, Why> {
            let file = Self::open(path.as_os_str().as_bytes())?;
            // Only its text: that `/proc` is missing does not mean that the page is.
            let context = file.boot_context().map_err(|error| error.to_string())?;
            let shift_ns = file.page().attach(&context)?.shift_ns();
            Ok((file, shift_ns))
        };
        attach().map_err(|why| PageError::new(path, why))
    }

    /// The page, to which this process has attached before, with the shift from then.
    #[inline]
    #[must_use]
    pub const fn attached(&self, shift_ns: i64) -> AttachedPage<'_> {
        AttachedPage { page: self.page(), shift_ns }
    }

    /// What readers may do now.
    #[must_use]
    pub fn phase(&self) -> LeasePhase {
        self.page().words().word().phase()
    }

    /// What the page serves now. Reads the counter if the page names lines.
    #[must_use]
    pub fn snapshot(&self, counter: &impl Counter) -> PageSnapshot {
        PageSnapshot::of(self.page().words(), counter)
    }
}
