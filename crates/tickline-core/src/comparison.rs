//! Comparing the counters of two CPUs: exchanges -> the interval that contains their difference.
//!
//! Two threads on two CPUs exchange a token. Each reads its counter before it gives the token and
//! after it gets it:
//!
//! ```text
//! here   t1 ----.                  .---> t4        t1 <= t2 - d,  t3 - d <= t4
//! there          '---> t2    t3 --'                so  t3 - t4 <= d <= t2 - t1
//! ```
//!
//! with `d` the other counter minus this one. Nothing is averaged, and nothing is assumed about
//! how long an exchange takes: many exchanges give the largest lower and the smallest upper
//! bound. Synchronised counters have 0 between the two. Linux' own test (`check_tsc_warp`,
//! `arch/x86/kernel/tsc_sync.c`) searches for backward steps only, which is one of the two
//! bounds.

use crate::units::ticks_between;

/// The interval that contains the difference of two counters, ticks: the other CPU's counter minus
/// this CPU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The least that the difference can be, ticks.
    pub least_ticks: i64,
    /// The most that the difference can be, ticks.
    pub most_ticks: i64,
}

impl Difference {
    /// Nothing is known yet.
    pub const UNKNOWN: Self = Self { least_ticks: i64::MIN, most_ticks: i64::MAX };

    /// A token was given here at `given_ticks` and got there at `got_ticks`, by each CPU's own
    /// counter.
    #[doc(hidden)]
    pub fn add_sent(&mut self, given_ticks: u64, got_ticks: u64) {
        self.most_ticks = self.most_ticks.min(ticks_between(given_ticks, got_ticks));
    }

    /// A token was given there at `given_ticks` and got here at `got_ticks`, by each CPU's own
    /// counter.
    #[doc(hidden)]
    pub fn add_received(&mut self, given_ticks: u64, got_ticks: u64) {
        self.least_ticks = self.least_ticks.max(ticks_between(got_ticks, given_ticks));
    }

    /// The least difference of the counters, ticks; 0 if they may be synchronised. Counters that
    /// differ by at most their resolution count as synchronised, because they can't show less.
    #[must_use]
    pub fn size_ticks(&self) -> u64 {
        let ahead = u64::try_from(self.least_ticks).unwrap_or(0);
        ahead.max(u64::try_from(self.most_ticks.saturating_neg()).unwrap_or(0))
    }
}

/// What a comparison of the CPUs' counters found.
///
/// ```
/// use tickline_core::gate::CounterComparison;
///
/// fn in_a_word(comparison: CounterComparison) -> String {
///     match comparison {
///         CounterComparison::Synchronised { cpus } => format!("{cpus} synchronised counters"),
///         CounterComparison::Unsynchronised { here, there, .. } => format!("{here} and {there} differ"),
///         other => format!("{other:?}"),
///     }
/// }
/// assert_eq!(in_a_word(CounterComparison::Synchronised { cpus: 8 }), "8 synchronised counters");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterComparison {
    /// Nothing: it has not been made, or is not complete.
    Pending,
    /// There was nothing to compare: the process may use one CPU only.
    Single,
    /// All counters are synchronised.
    Synchronised {
        /// How many CPUs were compared.
        cpus: u32,
    },
    /// At least these two are not.
    Unsynchronised {
        /// One CPU.
        here: u32,
        /// The other.
        there: u32,
        /// The other's counter minus this one's.
        difference: Difference,
    },
    /// The comparison could not be made: the threads could not be put on their CPUs, or did not
    /// run there.
    Impossible,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchanges between counters that differ by `d`, each taking a different time.
    fn measured(d: i64, wrap: bool) -> Difference {
        let mut difference = Difference::UNKNOWN;
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
            for d in [0, 1, -1, 59, -59, 200, -200, 5_000, -5_000, 66_930, i64::MAX / 2] {
                let difference = measured(d, wrap);
                let Difference { least_ticks, most_ticks } = difference;
                assert!(least_ticks <= d && d <= most_ticks, "{d}: {difference:?}");
                assert!(most_ticks.abs_diff(least_ticks) <= 130, "{d}: {difference:?}");
                // An exchange takes 60 ticks or more, so it can't tell less from 0.
                let sizes = if d.abs() < 60 { 0..=0 } else { d.unsigned_abs() - 130..=d.unsigned_abs() };
                assert!(sizes.contains(&difference.size_ticks()), "{d}: {difference:?}");
            }
        }
        assert_eq!(Difference::UNKNOWN.size_ticks(), 0, "nothing known is nothing found");
    }
}
