//! The public data of a reading: [`UtcReading`] and [`UtcSource`].

use core::num::NonZeroU16;
use core::time::Duration;

use tickline::UnixTime;

/// The earliest and the latest time that UTC can have been when the reading was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UtcReading {
    pub(crate) earliest: UnixTime,
    pub(crate) latest: UnixTime,
    pub(crate) tai_offset_s: Option<NonZeroU16>,
    pub(crate) source: UtcSource,
}

impl UtcReading {
    /// A reading from another machine's message: the earliest and the latest time of UTC there, in
    /// either order.
    ///
    /// ```
    /// use tickline::UnixTime;
    /// use tickline_utc::UtcReading;
    ///
    /// let [sent, received] = [2, 5].map(UnixTime::from_secs);
    /// let theirs = UtcReading::from_bounds(sent, sent);
    /// assert!(theirs.definitely_before(&UtcReading::from_bounds(received, received)));
    /// assert_eq!(UtcReading::from_bounds(received, sent), UtcReading::from_bounds(sent, received));
    /// ```
    #[must_use]
    pub fn from_bounds(earliest: UnixTime, latest: UnixTime) -> Self {
        Self {
            earliest: earliest.min(latest),
            latest: earliest.max(latest),
            tai_offset_s: None,
            source: UtcSource::Message,
        }
    }

    /// UTC was not before this time.
    #[inline]
    #[must_use]
    pub const fn earliest(&self) -> UnixTime {
        self.earliest
    }

    /// UTC was not after this time.
    #[inline]
    #[must_use]
    pub const fn latest(&self) -> UnixTime {
        self.latest
    }

    /// The time from the earliest to the latest time.
    #[inline]
    #[must_use]
    pub const fn width(&self) -> Duration {
        Duration::from_nanos(
            self.latest
                .as_nanos()
                .saturating_sub(self.earliest.as_nanos()),
        )
    }

    /// The largest distance of UTC from the middle of the range: half of the width, rounded up.
    #[inline]
    #[must_use]
    pub const fn error(&self) -> Duration {
        let width_ns = self
            .latest
            .as_nanos()
            .saturating_sub(self.earliest.as_nanos());
        Duration::from_nanos(width_ns.div_ceil(2))
    }

    /// The largest distance of UTC from `time`, such as the machine's Unix time at the reading.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::UnixTime;
    /// use tickline_utc::UtcReading;
    ///
    /// let [two, three, five] = [2, 3, 5].map(UnixTime::from_secs);
    /// let reading = UtcReading::from_bounds(two, five);
    /// assert_eq!(reading.largest_error_of(three), Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn largest_error_of(&self, time: UnixTime) -> Duration {
        let [earliest_ns, latest_ns, ns] =
            [self.earliest, self.latest, time].map(|time| time.as_nanos());
        Duration::from_nanos(
            latest_ns
                .saturating_sub(ns)
                .max(ns.saturating_sub(earliest_ns)),
        )
    }

    /// The source of the claim.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> UtcSource {
        self.source
    }

    /// TAI minus UTC, whole seconds; `None` if the kernel does not know.
    #[inline]
    #[must_use]
    pub fn tai_offset(&self) -> Option<Duration> {
        self.tai_offset_s
            .map(|seconds| Duration::from_secs(seconds.get().into()))
    }

    /// Whether this reading was certainly made before `other`, which may be of another machine. If
    /// neither is before the other, their ranges overlap, and the order is unknown.
    #[inline]
    #[must_use]
    pub const fn definitely_before(&self, other: &Self) -> bool {
        self.latest.as_nanos() < other.earliest.as_nanos()
    }
}

tickline_core::named! {
    /// The source of a claim about UTC; see [Sources](crate#sources).
    ///
    /// ```
    /// use tickline_utc::UtcSource;
    ///
    /// assert_eq!(UtcSource::Chronyd.code(), "chronyd"); // for logs and metrics
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum UtcSource {
        /// The daemon of clock-bound, through its segment in shared memory.
        ClockBound => "clock_bound": "clock-bound",
        /// chronyd, through its Unix socket or its command port
        /// ([`chronyd`](crate::sources::chronyd#who-answers)).
        Chronyd => "chronyd": "chronyd",
        /// ptp4l, through its management socket. This claim grows by 500 ppm, too.
        Ptp4l => "ptp4l": "ptp4l",
        /// The kernel's maximum error. This claim is weaker, because it grows by 500 ppm.
        Kernel => "kernel": "the kernel's maximum error",
        /// A clock for tests (feature `mock`).
        Mock => "mock": "a mock",
        /// Another machine, through a message ([`UtcReading::from_bounds`]).
        Message => "message": "a message",
    }
}

