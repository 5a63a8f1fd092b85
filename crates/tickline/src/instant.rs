//! A point in monotonic time.

use core::fmt;
use core::time::Duration;

use crate::arithmetic::arithmetic;

/// A point in time of `CLOCK_MONOTONIC`, in the shape of [`std::time::Instant`], 8 bytes.
///
/// [`now`](Self::now) reads the counter without a fence. It is in order within a thread. But the
/// CPU may read the counter before older loads complete. The later of two threads' instants may
/// therefore seem earlier by some nanoseconds, rarely microseconds.
/// [`now_ordered`](Self::now_ordered) is in order across threads. Differences saturate at zero.
///
/// An [`Anchor`](crate::Anchor) converts an instant into `std::time::Instant` or into
/// [`UnixTime`](crate::UnixTime), and back, and states the error of the conversion.
///
/// ```
/// use tickline::Instant;
/// let start = Instant::now();
/// let spent = start.elapsed();
/// assert!(Instant::now() >= start + spent);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ns: u64,
}

const _: () = assert!(size_of::<Instant>() == 8);

impl Instant {
    /// The zero of `CLOCK_MONOTONIC`: the start of the machine, on most systems. Earlier than every
    /// other instant, so it can stand for "never".
    pub const ZERO: Self = Self { ns: 0 };

    /// The latest instant, 2^64 - 1 ns after [`ZERO`](Self::ZERO), about 584 years.
    pub const MAX: Self = Self { ns: u64::MAX };

    /// The instant at `ns` of `CLOCK_MONOTONIC`, as other processes and kernel traces write it.
    #[inline]
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.ns
    }

    /// Time since `earlier`; zero if `earlier` is the later instant.
    #[inline]
    #[must_use]
    pub const fn duration_since(&self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// Time since `earlier`; `None` if `earlier` is the later instant.
    #[inline]
    #[must_use]
    pub const fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        match self.ns.checked_sub(earlier.ns) {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => None,
        }
    }

    /// Time since `earlier`; zero if `earlier` is the later instant.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(&self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}

arithmetic!(Instant, "an instant");

impl core::ops::Sub for Instant {
    type Output = Duration;

    /// Time since `earlier`; zero if `earlier` is the later instant.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant")
            .field(&Duration::from_nanos(self.ns))
            .finish()
    }
}
