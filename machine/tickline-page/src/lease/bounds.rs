//! The bounds of the OS clock, as the writer's process knows them, and the lines that follow.
//!
//! A line is at or above the *upper* bound of the OS clock until its end. So a reader that read the
//! OS clock before the lease, and was then delayed, does not return more.

use tickline_core::units::ticks_between;

use super::memory::{LeaseLine, UNIX_BY_OS, UnixOffset};
use super::{Line, Slope};

/// The clock was set back if the largest possible Unix offset is now below the smallest one from
/// before by more than this, ns. So a sample that is wrong by less does not set Unix time back.
const SET_BACK_TOLERANCE_NS: i64 = 1_000;

/// If the OS clock is below the bounds by more than this, ns, they are from before a suspend or a
/// counter reset.
const MAX_BELOW_NS: i64 = 10_000;

/// If the OS clock is above the bounds by more than this, ns, they are from before a suspend or a
/// counter reset. A clock that keeps its order may be wrong by this much.
const MAX_ABOVE_NS: i64 = 1_000_000;

/// The number of fractional bits of [`Slope::bits`].
const SLOPE_BITS: u32 = 48;

/// The range of Unix time minus monotonic time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixOffsetBounds {
    /// The smallest possible difference, ns.
    pub least_ns: i64,
    /// The largest possible difference, ns.
    pub most_ns: i64,
}

/// The lines between which the OS clock must be, and the range of its Unix offset. The lines
/// correspond to the `Bounds` of `tickline-core`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsBounds {
    /// From the newest sample on, the OS clock is not below this line.
    pub lower: Line,
    /// The OS clock is not above this line, whose slope is the fastest that it may have.
    pub upper: Line,
    /// The range of the Unix offset. `None` if Unix time comes from the OS clock.
    pub unix_offset: Option<UnixOffsetBounds>,
}

impl OsBounds {
    /// These bounds, with a lower one for readings of the OS clock, which may be a resolution
    /// old. A lead is then the largest distance of a line above any such reading.
    pub(super) fn with_os_resolution(&self, resolution_ns: i64) -> Self {
        let base_ns = self.lower.base_ns.saturating_sub(resolution_ns);
        Self {
            lower: Line {
                base_ns,
                ..self.lower
            },
            ..*self
        }
    }

    /// The line of a lease from `at_ticks` to `end_ticks`. It is not below `from_ns` at `at_ticks`,
    /// and nowhere below the upper bound. At its end it meets that bound, unless its rate would
    /// have to be less than half the OS clock's. It also counts on a CPU whose counter is behind by
    /// up to `cpu_difference_ticks`.
    pub(super) fn line(
        &self,
        at_ticks: u64,
        cpu_difference_ticks: u64,
        from_ns: i64,
        end_ticks: u64,
        unix: UnixOffset,
    ) -> LeaseLine {
        let upper_ns = |ticks: u64| self.upper.fixed_at(ticks).ceil_ns();
        let at_ns = from_ns.max(upper_ns(at_ticks));
        let ticks = i128::from(end_ticks.wrapping_sub(at_ticks).max(1));
        let rise = i128::from(upper_ns(end_ticks)).saturating_sub(at_ns.into()) << SLOPE_BITS;
        // Rounded up, so that whole nanoseconds of the line are not below the bound.
        let needed = rise
            .saturating_add(ticks)
            .saturating_sub(1)
            .checked_div_euclid(ticks)
            .unwrap_or(0);
        let needed = u64::try_from(needed.max(0)).unwrap_or(u64::MAX);
        let slope = Slope {
            bits: needed.max(self.upper.slope.bits >> 1),
        };
        let start_ticks = at_ticks.wrapping_sub(cpu_difference_ticks);
        // Rounded so that the line is not below `at_ns` at `at_ticks`.
        let rise_ns = slope.over(ticks_between(start_ticks, at_ticks)).floor_ns();
        let base_ns = at_ns.saturating_sub(rise_ns).max(upper_ns(start_ticks));
        let line = Line {
            start_ticks,
            base_ns,
            slope,
        };
        let lead_ns = self
            .ahead_ns(&line, start_ticks)
            .max(self.ahead_ns(&line, end_ticks));
        LeaseLine {
            line,
            end_ticks,
            lead_ns,
            unix: unix.with_lead(lead_ns),
        }
    }

