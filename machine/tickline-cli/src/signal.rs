//! Signal handlers of this process.

#![allow(unsafe_code, reason = "sigaction(2)")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use signal_hook::consts;
use signal_hook::low_level::{emulate_default_handler, register};
use tickline::backend::{OsClock, Reference as _};

/// A flag that becomes true at the first SIGINT, SIGTERM or SIGHUP. A second signal ends the
/// process at once, because a write to a blocked pipe may keep the process from reading the flag;
/// one that is delivered within [`SAME_SIGNAL`] of the first counts as the first. A process that
/// blocks these signals, and is stuck, gets neither: only SIGKILL ends it.
///
/// An inherited SIGHUP that is ignored, as under `nohup`, stays ignored. SIGINT and SIGTERM set the
/// flag even if a shell has started this process in the background with these signals ignored.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let first = Arc::new(FirstSignal::new());
    let signals = [consts::SIGINT, consts::SIGTERM].into_iter();
    #[cfg(unix)]
    let signals = signals.chain(Some(consts::SIGHUP).filter(|hangup| !is_ignored(*hangup)));
    for signal in signals {
        let (stop, first) = (Arc::clone(&stop), Arc::clone(&first));
        let handler = move || {
            if first.note_signal() {
                emulate_default_handler(signal).ok();
            }
            // ORDERING: Relaxed; the flag publishes no other data.
            stop.store(true, Ordering::Relaxed);
        };
        // SAFETY: the handler uses atomics, reads the time (clock_gettime, or the system call if
        // the vDSO may not be used), and sends a signal with its default action; signal-safety(7)
        // permits all of them.
        unsafe { register(signal, handler) }?;
    }
    Ok(stop)
}

/// For how long after the first signal another counts as the same. `timeout -s INT`, for one, sends
/// a signal to the process, and then to its group, in which the process gets it again.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// When the first signal came. The time is that of [`OsClock`], because std's clock would end a
/// process that may not read the counter.
#[derive(Debug)]
struct FirstSignal {
    start_ns: i64,
    /// From `start_ns` on, ns; [`u64::MAX`] before the signal.
    at_ns: AtomicU64,
}

impl FirstSignal {
    fn new() -> Self {
        Self {
            start_ns: OsClock.monotonic_ns(),
            at_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// Notes that a signal has come. Returns whether it is a second one.
    fn note_signal(&self) -> bool {
        let now_ns = OsClock.monotonic_ns().saturating_sub(self.start_ns);
        let now_ns = u64::try_from(now_ns).unwrap_or(0);
        // ORDERING: Relaxed, because this is the only word.
        is_second(self.at_ns.fetch_min(now_ns, Ordering::Relaxed), now_ns)
    }
}

/// Whether a signal at `now_ns` is another one than the first.
fn is_second(first_ns: u64, now_ns: u64) -> bool {
    Duration::from_nanos(now_ns.saturating_sub(first_ns)) > SAME_SIGNAL
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

    /// Symptom: `timeout -s INT 3 tickline serve` killed the server, whose leases had not run out.
    #[test]
    fn a_signal_that_comes_twice_at_once_is_one() {
        let first_ns = 3_000_000_000;
        let within_ns = first_ns + 100_000_000;
        assert!(!is_second(u64::MAX, first_ns), "there was none before");
        assert!(!is_second(first_ns, first_ns));
        assert!(!is_second(first_ns, within_ns));
    }

    #[test]
    fn a_signal_that_comes_later_is_a_second_one() {
        let first_ns = 3_000_000_000;
        assert!(is_second(first_ns, first_ns + 100_000_001));
    }

    #[test]
    fn the_first_signal_is_no_second_one() {
        let first = FirstSignal::new();
        assert!(!first.note_signal());
        assert_ne!(first.at_ns.into_inner(), u64::MAX);
    }

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
