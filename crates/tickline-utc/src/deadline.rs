//! The end of the time for which a daemon's answer is waited for.

use std::io;
use std::time::{Duration, Instant};

/// The end of the calls that ask a daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// The longest wait. Longer ones are cut, so that the end is a time that there is.
    const LONGEST: Duration = Duration::from_secs(86_400);

    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout.min(Self::LONGEST))
    }

    /// Makes a call of a socket, whose timeout `set_timeout` sets to the time that is left.
    ///
    /// # Errors
    ///
    /// If the call fails, or no time is left.
    pub(crate) fn wait<T>(
        self,
        set_timeout: impl Fn(Option<Duration>) -> io::Result<()>,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        set_timeout(Some(left))?;
        call()
    }
}
