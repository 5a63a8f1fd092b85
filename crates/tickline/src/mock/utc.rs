//! UTC as a mock knows it.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use super::MockClock;
use crate::unix_time::UnixTime;
use crate::utc::{UtcReading, UtcUnknown};

/// How far UTC may be from Unix time, or why it is not known.
#[derive(Debug)]
pub(super) struct UtcError(Mutex<Result<Duration, UtcUnknown>>);

impl Default for UtcError {
    fn default() -> Self {
        Self(Mutex::new(Ok(Duration::ZERO)))
    }
}

impl UtcError {
    pub(super) fn reading(&self, unix_ns: u64) -> Result<UtcReading, UtcUnknown> {
        let error = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(UtcReading::of_mock(UnixTime::from_nanos(unix_ns), error?))
    }
}

impl MockClock {
    /// Sets what [`Clock::utc`](crate::Clock::utc) returns: how far UTC may be from this clock's
    /// Unix time, or why UTC is unknown. A new mock has an error of 0. Needs the feature `utc`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::{mock::MockClock, utc::UtcUnknown};
    ///
    /// let mock = MockClock::new();
    /// mock.set_utc_error(Ok(Duration::from_millis(1)));
    /// assert_eq!(mock.clock().utc()?.width(), Duration::from_millis(2));
    /// mock.set_utc_error(Err(UtcUnknown::Expired)); // the NTP daemon dies
    /// assert_eq!(mock.clock().utc(), Err(UtcUnknown::Expired));
    /// # Ok::<(), UtcUnknown>(())
    /// ```
    pub fn set_utc_error(&self, error: Result<Duration, UtcUnknown>) {
        *self.time.utc_error.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}
