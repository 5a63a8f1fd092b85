//! A point in Unix time. The constructors that read a clock are in `now.rs`, the anchors in
//! `convert.rs`.

use core::cmp::Ordering;
use core::fmt::{self, Alignment, Write};
use core::time::Duration;
use std::time::{SystemTime, SystemTimeError};

use crate::arithmetic::arithmetic;

pub(crate) mod parse;
mod too_late;

use too_late::panic_too_late;

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since 1970-01-01 00:00:00 UTC without leap seconds, 8 bytes, good until the year
/// 2554.
///
/// A Unix time follows `CLOCK_REALTIME`, and steps when that clock is set. A later reading may
/// therefore be the earlier time, and [`duration_since`](Self::duration_since) returns a `Result`,
/// like `SystemTime`'s. With the feature `serde`, a time is serialised as a number of nanoseconds,
/// above 2^53, so that JavaScript and `jq` round it; `tickline::serde::rfc3339` stores a text.
///
/// `Display` writes an RFC 3339 time in UTC with nine fractional digits, or as many as the format's
/// precision says. Further digits are cut off. `str::parse` reads such a text, also with an offset
/// (`+02:00`). For other formats, use a type of `chrono`, `jiff` or `time`, and convert it (the
/// features of these names).
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickline::UnixTime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let now = UnixTime::from_micros(UnixTime::now().as_micros()); // whole units on Windows, too
/// let system: SystemTime = now.into();
/// assert_eq!(UnixTime::try_from(system), Ok(now));
///
/// let newyear = UnixTime::from_secs(1_767_225_600);
/// assert_eq!(newyear.to_string(), "2026-01-01T00:00:00.000000000Z");
/// assert_eq!("2026-01-01T02:00:00+02:00".parse(), Ok(newyear));
/// assert_eq!(format!("{:.3}", newyear + Duration::from_micros(1_999)), "2026-01-01T00:00:00.001Z");
/// println!("{:?} since then", newyear.elapsed()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)] // for the slow path's `extern "C"` (`engine.rs`)
pub struct UnixTime {
    ns: u64,
}

const _: () = assert!(size_of::<UnixTime>() == 8);

impl UnixTime {
    /// 1970-01-01 00:00:00 UTC, which is also the default.
    pub const UNIX_EPOCH: Self = Self { ns: 0 };

    /// 2554-07-21 23:34:33.709551615 UTC, the last time of this type.
    pub const MAX: Self = Self { ns: u64::MAX };

    /// The time `seconds` after 1970.
    ///
    /// # Panics
    ///
    /// If the time is after 18,446,744,073 s (in 2554). In a `const`, such a call does not compile.
    /// For a number from outside, `UnixTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))`
    /// returns `None` instead.
    #[must_use]
    #[track_caller]
    pub const fn from_secs(seconds: u64) -> Self {
        Self::from_units(seconds, NS_PER_S, " s")
    }

