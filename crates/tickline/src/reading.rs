//! A time with bounds on its error.

use tickline_core::shared::LineReading;

use crate::status::State;

/// A time, and the bounds between which the OS clock was at that moment.
///
/// The bounds hold on two conditions. The rate of the OS clock stays within [`Status::max_drift_ppb`](crate::Status::max_drift_ppb)
/// of the measured one, beside the kernel's dither, which the bounds contain. And neither the OS clock nor the counter has jumped
/// since the last recalibration; a jump voids the bounds until the next one.
///
/// ```
/// let reading = tickline::Clock::global().reading();
/// assert!(reading.earliest_ns <= reading.ns && reading.ns <= reading.latest_ns);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The OS clock was not before this, ns.
    pub earliest_ns: u64,
    /// The time, ns: what `now_ordered_ns` or `unix_ns` would have returned.
    pub ns: u64,
    /// The OS clock was not after this, ns.
    pub latest_ns: u64,
    /// What served the reading.
    pub status: State,
}

impl Reading {
    /// By the line. Every figure of a line is positive once moved to monotonic or Unix time; saturates at 0.
    #[inline]
    pub(crate) fn monotonic(line: &LineReading) -> Self {
        let (earliest_ns, latest_ns) = line.bounds_ns();
        Self::new(earliest_ns, line.ns, latest_ns, State::Fast)
    }

    #[inline]
    pub(crate) fn unix(line: &LineReading) -> Self {
        let (earliest_ns, latest_ns) = line.bounds_ns();
        let (offset_ns, slack_ns) = (line.bounds.unix_offset_ns, line.bounds.unix_bound_ns);
        Self::new(
            earliest_ns.wrapping_add(offset_ns).saturating_sub_unsigned(slack_ns),
            line.ns.wrapping_add(offset_ns),
            latest_ns.wrapping_add(offset_ns).saturating_add_unsigned(slack_ns),
            State::Fast,
        )
    }

    /// By the OS: `ns` is what was returned, `os_ns` what the OS said, rounded down to a nanosecond.
    pub(crate) fn by_os(ns: i64, os_ns: i64, status: State) -> Self {
        Self::new(os_ns.min(ns), ns, os_ns.saturating_add(1).max(ns), status)
    }

    #[inline]
    fn new(earliest_ns: i64, ns: i64, latest_ns: i64, status: State) -> Self {
        let unsigned = |ns: i64| u64::try_from(ns).unwrap_or(0);
        Self { earliest_ns: unsigned(earliest_ns), ns: unsigned(ns), latest_ns: unsigned(latest_ns), status }
    }
}
