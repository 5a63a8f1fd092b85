//! Descriptors that this process has from its parent.

#![allow(unsafe_code, reason = "descriptors that only their numbers name")]

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use rustix::fs::OFlags;

/// Another descriptor of the same open file, with the same offset.
///
/// # Errors
///
/// If there is no such descriptor, or if it is not open for writing.
pub(crate) fn duplicate_for_writing(number: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else has its number.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    let mode = rustix::fs::fcntl_getfl(&copy)? & OFlags::RWMODE;
    if mode == OFlags::WRONLY || mode == OFlags::RDWR {
        Ok(copy)
    } else {
        Err(io::Error::from_raw_os_error(libc::EBADF))
    }
}
