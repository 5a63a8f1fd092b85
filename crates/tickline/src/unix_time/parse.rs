//! A Unix time from a text of RFC 3339: the grammar of section 5.6, and the error.

use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;

use crate::unix_time::{NS_PER_S, UnixTime, UnixTimeRangeError};

/// The most characters of the text that an error repeats. A time has 35 with nine digits and an
/// offset.
const SHOWN_CHARS: usize = 64;

/// Seconds in a day.
const DAY_S: i64 = 86_400;

/// Parses a time of RFC 3339, such as `Display` writes: `2026-01-01T00:00:00.000000000Z`.
///
/// - The offset is `Z`, or a number such as `+02:00`. The result is in UTC, so the offset is lost.
/// - The fraction is optional, and may have any number of digits: those after the ninth are cut
///   off, as `Display` cuts them, so the result is never later than the text.
/// - `t`, `z`, and a space in place of `T`, are accepted, as the RFC allows. Space around the text
///   is not.
/// - Second 60 is an error, because Unix time has no leap seconds. So are dates before 1970 and
///   after 2554, and all other formats of ISO 8601.
///
/// Never panics.
///
/// ```
/// use tickline::UnixTime;
///
/// # fn main() -> Result<(), tickline::UnixTimeParseError> {
/// let time: UnixTime = "2026-01-01T02:00:00.5+02:00".parse()?;
/// assert_eq!(time.as_millis(), 1_767_225_600_500);
/// assert_eq!(time.to_string().parse(), Ok(time));
/// # Ok(())
/// # }
/// ```
impl FromStr for UnixTime {
    type Err = UnixTimeParseError;

    fn from_str(text: &str) -> Result<Self, UnixTimeParseError> {
        parse(text.as_bytes()).map_err(|problem| UnixTimeParseError {
            text: text.chars().take(SHOWN_CHARS).collect(),
            problem,
        })
    }
}

