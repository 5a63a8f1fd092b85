//! What this process does at a signal.

#![allow(unsafe_code, reason = "sigaction(2)")]

/// Whether this process ignores a signal.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a `sigaction` has numbers and a pointer alone, of which zeros are valid values.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the kernel reads no memory of this process; it writes to
    // `action`, which is valid for that.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
