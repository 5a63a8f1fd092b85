//! Clocks as values: tickline's, or a mock.

use std::time::Duration;

use crate::instant::Instant;
use crate::mock::Shared;
use crate::recent;

/// A clock to hold in a struct: tickline's global clock, or a mock. A clone is the same clock.
///
/// ```
/// use quanta::{Clock, Instant};
///
/// struct Cache { clock: Clock, filled: Instant }
///
/// let clock = Clock::new();
/// let cache = Cache { filled: clock.now(), clock };
/// assert!(cache.clock.now() >= cache.filled);
/// ```
#[derive(Debug, Clone)]
pub struct Clock {
    /// `None` for tickline's global clock.
    mock: Option<Shared>,
}

impl Clock {
    /// tickline's global clock. Never blocks, and calibrates nothing.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { mock: None }
    }

    /// A clock that stands at 0 until its [`Mock`](crate::Mock) moves it. Any thread may move it.
    ///
    /// ```
    /// let (clock, mock) = quanta::Clock::mock();
    /// let worker = std::thread::spawn(move || mock.increment(5_u64));
    /// worker.join().unwrap();
    /// assert_eq!(clock.raw(), 5);
    /// ```
    #[cfg(feature = "mock")]
    #[must_use]
    pub fn mock() -> (Self, std::sync::Arc<crate::Mock>) {
        let mock = Shared::new(crate::Mock::new());
        (
            Self {
                mock: Some(Shared::clone(&mock)),
            },
            mock,
        )
    }

    /// The present, in order within a thread; between threads, see [Order](crate#order).
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_ns(self.raw())
    }

    /// The present of `CLOCK_MONOTONIC` or of the mock, ns. It has the order of [`now`](Self::now).
    #[inline]
    #[must_use]
    pub fn raw(&self) -> u64 {
        if let Some(mock) = &self.mock {
            return mock.value();
        }
        tickline::now_ns()
    }

    /// A value of [`raw`](Self::raw) as an instant: the same number.
    #[inline]
    #[must_use]
    pub const fn scaled(&self, value: u64) -> Instant {
        Instant::from_ns(value)
    }

    /// The time from one value of [`raw`](Self::raw) to another; zero if `end` is not later.
    #[inline]
    #[must_use]
    pub const fn delta(&self, start: u64, end: u64) -> Duration {
        Duration::from_nanos(self.delta_as_nanos(start, end))
    }

    /// The time from one value of [`raw`](Self::raw) to another, ns; 0 if `end` is not later.
    ///
    /// ```
    /// let clock = quanta::Clock::new();
    /// let start = clock.raw();
    /// let end = clock.raw();
    /// assert_eq!(clock.delta_as_nanos(end, start), 0);
    /// assert_eq!(clock.delta_as_nanos(0, end), end); // any value may be the origin
    /// ```
    #[inline]
    #[must_use]
    pub const fn delta_as_nanos(&self, start: u64, end: u64) -> u64 {
        end.saturating_sub(start)
    }

    /// The recent time: the time that an [`Upkeep`](crate::Upkeep) or
    /// [`set_recent`](crate::set_recent) stored last. A mock clock returns its present time.
    ///
    /// Returns the instant 0 if nothing was stored yet. [`Instant::recent`] then reads the clock.
    #[inline]
    #[must_use]
    pub fn recent(&self) -> Instant {
        if let Some(mock) = &self.mock {
            return Instant::from_ns(mock.value());
        }
        recent::stored()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
