//! A point in time. `current.rs` reads the present.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A point in time, ns of `CLOCK_MONOTONIC` or of a mock clock, 8 bytes.
///
/// Differences saturate at zero. The instants of a mock clock and of the real one have different
/// origins. Converts into [`tickline::Instant`] and back without loss.
///
/// ```
/// use std::time::Duration;
/// use quanta::Instant;
///
/// let start = Instant::now();
/// let deadline = start + Duration::from_micros(10);
/// while Instant::now() < deadline {}
/// assert!(start.elapsed() >= Duration::from_micros(10));
/// assert_eq!(start - deadline, Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(tickline::Instant);

impl Instant {
    #[inline]
    pub(crate) const fn from_ns(ns: u64) -> Self {
        Self(tickline::Instant::from_nanos(ns))
    }

    #[inline]
    pub(crate) const fn as_ns(self) -> u64 {
        self.0.as_nanos()
    }

    /// Time since `earlier`; zero if that is later.
    #[inline]
    #[must_use]
    pub const fn duration_since(&self, earlier: Self) -> Duration {
        self.0.duration_since(earlier.0)
    }

    /// Time since `earlier`; `None` if that is later.
    #[inline]
    #[must_use]
    pub const fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// Time since `earlier`; zero if that is later.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// Time from this instant to [`Instant::now`]; zero if that is earlier.
    #[inline]
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// This instant plus `duration`; `None` beyond 2^63 - 1 ns.
    #[inline]
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// This instant minus `duration`; `None` before -2^63 ns.
    #[inline]
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }
}

/// The nanoseconds.
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_signed_nanos().fmt(f)
    }
}

impl From<tickline::Instant> for Instant {
    #[inline]
    fn from(instant: tickline::Instant) -> Self {
        Self(instant)
    }
}

impl From<Instant> for tickline::Instant {
    #[inline]
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// This instant plus `duration`; at most 2^63 - 1 ns. Does not panic, where quanta's does.
    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// This instant minus `duration`; also before 0, where quanta's panics. At least -2^63 ns.
    #[inline]
    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Time since `earlier`; zero if that is later.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl AddAssign<Duration> for Instant {
    /// As `+` does.
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl SubAssign<Duration> for Instant {
    /// As `-` does.
    #[inline]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}
