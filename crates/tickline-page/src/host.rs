//! A page's file on Linux: which files a reader trusts, how the file is made, and who locks it.
//! Also where this process runs.
//!
//! | file | who opens it | why |
//! |---|---|---|
//! | `PATH` | readers, read-only; its owner | the page: one inode for as long as the machine runs |
//! | `PATH.lock` | only its owner (mode 600) | the lock of the one writer. A reader that could open it could lock all writers out. |
//! | `PATH.new` | the writer that holds the lock | a page that is being made; it gets its name when it is complete |
//!
//! Only the page's owner can truncate it, which ends its readers by SIGBUS. Nothing here handles
//! that signal.
//!
//! [`PageFile::open`], [`FileError`] and [`namespace_offset_ns`] need no `std`. The rest, in
//! `host/file/`, has the feature `file`.

#[cfg(feature = "file")]
mod file;
mod find;
mod mapped;
mod trust;

#[cfg(feature = "file")]
pub use file::{LockedPageFile, PageError, PageSnapshot, switch_off, switch_on, writer_of};
pub use find::namespace_offset_ns;
pub(crate) use find::read;
pub use mapped::PageFile;
pub use trust::FileError;
