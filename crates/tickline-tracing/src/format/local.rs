//! Times in the system's time zone.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::{env, io};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tickline::UnixTime;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::{DEFAULT_DIGITS, Line, SECOND_LEN, second_text};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// `2026-11-20T13:34:56.123456+01:00`: RFC 3339 in the system's time zone. Further digits are cut
/// off.
///
/// The zone is looked up once, when this is made. Its offset is looked up for each second, so
/// summer time is followed. An offset in RFC 3339 has no seconds. Some zones had such offsets
/// before 1973; their seconds are left out of the offset and of the time. A local time before 1970
/// is written as UTC. So is one after the end of [`UnixTime`], in 2554.
///
/// ```
/// use tickline_tracing::format::Rfc3339Local;
///
/// # fn main() -> std::io::Result<()> {
/// let layer = tracing_subscriber::fmt::layer().with_timer(Rfc3339Local::new()?.digits(3));
/// # use tracing_subscriber::layer::SubscriberExt;
/// # let _ = tracing_subscriber::registry().with(layer);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Rfc3339Local {
    digits: u8,
    zone: TimeZone,
    /// The number of the zone, by which a thread knows whose text it keeps.
    number: u64,
}

/// What a thread keeps: the zone's number, the second, and the text before and after the
/// fraction.
#[derive(Clone, Copy)]
struct Kept {
    number: u64,
    seconds: u64,
    second: [u8; SECOND_LEN],
    offset: [u8; 6],
}

impl Rfc3339Local {
    /// The system's zone (the environment variable `TZ`, or `/etc/localtime`); microseconds.
    ///
    /// # Errors
    ///
    /// If `TZ` names no zone, or the system has none.
    pub fn new() -> io::Result<Self> {
        let zone = TimeZone::try_system().map_err(|error| match env::var_os("TZ") {
            Some(name) => {
                io::Error::other(format!("no time zone for TZ={}: {error}", name.to_string_lossy()))
            }
            None => io::Error::other(format!("the system's time zone is not known: {error}")),
        })?;
        Ok(Self::in_zone(zone))
    }

    fn in_zone(zone: TimeZone) -> Self {
        // ORDERING: Relaxed, the number alone counts.
        Self { digits: DEFAULT_DIGITS, zone, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// With this many digits after the second: 0 to 9. A larger number counts as 9.
    #[must_use]
    pub fn digits(self, digits: u8) -> Self {
        Self { digits: digits.min(9), ..self }
    }

    /// `time` in this format.
    #[must_use]
    pub fn text(&self, time: UnixTime) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(time, &mut text);
        text
    }

    fn write(&self, time: UnixTime, out: &mut dyn fmt::Write) -> fmt::Result {
        thread_local! {
            static KEPT: Cell<Option<Kept>> = const { Cell::new(None) };
        }
        let seconds = time.as_secs();
        let kept = match KEPT.try_with(Cell::get) {
            Ok(Some(kept)) if kept.number == self.number && kept.seconds == seconds => kept,
            _ => {
                let kept = self.look_up(seconds);
                let _ = KEPT.try_with(|cell| cell.set(Some(kept)));
                kept
            }
        };
        let mut line = Line::new();
        line.push(&kept.second);
        line.push_fraction(time.subsec_nanos(), self.digits);
        line.push(&kept.offset);
        out.write_str(line.as_str())
    }

    fn look_up(&self, seconds: u64) -> Kept {
        let offset_s = i64::try_from(seconds)
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .map_or(0, |timestamp| self.zone.to_offset(timestamp).seconds());
        let offset_min = offset_s / 60;
        let local = seconds
            .checked_add_signed(i64::from(offset_min) * 60)
            .filter(|local| *local <= UnixTime::MAX.as_secs());
        let (local, offset_min) = local.map_or((seconds, 0), |local| (local, offset_min));
        let mut offset = *b"+00:00";
        if offset_min < 0 {
            offset[0] = b'-';
        }
        let (hours, minutes) = (offset_min.unsigned_abs() / 60, offset_min.unsigned_abs() % 60);
        for (place, digit) in [(1, hours / 10), (2, hours), (4, minutes / 10), (5, minutes)] {
            offset[place] = super::digit_of(digit);
        }
        Kept { number: self.number, seconds, second: second_text(local), offset }
    }
}

impl FormatTime for Rfc3339Local {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        self.write(UnixTime::now(), w)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Offsets of either sign, with half hours and quarters. Some have a summer time.
    const ZONES: [&str; 5] = [
        "UTC0",
        "IST-5:30",
        "<+0545>-5:45",
        "NST3:30NDT,M3.2.0,M11.1.0",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
    ];

    fn zone(name: &str) -> TimeZone {
        TimeZone::posix(name).expect("a zone as POSIX writes it")
    }

    #[test]
    fn the_last_hours_are_utc_where_they_are_later() {
        let format = Rfc3339Local::in_zone(zone("IST-5:30")).digits(0);
        let text = format.text(UnixTime::MAX);
        assert_eq!(text, "2554-07-21T23:34:33+00:00");
    }

    #[test]
    fn summer_time_begins_and_ends_on_the_second() {
        let format = Rfc3339Local::in_zone(zone("NST3:30NDT,M3.2.0,M11.1.0")).digits(0);
        for (utc, local) in [
            ("2026-03-08T05:29:59Z", "2026-03-08T01:59:59-03:30"),
            ("2026-03-08T05:30:00Z", "2026-03-08T03:00:00-02:30"),
            ("2026-11-01T04:29:59Z", "2026-11-01T01:59:59-02:30"),
            ("2026-11-01T04:30:00Z", "2026-11-01T01:00:00-03:30"),
        ] {
            let ns = utc.parse::<Timestamp>().expect("a time").as_nanosecond();
            let time = UnixTime::from_nanos(u64::try_from(ns).expect("after 1970"));
            assert_eq!(format.text(time), local);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn times_in_any_zone_are_as_jiff_writes_them(ns in 172_800_000_000_000_u64..) {
            let timestamp = Timestamp::from_nanosecond(i128::from(ns)).expect("before 2555");
            for name in ZONES {
                let zoned = timestamp.to_zoned(zone(name));
                let text = Rfc3339Local::in_zone(zone(name)).digits(9).text(UnixTime::from_nanos(ns));
                prop_assert_eq!(text, zoned.strftime("%Y-%m-%dT%H:%M:%S%.9f%:z").to_string(), "{}", name);
            }
        }
    }
}
