//! The analysis of couples, by arithmetic: the medians, the difference, and its interval.

use crate::number::as_f64;
use crate::statistics::distribution::median;
use crate::statistics::signed_rank::{Interval, MIN_ROUNDS, interval};

/// The number of rounds: enough for the normal approximation, each with many couples.
const ROUNDS: usize = 60;

/// The smallest number of couples in a round, for a median.
const MIN_COUPLES_A_ROUND: usize = 5;

/// The smallest number of couples for a comparison.
pub(crate) const MIN_COUPLES: u64 = (MIN_ROUNDS * MIN_COUPLES_A_ROUND) as u64;

/// The times of A and B in one couple, ticks of a pair.
pub(crate) type Couple = [u64; 2];

/// The result of the analysis, ticks of a pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Analysis {
    pub(crate) medians: [f64; 2],
    /// The difference B - A.
    pub(crate) difference: Interval,
    /// The difference of the medians in each round, in order of time.
    pub(crate) rounds: Vec<f64>,
}

/// Analyses couples; `None` if there are too few for ten rounds. If they come in slices, which end
/// at `slice_ends`, a round has whole slices, because the times of one slice are not independent:
/// the core may have another speed in the next slice. Each time represents an interval of
/// `width_ticks`.
pub(crate) fn analyse(
    couples: &[Couple],
    slice_ends: Option<&[usize]>,
    width_ticks: f64,
) -> Option<Analysis> {
    let units = slice_ends.map_or(couples.len() / MIN_COUPLES_A_ROUND, <[usize]>::len);
    let rounds = units.min(ROUNDS);
    if rounds < MIN_ROUNDS {
        return None;
    }
    let cut = |round: usize| match slice_ends {
        Some(ends) => (round * units / rounds)
            .checked_sub(1)
            .map_or(0, |last| ends[last]),
        None => round * couples.len() / rounds,
    };
    let median_of = |couples: &[Couple], routine: usize| {
        let ticks: Vec<f64> = couples.iter().map(|two| as_f64(two[routine])).collect();
        median(&ticks, width_ticks)
    };
    // The rounds have nearly equal numbers of couples.
    let differences: Option<Vec<f64>> = (0..rounds)
        .map(|round| {
            let couples = &couples[cut(round)..cut(round + 1)];
            Some(median_of(couples, 1)? - median_of(couples, 0)?)
        })
        .collect();
    let rounds = differences?;
    Some(Analysis {
        medians: [median_of(couples, 0)?, median_of(couples, 1)?],
        difference: interval(&rounds)?,
        rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::signed_rank::tests::uniform;

    /// Times of 2,000 ticks on a core whose frequency wanders by 2 %, read by a counter with a
    /// resolution of 26 ticks. B takes longer by `percent`.
    fn wandering(uniform: &mut impl FnMut() -> f64, percent: f64) -> Vec<Couple> {
        let mut drift = 0.0;
        (0..6_000)
            .map(|_| {
                drift = (drift + uniform() * 0.001_f64).clamp(-0.02, 0.02);
                let one = |factor: f64, uniform: &mut dyn FnMut() -> f64| {
                    let ticks = 2_000.0 * factor * (1.0 + drift) * (1.0 + uniform() * 0.02);
                    // The phase of the counter at the start.
                    let phase = (uniform() + 0.5) * 26.0;
                    crate::number::round(((ticks + phase) / 26.0).floor()) * 26
                };
                let a = one(1.0, uniform);
                [a, one(1.0 + percent / 100.0, uniform)]
            })
            .collect()
    }

    #[test]
    fn a_difference_of_two_percent_is_found_although_the_frequency_wanders_by_two_percent() {
        let mut uniform = uniform(11);
        let mut false_ones = 0;
        for _ in 0..40 {
            let same = analyse(&wandering(&mut uniform, 0.0), None, 26.0)
                .expect("enough")
                .difference;
            false_ones += usize::from(same.low > 0.0 || same.high < 0.0);
            let other = analyse(&wandering(&mut uniform, 2.0), None, 26.0)
                .expect("enough")
                .difference;
            assert!(
                other.low > 0.0 && (other.estimate - 40.0).abs() < 4.0,
                "{other:?}"
            );
        }
        // Two false differences are expected.
        assert!(false_ones <= 6, "{false_ones} of 40");
    }

    /// Symptom: on a loaded machine, four of six comparisons of equal builds reported a difference.
    /// Cause: each slice gave several rounds.
    #[test]
    fn slices_that_differ_by_the_cores_speed_are_not_a_difference() {
        let mut uniform = uniform(5);
        let mut false_ones = 0;
        for _ in 0..200 {
            let mut one = || crate::number::round(1_300.0 + 400.0 * uniform());
            let slices: Vec<Couple> = (0..20).map(|_| [one(), one()]).collect();
            let couples: Vec<Couple> = slices.into_iter().flat_map(|two| [two; 30]).collect();
            let slice_ends: Vec<usize> = (1..=20).map(|slice| slice * 30).collect();
            let difference = analyse(&couples, Some(&slice_ends), 1.0)
                .expect("20 slices")
                .difference;
            false_ones += usize::from(difference.low > 1.0 || difference.high < -1.0);
            assert_eq!(
                analyse(&couples, Some(&slice_ends[..9]), 1.0),
                None,
                "too few slices"
            );
        }
        // Ten false differences are expected. Without whole slices there were 56.
        assert!(false_ones <= 24, "{false_ones} of 200");
    }

    #[test]
    fn fewer_than_fifty_couples_show_no_difference() {
        assert_eq!(analyse(&[[100, 102]; 49], None, 26.0), None);
        let analysis = analyse(&[[100, 102]; 50], None, 26.0).expect("ten rounds of five");
        assert_eq!(analysis.rounds.len(), 10);
        assert!(
            (analysis.difference.estimate - 2.0).abs() < 0.01,
            "{analysis:?}"
        );
    }
}