    /// The time `millis` milliseconds after 1970.
    ///
    /// # Panics
    ///
    /// If the time is after 18,446,744,073,709 ms (in 2554). In a `const`, such a call does not
    /// compile. For a number from outside, see [`from_secs`](Self::from_secs).
    #[must_use]
    #[track_caller]
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_units(millis, 1_000_000, " ms")
    }

    /// The time `micros` microseconds after 1970.
    ///
    /// # Panics
    ///
    /// If the time is after 18,446,744,073,709,551 us (in 2554). In a `const`, such a call does not
    /// compile. For a number from outside, see [`from_secs`](Self::from_secs).
    #[must_use]
    #[track_caller]
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_units(micros, 1_000, " us")
    }

    #[track_caller]
    const fn from_units(value: u64, unit_ns: u64, unit: &str) -> Self {
        match value.checked_mul(unit_ns) {
            Some(ns) => Self { ns },
            None => panic_too_late(value, u64::MAX / unit_ns, unit),
        }
    }

    /// The time `ns` nanoseconds after 1970.
    #[inline]
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self { ns }
    }

    /// The time by a line. The function does not test the sign, which would take an instruction in
    /// each reading.
    ///
    /// Unix time on Linux is not negative, because Linux refuses to set `CLOCK_REALTIME` below
    /// `CLOCK_MONOTONIC` (`do_settimeofday64` in `kernel/time/timekeeping.c`). If another system
    /// accepts a year before 1970, a line returns a time between the years 2262 and 2554, which
    /// looks valid, and the OS clock returns 1970.
    #[inline(always)]
    pub(crate) const fn from_line(ns: i64) -> Self {
        Self {
            ns: ns.cast_unsigned(),
        }
    }

    /// The time of an OS clock, a bound, or a time by the slow path: 1970 if `ns` is negative.
    #[inline]
    pub(crate) const fn saturating_from_nanos(ns: i64) -> Self {
        Self {
            ns: 0_u64.saturating_add_signed(ns),
        }
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

    /// Time since `earlier`, which may be a `SystemTime`, such as a file's time of modification or
    /// [`std::time::UNIX_EPOCH`]. On Windows, whose `SystemTime` counts units of 100 ns, both times
    /// are rounded down to such a unit; [`checked_duration_since`](Self::checked_duration_since) is
    /// exact.
    ///
    /// # Errors
    ///
    /// std's error, if `earlier` is the later time, which is possible after the clock was set.
    #[inline]
    pub fn duration_since(
        &self,
        earlier: impl Into<SystemTime>,
    ) -> Result<Duration, SystemTimeError> {
        SystemTime::from(*self).duration_since(earlier.into())
    }

    /// Time since `earlier`, exact on every system; `None` if `earlier` is the later time.
    #[inline]
    #[must_use]
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        match self.ns.checked_sub(earlier.ns) {
            Some(ns) => Some(Duration::from_nanos(ns)),
            None => None,
        }
    }

    /// Time since `earlier`, exact on every system; zero if `earlier` is the later time.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// This time plus `duration`; `None` beyond [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns.checked_add(ns).map(Self::from_nanos)
    }

    /// This time minus `duration`; `None` before 1970.
    #[inline]
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns.checked_sub(ns).map(Self::from_nanos)
    }

    /// The time `ns` nanoseconds after 1970, or before 1970 if `ns` is negative. Every conversion
    /// calls this function.
    pub(crate) fn from_signed_nanos(ns: i128) -> Result<Self, UnixTimeRangeError> {
        u64::try_from(ns)
            .map(Self::from_nanos)
            .map_err(|_| UnixTimeRangeError { ns })
    }
}

arithmetic!(UnixTime, UNIX_EPOCH);

/// A number of ns. Programs that keep JSON's numbers in an `f64`, as JavaScript and `jq` do, round
/// it: [`rfc3339`](crate::serde::rfc3339) stores a text instead.
#[cfg(feature = "serde")]
impl serde::Serialize for UnixTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.ns)
    }
}

/// A number of ns.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for UnixTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_nanos)
    }
}

/// Compares with a file's time of modification, for example.
impl PartialEq<SystemTime> for UnixTime {
    fn eq(&self, other: &SystemTime) -> bool {
        SystemTime::from(*self) == *other
    }
}

/// Compares with a file's time of modification, for example.
impl PartialOrd<SystemTime> for UnixTime {
    fn partial_cmp(&self, other: &SystemTime) -> Option<Ordering> {
        SystemTime::from(*self).partial_cmp(other)
    }
}

impl PartialEq<UnixTime> for SystemTime {
    fn eq(&self, other: &UnixTime) -> bool {
        *self == SystemTime::from(*other)
    }
}

impl PartialOrd<UnixTime> for SystemTime {
    fn partial_cmp(&self, other: &UnixTime) -> Option<Ordering> {
        self.partial_cmp(&SystemTime::from(*other))
    }
}

impl fmt::Debug for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnixTime({}.{:09})", self.as_secs(), self.subsec_nanos())
    }
}

