//! A time, and the range of the OS clock then.

use core::ops::{Add, RangeInclusive};
use core::time::Duration;

use tickline_core::shared::BoundedReading;

use crate::instant::Instant;
use crate::unix_time::UnixTime;

/// A time, and the range in which the OS clock was at that moment: its
/// [bounds](crate::Clock::bounds) at one tick. [`Clock::reading`](crate::Clock::reading) returns an
/// [`Instant`](crate::Instant) with its range, and
/// [`Clock::unix_reading`](crate::Clock::unix_reading) a [`UnixTime`](crate::UnixTime).
///
/// The [guarantees](crate::guarantees#bounds) state the conditions on which the range contains the
/// OS clock; what is [not guaranteed](crate::guarantees#not-guaranteed) has the exceptions.
///
/// ```
/// let reading = tickline::Clock::global().reading();
/// assert!(reading.earliest() <= reading.time() && reading.time() <= reading.latest());
/// println!("{:?}, give or take {:?}", reading.time(), reading.error());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reading<T> {
    earliest: T,
    time: T,
    latest: T,
    is_from_counter: bool,
}

impl<T: Copy + Ord> Reading<T> {
    /// A reading of a [`Backend`](crate::backend::Backend) without the counter: `time`, and the
    /// range of the clock that the backend follows, widened to contain `time`.
    ///
    /// ```
    /// use tickline::{Instant, Reading};
    ///
    /// let [before, now, after] = [10, 12, 15].map(Instant::from_nanos);
    /// let reading = Reading::new(now, before..=after);
    /// assert_eq!((reading.time(), reading.width().as_nanos()), (now, 5));
    /// assert!(!reading.is_from_counter());
    /// assert_eq!(Reading::new(before, now..=after).earliest(), before, "contains the time");
    /// ```
    #[must_use]
    pub fn new(time: T, range: RangeInclusive<T>) -> Self {
        let (earliest, latest) = range.into_inner();
        Self {
            earliest: earliest.min(time),
            time,
            latest: latest.max(time),
            is_from_counter: false,
        }
    }

    /// Like [`new`](Self::new), for a backend that has used the counter.
    ///
    /// ```
    /// use tickline::{Instant, Reading};
    ///
    /// let [before, now, after] = [10, 12, 15].map(Instant::from_nanos);
    /// assert!(Reading::from_counter(now, before..=after).is_from_counter());
    /// ```
    #[must_use]
    pub fn from_counter(time: T, range: RangeInclusive<T>) -> Self {
        Self {
            is_from_counter: true,
            ..Self::new(time, range)
        }
    }

    /// A reading without error and without the counter, of a simulation for example: the range is
    /// `time` alone.
    ///
    /// ```
    /// use tickline::{Instant, Reading};
    ///
    /// assert_eq!(Reading::exact(Instant::from_nanos(12)).width().as_nanos(), 0);
    /// ```
    #[must_use]
    pub fn exact(time: T) -> Self {
        Self::new(time, time..=time)
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> Reading<T> {
    /// A reading that returned `time` while the OS clock, or a mock, showed `os_time`. The range is
    /// widened to contain `time`. It ends 1 ns later, because the OS clock rounds down to a
    /// nanosecond.
    pub(crate) fn from_os_reading(time: T, os_time: T) -> Self {
        Self::new(time, os_time..=os_time + Duration::from_nanos(1))
    }
}

impl<T: Copy> Reading<T> {
    /// The start of the range: the OS clock was not before this time.
    #[must_use]
    pub const fn earliest(&self) -> T {
        self.earliest
    }

    /// The time that [`Clock::now_ordered`](crate::Clock::now_ordered) of the same clock would have
    /// returned, or Unix time by the line. If [`Clock::unix_now`](crate::Clock::unix_now) comes
    /// from the OS clock ([`Status::unix_reason`](crate::Status::unix_reason)), the two may differ
    /// within the range.
    #[must_use]
    pub const fn time(&self) -> T {
        self.time
    }

    /// The end of the range: the OS clock was not after this time.
    #[must_use]
    pub const fn latest(&self) -> T {
        self.latest
    }

    /// Whether the reading used the counter. If not, [`Clock::status`](crate::Clock::status) says
    /// why.
    #[must_use]
    pub const fn is_from_counter(&self) -> bool {
        self.is_from_counter
    }
}

impl Reading<Instant> {
    /// A reading by a line.
    #[inline]
    pub(crate) fn from_bounded(bounded: &BoundedReading) -> Self {
        let range = bounded.monotonic_range();
        Self {
            earliest: Instant::from_signed_nanos(range.earliest_ns),
            time: Instant::from_signed_nanos(bounded.ns),
            latest: Instant::from_signed_nanos(range.latest_ns),
            is_from_counter: true,
        }
    }

    /// The width of the range.
    #[must_use]
    pub const fn width(&self) -> Duration {
        self.latest.saturating_duration_since(self.earliest)
    }

    /// The largest distance of the OS clock from [`time`](Self::time): that of the farther end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::{Instant, Reading};
    ///
    /// let [before, now, after] = [10, 12, 15].map(Instant::from_nanos);
    /// assert_eq!(Reading::new(now, before..=after).error(), Duration::from_nanos(3));
    /// ```
    #[must_use]
    pub const fn error(&self) -> Duration {
        let below = self.time.saturating_duration_since(self.earliest);
        let above = self.latest.saturating_duration_since(self.time);
        longer(below, above)
    }
}

impl Reading<UnixTime> {
    /// A reading by a line.
    #[inline]
    pub(crate) fn from_bounded(bounded: &BoundedReading) -> Self {
        let range = bounded.unix_range();
        Self {
            earliest: UnixTime::saturating_from_nanos(range.earliest_ns),
            time: UnixTime::saturating_from_nanos(bounded.unix_ns()),
            latest: UnixTime::saturating_from_nanos(range.latest_ns),
            is_from_counter: true,
        }
    }

    /// The width of the range.
    #[must_use]
    pub const fn width(&self) -> Duration {
        Duration::from_nanos(
            self.latest
                .as_nanos()
                .saturating_sub(self.earliest.as_nanos()),
        )
    }

    /// The largest distance of the OS clock from [`time`](Self::time): that of the farther end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::{Reading, UnixTime};
    ///
    /// let [before, now, after] = [10, 14, 15].map(UnixTime::from_nanos);
    /// assert_eq!(Reading::new(now, before..=after).error(), Duration::from_nanos(4));
    /// ```
    #[must_use]
    pub const fn error(&self) -> Duration {
        let time_ns = self.time.as_nanos();
        let below_ns = time_ns.saturating_sub(self.earliest.as_nanos());
        let above_ns = self.latest.as_nanos().saturating_sub(time_ns);
        longer(
            Duration::from_nanos(below_ns),
            Duration::from_nanos(above_ns),
        )
    }
}

/// `Ord::max` is not `const`.
const fn longer(one: Duration, other: Duration) -> Duration {
    if one.as_nanos() > other.as_nanos() {
        one
    } else {
        other
    }
}
