//! The end of the time for which a daemon's answer is waited for.

use std::io;
use std::time::Duration;

use tickline::backend::{OsClock, Reference as _};

/// The end of the calls that ask a daemon, ns of the OS clock. A process may be denied the counter,
/// and std's clocks would then end it by SIGSEGV.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    end_ns: i64,
}

impl Deadline {
    /// The longest wait. Longer ones are cut, so that the end is a time that there is.
    const LONGEST: Duration = Duration::from_secs(86_400);

    pub(crate) fn after(timeout: Duration) -> Self {
        let timeout_ns = timeout.min(Self::LONGEST).as_nanos();
        let timeout_ns = i64::try_from(timeout_ns).unwrap_or(i64::MAX);
        Self {
            end_ns: OsClock.monotonic_ns().saturating_add(timeout_ns),
        }
    }

    /// Makes a call of a socket, whose timeout `set_timeout` sets to the time that is left. A
    /// signal handler of the program ends a call with a timeout, even with `SA_RESTART`
    /// (signal(7)), so the call is then made again.
    ///
    /// # Errors
    ///
    /// If the call fails, or no time is left.
    pub(crate) fn wait<T>(
        self,
        set_timeout: impl Fn(Option<Duration>) -> io::Result<()>,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let left_ns = self.end_ns.saturating_sub(OsClock.monotonic_ns());
            let left_ns = u64::try_from(left_ns).unwrap_or(0);
            if left_ns == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            set_timeout(Some(Duration::from_nanos(left_ns)))?;
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_do_not_move_the_deadline() {
        let deadline = Deadline::after(Duration::from_millis(5));
        let interrupted = || -> io::Result<()> { Err(io::ErrorKind::Interrupted.into()) };
        let ended = deadline.wait(|_| Ok(()), interrupted);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_longest_timeout_has_an_end() {
        let deadline = Deadline::after(Duration::MAX);
        assert_eq!(deadline.wait(|_| Ok(()), || Ok(7)).unwrap(), 7);
    }
}
