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
//! [`PageFile::open`], [`FileError`] and [`namespace_offset_ns`] need no `std`. The rest has the
//! feature `file`.

#[cfg(feature = "file")]
mod error;
mod find;
#[cfg(feature = "file")]
mod lock;
#[cfg(feature = "file")]
mod locked_file;
mod mapped;
#[cfg(feature = "file")]
mod reader;
#[cfg(feature = "file")]
mod restartable;
#[cfg(feature = "file")]
mod snapshot;
mod trust;

#[cfg(feature = "file")]
pub use error::PageError;
pub use find::namespace_offset_ns;
pub(crate) use find::read;
#[cfg(feature = "file")]
pub use lock::writer_of;
#[cfg(feature = "file")]
pub use locked_file::{LockedPageFile, switch_off, switch_on};
pub use mapped::PageFile;
#[cfg(feature = "file")]
pub use snapshot::PageSnapshot;
pub use trust::FileError;
