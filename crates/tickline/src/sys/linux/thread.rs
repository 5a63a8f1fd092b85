//! Linux: the signal mask of a quiet thread.

use core::ptr;

/// Blocks all signals of the calling thread until it is dropped. A thread that is made meanwhile
/// inherits that, so it never runs a handler of the program.
#[derive(Debug)]
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn new() -> Self {
        // SAFETY: a signal set is plain data, and is filled below.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
        // SAFETY: `all` is valid for a write.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets are valid; with these arguments the call cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was written by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}
