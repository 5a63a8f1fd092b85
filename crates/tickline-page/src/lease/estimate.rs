//! What the writer's process knows of the OS clock, and the lines that follow from it.
//!
//! A lease is at or above the *upper* bound of the OS clock for as long as it counts. So a reader
//! that asked the OS clock before the lease, and was then delayed for any time, is not above the
//! lease.

use tickline_core::counter::ticks_between;

use super::{LeaseLine, Line, Slope, UNIX_BY_OS, UnixOffset};

/// The clock was set back if its offset is now at most what it was at least before, less this, ns.
/// Samples that are wrong by less do not set Unix time back.
const KEEP_NS: i64 = 1_000;

/// The distance of the OS clock below the bounds of an estimate, ns. If the distance is larger than
/// this, the estimate is from before a suspend or a counter reset.
const BELOW_NS: i64 = 10_000;

/// The same for a distance above the bounds, ns. A clock that keeps its order may be wrong by so
/// much.
const ABOVE_NS: i64 = 1_000_000;

/// Binary places of [`Slope::bits`].
const SLOPE_BITS: u32 = 48;

/// The lines between which the OS clock must be, and its Unix time. They correspond to a line's
/// `Bounds` in `tickline-core`. Here Unix time is an interval, or is left to the OS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// From the newest sample on, the OS clock is not below this line.
    pub lower: Line,
    /// The OS clock is not above this line, whose slope is the fastest that it may have.
    pub upper: Line,
    /// The least and the most that Unix time minus monotonic time may be, ns. `None` where Unix
    /// time is left to the OS.
    pub unix_ns: Option<(i64, i64)>,
}

impl Estimate {
    /// The same for what the OS clock shows: up to a resolution less than what it is. Then a lead
    /// is the most by which a line is above any reading of the OS clock.
    pub(super) fn as_shown(&self, resolution_ns: i64) -> Self {
        let base_ns = self.lower.base_ns.saturating_sub(resolution_ns);
        Self { lower: Line { base_ns, ..self.lower }, ..*self }
    }

    /// The line of a lease from `at_ticks` to `end_ticks`: not below `from_ns` at first, and
    /// nowhere below the upper bound. It reaches that at its end, unless it would have to run at
    /// less than half the rate. It also counts on a CPU whose counter is behind by up to
    /// `skew_ticks`.
    pub(super) fn line(
        &self,
        (at_ticks, skew_ticks): (u64, u64),
        from_ns: i64,
        end_ticks: u64,
        unix: UnixOffset,
    ) -> LeaseLine {
        let upper_ns = |ticks: u64| self.upper.fixed_at(ticks).ceil_ns();
        let at_ns = from_ns.max(upper_ns(at_ticks));
        let ticks = i128::from(end_ticks.wrapping_sub(at_ticks).max(1));
        let rise = i128::from(upper_ns(end_ticks)).saturating_sub(at_ns.into()) << SLOPE_BITS;
        // Rounded up: whole nanoseconds of the line are not below the bound either.
        let needed = rise.saturating_add(ticks).saturating_sub(1).checked_div_euclid(ticks).unwrap_or(0);
        let needed = u64::try_from(needed.max(0)).unwrap_or(u64::MAX);
        let slope = Slope { bits: needed.max(self.upper.slope.bits >> 1) };
        let start_ticks = at_ticks.wrapping_sub(skew_ticks);
        // Rounded so that no later value of the line is below what it was.
        let rise_ns = slope.over(ticks_between(start_ticks, at_ticks)).floor_ns();
        let base_ns = at_ns.saturating_sub(rise_ns).max(upper_ns(start_ticks));
        let line = Line { start_ticks, base_ns, slope };
        let lead_ns = self.ahead_ns(&line, start_ticks).max(self.ahead_ns(&line, end_ticks));
        LeaseLine { line, end_ticks, lead_ns, unix: unix.with_lead(lead_ns) }
    }

    /// How far the OS clock's rate may be from the middle of the two slopes, ppb.
    pub(super) fn rate_uncertainty_ppb(&self) -> u64 {
        (self.upper.slope.ppb_above(self.lower.slope).max(0) / 2).unsigned_abs()
    }

    /// How far `line` is above the upper bound at its end, ns; less than 0 if it is below.
    pub(super) fn above_upper_ns(&self, line: &LeaseLine) -> i64 {
        line.line.fixed_at(line.end_ticks).minus(self.upper.fixed_at(line.end_ticks)).floor_ns()
    }

    /// How far `line` may be above the OS clock at `ticks`, ns, rounded up.
    fn ahead_ns(&self, line: &Line, ticks: u64) -> i64 {
        line.fixed_at(ticks).minus(self.lower.fixed_at(ticks)).ceil_ns().max(0)
    }

    /// The Unix offset of a line; the line before had `before`. The offset is the upper bound
    /// again, so that Unix readings are ordered as others are, except after a set clock. The offset
    /// does not fall while samples only narrow its interval. Its lead is that of no line yet.
    pub(super) fn unix_after(&self, before: UnixOffset) -> UnixOffset {
        let Some((least_ns, most_ns)) = self.unix_ns else { return UnixOffset::NONE };
        let fresh = UnixOffset { offset_ns: most_ns, lead_ns: 0, least_ns };
        let was_set_back = most_ns < before.least_ns.saturating_sub(KEEP_NS);
        let was_set_forward = least_ns > before.offset_ns;
        if before.offset_ns == UNIX_BY_OS || was_set_back || was_set_forward {
            return fresh;
        }
        UnixOffset {
            offset_ns: before.offset_ns.max(most_ns),
            least_ns: before.least_ns.max(least_ns),
            ..fresh
        }
    }