    /// The largest distance of the OS clock's rate from the middle of the two slopes, ppb.
    pub(super) fn rate_uncertainty_ppb(&self) -> u64 {
        (self.upper.slope.ppb_above(self.lower.slope).max(0) / 2).unsigned_abs()
    }

    /// The distance of `line` above the upper bound at the line's end, ns; negative if it is below.
    pub(super) fn above_upper_ns(&self, line: &LeaseLine) -> i64 {
        line.line
            .fixed_at(line.end_ticks)
            .saturating_sub(self.upper.fixed_at(line.end_ticks))
            .floor_ns()
    }

    /// The largest possible distance of `line` above the OS clock at `ticks`, ns, rounded up.
    fn ahead_ns(&self, line: &Line, ticks: u64) -> i64 {
        line.fixed_at(ticks)
            .saturating_sub(self.lower.fixed_at(ticks))
            .ceil_ns()
            .max(0)
    }

    /// The Unix offset of a line whose predecessor has `before`. Like the line, the offset is the
    /// upper bound, so Unix readings are in order until the clock is set. The offset does not fall
    /// while samples only narrow its interval. Its lead is still 0 ([`UnixOffset::with_lead`]).
    pub(super) fn unix_after(&self, before: UnixOffset) -> UnixOffset {
        let Some(UnixOffsetBounds { least_ns, most_ns }) = self.unix_offset else {
            return UnixOffset::NONE;
        };
        let fresh = UnixOffset {
            offset_ns: most_ns,
            lead_ns: 0,
            least_ns,
        };
        let was_set_back = most_ns < before.least_ns.saturating_sub(SET_BACK_TOLERANCE_NS);
        if before.offset_ns == UNIX_BY_OS || was_set_back {
            return fresh;
        }
        // If the clock was set forward, both maxima are the new values.
        UnixOffset {
            offset_ns: before.offset_ns.max(most_ns),
            least_ns: before.least_ns.max(least_ns),
            ..fresh
        }
    }

    /// Whether these bounds are consistent with `os_ns`, a read of the OS clock between two ticks.
    /// If so, neither a suspend nor a counter reset was between the bounds and that read.
    pub(super) fn is_consistent_with(
        &self,
        os_ns: i64,
        before_ticks: u64,
        after_ticks: u64,
    ) -> bool {
        let earliest_ns = self
            .lower
            .fixed_at(before_ticks)
            .floor_ns()
            .saturating_sub(MAX_BELOW_NS);
        let latest_ns = self
            .upper
            .fixed_at(after_ticks)
            .ceil_ns()
            .saturating_add(MAX_ABOVE_NS);
        (earliest_ns..=latest_ns).contains(&os_ns)
    }

    /// The latest possible time of the OS clock, ns, if it was read as `os_ns` at most `ticks` ago.
    pub(super) fn latest_after(&self, os_ns: i64, ticks: u64) -> i64 {
        let later_ns = self
            .upper
            .slope
            .over(i64::try_from(ticks).unwrap_or(i64::MAX))
            .ceil_ns();
        os_ns.saturating_add(later_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_ns: i64, hz: u64) -> Line {
        Line {
            start_ticks: 1 << 40,
            base_ns,
            slope: Slope::from_hz(hz).unwrap(),
        }
    }

    /// Rule W2: at any tick, whole nanoseconds of a line are not below whole nanoseconds of an OS
    /// clock at its upper bound. At its first tick the line is not below its predecessor either.
    #[test]
    fn rule_w2_no_rounded_value_is_below_the_upper_bound() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..if cfg!(miri) { 20 } else { 4_000 } {
            let hz = random.u64(24_000_000..5_024_000_000);
            let lower = at(1_000_000, hz);
            let bits_of_lower = lower.slope.bits;
            // The upper bound is 300 ppb faster than the lower one.
            let slope = Slope {
                bits: bits_of_lower + bits_of_lower / 10_000_000 * 3,
            };
            let upper = Line {
                slope,
                ..at(1_000_040, hz)
            };
            let bounds = OsBounds {
                lower,
                upper,
                unix_offset: None,
            };
            let start = (1 << 40) + random.u64(..1 << 14);
            let lease = lower.slope.ticks_in_ceil(1_000 + random.u64(..1 << 19));
            let least = upper.fixed_at(start).ceil_ns() + random.i64(-30..30);
            let line = bounds.line(start, 0, least, start + lease, UnixOffset::NONE);
            assert!(line.line.base_ns >= least);
            for ticks in (0..64).map(|part| start + lease * part / 63) {
                assert!(
                    line.line.ns_at(ticks) >= upper.ns_at(ticks),
                    "{line:?} at {ticks}"
                );
                assert!(
                    line.line.ns_at(ticks) - lower.ns_at(ticks) <= line.lead_ns + 1,
                    "{line:?} at {ticks}"
                );
            }
        }
    }