/// A text that is not a time of RFC 3339, or not one that [`UnixTime`] can hold. The error's text
/// repeats its first 64 characters, and says what is wrong.
///
/// ```
/// use tickline::UnixTime;
///
/// for (text, error) in [
///     ("2026-02-29T00:00:00Z", "day 29 is outside 1 to 28"),
///     ("2026-02-28", "there is no `T` at byte 10"),
///     ("1969-12-31T23:59:59Z", "1 s before 1970 is out of range: a UnixTime begins with 1970"),
/// ] {
///     let message = text.parse::<UnixTime>().unwrap_err().to_string();
///     assert_eq!(message, format!("{text:?} is not a Unix time in RFC 3339: {error}"));
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixTimeParseError {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    /// None of the wanted characters is at this byte.
    Missing { wanted: &'static str, at: usize },
    /// A digit of this number is missing.
    NoDigit { field: &'static str, at: usize },
    /// A time ends before this byte, and the text does not.
    GoesOn { at: usize },
    /// A number is not in its range.
    Outside {
        field: &'static str,
        value: i64,
        range: RangeInclusive<i64>,
    },
    /// The time is not a [`UnixTime`].
    OutOfRange(UnixTimeRangeError),
}

impl fmt::Display for UnixTimeParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a Unix time in RFC 3339: ", self.text)?;
        match &self.problem {
            Problem::Missing { wanted, at } => write!(f, "there is no {wanted} at byte {at}"),
            Problem::NoDigit { field, at } => {
                write!(f, "there is no digit of the {field} at byte {at}")
            }
            Problem::GoesOn { at } => write!(f, "the text goes on at byte {at}"),
            Problem::Outside {
                field,
                value,
                range,
            } => write!(
                f,
                "{field} {value} is outside {} to {}",
                range.start(),
                range.end()
            ),
            Problem::OutOfRange(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnixTimeParseError {}

/// A text of which the bytes before `at` are parsed.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next byte, which must be one of `accepted`; `wanted` says so in the error.
    fn one_of(&mut self, accepted: &[u8], wanted: &'static str) -> Result<u8, Problem> {
        let byte = self.next().filter(|byte| accepted.contains(byte));
        let at = self.at;
        self.at += 1;
        byte.ok_or(Problem::Missing { wanted, at })
    }

    fn digit(&mut self, field: &'static str) -> Result<i64, Problem> {
        let digit = self.next().filter(u8::is_ascii_digit);
        let at = self.at;
        self.at += 1;
        let digit = digit.ok_or(Problem::NoDigit { field, at })?;
        Ok(i64::from(digit - b'0'))
    }

    /// A number of `digits` digits in `range`.
    fn number(
        &mut self,
        field: &'static str,
        digits: u32,
        range: RangeInclusive<i64>,
    ) -> Result<i64, Problem> {
        let mut value = 0;
        for _ in 0..digits {
            value = value * 10 + self.digit(field)?;
        }
        if range.contains(&value) {
            Ok(value)
        } else {
            Err(Problem::Outside {
                field,
                value,
                range,
            })
        }
    }

    /// The nanoseconds of a fraction: its first nine digits. 0 without a fraction.
    fn fraction_ns(&mut self) -> Result<i64, Problem> {
        if self.next() != Some(b'.') {
            return Ok(0);
        }
        self.at += 1;
        let mut ns = self.digit("fraction")? * 100_000_000;
        let mut unit_ns = 10_000_000;
        while self.next().is_some_and(|byte| byte.is_ascii_digit()) {
            ns += self.digit("fraction")? * unit_ns;
            unit_ns /= 10; // 0 from the tenth digit on
        }
        Ok(ns)
    }

    /// An hour and a minute, s.
    fn hour_and_minute_s(&mut self) -> Result<i64, Problem> {
        let hour = self.number("hour", 2, 0..=23)?;
        self.one_of(b":", "`:`")?;
        let minute = self.number("minute", 2, 0..=59)?;
        Ok(hour * 3_600 + minute * 60)
    }

    /// The local time minus UTC, s.
    fn offset_s(&mut self) -> Result<i64, Problem> {
        match self.one_of(b"Zz+-", "`Z`, `+` or `-`")? {
            b'+' => self.hour_and_minute_s(),
            b'-' => self.hour_and_minute_s().map(|offset_s| -offset_s),
            _ => Ok(0),
        }
    }
}

fn parse(text: &[u8]) -> Result<UnixTime, Problem> {
    let mut parser = Parser { text, at: 0 };
    let year = parser.number("year", 4, 0..=9_999)?;
    parser.one_of(b"-", "`-`")?;
    let month = parser.number("month", 2, 1..=12)?;
    parser.one_of(b"-", "`-`")?;
    let first_day = days_from_month(year, month);
    let days_in_month = days_from_month(year, month + 1) - first_day;
    let day = parser.number("day", 2, 1..=days_in_month)?;
    parser.one_of(b"Tt ", "`T`")?;
    let hour_and_minute_s = parser.hour_and_minute_s()?;
    parser.one_of(b":", "`:`")?;
    let second = parser.number("second", 2, 0..=59)?;
    let fraction_ns = parser.fraction_ns()?;
    let offset_s = parser.offset_s()?;
    if parser.at < text.len() {
        return Err(Problem::GoesOn { at: parser.at });
    }
    // BOUND: less than 10,000 years, or 2^39 s, on either side of 1970.
    let seconds = (first_day + day - 1) * DAY_S + hour_and_minute_s + second - offset_s;
    let ns = i128::from(seconds) * i128::from(NS_PER_S) + i128::from(fraction_ns);
    UnixTime::from_signed_nanos(ns).map_err(Problem::OutOfRange)
}

/// The days from 1970-01-01 to the first day of this month. Month 13 is the next January.
///
/// As in `date_from_days`, eras have 400 years, and years begin in March, so that a leap day is the
/// last day of its year.
fn days_from_month(year: i64, month: i64) -> i64 {
    let months_from_march = year * 12 + month - 3;
    let year = months_from_march.div_euclid(12);
    let month_from_march = months_from_march.rem_euclid(12);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    // From March on, any five months have 153 days.
    let day_of_year = (153 * month_from_march + 2) / 5;
    let leap_days = year_of_era / 4 - year_of_era / 100;
    era * 146_097 + year_of_era * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unix_time::date_from_days;

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn every_month_that_a_unix_time_can_have_begins_on_its_day() {
        let last_day = u64::MAX / NS_PER_S / DAY_S.unsigned_abs();
        let mut months = 0;
        for day in 0..=last_day {
            let (year, month, day_of_month) = date_from_days(day);
            if day_of_month == 1 {
                let [year, month, day] = [year, month, day].map(u64::cast_signed);
                assert_eq!(days_from_month(year, month), day, "{year}-{month}");
                months += 1;
            }
        }
        assert_eq!(months, (2554 - 1970) * 12 + 7);
    }

    #[test]
    fn dates_before_1970_have_negative_days() {
        assert_eq!(days_from_month(1969, 12), -31);
        assert_eq!(days_from_month(0, 3), -719_468); // the beginning of an era
        assert_eq!(days_from_month(0, 1), -719_468 - 60); // the end of the one before
    }
}
