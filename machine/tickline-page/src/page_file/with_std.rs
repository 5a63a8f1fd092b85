//! The part that needs `std`: the file for a reader, the lock, and the one writer.

mod attached_file;
mod lock;
mod locked_file;
#[cfg_attr(
    not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))),
    path = "with_std/not_restartable.rs"
)]
mod restartable;
mod snapshot;
mod switch;

pub use attached_file::AttachedFile;
pub use lock::{LockHolder, lock_holder};
pub use locked_file::LockedPageFile;
pub use snapshot::PageSnapshot;
pub use switch::{PageSwitch, switch_off, switch_on};
