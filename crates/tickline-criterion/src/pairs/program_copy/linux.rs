//! The lock on a copy that is in use, on Linux: flock(2). It ends with the process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::FlockArg;

/// A locked file. It is unlocked when it is closed.
pub(super) type Lock = File;

/// Locks a copy for its owner. `None` if the file system has no locks.
///
/// # Errors
///
/// `NotFound` if [`if_unused`] had the lock before: the copy was removed.
pub(super) fn hold(copy: &Path) -> io::Result<Option<Lock>> {
    let copy = File::open(copy)?;
    // This waits for the end of a removal.
    if flock(&copy, FlockArg::LockShared).is_err() {
        return Ok(None);
    }
    if copy.metadata()?.nlink() == 0 {
        let text = "another comparison has removed it";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(Some(copy))
}

/// Locks a copy for its removal. `None` if an owner holds it or runs it, or the file system has no
/// locks.
pub(super) fn if_unused(copy: &Path) -> Option<Lock> {
    // NFS locks exclusively only what may be written. Most kernels refuse such a handle of a
    // program that runs.
    let file = match File::options().read(true).write(true).open(copy) {
        // The program, and so its copy, may be read-only.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(copy),
        result => result,
    };
    let file = file.ok()?;
    flock(&file, FlockArg::LockExclusiveNonblock).ok()?;
    Some(file)
}

fn flock(file: &File, kind: FlockArg) -> nix::Result<()> {
    #[expect(
        deprecated,
        reason = "nix::fcntl::Flock unlocks the file when it is dropped, and panics if it can't"
    )]
    let lock = || nix::fcntl::flock(file.as_raw_fd(), kind);
    until_not_interrupted(lock)
}

/// Calls again what a signal has interrupted.
fn until_not_interrupted(mut call: impl FnMut() -> nix::Result<()>) -> nix::Result<()> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: after a signal a copy counted as one on a file system without locks.
    #[test]
    fn what_a_signal_interrupts_is_called_again() {
        let mut results = [Err(Errno::EINTR), Err(Errno::EINTR), Ok(())].into_iter();
        let last = until_not_interrupted(|| results.next().expect("one more"));
        assert_eq!((last, results.next()), (Ok(()), None));
    }
}
