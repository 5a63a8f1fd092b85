//! Comparing the counters of two CPUs: exchanges -> the interval that contains their difference.
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
//! counters 0 lies between the two bounds. Linux' own test (`check_tsc_warp`,
//! `arch/x86/kernel/tsc_sync.c`) searches for backward steps only, which is one of the two bounds.

use crate::units::ticks_between;

/// The interval that contains the difference of two counters, ticks: the other CPU's counter minus
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
/// assert_eq!(difference.size_ticks(), 0, "the counters may be synchronised");
///
/// // In another exchange the other counter must have been ahead.
/// difference.add_received(2_090, 2_060);
/// assert_eq!(difference.size_ticks(), 30);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterDifference {
    /// The lower end of the interval, ticks.
    pub min_ticks: i64,
    /// The upper end of the interval, ticks.
    pub max_ticks: i64,
}

impl CounterDifference {
    /// The interval before the first exchange: every difference is possible.
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

    /// The smallest possible difference of the counters, ticks; 0 if they may be equal. Compare it
    /// with the counter's resolution: counters can't show a smaller difference.
    #[must_use]
    pub fn size_ticks(&self) -> u64 {
        let ahead = u64::try_from(self.min_ticks).unwrap_or(0);
        ahead.max(u64::try_from(self.max_ticks.saturating_neg()).unwrap_or(0))
    }
}

/// The result of a comparison of the CPUs' counters.
///
/// ```
/// use tickline_core::comparison::CounterComparison;
///
/// fn in_a_word(comparison: CounterComparison) -> String {
///     match comparison {
///         CounterComparison::Synchronised { cpus } => format!("{cpus} synchronised counters"),
///         CounterComparison::Unsynchronised { cpu, other_cpu, .. } => format!("CPUs {cpu} and {other_cpu} differ"),
///         other => format!("{other:?}"),
///     }
/// }
/// assert_eq!(in_a_word(CounterComparison::Synchronised { cpus: 8 }), "8 synchronised counters");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CounterComparison {
    /// No result yet: the comparison has not begun, or is not complete.
    Pending,
    /// There was nothing to compare: the process may use only one CPU.
    Single,
    /// All counters are synchronised: none was found to differ from the first CPU's. Each agrees
    /// with that one within the time of the quickest exchange.
    Synchronised {
        /// The number of CPUs that were compared.
        cpus: u32,
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
    /// The comparison failed: the threads could not be moved to their CPUs, or did not run there.
    Impossible,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of exchanges of various durations between counters that differ by `d`.
    fn measured(d: i64, wrap: bool) -> CounterDifference {
        let mut difference = CounterDifference::UNKNOWN;
        let mut now = if wrap { u64::MAX - 3_000 } else { 1 << 40 };
        for exchange in 0..50 {
            let (there, back) = (60 + (exchange * 37) % 90, 60 + (exchange * 53) % 90);
            difference.add_sent(now, (now.wrapping_add(there)).wrapping_add_signed(d));
            now = now.wrapping_add(there + 10);
            difference.add_received(now.wrapping_add_signed(d), now.wrapping_add(back));
            now = now.wrapping_add(back + 10);
        }
        difference
    }

    #[test]
    fn the_interval_contains_the_difference_and_no_more_than_two_exchanges() {
        for wrap in [false, true] {
            for d in [
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
                let difference = measured(d, wrap);
                let CounterDifference {
                    min_ticks,
                    max_ticks,
                } = difference;
                assert!(min_ticks <= d && d <= max_ticks, "{d}: {difference:?}");
                assert!(max_ticks.abs_diff(min_ticks) <= 130, "{d}: {difference:?}");
                // An exchange takes 60 ticks or more, so it can't tell less from 0.
                let sizes = if d.abs() < 60 {
                    0..=0
                } else {
                    d.unsigned_abs() - 130..=d.unsigned_abs()
                };
                assert!(
                    sizes.contains(&difference.size_ticks()),
                    "{d}: {difference:?}"
                );
            }
        }
        assert_eq!(
            CounterDifference::UNKNOWN.size_ticks(),
            0,
            "nothing known is nothing found"
        );
    }
}