    #[test]
    fn a_line_that_is_far_ahead_keeps_half_the_rate() {
        let (lower, upper) = (at(0, 1_000_000_000), at(10, 1_000_000_000));
        let start = 1 << 40;
        let bounds = OsBounds {
            lower,
            upper,
            unix_offset: Some(UnixOffsetBounds {
                least_ns: 90,
                most_ns: 100,
            }),
        };
        let unix = bounds.unix_after(UnixOffset::NONE);
        let line = bounds.line(start, 0, 5_000_000, start + 1_000_000, unix);
        assert_eq!((line.line.base_ns, line.end_ns()), (5_000_000, 5_500_000));
        assert_eq!(
            (line.lead_ns, line.unix.offset_ns, line.unix.lead_ns),
            (5_000_000, 100, 5_000_010)
        );
    }

    /// The Unix offset after samples with these intervals, ns; `None` is a sample without one.
    fn unix_after(intervals: &[Option<(i64, i64)>]) -> UnixOffset {
        let line = at(0, 1_000_000_000);
        let samples = intervals.iter().map(|interval| OsBounds {
            lower: line,
            upper: line,
            unix_offset: interval.map(|(least_ns, most_ns)| UnixOffsetBounds { least_ns, most_ns }),
        });
        samples.fold(UnixOffset::NONE, |unix, bounds| bounds.unix_after(unix))
    }

    /// Symptom: Unix time stepped back by 9 us though the clock had not been set. Cause: a better
    /// sample had narrowed the offset's interval.
    #[test]
    fn rule_w8_a_narrower_sample_leaves_the_unix_offset() {
        let unix = unix_after(&[Some((1_000, 1_400)), Some((1_100, 1_200))]);
        assert_eq!(unix.offset_ns, 1_400);
    }

    #[test]
    fn rule_w8_a_unix_offset_that_may_be_higher_is_raised() {
        let unix = unix_after(&[Some((1_000, 1_400)), Some((1_100, 1_450))]);
        assert_eq!((unix.offset_ns, unix.least_ns), (1_450, 1_100));
    }

    #[test]
    fn rule_w8_a_clock_that_was_set_forward_has_a_new_unix_offset() {
        let unix = unix_after(&[Some((1_000, 1_400)), Some((2_000, 2_300))]);
        assert_eq!((unix.offset_ns, unix.least_ns), (2_300, 2_000));
    }

    #[test]
    fn rule_w8_a_clock_that_may_not_have_been_set_back_keeps_its_unix_offset() {
        let most_ns = 1_100 - SET_BACK_TOLERANCE_NS;
        let samples = [
            Some((1_000, 1_400)),
            Some((1_100, 1_200)),
            Some((-300, most_ns)),
        ];
        assert_eq!(unix_after(&samples).offset_ns, 1_400);
    }

    /// The narrower sample says more about where the clock has been.
    #[test]
    fn rule_w8_a_clock_that_was_set_back_has_a_new_unix_offset() {
        let most_ns = 1_100 - SET_BACK_TOLERANCE_NS - 1;
        let samples = [
            Some((1_000, 1_400)),
            Some((1_100, 1_200)),
            Some((-300, most_ns)),
        ];
        assert_eq!(unix_after(&samples).offset_ns, most_ns);
    }

    #[test]
    fn rule_w8_without_a_sample_of_unix_time_there_is_no_unix_offset() {
        assert_eq!(unix_after(&[Some((1_000, 1_400)), None]), UnixOffset::NONE);
    }
}
