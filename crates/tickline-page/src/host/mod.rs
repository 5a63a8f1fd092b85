//! A page's file on Linux: who may be trusted with it, how it is made, and by whom it is locked.
//!
//! | file | who opens it | why |
//! |---|---|---|
//! | `PATH` | readers, read-only; its owner | the page: one inode for as long as the machine runs, never renamed over |
//! | `PATH.lock` | its owner alone (mode 600) | the lock of the one writer; a reader that could open it could lock all writers out |
//! | `PATH.new` | the writer that holds the lock | a page that is being made; it gets its name when it is complete |
//!
//! Only the page's owner can truncate it, which ends its readers by SIGBUS. Nothing here handles
//! that signal.

mod error;
mod lock;
mod reader;
mod restartable;
mod snapshot;
mod writer;

pub use error::PageError;
pub use lock::writer_of;
pub use reader::PageFile;
pub use snapshot::Snapshot;
pub use writer::{PageWriter, switch_off, switch_on};
