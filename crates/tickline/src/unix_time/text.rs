//! Unix time as text: RFC 3339, or seconds.
//!
//! Both directions count days in eras of 400 years, 146,097 days, of years that begin in March, so
//! that a leap day is the last one of its year. The fifths of 153 days are the lengths of the
//! months from March on.

use core::fmt;
use core::str::FromStr;

use super::NS_PER_S;

use super::{UnixTime, UnixTimeError, Why};

const DAY_S: u64 = 86_400;
const ERA_DAYS: u64 = 146_097;
/// From 0000-03-01, where an era begins, to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

/// The digits of a nanosecond.
const FRACTION_DIGITS: usize = 9;

/// Year, month and day of a day since 1970.
const fn date_of(days_since_1970: u64) -> (u64, u64, u64) {
    // BOUND: a UnixTime has fewer than 2^18 days, and a day of an era fewer than 2^18.
    let days = days_since_1970 + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    // Days before this one in the era that are leap days, or would be one too many: 1,460 = 4
    // years, 36,524 = a century.
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + (month <= 2) as u64, month, day)
}

/// The days from 1970 to a date that exists, in a year of four digits.
fn days_since_1970(year: u64, month: u64, day: u64) -> i128 {
    // An era later, so that January of the year 0 is no negative year either.
    let (year, month_from_march) = if month > 2 { (year + 400, month - 3) } else { (year + 399, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let days = era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i128::from(days) - i128::from(ERA_DAYS + DAYS_BEFORE_1970)
}

const fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// RFC 3339 in UTC, with nine digits or as many as the precision says; further ones are cut off, so
/// that a time is never in the future.
impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.as_secs() / DAY_S, self.as_secs() % DAY_S);
        let (year, month, day) = date_of(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        let digits = f.precision().unwrap_or(FRACTION_DIGITS).min(FRACTION_DIGITS);
        if digits > 0 {
            let cut = (digits..FRACTION_DIGITS).fold(self.subsec_nanos(), |fraction, _| fraction / 10);
            write!(f, ".{cut:0digits$}")?;
        }
        f.write_str("Z")
    }
}

/// Reads an RFC 3339 time with any offset from UTC, or seconds since 1970 (`1767225600.5`). Digits
/// after the ninth are cut off. A leap second, `:60`, is the second after it, as in POSIX.
impl FromStr for UnixTime {
    type Err = UnixTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ns = Rest(text.as_bytes()).rfc_3339().or_else(|| Rest(text.as_bytes()).seconds());
        Self::from_signed_nanos(ns.ok_or(UnixTimeError(Why::Form))?)
    }
}

/// What is left of a text.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// ns since 1970, if all of the text is an RFC 3339 time.
    fn rfc_3339(mut self) -> Option<i128> {
        let year = self.number(4)?;
        self.one_of(b"-")?;
        let month = self.number(2).filter(|month| (1..=12).contains(month))?;
        self.one_of(b"-")?;
        let day = self.number(2).filter(|day| (1..=days_in_month(year, month)).contains(day))?;
        self.one_of(b"Tt ")?;
        let hour = self.number(2).filter(|hour| *hour < 24)?;
        self.one_of(b":")?;
        let minute = self.number(2).filter(|minute| *minute < 60)?;
        self.one_of(b":")?;
        let second = self.number(2).filter(|second| *second <= 60)?;
        let fraction_ns = self.fraction_ns()?;
        let offset_s = match self.one_of(b"Zz+-")? {
            b'Z' | b'z' => 0,
            sign => {
                let hours = self.number(2).filter(|hour| *hour < 24)?;
                self.one_of(b":")?;
                let minutes = self.number(2).filter(|minute| *minute < 60)?;
                let offset_s = i128::from(hours * 3_600 + minutes * 60);
                if sign == b'-' { -offset_s } else { offset_s }
            }
        };
        // BOUND: years have four digits, so all of these are below 2^60.
        let days = days_since_1970(year, month, day);
        let of_day_s = i128::from(hour * 3_600 + minute * 60 + second);
        let seconds = days * i128::from(DAY_S) + of_day_s - offset_s;
        self.0.is_empty().then(|| seconds * i128::from(NS_PER_S) + i128::from(fraction_ns))
    }

    /// ns, if all of the text is a decimal number of seconds.
    fn seconds(mut self) -> Option<i128> {
        let len = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // BOUND: 20 digits of seconds are below 2^67, and below 2^97 in ns.
        let seconds = (1..=20).contains(&len).then(|| self.digits(len))?;
        let ns = i128::try_from(seconds).ok()? * i128::from(NS_PER_S) + i128::from(self.fraction_ns()?);
        self.0.is_empty().then_some(ns)
    }

    /// The next `len` bytes, which are digits.
    fn digits(&mut self, len: usize) -> u128 {
        let (digits, rest) = self.0.split_at(len);
        self.0 = rest;
        digits.iter().fold(0, |number, digit| number * 10 + u128::from(digit - b'0'))
    }

    /// A number of so many digits.
    fn number(&mut self, len: usize) -> Option<u64> {
        self.0.get(..len)?.iter().all(u8::is_ascii_digit).then(|| self.digits(len))?.try_into().ok()
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| bytes.contains(first))?;
        self.0 = rest;
        Some(*first)
    }

    /// A dot and at least one digit, ns, rounded down; 0 if there is no dot.
    fn fraction_ns(&mut self) -> Option<u32> {
        if self.one_of(b".").is_none() {
            return Some(0);
        }
        let len = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(len);
        self.0 = rest;
        let nine = digits.iter().copied().chain(core::iter::repeat(b'0')).take(FRACTION_DIGITS);
        (len > 0).then(|| nine.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
    }
}
