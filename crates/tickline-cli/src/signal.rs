//! What this process does at a signal.

#![allow(unsafe_code, reason = "sigaction(2)")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Becomes true at one of these signals. A second one ends the process at once: a blocked pipe may
/// keep it from noticing the first.
pub(crate) fn stop_flag(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register_conditional_default(*signal, Arc::clone(&stop))?;
        signal_hook::flag::register(*signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether this process ignores a signal.
#[cfg(unix)]
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a `sigaction` has only numbers and a pointer, and zeros are valid values of these.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the kernel reads no memory of this process; it writes to
    // `action`, which is valid for that.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
