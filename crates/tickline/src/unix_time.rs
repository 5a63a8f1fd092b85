//! A point in Unix time.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;
use std::time::SystemTime;

use tickline_core::unstable::units::NS_PER_S;

use crate::engine::GLOBAL;
#[cfg(feature = "mock")]
use crate::mock::{MockClock, active};

mod text;

pub use text::ParseUnixTimeError;

/// 1970-01-01 00:00:00 UTC, as [`UnixTime::UNIX_EPOCH`]: in the place of `std::time::UNIX_EPOCH`.
pub const UNIX_EPOCH: UnixTime = UnixTime::UNIX_EPOCH;

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
/// It follows `CLOCK_REALTIME`, and steps when somebody sets that clock. So one time may be earlier
/// than another that was taken before it, and [`duration_since`](Self::duration_since) returns a
/// `Result`, as that of `SystemTime` does. The feature `serde` writes it as a number of
/// nanoseconds.
///
/// As text it is an RFC 3339 time in UTC with nine digits, or with as many as the precision says;
/// further ones are cut off. [`FromStr`](core::str::FromStr) reads that, other offsets from UTC,
/// and seconds since 1970. There and back loses nothing.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickline::UnixTime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let now = UnixTime::now();
/// let system: SystemTime = now.into();
/// assert_eq!(UnixTime::try_from(system), Ok(now));
///
/// let newyear = UnixTime::from_secs(1_767_225_600);
/// assert_eq!(newyear.to_string(), "2026-01-01T00:00:00.000000000Z");
/// assert_eq!(format!("{:.3}", newyear + Duration::from_micros(1_999)), "2026-01-01T00:00:00.001Z");
/// assert_eq!("2026-01-01T01:00:00+01:00".parse(), Ok(newyear));
/// assert_eq!("1767225600.0".parse(), Ok(newyear));
/// println!("{:?} since then", newyear.elapsed()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime {
    ns: u64,
}

impl UnixTime {
    /// 1970-01-01 00:00:00 UTC, which is also the default.
    pub const UNIX_EPOCH: Self = Self { ns: 0 };

    /// 2554-07-21 23:34:33.709551615 UTC, the last time of this type.
    pub const MAX: Self = Self { ns: u64::MAX };

