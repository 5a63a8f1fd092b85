//! The lock on a copy that is in use, on Linux: flock(2). It ends with the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use nix::fcntl::{Flock, FlockArg};

pub(super) type Lock = Flock<File>;

/// Locks a copy for its owner. `None` if the file system has no locks.
///
/// # Errors
///
/// If [`if_unused`] had the lock before: the copy was removed.
pub(super) fn hold(copy: File) -> io::Result<Option<Lock>> {
    // This waits for the end of a removal.
    let Ok(lock) = Flock::lock(copy, FlockArg::LockShared) else {
        return Ok(None);
    };
    if lock.metadata()?.nlink() == 0 {
        return Err(io::Error::other("another comparison has removed it"));
    }
    Ok(Some(lock))
}

/// Locks a copy for its removal. `None` if an owner holds it, or the file system has no locks.
pub(super) fn if_unused(copy: File) -> Option<Lock> {
    Flock::lock(copy, FlockArg::LockExclusiveNonblock).ok()
}
