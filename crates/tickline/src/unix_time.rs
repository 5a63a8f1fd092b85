//! A point in Unix time.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::engine::GLOBAL;
#[cfg(feature = "mock")]
use crate::mock::{MockClock, active};

/// `CLOCK_REALTIME`, ns since 1970. When somebody sets that clock, this follows at the next
/// recalibration: with [`start`](crate::start) at once, else within half a second of use.
#[inline]
#[must_use]
pub fn unix_ns() -> u64 {
    #[cfg(feature = "mock")]
    if let Some(ns) = active(MockClock::unix_ns) {
        return ns;
    }
    GLOBAL.unix_ns()
}

/// Nanoseconds since 1970-01-01 00:00:00 UTC without leap seconds, 8 bytes, good until the year
/// 2554.
///
/// It follows `CLOCK_REALTIME`, and steps when somebody sets that clock. The feature `serde` writes
/// it as a number of nanoseconds.
///
/// ```
/// use std::time::SystemTime;
/// use tickline::UnixTime;
/// let now = UnixTime::now();
/// let system: SystemTime = now.into();
/// assert_eq!(UnixTime::try_from(system), Ok(now));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime {
    ns: u64,
}

impl UnixTime {
    /// 1970-01-01 00:00:00 UTC.
    pub const EPOCH: Self = Self { ns: 0 };

    /// The present.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        Self { ns: unix_ns() }
    }

    /// The time `ns` nanoseconds after 1970.
    #[inline]
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds since 1970.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.ns
    }

    /// Whole seconds since 1970.
    #[inline]
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.ns / 1_000_000_000
    }

    /// Nanoseconds within the second.
    #[inline]
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        (self.ns % 1_000_000_000) as u32
    }

    /// Time since `earlier`; `None` if that is later, as it can be once somebody has set the clock.
    #[inline]
    #[must_use]
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.ns.checked_sub(earlier.ns) {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => None,
        }
    }

    /// This time and `duration`; `None` beyond 2^64 ns.
    #[inline]
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        Some(Self { ns: self.ns.checked_add(ns)? })
    }

    /// This time less `duration`; `None` before 1970.
    #[inline]
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        Some(Self { ns: self.ns.checked_sub(ns)? })
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;

    /// # Panics
    ///
    /// If the sum is beyond 2^64 ns, as `SystemTime` does beyond its own limit; use
    /// [`checked_add`](UnixTime::checked_add) otherwise.
    #[inline]
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("overflow when adding a duration to a Unix time")
    }
}

impl Sub<Duration> for UnixTime {
    type Output = Self;

    /// # Panics
    ///
    /// If the difference is before 1970; use [`checked_sub`](UnixTime::checked_sub) otherwise.
    #[inline]
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("overflow when subtracting a duration from a Unix time")
    }
}

impl fmt::Debug for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnixTime({}.{:09})", self.as_secs(), self.subsec_nanos())
    }
}

impl From<UnixTime> for SystemTime {
    fn from(time: UnixTime) -> Self {
        UNIX_EPOCH + Duration::from_nanos(time.ns)
    }
}

/// A `SystemTime` that is no [`UnixTime`]: before 1970, or after 2^64 ns.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tickline::UnixTime;
///
/// let error = UnixTime::try_from(UNIX_EPOCH - Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "1 s before 1970 is below the limit of 0");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixTimeRangeError(SystemTime);

impl fmt::Display for UnixTimeRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.duration_since(UNIX_EPOCH) {
            Ok(since) => write!(
                f,
                "{} s after 1970 is beyond the limit of {} s",
                since.as_secs(),
                u64::MAX / 1_000_000_000
            ),
            Err(before) => {
                write!(f, "{} s before 1970 is below the limit of 0", before.duration().as_secs_f64())
            }
        }
    }
}

impl std::error::Error for UnixTimeRangeError {}

impl TryFrom<SystemTime> for UnixTime {
    type Error = UnixTimeRangeError;

    fn try_from(time: SystemTime) -> Result<Self, Self::Error> {
        let since = time.duration_since(UNIX_EPOCH).map_err(|_| UnixTimeRangeError(time))?;
        let ns = u64::try_from(since.as_nanos()).map_err(|_| UnixTimeRangeError(time))?;
        Ok(Self { ns })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for UnixTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.ns)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for UnixTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_nanos)
    }
}
