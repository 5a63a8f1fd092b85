//! Comparing the counters of two CPUs: exchanges -> the range of their difference.
//!
//! Two threads on two CPUs exchange a baton. Each reads its counter before it gives the baton and
//! after it gets it:
//!
//! ```text
//! here   t1 ----.                  .---> t4        t1 <= t2 - d,  t3 - d <= t4
//! there          '---> t2    t3 --'                so  t3 - t4 <= d <= t2 - t1
//! ```
//!
//! Here `d` is the other counter minus this one. Nothing is averaged, and an exchange may take any
//! time: many exchanges give the largest lower and the smallest upper bound. For synchronised
//! counters 0 lies between the two bounds, and neither is far from 0 ([`MAX_DIFFERENCE_NS`]).
//! Linux' own test (`check_tsc_warp`, `arch/x86/kernel/tsc_sync.c`) searches for backward steps
//! only, which is one of the two bounds.

use crate::discipline::MEETING_MARGIN_NS;
use crate::units::ticks_between;

/// The largest difference from the first CPU's counter that a comparison may leave possible, ns: a
/// third of the [margin](MEETING_MARGIN_NS). The margin must cover two such differences, because
/// two other CPUs may differ from the first one in opposite directions. The last third is for reads
/// out of order.
pub const MAX_DIFFERENCE_NS: u64 = MEETING_MARGIN_NS / 3;

const _: () = assert!(
    2 * MAX_DIFFERENCE_NS + 1_000 <= MEETING_MARGIN_NS,
    "out-of-order windows end within a microsecond"
);

/// The largest difference that a comparison may leave possible, [`MAX_DIFFERENCE_NS`], in ticks of a
/// counter that moves by `ticks` in `ns`; 0 if `ns` is 0.
#[must_use]
pub fn allowed_difference_ticks(ticks: u64, ns: u64) -> u64 {
    let moved = u128::from(ticks).saturating_mul(u128::from(MAX_DIFFERENCE_NS));
    let max_ticks = moved.checked_div(u128::from(ns)).unwrap_or(0);
    u64::try_from(max_ticks).unwrap_or(u64::MAX)
}

/// The range that contains the difference of two counters, ticks: the other CPU's counter minus
/// this CPU's.
///
/// Begin with [`UNKNOWN`](Self::UNKNOWN), and add each exchange of the baton:
///
/// ```
/// use tickline_core::comparison::CounterDifference;
///
/// let mut difference = CounterDifference::UNKNOWN;
/// // This CPU gives the baton at its tick 1,000. The other one gets it at 1,070 by its own counter,
/// // and gives it back at 1,080. It is here again at 1,130.
/// difference.add_sent(1_000, 1_070);
/// difference.add_received(1_080, 1_130);
/// assert_eq!((difference.min_ticks, difference.max_ticks), (-50, 70));
/// assert_eq!(difference.smallest_ticks(), 0, "the counters may be synchronised");
///
/// // In another exchange the other counter must have been ahead.
/// difference.add_received(2_090, 2_060);
/// assert_eq!(difference.smallest_ticks(), 30);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterDifference {
    /// The smallest difference that is possible, ticks, with its sign.
    pub min_ticks: i64,
    /// The largest difference that is possible, ticks, with its sign.
    pub max_ticks: i64,
}

impl CounterDifference {
    /// The range before the first exchange: every difference is possible.
    pub const UNKNOWN: Self = Self {
        min_ticks: i64::MIN,
        max_ticks: i64::MAX,
    };

    /// Adds a baton that this CPU gave at `given_ticks` and the other got at `got_ticks`, each by
    /// its own counter.
    pub fn add_sent(&mut self, given_ticks: u64, got_ticks: u64) {
        self.max_ticks = self.max_ticks.min(ticks_between(given_ticks, got_ticks));
    }

    /// Adds a baton that the other CPU gave at `given_ticks` and this CPU got at `got_ticks`, each
    /// by its own counter.
    pub fn add_received(&mut self, given_ticks: u64, got_ticks: u64) {
        self.min_ticks = self.min_ticks.max(ticks_between(got_ticks, given_ticks));
    }

    /// The smallest possible difference of the counters without its sign, ticks; 0 if they may be
    /// equal. Compare it with the counter's resolution: counters can't show a smaller difference.
    #[must_use]
    pub fn smallest_ticks(&self) -> u64 {
        let ahead = u64::try_from(self.min_ticks).unwrap_or(0);
        ahead.max(u64::try_from(self.max_ticks.saturating_neg()).unwrap_or(0))
    }

