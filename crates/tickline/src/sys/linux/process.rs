//! Linux: the right of a process to read the counter, its `errno`, and the signal mask of a thread.

use core::ptr;

/// Whether the process may read the counter: `prctl(PR_GET_TSC)`, which x86 has, and arm64 since
/// Linux 6.12. A kernel without this call can't deny the counter in this way.
pub(crate) fn may_read_counter() -> bool {
    let mut mode: libc::c_int = libc::PR_TSC_ENABLE;
    // SAFETY: PR_GET_TSC writes one int to the address given, or fails.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result != 0 || mode != libc::PR_TSC_SIGSEGV
}

/// Restores `errno` when it is dropped. A reading may make system calls that fail, perhaps in a
/// signal handler, while the program is about to read its own `errno`.
#[derive(Debug)]
pub(crate) struct PreserveErrno(libc::c_int);

impl PreserveErrno {
    pub(crate) fn new() -> Self {
        Self(errno())
    }
}

/// The calling thread's `errno`. Not by `std::io::Error`, whose drop would come into every program.
pub(super) fn errno() -> libc::c_int {
    // SAFETY: the call has no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's errno is valid as long as the thread runs.
    unsafe { *errno }
}

impl Drop for PreserveErrno {
    fn drop(&mut self) {
        // SAFETY: the call has no precondition.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: the address of this thread's errno is valid as long as the thread runs.
        unsafe { *errno = self.0 };
    }
}

/// Blocks all signals of the calling thread until it is dropped. A thread that is created meanwhile
/// inherits the mask, so it never runs a signal handler of the program.
#[derive(Debug)]
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn new() -> Self {
        // SAFETY: a signal set is plain data, and is filled below.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            unsafe { core::mem::zeroed() };
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

// Miri has no such call.
#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    /// Whether a thread may read the counter after it has asked the kernel for this mode, and
    /// whether the kernel has set it. Kernels for processors other than x86 may not have the call.
    fn after_setting(mode: libc::c_int) -> (bool, bool) {
        let set = |mode: libc::c_int| {
            // SAFETY: PR_SET_TSC takes a number, and concerns only the calling thread.
            unsafe { libc::prctl(libc::PR_SET_TSC, mode) == 0 }
        };
        let ask = move || {
            let is_set = set(mode);
            let may_read = may_read_counter();
            set(libc::PR_TSC_ENABLE); // before the thread ends, in which std may read a clock
            (may_read, is_set)
        };
        std::thread::spawn(ask).join().expect("no panic")
    }

    #[test]
    fn a_thread_that_has_denied_itself_the_counter_may_not_read_it() {
        let (may_read, is_denied) = after_setting(libc::PR_TSC_SIGSEGV);
        assert_eq!(may_read, !is_denied);
    }

    #[test]
    fn a_thread_that_is_denied_nothing_may_read_the_counter() {
        assert!(after_setting(libc::PR_TSC_ENABLE).0);
    }
}
