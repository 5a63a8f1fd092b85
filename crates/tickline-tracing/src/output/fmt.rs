//! Timers for `tracing_subscriber::fmt`, over tickline's clock.

use core::fmt;
#[cfg(feature = "local-time")]
use std::{env, io};

#[cfg(feature = "local-time")]
use jiff::{
    Timestamp,
    tz::{Offset, TimeZone},
};
use tickline::UnixTime;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The default number of digits after the second: microseconds, as in `fmt`'s own timers.
const DEFAULT_DIGITS: u8 = 6;

/// Times in RFC 3339, such as `2026-11-20T12:34:56.123456Z`: in UTC or (feature `local-time`) in
/// the system's time zone. Further digits are truncated, so that a time is never in the future.
///
/// ```
/// use tickline_tracing::fmt::Rfc3339;
///
/// let layer = tracing_subscriber::fmt::layer().with_timer(Rfc3339::new().digits(9));
/// # use tracing_subscriber::layer::SubscriberExt;
/// # let _ = tracing_subscriber::registry().with(layer);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Rfc3339 {
    digits: u8,
    #[cfg(feature = "local-time")]
    zone: Option<TimeZone>,
}

impl Rfc3339 {
    /// UTC, with microseconds.
    pub const fn new() -> Self {
        Self {
            digits: DEFAULT_DIGITS,
            #[cfg(feature = "local-time")]
            zone: None,
        }
    }

    /// In the system's zone (the environment variable `TZ`, or `/etc/localtime`), with
    /// microseconds: `2026-11-20T13:34:56.123456+01:00`.
    ///
    /// This call determines the zone, once. The zone's offset is determined for each time, so the
    /// text follows changes to summer time. An offset in RFC 3339 has no seconds. Some zones had
    /// offsets with seconds before 1973; these seconds are left out of the offset and of the time.
    ///
    /// # Errors
    ///
    /// If `TZ` names no zone, or the system has none.
    ///
    /// ```
    /// use tickline_tracing::fmt::Rfc3339;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let layer = tracing_subscriber::fmt::layer().with_timer(Rfc3339::local()?.digits(3));
    /// # use tracing_subscriber::layer::SubscriberExt;
    /// # let _ = tracing_subscriber::registry().with(layer);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "local-time")]
    pub fn local() -> io::Result<Self> {
        let zone = TimeZone::try_system().map_err(|error| match env::var_os("TZ") {
            Some(name) => io::Error::other(format!(
                "no time zone for TZ={}: {error}",
                name.to_string_lossy()
            )),
            None => io::Error::other(format!("the system's time zone is not known: {error}")),
        })?;
        Ok(Self {
            zone: Some(zone),
            ..Self::new()
        })
    }

    /// Sets the number of digits after the second: 0 to 9. A larger number counts as 9.
    pub fn digits(mut self, digits: u8) -> Self {
        self.digits = digits.min(9);
        self
    }

    /// Formats `time`.
    pub fn format(&self, time: UnixTime) -> String {
        let mut text = String::new();
        // A write to a string does not fail.
        _ = self.write(time, &mut text);
        text
    }

    fn write(&self, time: UnixTime, out: &mut impl fmt::Write) -> fmt::Result {
        let digits = usize::from(self.digits);
        #[cfg(feature = "local-time")]
        if let Some(zone) = &self.zone {
            // BOUND: the year 2554 is before jiff's last, 9999.
            let timestamp =
                Timestamp::from_nanosecond(i128::from(time.as_nanos())).unwrap_or(Timestamp::MAX);
            let offset_s = zone.to_offset(timestamp).seconds();
            let offset = Offset::from_seconds(offset_s / 60 * 60).unwrap_or(Offset::UTC);
            return write!(out, "{:.digits$}", timestamp.display_with_offset(offset));
        }
        write!(out, "{time:.digits$}")
    }
}

impl Default for Rfc3339 {
    fn default() -> Self {
        Self::new()
    }
}

impl FormatTime for Rfc3339 {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        self.write(UnixTime::now(), w)
    }
}

#[cfg(all(test, feature = "local-time"))]
mod tests {
    use super::*;

    #[test]
    fn an_offset_depends_on_the_time_and_has_no_seconds() {
        let newfoundland = "NST3:30NDT,M3.2.0,M11.1.0";
        for (zone, utc, digits, local) in [
            (
                newfoundland,
                "2026-03-08T05:29:59Z",
                0,
                "2026-03-08T01:59:59-03:30",
            ),
            (
                newfoundland,
                "2026-03-08T05:30:00Z",
                0,
                "2026-03-08T03:00:00-02:30",
            ),
            (
                newfoundland,
                "2026-11-01T04:29:59Z",
                0,
                "2026-11-01T01:59:59-02:30",
            ),
            (
                newfoundland,
                "2026-11-01T04:30:00Z",
                0,
                "2026-11-01T01:00:00-03:30",
            ),
            (
                "<+0545>-5:45",
                "1970-01-01T00:00:00Z",
                0,
                "1970-01-01T05:45:00+05:45",
            ),
            (
                "LMT0:44:30",
                "1970-01-01T00:00:00Z",
                0,
                "1969-12-31T23:16:00-00:44",
            ),
            // The largest `UnixTime`. Further digits are truncated.
            (
                "IST-5:30",
                "2554-07-21T23:34:33.709551615Z",
                0,
                "2554-07-22T05:04:33+05:30",
            ),
            (
                "IST-5:30",
                "2554-07-21T23:34:33.709551615Z",
                3,
                "2554-07-22T05:04:33.709+05:30",
            ),
            (
                "IST-5:30",
                "2554-07-21T23:34:33.709551615Z",
                9,
                "2554-07-22T05:04:33.709551615+05:30",
            ),
        ] {
            let ns = utc.parse::<Timestamp>().expect("a time").as_nanosecond();
            let time = UnixTime::from_nanos(u64::try_from(ns).expect("after 1970"));
            let zone = TimeZone::posix(zone).expect("a zone as POSIX writes it");
            let timer = Rfc3339 {
                zone: Some(zone),
                ..Rfc3339::new()
            };
            assert_eq!(timer.digits(digits).format(time), local);
        }
    }
}
