//! A page's file on Linux: which files a reader trusts, and how the writer makes and locks the
//! file. Also collects the boot and the time namespace of this process.
//!
//! | file | who opens it | why |
//! |---|---|---|
//! | `PATH` | readers, read-only; its owner | the page: one inode for as long as the machine runs |
//! | `PATH.lock` | only its owner and root (mode 600) | the lock of the one writer. A reader that could open it could lock all writers out. |
//! | `PATH.new` | the writer that holds the lock | an incomplete page, which the writer renames when it is complete |
//!
//! If the page's owner truncates it, SIGBUS ends its readers: this crate does not handle it.
//!
//! A path is that of the page, with its folder; one without a folder counts from the working
//! directory. [`PageFile::open`] and [`judge_file`] need no `std`, which has the type of paths:
//! they take the path's bytes, and their [`FileError`] leaves the path to the caller. The items of
//! `page_file/with_std/` take an `AsRef<Path>`, and their `PageError` names the path: these items
//! and the error need the feature `file`.

mod boot_context;
#[cfg(feature = "file")]
mod error;
mod file_error;
mod mapped;
mod trust;
#[cfg(feature = "file")]
mod with_std;

pub use boot_context::namespace_offset_ns;
pub(crate) use boot_context::read;
#[cfg(feature = "file")]
pub use error::{PageError, PageErrorCause};
pub use file_error::FileError;
pub use mapped::{PageFile, judge_file};
#[cfg(feature = "file")]
pub use with_std::{
    AttachedFile, LockHolder, LockedPageFile, PageSnapshot, PageSwitch, lock_holder, switch_off,
    switch_on,
};