    /// Whether this estimate explains `os_ns`, the OS clock as read between two ticks. The clock is
    /// then within the estimate, or so near that neither a suspend nor a counter reset lies
    /// between.
    pub(super) fn explains(&self, os_ns: i64, before_ticks: u64, after_ticks: u64) -> bool {
        let earliest_ns = self.lower.fixed_at(before_ticks).floor_ns().saturating_sub(BELOW_NS);
        let latest_ns = self.upper.fixed_at(after_ticks).ceil_ns().saturating_add(ABOVE_NS);
        (earliest_ns..=latest_ns).contains(&os_ns)
    }

    /// The latest time of the OS clock, ns, at a tick that is `ticks` later than one before which it
    /// was read as `os_ns`.
    pub(super) fn latest_after(&self, os_ns: i64, ticks: u64) -> i64 {
        let later_ns = self.upper.slope.over(i64::try_from(ticks).unwrap_or(i64::MAX)).ceil_ns();
        os_ns.saturating_add(later_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_ns: i64, hz: u64) -> Line {
        Line { start_ticks: 1 << 40, base_ns, slope: Slope::from_hz(hz).unwrap() }
    }

    /// Rule W2, and rounding. At any tick, whole nanoseconds of a lease are not below whole
    /// nanoseconds of an OS clock that is at its upper bound. They are not below those of the line
    /// before either.
    #[test]
    fn rule_w2_no_rounded_value_is_below_the_upper_bound() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..if cfg!(miri) { 20 } else { 4_000 } {
            let hz = random.u64(24_000_000..5_024_000_000);
            let lower = at(1_000_000, hz);
            let bits_of_lower = lower.slope.bits;
            // 300 ppb faster.
            let slope = Slope { bits: bits_of_lower + bits_of_lower / 10_000_000 * 3 };
            let upper = Line { slope, ..at(1_000_040, hz) };
            let estimate = Estimate { lower, upper, unix_ns: None };
            let start = (1 << 40) + random.u64(..1 << 14);
            let lease = lower.slope.ticks_in(1_000 + random.u64(..1 << 19));
            let least = upper.fixed_at(start).ceil_ns() + random.i64(-30..30);
            let line = estimate.line((start, 0), least, start + lease, UnixOffset::NONE);
            assert!(line.line.base_ns >= least);
            for ticks in (0..64).map(|part| start + lease * part / 63) {
                assert!(line.line.at(ticks) >= upper.at(ticks), "{line:?} at {ticks}");
                assert!(line.line.at(ticks) - lower.at(ticks) <= line.lead_ns + 1, "{line:?} at {ticks}");
            }
        }
    }

    #[test]
    fn a_line_that_is_far_ahead_keeps_half_the_rate() {
        let (lower, upper) = (at(0, 1_000_000_000), at(10, 1_000_000_000));
        let start = 1 << 40;
        let estimate = Estimate { lower, upper, unix_ns: Some((90, 100)) };
        let unix = estimate.unix_after(UnixOffset::NONE);
        let line = estimate.line((start, 0), 5_000_000, start + 1_000_000, unix);
        assert_eq!((line.line.base_ns, line.end_ns()), (5_000_000, 5_500_000));
        assert_eq!((line.lead_ns, line.unix.offset_ns, line.unix.lead_ns), (5_000_000, 100, 5_000_010));
    }

    /// Symptom: Unix time stepped back by 9 us, though nobody had set the clock: a better sample
    /// had narrowed what the offset could be.
    #[test]
    fn rule_w8_a_unix_offset_stays_until_the_clock_is_set() {
        let line = at(0, 1_000_000_000);
        let estimate = |unix_ns| Estimate { lower: line, upper: line, unix_ns: Some(unix_ns) };
        let mut unix = estimate((1_000, 1_400)).unix_after(UnixOffset::NONE);
        assert_eq!(unix.offset_ns, 1_400);
        unix = estimate((1_100, 1_200)).unix_after(unix);
        assert_eq!(unix.offset_ns, 1_400, "narrower samples alone");
        unix = estimate((1_100, 1_450)).unix_after(unix);
        assert_eq!((unix.offset_ns, unix.least_ns), (1_450, 1_100), "it may be higher");
        unix = estimate((-100, 500)).unix_after(unix);
        assert_eq!(unix.offset_ns, 1_450, "set back by so little that it may have been there");
        unix = estimate((-200, 90)).unix_after(unix);
        assert_eq!(unix.offset_ns, 90, "once more: it can't have been there");
        unix = estimate((200, 300)).unix_after(unix);
        assert_eq!(unix.offset_ns, 300, "set forward");
        unix = estimate((-9_000, -8_900)).unix_after(unix);
        assert_eq!(unix.offset_ns, -8_900, "set back");
        assert_eq!(Estimate { unix_ns: None, ..estimate((0, 0)) }.unix_after(unix), UnixOffset::NONE);
    }
}