    /// The largest possible difference of counters of this resolution without its sign, ticks. Each
    /// counter may be up to its resolution further than it says.
    #[must_use]
    pub fn largest_ticks(&self, resolution_ticks: u64) -> u64 {
        self.min_ticks
            .unsigned_abs()
            .max(self.max_ticks.unsigned_abs())
            .saturating_add(resolution_ticks)
    }

    /// Whether counters of this resolution are synchronised, if their difference may be at most
    /// `allowed_ticks` ([`allowed_difference_ticks`]).
    ///
    /// ```
    /// use tickline_core::comparison::{CounterDifference, Synchronisation, allowed_difference_ticks};
    ///
    /// let allowed_ticks = allowed_difference_ticks(3, 1); // 4,998 ticks at 3 GHz
    /// let judged = |min_ticks, max_ticks| {
    ///     CounterDifference { min_ticks, max_ticks }.synchronisation(1, allowed_ticks)
    /// };
    /// assert_eq!(judged(-300, 400), Synchronisation::Synchronised);
    /// assert_eq!(judged(10, 60_000), Synchronisation::Unsynchronised);
    /// assert_eq!(judged(-60_000, 60_000), Synchronisation::Unknown);
    /// ```
    #[must_use]
    pub fn synchronisation(&self, resolution_ticks: u64, allowed_ticks: u64) -> Synchronisation {
        if self.smallest_ticks() > resolution_ticks {
            Synchronisation::Unsynchronised
        } else if self.largest_ticks(resolution_ticks) <= allowed_ticks {
            Synchronisation::Synchronised
        } else {
            Synchronisation::Unknown
        }
    }
}

/// Whether two counters are synchronised, by the range of their difference:
/// [`CounterDifference::synchronisation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Synchronisation {
    /// Even the largest possible difference is allowed.
    Synchronised,
    /// Even the smallest possible difference is above the counters' resolution.
    Unsynchronised,
    /// Neither is shown: the range is too wide.
    Unknown,
}

