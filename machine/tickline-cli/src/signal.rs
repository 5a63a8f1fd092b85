//! Signal handlers of this process.

#![allow(unsafe_code, reason = "sigaction(2)")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts;

/// A flag that becomes true at the first SIGINT, SIGTERM or SIGHUP. A second signal ends the
/// process at once, because a write to a blocked pipe may keep the process from reading the flag.
///
/// An inherited SIGHUP that is ignored, as under `nohup`, stays ignored. SIGINT and SIGTERM set the
/// flag even if a shell has started this process in the background with these signals ignored.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let signals = [consts::SIGINT, consts::SIGTERM].into_iter();
    #[cfg(unix)]
    let signals = signals.chain(Some(consts::SIGHUP).filter(|hangup| !is_ignored(*hangup)));
    for signal in signals {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error, which the program reports.
/// The default action of the signal would end the process, and leave its temporary files.
#[cfg(unix)]
pub(crate) fn ignore_file_size_limit() {
    // SAFETY: an ignored signal runs no code of this process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Whether this process ignores a signal.
#[cfg(unix)]
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a `sigaction` has only numbers and pointers, for which zeros are valid values.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the new action is null, so the kernel reads none. It writes a `sigaction` to
    // `action`, which has this type.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Nothing else in this process handles SIGTTOU.
    #[test]
    fn a_signal_is_ignored_if_its_action_says_so() {
        let set = |action| {
            // SAFETY: the action is no function of this program.
            unsafe { libc::signal(libc::SIGTTOU, action) };
        };
        set(libc::SIG_IGN);
        assert!(is_ignored(libc::SIGTTOU));
        set(libc::SIG_DFL);
        assert!(!is_ignored(libc::SIGTTOU));
    }
}