    /// The present.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        Self { ns: unix_ns() }
    }

    /// The time `seconds` after 1970.
    ///
    /// # Panics
    ///
    /// Beyond 18,446,744,073 s, in the year 2554; in a `const`, that does not compile.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self::of(seconds, NS_PER_S)
    }

    /// The time `millis` milliseconds after 1970.
    ///
    /// # Panics
    ///
    /// In the year 2554, as [`from_secs`](Self::from_secs).
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self::of(millis, 1_000_000)
    }

    /// The time `micros` microseconds after 1970.
    ///
    /// # Panics
    ///
    /// In the year 2554, as [`from_secs`](Self::from_secs).
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self::of(micros, 1_000)
    }

    /// So many units of `unit_ns`.
    const fn of(count: u64, unit_ns: u64) -> Self {
        match count.checked_mul(unit_ns) {
            Some(ns) => Self { ns },
            None => panic!("a Unix time beyond the limit of 18446744073 s"),
        }
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

    /// Whole seconds since 1970, rounded down.
    #[inline]
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.ns / NS_PER_S
    }

    /// Whole milliseconds since 1970, rounded down.
    #[inline]
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.ns / 1_000_000
    }

    /// Whole microseconds since 1970, rounded down.
    #[inline]
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.ns / 1_000
    }

    /// Nanoseconds within the second.
    #[inline]
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        (self.ns % NS_PER_S) as u32
    }

    /// Time since `earlier`.
    ///
    /// # Errors
    ///
    /// [`NegativeDurationError`] if `earlier` is later, as it can be once somebody has set the
    /// clock.
    #[inline]
    pub const fn duration_since(&self, earlier: Self) -> Result<Duration, NegativeDurationError> {
        match self.ns.checked_sub(earlier.ns) {
            Some(ns) => Ok(Duration::from_nanos(ns)),
            None => Err(NegativeDurationError(Duration::from_nanos(earlier.ns.abs_diff(self.ns)))),
        }
    }

    /// Time from this to [`UnixTime::now`].
    ///
    /// # Errors
    ///
    /// [`NegativeDurationError`] if this is in the future, as it can be once somebody has set the
    /// clock.
    #[inline]
    pub fn elapsed(&self) -> Result<Duration, NegativeDurationError> {
        Self::now().duration_since(*self)
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

    /// Time since `earlier`; zero if that is later.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
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

    /// This time and `duration`, at most [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self::MAX)
    }

    /// This time less `duration`, at least [`UNIX_EPOCH`](Self::UNIX_EPOCH).
    #[inline]
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).unwrap_or(Self::UNIX_EPOCH)
    }

    /// The time so many ns after 1970, or before it if negative: what every conversion comes down
    /// to.
    pub(crate) fn from_signed_nanos(ns: i128) -> Result<Self, UnixTimeRangeError> {
        match u64::try_from(ns) {
            Ok(ns) => Ok(Self { ns }),
            Err(_) => Err(UnixTimeRangeError { ns }),
        }
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

impl Sub for UnixTime {
    type Output = Duration;

    /// Time since `earlier`; zero if that is later, as with
    /// [`saturating_duration_since`](UnixTime::saturating_duration_since).
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl AddAssign<Duration> for UnixTime {
    /// # Panics
    ///
    /// As `+`.
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl SubAssign<Duration> for UnixTime {
    /// # Panics
    ///
    /// As `-`.
    #[inline]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Debug for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnixTime({}.{:09})", self.as_secs(), self.subsec_nanos())
    }
}

/// The time of another clock was later than expected: in the place of `std::time::SystemTimeError`.
///
/// ```
/// use std::time::Duration;
/// use tickline::UnixTime;
///
/// let (early, late) = (UnixTime::from_secs(5), UnixTime::from_secs(7));
/// let error = early.duration_since(late).unwrap_err();
/// assert_eq!(error.duration(), Duration::from_secs(2));
/// assert_eq!(error.to_string(), "the earlier time is later, by 2s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegativeDurationError(Duration);

impl NegativeDurationError {
    /// By how much it was later.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

impl fmt::Display for NegativeDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the earlier time is later, by {:?}", self.0)
    }
}

impl std::error::Error for NegativeDurationError {}

/// Exact, but on Windows, whose `SystemTime` counts in units of 100 ns: there it is rounded down.
impl From<UnixTime> for SystemTime {
    fn from(time: UnixTime) -> Self {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(time.ns)
    }
}

/// A time that is no [`UnixTime`]: before 1970, or after 2^64 ns.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickline::UnixTime;
///
/// let error = UnixTime::try_from(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "1 s before 1970 is below the limit of 0");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixTimeRangeError {
    ns: i128,
}

impl fmt::Display for UnixTimeRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ns) =
            (self.ns.unsigned_abs() / u128::from(NS_PER_S), self.ns.unsigned_abs() % u128::from(NS_PER_S));
        if self.ns >= 0 {
            let limit = UnixTime::MAX.as_secs();
            return write!(f, "{seconds} s after 1970 is beyond the limit of {limit} s");
        }
        let fraction = format!("{ns:09}");
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{seconds} s before 1970 is below the limit of 0"),
            digits => write!(f, "{seconds}.{digits} s before 1970 is below the limit of 0"),
        }
    }
}

impl std::error::Error for UnixTimeRangeError {}

/// Exact.
impl TryFrom<SystemTime> for UnixTime {
    type Error = UnixTimeRangeError;

    fn try_from(time: SystemTime) -> Result<Self, Self::Error> {
        // BOUND: a Duration is below 2^94 ns.
        let ns = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        Self::from_signed_nanos(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => ns(since),
            Err(before) => ns(before.duration()).saturating_neg(),
        })
    }
}
