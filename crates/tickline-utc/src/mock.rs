//! UTC by a mock, for tests. Needs the feature `mock`.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use tickline::mock::MockClock;
use tickline::{Clock, UnixTime};

use crate::utc::Utc;
use crate::{UtcReading, UtcSource, UtcUnknown};

/// UTC by a mock's Unix time, with an error that the test chooses. Clones are the same mock.
///
/// ```
/// use std::time::Duration;
/// use tickline::mock::MockClock;
/// use tickline_utc::{UtcUnknown, mock::MockUtc};
///
/// let clock = MockClock::new();
/// let mock = MockUtc::new(&clock, Duration::from_millis(1));
/// let utc = mock.utc(); // for the code under test
/// let committed = utc.now()?;
/// assert_eq!(committed.width(), Duration::from_millis(2));
///
/// let now = utc.wait_until_past(&committed)?; // moves the mock
/// assert!(committed.definitely_before(&now));
///
/// mock.set_unknown(UtcUnknown::Expired); // the NTP daemon dies
/// assert_eq!(utc.now(), Err(UtcUnknown::Expired));
/// # Ok::<(), UtcUnknown>(())
/// ```
#[derive(Debug, Clone)]
pub struct MockUtc {
    clock: MockClock,
    /// The largest error of Unix time against UTC, or why UTC is unknown.
    error: Arc<Mutex<Result<Duration, UtcUnknown>>>,
}

impl MockUtc {
    /// UTC by `clock`, whose Unix time is off by `error` at most.
    #[must_use]
    pub fn new(clock: &MockClock, error: Duration) -> Self {
        Self {
            clock: clock.clone(),
            error: Arc::new(Mutex::new(Ok(error))),
        }
    }

    /// A [`Utc`] that shows this mock, on every thread.
    #[must_use]
    pub fn utc(&self) -> Utc {
        Utc::by_mock(self.clone())
    }

    /// Sets the largest error of the mock's Unix time against UTC.
    pub fn set_error(&self, error: Duration) {
        self.set(Ok(error));
    }

    /// Makes [`Utc::now`] fail with `reason`.
    pub fn set_unknown(&self, reason: UtcUnknown) {
        self.set(Err(reason));
    }

    fn set(&self, error: Result<Duration, UtcUnknown>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.clock()
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// The mock's Unix time, with its error on either side.
    pub(crate) fn now(&self) -> Result<UtcReading, UtcUnknown> {
        let error = (*self.error.lock().unwrap_or_else(PoisonError::into_inner))?;
        let time = self.clock().unix_now();
        Ok(UtcReading {
            earliest: time.checked_sub(error).unwrap_or(UnixTime::UNIX_EPOCH),
            latest: time.checked_add(error).unwrap_or(UnixTime::MAX),
            tai_offset_s: None,
            source: UtcSource::Mock,
        })
    }
}
