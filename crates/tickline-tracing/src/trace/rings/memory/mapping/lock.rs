//! Locks of files (flock(2)).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::layer::process_mutex::lock_with_retries;

/// How often [`lock_soon`] tries, 50 us apart. A process that looks for rings has the lock for
/// microseconds, or for some milliseconds if it is preempted.
const TRIES: u32 = 200;

pub(super) fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another recorder writes to it")
}

pub(super) fn lock(file: &File) -> io::Result<()> {
    try_flock(file, libc::LOCK_EX)
}

/// Calls `lock` until it does not find the file locked, for a short time.
pub(super) fn lock_soon(lock: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let locked = lock_with_retries(TRIES, || match lock() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => None,
        locked => Some(locked),
    });
    locked.unwrap_or_else(|| Err(busy()))
}

pub(super) fn try_flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(if error.kind() == io::ErrorKind::WouldBlock {
        busy()
    } else {
        error
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Symptom: a recorder did not start if a trace's writer looked for rings at that moment.
    #[test]
    fn a_file_that_is_locked_for_a_moment_is_locked_afterwards() {
        let tries = Cell::new(0);
        let lock = || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(busy()) } else { Ok(()) }
        };
        lock_soon(lock).unwrap();
    }
}