/// The result of a comparison of the CPUs' counters.
///
/// ```
/// use tickline_core::comparison::CounterComparison;
///
/// fn in_a_word(comparison: CounterComparison) -> String {
///     match comparison {
///         CounterComparison::Synchronised { cpus, .. } => format!("{cpus} synchronised counters"),
///         CounterComparison::Unsynchronised { cpu, other_cpu, .. } => format!("CPUs {cpu} and {other_cpu} differ"),
///         other => format!("{other:?}"),
///     }
/// }
/// let synchronised = CounterComparison::Synchronised { cpus: 8, max_difference_ticks: 900 };
/// assert_eq!(in_a_word(synchronised), "8 synchronised counters");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CounterComparison {
    /// No result yet: the comparison has not begun, or is not complete.
    Pending,
    /// There was nothing to compare: the process may use only one CPU.
    Single,
    /// All counters are synchronised: none was found to differ from the first CPU's. Each agrees
    /// with that one within the time of the quickest exchange, at most [`MAX_DIFFERENCE_NS`].
    Synchronised {
        /// The number of CPUs that were compared.
        cpus: u32,
        /// No two of these counters differ by more, ticks: the width that the comparison reached.
        max_difference_ticks: u64,
    },
    /// The counters of at least these two CPUs are not synchronised.
    Unsynchronised {
        /// One CPU.
        cpu: u32,
        /// The other CPU.
        other_cpu: u32,
        /// The counter of `other_cpu` minus that of `cpu`.
        difference: CounterDifference,
    },
    /// The comparison failed: the threads could not be moved to their CPUs, or did not run there. Or
    /// each exchange took so long that a difference above [`MAX_DIFFERENCE_NS`] could be neither
    /// found nor excluded, as where each read of the counter traps to a slow hypervisor.
    Impossible,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of exchanges of various durations, from the tick `start_ticks` on, between
    /// counters that differ by `true_ticks`.
    fn measured(true_ticks: i64, start_ticks: u64) -> CounterDifference {
        let mut difference = CounterDifference::UNKNOWN;
        let mut now = start_ticks;
        for exchange in 0..50 {
            let there = 60 + (exchange * 37) % 90;
            let back = 60 + (exchange * 53) % 90;
            difference.add_sent(now, now.wrapping_add(there).wrapping_add_signed(true_ticks));
            now = now.wrapping_add(there + 10);
            difference.add_received(now.wrapping_add_signed(true_ticks), now.wrapping_add(back));
            now = now.wrapping_add(back + 10);
        }
        difference
    }

    /// Calls `check` with true differences of every size, also across the wrap of the counter, and
    /// with the range that exchanges show.
    fn check_ranges(check: impl Fn(i64, CounterDifference)) {
        let before_the_wrap = u64::MAX - 3_000;
        for start_ticks in [1 << 40, before_the_wrap] {
            for true_ticks in [
                0,
                1,
                -1,
                59,
                -59,
                200,
                -200,
                5_000,
                -5_000,
                66_930,
                i64::MAX / 2,
            ] {
                check(true_ticks, measured(true_ticks, start_ticks));
            }
        }
    }

    #[test]
    fn the_range_contains_the_difference() {
        check_ranges(|true_ticks, difference| {
            let range = difference.min_ticks..=difference.max_ticks;
            assert!(range.contains(&true_ticks), "{true_ticks}: {difference:?}");
        });
    }

    #[test]
    fn the_range_is_no_wider_than_two_exchanges() {
        check_ranges(|true_ticks, difference| {
            let width_ticks = difference.max_ticks.abs_diff(difference.min_ticks);
            assert!(width_ticks <= 130, "{true_ticks}: {difference:?}");
        });
    }

    #[test]
    fn the_smallest_difference_is_short_of_the_true_one_by_no_more_than_the_range() {
        check_ranges(|true_ticks, difference| {
            // An exchange takes 60 ticks or more, so it can't tell less from 0.
            let expected = if true_ticks.abs() < 60 {
                0..=0
            } else {
                true_ticks.unsigned_abs() - 130..=true_ticks.unsigned_abs()
            };
            let smallest_ticks = difference.smallest_ticks();
            assert!(
                expected.contains(&smallest_ticks),
                "{true_ticks}: {difference:?}"
            );
        });
    }

    #[test]
    fn before_the_first_exchange_no_difference_is_found() {
        assert_eq!(CounterDifference::UNKNOWN.smallest_ticks(), 0);
    }

    /// Whether counters of 1 GHz whose difference is in this range, ns, are synchronised.
    fn synchronisation(min_ns: i64, max_ns: i64, resolution_ticks: u64) -> Synchronisation {
        let difference = CounterDifference {
            min_ticks: min_ns,
            max_ticks: max_ns,
        };
        difference.synchronisation(resolution_ticks, allowed_difference_ticks(1, 1))
    }

    #[test]
    fn counters_whose_difference_is_at_most_small_are_synchronised() {
        assert_eq!(
            synchronisation(-1_666, 1_666, 0),
            Synchronisation::Synchronised
        );
    }

    /// Both counters may have been up to one resolution further than they said.
    #[test]
    fn the_largest_difference_includes_the_resolution() {
        assert_eq!(
            synchronisation(-1_600, 1_600, 66),
            Synchronisation::Synchronised
        );
        assert_eq!(synchronisation(-1_600, 1_600, 67), Synchronisation::Unknown);
    }

    #[test]
    fn the_limit_follows_the_rate() {
        assert_eq!(allowed_difference_ticks(60_000_000, 20_000_000), 4_998);
        assert_eq!(allowed_difference_ticks(60_000_000, 0), 0);
        assert_eq!(allowed_difference_ticks(u64::MAX, 1), u64::MAX);
    }

    /// Symptom: where each read of the counter traps, exchanges of up to 100 us counted, and
    /// counters 20 us apart passed as synchronised.
    #[test]
    fn a_range_that_is_too_wide_shows_nothing() {
        assert_eq!(
            synchronisation(-20_000, 20_000, 0),
            Synchronisation::Unknown
        );
        assert_eq!(synchronisation(-1_667, 10, 0), Synchronisation::Unknown);
        assert_eq!(synchronisation(-10, 1_667, 0), Synchronisation::Unknown);
    }

    #[test]
    fn before_the_first_exchange_nothing_is_shown() {
        let unknown = CounterDifference::UNKNOWN;
        let found = unknown.synchronisation(0, u64::MAX >> 1);
        assert_eq!(found, Synchronisation::Unknown);
    }

    #[test]
    fn a_wide_range_without_0_shows_unsynchronised_counters() {
        assert_eq!(
            synchronisation(10, 40_000, 0),
            Synchronisation::Unsynchronised
        );
        assert_eq!(
            synchronisation(-40_000, -10, 0),
            Synchronisation::Unsynchronised
        );
    }

    #[test]
    fn a_difference_of_one_resolution_is_none() {
        assert_eq!(synchronisation(26, 90, 26), Synchronisation::Synchronised);
        assert_eq!(synchronisation(27, 90, 26), Synchronisation::Unsynchronised);
    }
}
