//! [`AttachedFile`], and the methods of [`PageFile`] that need `std`.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::snapshot::PageSnapshot;
use crate::page_file::error::{PageError, PageErrorCause};
use crate::page_file::mapped::PageFile;
use crate::{AttachedPage, Counter};

/// The file of a page that counts for this process.
#[derive(Debug)]
pub struct AttachedFile {
    pub(crate) file: PageFile,
    page_offset_ns: i64,
}

impl AttachedFile {
    /// Opens a page ([`PageFile::open`]) and attaches to it
    /// ([`Page::attach`](crate::Page::attach)), with [`PageFile::boot_context`].
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or is not trusted, the page does not count for this process, or
    /// the boot or time namespace of the process cannot be read. The error names the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PageError> {
        let path = path.as_ref();
        let open = || -> Result<_, PageErrorCause> {
            let file = PageFile::open(path.as_os_str().as_bytes())?;
            // Not `File`, with which `is_not_found` would be true without `/proc`.
            let context = file.boot_context().map_err(PageErrorCause::Process)?;
            let page_offset_ns = file.page().attach(&context)?.page_offset_ns();
            Ok(Self {
                file,
                page_offset_ns,
            })
        };
        open().map_err(|cause| PageError::new(path, cause))
    }

    /// The file.
    #[inline]
    #[must_use]
    pub const fn file(&self) -> &PageFile {
        &self.file
    }

    /// The page, which counts for this process.
    #[inline]
    #[must_use]
    pub const fn page(&self) -> AttachedPage<'_> {
        self.file.attached(self.page_offset_ns)
    }
}

impl PageFile {
    /// The page, which counts for this process: `page_offset_ns` must be the
    /// [`page_offset_ns`](AttachedPage::page_offset_ns) of an earlier attach in this process. For a
    /// caller that keeps the offset, which is a number, and not the page, which is a borrow.
    #[inline]
    pub(crate) const fn attached(&self, page_offset_ns: i64) -> AttachedPage<'_> {
        AttachedPage {
            page: self.page(),
            page_offset_ns,
        }
    }

    /// Takes a snapshot of the page. Reads the counter if the page names lines.
    #[must_use]
    pub fn snapshot(&self, counter: &impl Counter) -> PageSnapshot {
        PageSnapshot::take(self.page().cell(), counter)
    }
}
