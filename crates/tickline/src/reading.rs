//! A time with bounds on its error.

use tickline_core::shared::BoundedReading;

use crate::instant::Instant;
use crate::status::State;
use crate::unix_time::UnixTime;

/// A time, and the bounds between which the OS clock was at that moment: an [`Instant`] by
/// [`Clock::reading`](crate::Clock::reading), a [`UnixTime`] by
/// [`Clock::unix_reading`](crate::Clock::unix_reading).
///
/// The bounds hold on two conditions. The rate of the OS clock stays within
/// [`Status::max_drift_ppb`](crate::Status::max_drift_ppb) of the measured one, apart from the
/// kernel's dither, which the bounds contain. And neither the OS clock nor the counter has jumped
/// since the last recalibration; a jump voids the bounds until the next one.
///
/// ```
/// let reading = tickline::Clock::global().reading();
/// assert!(reading.earliest() <= reading.time() && reading.time() <= reading.latest());
/// println!("{} ns wide", (reading.latest() - reading.earliest()).as_nanos());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reading<T> {
    earliest: T,
    time: T,
    latest: T,
    state: State,
}

impl<T: Copy> Reading<T> {
    /// The OS clock was not before this.
    #[must_use]
    pub const fn earliest(&self) -> T {
        self.earliest
    }

    /// The time: what [`Instant::now_ordered`] would have returned, or Unix time by the line. Where
    /// the OS serves [`UnixTime::now`] ([`Status::unix_reason`](crate::Status::unix_reason)), the
    /// two may differ within the bounds.
    #[must_use]
    pub const fn time(&self) -> T {
        self.time
    }

    /// The OS clock was not after this.
    #[must_use]
    pub const fn latest(&self) -> T {
        self.latest
    }

    /// What served the reading. A reading by a line always says `Fast`; ask
    /// [`Clock::status`](crate::Clock::status) whether the clock is `Disrupted`.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Of three times in ns, each at least 0.
    fn new(from_nanos: fn(u64) -> T, [earliest_ns, ns, latest_ns]: [i64; 3], state: State) -> Self {
        let to_time = |ns: i64| from_nanos(u64::try_from(ns).unwrap_or(0));
        Self { earliest: to_time(earliest_ns), time: to_time(ns), latest: to_time(latest_ns), state }
    }

    /// Of a time `ns` that was returned between two readings of the OS clock, or at one. Those are
    /// rounded down to a nanosecond.
    pub(crate) fn by_os(from_nanos: fn(u64) -> T, ns: i64, os_ns: [i64; 2], state: State) -> Self {
        Self::new(from_nanos, [os_ns[0].min(ns), ns, os_ns[1].saturating_add(1).max(ns)], state)
    }
}

impl Reading<Instant> {
    /// By the line.
    #[inline]
    pub(crate) fn by_line(line: &BoundedReading) -> Self {
        let (earliest_ns, latest_ns) = line.bounds_ns();
        Self::new(Instant::from_nanos, [earliest_ns, line.ns, latest_ns], State::Fast)
    }
}

impl Reading<UnixTime> {
    /// By the line, with its bounds of Unix time.
    #[inline]
    pub(crate) fn by_line(line: &BoundedReading) -> Self {
        let (earliest_ns, latest_ns) = line.bounds_ns();
        let (offset_ns, bound_ns) = (line.bounds.unix_offset_ns, line.bounds.unix_bound_ns);
        let times = [
            earliest_ns.wrapping_add(offset_ns).saturating_sub_unsigned(bound_ns),
            line.ns.wrapping_add(offset_ns),
            latest_ns.wrapping_add(offset_ns).saturating_add_unsigned(bound_ns),
        ];
        Self::new(UnixTime::from_nanos, times, State::Fast)
    }
}
