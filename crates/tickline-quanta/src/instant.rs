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
pub struct Instant {
    ns: u64,
}

impl Instant {
    #[inline]
    pub(crate) const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    #[inline]
    pub(crate) const fn as_ns(self) -> u64 {
        self.ns
    }

    /// Time since `earlier`; zero if that is later.
    #[inline]
    #[must_use]
    pub const fn duration_since(&self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// Time since `earlier`; `None` if that is later.
    #[inline]
    #[must_use]
    pub const fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        match self.ns.checked_sub(earlier.ns) {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => None,
        }
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

    /// This instant and `duration`; `None` beyond 2^64 - 1 ns.
    #[inline]
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns.checked_add(ns).map(Self::from_ns)
    }

    /// This instant less `duration`; `None` before 0.
    #[inline]
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns.checked_sub(ns).map(Self::from_ns)
    }
}

/// The nanoseconds.
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ns.fmt(f)
    }
}

impl From<tickline::Instant> for Instant {
    #[inline]
    fn from(instant: tickline::Instant) -> Self {
        Self { ns: instant.as_nanos() }
    }
}

impl From<Instant> for tickline::Instant {
    #[inline]
    fn from(instant: Instant) -> Self {
        Self::from_nanos(instant.ns)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// If the sum is beyond 2^64 - 1 ns; use [`checked_add`](Instant::checked_add) otherwise.
    #[inline]
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("an instant and a duration end after 2^64 - 1 ns")
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// If the difference is before 0; use [`checked_sub`](Instant::checked_sub) otherwise.
    #[inline]
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("an instant less a duration is before 0")
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
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl SubAssign<Duration> for Instant {
    #[inline]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}
