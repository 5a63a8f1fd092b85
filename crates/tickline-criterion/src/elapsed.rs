//! The time of a sample.

use std::ops::Add;
use std::time::Duration;

use crate::calibration::Scale;
use crate::number::as_f64;

const PS_PER_NS: f64 = 1e3;

/// The time between starts and ends, not yet converted: ticks of the counter, and the number of
/// pairs whose cost they contain.
///
/// Sums stay in ticks, so that adding up under `iter_batched` does not round. The cost of the pairs
/// is subtracted once, from the whole sum. A [`Duration`] converts into an `Elapsed`, for
/// `iter_custom` routines that time themselves.
///
/// ```
/// use std::time::Duration;
/// use criterion::measurement::Measurement;
/// use tickline_criterion::{Elapsed, CounterTime};
///
/// let time = CounterTime::builder().quiet().start_or_wall_time();
/// let work = time.end(time.start());
/// let both = work + Elapsed::from(Duration::from_micros(3));
/// assert!(time.to_f64(&both) >= 3_000.0); // ns
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Elapsed {
    /// The ticks of all pairs, as read.
    pub(crate) ticks: u64,
    /// Pairs of readings in `ticks`.
    pub(crate) pairs: u64,
    /// Pairs whose ends were on different CPUs.
    pub(crate) moved: u64,
    /// Pairs whose end was before their start; they count as 0 ticks.
    pub(crate) backwards: u64,
    /// Picoseconds from which nothing is subtracted: from another clock, or already converted.
    pub(crate) other_ps: u64,
}

impl Elapsed {
    #[inline(always)]
    pub(crate) fn of_pair(start_ticks: u64, end_ticks: u64, moved: bool) -> Self {
        let (ticks, backwards) = match end_ticks.checked_sub(start_ticks) {
            Some(ticks) => (ticks, 0),
            None => (0, 1),
        };
        Self { ticks, pairs: 1, moved: u64::from(moved), backwards, other_ps: 0 }
    }

    /// A time that is known in ns; a negative one becomes 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, after 213 days")]
    pub(crate) fn of_ns(ns: f64) -> Self {
        Self { other_ps: (ns * PS_PER_NS).round() as u64, ..Self::default() }
    }

    /// The time in ns. The cost of each pair is subtracted; the rest of the ticks is never below 0.
    pub(crate) fn to_ns(self, scale: &Scale) -> f64 {
        let net_ticks = as_f64(self.ticks) - as_f64(self.pairs) * scale.cost_ticks;
        net_ticks.max(0.0) * scale.ns_per_tick + as_f64(self.other_ps) / PS_PER_NS
    }
}

impl Add for Elapsed {
    type Output = Self;

    /// Saturates after 213 days.
    #[inline]
    fn add(self, other: Self) -> Self {
        Self {
            ticks: self.ticks.saturating_add(other.ticks),
            pairs: self.pairs.saturating_add(other.pairs),
            moved: self.moved.saturating_add(other.moved),
            backwards: self.backwards.saturating_add(other.backwards),
            other_ps: self.other_ps.saturating_add(other.other_ps),
        }
    }
}

impl From<Duration> for Elapsed {
    #[inline]
    fn from(other: Duration) -> Self {
        Self { other_ps: u64::try_from(other.as_nanos() * 1_000).unwrap_or(u64::MAX), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn scale(ns_per_tick: f64, cost_ticks: f64) -> Scale {
        Scale { ns_per_tick, cost_ticks, ..Scale::WALL }
    }

    #[test]
    fn the_cost_of_each_pair_is_taken_off_the_sum() {
        let sum = (0..1_000).fold(Elapsed::default(), |sum, _| sum + Elapsed::of_pair(5_000, 5_100, false));
        assert_eq!(sum.to_ns(&scale(0.5, 0.0)), 50_000.0);
        assert_eq!(sum.to_ns(&scale(0.5, 60.0)), 20_000.0);
    }

    #[test]
    fn a_sum_smaller_than_its_pairs_cost_is_zero_and_pairs_are_not_clamped_one_by_one() {
        // Symptom of clamping each pair: with a resolution of 26 ticks, pairs of 40 read as 26 or
        // 52, and an empty routine would take (52 - 40) / 2 ticks on average.
        let coarse = Elapsed::of_pair(0, 26, false) + Elapsed::of_pair(26, 78, false);
        assert_eq!(coarse.to_ns(&scale(1.0, 39.0)), 0.0);
        assert_eq!(coarse.to_ns(&scale(1.0, 50.0)), 0.0);
    }

    #[test]
    fn a_counter_that_ran_backwards_is_counted_and_adds_nothing() {
        let sum = Elapsed::of_pair(100, 40, true) + Elapsed::of_pair(40, 50, false);
        assert_eq!((sum.ticks, sum.pairs, sum.backwards, sum.moved), (10, 2, 1, 1));
    }

    #[test]
    fn other_times_are_added_as_they_are() {
        let sum = Elapsed::from(Duration::from_nanos(70)) + Elapsed::of_pair(0, 10, false);
        assert_eq!(sum.to_ns(&scale(2.0, 4.0)), 82.0);
        assert_eq!(sum.to_ns(&scale(2.0, 40.0)), 70.0);
        assert_eq!(Elapsed::of_ns(0.275).to_ns(&scale(2.0, 40.0)), 0.275);
        assert_eq!(Elapsed::of_ns(-3.0), Elapsed::default());
    }
}