/// Year, month and day of the day that is `days_since_1970` after 1970-01-01. The function counts
/// in eras of 400 years, or 146,097 days. Its years begin in March, so that a leap day is the last
/// day of its year.
const fn date_from_days(days_since_1970: u64) -> (u64, u64, u64) {
    // Days from 0000-03-01, the beginning of an era.
    // BOUND: a `UnixTime` and an era are below 2^18 days.
    let days = days_since_1970 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    // Subtracts the leap days of the era so far: one in 4 years (1,460 days), except in a century
    // (36,524 days), but again in 400 years (146,096 days).
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March to January, any five months in a row have 153 days. February comes last, so its
    // length does not matter (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + (month <= 2) as u64, month, day)
}

/// RFC 3339 in UTC, with nine digits or as many as the precision says. Further digits are cut off,
/// so the text is never later than the time. Width, fill and alignment work as for a text.
impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY_S: u64 = 86_400;
        const LENGTH_TO_SECONDS: usize = "1970-01-01T00:00:00Z".len();
        let (year, month, day) = date_from_days(self.as_secs() / DAY_S);
        let second_of_day = self.as_secs() % DAY_S;
        let hour = second_of_day / 3_600;
        let minute = second_of_day / 60 % 60;
        let second = second_of_day % 60;
        let digits = f.precision().unwrap_or(9).min(9);
        let fraction_length = if digits > 0 { 1 + digits } else { 0 };

        let length = LENGTH_TO_SECONDS + fraction_length;
        let padding = f.width().unwrap_or(0).saturating_sub(length);
        let before = match f.align() {
            Some(Alignment::Right) => padding,
            Some(Alignment::Center) => padding / 2,
            Some(Alignment::Left) | None => 0,
        };
        write_fill(f, before)?;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        if digits > 0 {
            let cut = (digits..9).fold(self.subsec_nanos(), |fraction, _| fraction / 10);
            write!(f, ".{cut:0digits$}")?;
        }
        f.write_str("Z")?;
        write_fill(f, padding - before)
    }
}

fn write_fill(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    let fill = f.fill();
    (0..count).try_for_each(|_| f.write_char(fill))
}

/// Exact, except on Windows, whose `SystemTime` counts units of 100 ns: the time is rounded down.
impl From<UnixTime> for SystemTime {
    fn from(time: UnixTime) -> Self {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(time.ns)
    }
}

/// A time that [`UnixTime`] can't hold: before 1970, or after 2^64 ns.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickline::UnixTime;
///
/// let error = UnixTime::try_from(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "1 s before 1970 is out of range: a UnixTime begins with 1970");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixTimeRangeError {
    /// Since 1970; negative before it.
    ns: i128,
}

impl fmt::Display for UnixTimeRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns_per_s = u128::from(NS_PER_S);
        let seconds = |ns: u128| {
            let digits = format!("{}.{:09}", ns / ns_per_s, ns % ns_per_s);
            digits
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned()
        };
        let time = seconds(self.ns.unsigned_abs());
        let limit = seconds(UnixTime::MAX.ns.into());
        match self.ns {
            0.. => write!(
                f,
                "{time} s after 1970 is out of range: a UnixTime ends {limit} s after 1970"
            ),
            _ => write!(
                f,
                "{time} s before 1970 is out of range: a UnixTime begins with 1970"
            ),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The date after this one, by the rules of the Gregorian calendar.
    fn next_date((year, month, day): (u64, u64, u64)) -> (u64, u64, u64) {
        let is_leap_year =
            year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
        let days = match month {
            2 if is_leap_year => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (month, day) {
            (12, 31) => (year + 1, 1, 1),
            (_, day) if day == days => (year, month + 1, 1),
            (_, day) => (year, month, day + 1),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn every_day_that_a_unix_time_can_have_has_its_date() {
        let last_day = u64::MAX / 1_000_000_000 / 86_400;
        let mut date = (1970, 1, 1);
        for day in 0..=last_day {
            assert_eq!(date_from_days(day), date, "day {day}");
            date = next_date(date);
        }
        assert_eq!(date, (2554, 7, 22));
    }
}