/// The number of the first source in a published claim. Zeroed memory must mean that there is no
/// claim. With 1 as the first number the compiler emits a lookup table; with 8, a subtraction.
const FIRST_SOURCE: u8 = 8;

impl UtcSource {
    /// The source's number in a published claim, never 0. `Mock` and `Message` publish no claim, so
    /// [`from_number`](Self::from_number) does not know them.
    #[inline]
    pub(crate) fn number(self) -> u8 {
        FIRST_SOURCE + self as u8
    }

    /// The source of a published claim by its [number](Self::number).
    #[inline]
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        match number.wrapping_sub(FIRST_SOURCE) {
            0 => Some(Self::ClockBound),
            1 => Some(Self::Chronyd),
            2 => Some(Self::Ptp4l),
            3 => Some(Self::Kernel),
            _ => None,
        }
    }

    /// Whether this source's claim counts although `other` has answered, too. The sources are
    /// declared from the best to the worst.
    pub(crate) fn is_better_than(self, other: Self) -> bool {
        (self as u8) < other as u8
    }
}

/// The time until the earliest UTC is after `reading`.
pub(crate) fn time_left(now: &UtcReading, reading: &UtcReading) -> Duration {
    let after_ns = reading.latest.as_nanos().saturating_add(1);
    Duration::from_nanos(after_ns.saturating_sub(now.earliest.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading between these nanoseconds.
    fn reading(earliest_ns: u64, latest_ns: u64) -> UtcReading {
        let [earliest, latest] = [earliest_ns, latest_ns].map(UnixTime::from_nanos);
        UtcReading::from_bounds(earliest, latest)
    }

    #[test]
    fn a_reading_may_be_as_late_as_one_that_begins_at_its_end() {
        assert!(!reading(3, 5).definitely_before(&reading(5, 9)));
        assert!(reading(3, 5).definitely_before(&reading(6, 9)));
    }

    #[test]
    fn a_reading_is_past_a_nanosecond_after_its_end() {
        let left = |earliest_ns| time_left(&reading(earliest_ns, 99), &reading(3, 5));
        assert_eq!(
            [4, 5, 6, 7].map(left),
            [2, 1, 0, 0].map(Duration::from_nanos)
        );
    }

    #[test]
    fn the_error_of_a_reading_is_half_of_its_width_rounded_up() {
        assert_eq!(reading(3, 7).error(), Duration::from_nanos(2));
        assert_eq!(reading(3, 8).error(), Duration::from_nanos(3));
    }

    #[test]
    fn a_time_is_off_by_its_distance_from_the_farther_end() {
        let error_ns = |ns| reading(10, 20).largest_error_of(UnixTime::from_nanos(ns));
        assert_eq!(
            [0, 10, 13, 18, 20, 25].map(error_ns),
            [20, 10, 7, 8, 10, 15].map(Duration::from_nanos)
        );
    }

    #[test]
    fn the_offset_of_tai_is_in_seconds() {
        let known = UtcReading {
            tai_offset_s: NonZeroU16::new(37),
            ..reading(3, 5)
        };
        assert_eq!(known.tai_offset(), Some(Duration::from_secs(37)));
    }

    #[test]
    fn the_offset_of_tai_in_a_message_is_unknown() {
        assert_eq!(reading(3, 5).tai_offset(), None);
    }

    #[test]
    fn a_source_is_better_than_those_after_it() {
        let sources = [
            UtcSource::ClockBound,
            UtcSource::Chronyd,
            UtcSource::Ptp4l,
            UtcSource::Kernel,
        ];
        let better = |than: UtcSource| sources.map(|source| source.is_better_than(than));
        assert_eq!(better(UtcSource::Chronyd), [true, false, false, false]);
        assert_eq!(better(UtcSource::Ptp4l), [true, true, false, false]);
    }
}
