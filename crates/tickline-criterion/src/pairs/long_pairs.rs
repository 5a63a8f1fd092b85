//! The pairs that interrupts explain.
//!
//! The kernel does not tell a program about interrupts. A long pair alone proves no interrupt,
//! because the routine itself may sometimes be slow, which a distribution must show. Therefore a
//! loop that detects interrupts runs between blocks
//! ([`noise_loop`](crate::measurement::noise_loop)). Its gaps show how often interrupts, and pauses
//! by the hypervisor, last how long.
//!
//! A pair's excess is its time beyond the median of its slice. From the shortest excess on, octave
//! by octave, the pairs of the benchmark so far are compared with the gaps:
//!
//! ```text
//!     gaps    ....::::.                        (an interrupt costs a routine more time than the
//!     excess     ....::::.          ::          loop, because it leaves cold caches behind)
//!             --------------+------------> length
//!                explained  |  the routine's own
//! ```
//!
//! An octave is explained if no more pairs have this excess or a larger one than gaps explain: those
//! at most [`LONGER_OCTAVES`] shorter, and longer ones. Beyond the first octave that is not
//! explained, the routine itself is sometimes slow, and all pairs count. A slow call of 2 ms is
//! therefore the routine's own, however many interrupts of some us there are.
//!
//! | rejected | price |
//! |---|---|
//! | comparing the numbers alone | gaps of a hypervisor, of less than a us and thousands a second, explained a build of which each fourth call took eleven times as long |
//! | a judgement on each slice alone | a slice has so few slow calls that one gap of their length, seen at any time, explains them all |
//! | a judgement on each side of a couple | the sides of equal builds fall on both sides of a limit |
//! | counting a preempted slow call without its wait, which the CPU clock and the run delay say | the caches are cold afterwards; a preemption between the pair and the question hides a part of the wait; and where slow calls count that were preempted, and fast ones do not, the tail is too heavy |

use crate::measurement::noise_loop::Noise;
use crate::number::as_f64;
use crate::statistics::octaves::{OCTAVES, Octaves, octave_of};

/// A gap explains an excess that is up to this number of octaves longer: 4 to 16 times as long.
const LONGER_OCTAVES: usize = 3;

/// The pairs of a benchmark so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LongPairs {
    /// The time of all pairs.
    exposed_ticks: u64,
    /// The excesses that are as long as an interrupt.
    excesses: Octaves,
}

/// What interrupts explain in a slice, for one place of its groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Explained {
    median_ticks: u64,
    /// The shortest interrupt; `u64::MAX` if none is known.
    min_excess_ticks: u64,
    /// The first octave that interrupts do not explain.
    end_octave: usize,
}

impl Explained {
    /// The excess of a pair that is as long as an interrupt.
    fn excess(&self, ticks: u64) -> Option<u64> {
        let excess = ticks.saturating_sub(self.median_ticks);
        (excess > self.min_excess_ticks).then_some(excess)
    }

    /// Whether an interrupt explains how long this pair took.
    pub(crate) fn is_interrupted(&self, ticks: u64) -> bool {
        self.excess(ticks)
            .is_some_and(|excess| octave_of(excess) < self.end_octave)
    }

    /// Whether this pair is as long as an interrupt, but the routine's own.
    pub(crate) fn is_own(&self, ticks: u64) -> bool {
        self.excess(ticks).is_some() && !self.is_interrupted(ticks)
    }
}

impl LongPairs {
    /// Judges a slice by its pairs and those before: the ticks of each place of the groups. Changes
    /// their order.
    pub(crate) fn judge<const N: usize>(
        &mut self,
        mut places: [Vec<u64>; N],
        noise: &Noise,
    ) -> [Explained; N] {
        let mut explained = places.each_mut().map(|ticks| Explained {
            median_ticks: median(ticks),
            // Without a gap, the length of an interrupt is unknown.
            min_excess_ticks: if noise.gaps.total() > 0 {
                noise.min_gap_ticks
            } else {
                u64::MAX
            },
            end_octave: 0,
        });
        for (ticks, explained) in places.iter().zip(&explained) {
            for ticks in ticks {
                self.exposed_ticks = self.exposed_ticks.saturating_add(*ticks);
                if let Some(excess) = explained.excess(*ticks) {
                    self.excesses.add(excess);
                }
            }
        }
        let end_octave = (0..OCTAVES).find(|octave| !self.is_explained(*octave, noise));
        for explained in &mut explained {
            explained.end_octave = end_octave.unwrap_or(OCTAVES);
        }
        explained
    }

    /// Whether gaps explain all pairs from this octave on.
    fn is_explained(&self, octave: usize, noise: &Noise) -> bool {
        let gaps = noise.gaps.count_from(octave.saturating_sub(LONGER_OCTAVES));
        if gaps == 0 {
            return self.excesses.count_from(octave) == 0;
        }
        // After a gap, `runtime_ticks` is not 0.
        let expected = as_f64(gaps) / as_f64(noise.runtime_ticks) * as_f64(self.exposed_ticks);
        as_f64(self.excesses.count_from(octave)) <= most_explained(expected)
    }
}

/// The most pairs that interrupts explain, if this number is expected: twice as many, because the
/// pair after an interrupt may find cold caches, too, and three standard deviations of a Poisson
/// distribution more. One that is expected however rarely may occur.
fn most_explained(expected: f64) -> f64 {
    (2.0 * expected + 3.0 * expected.sqrt()).max(1.0)
}

/// 0 if there are no ticks.
fn median(ticks: &mut [u64]) -> u64 {
    if ticks.is_empty() {
        return 0;
    }
    let middle = ticks.len() / 2;
    *ticks.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of a hundred million ticks with gaps of these lengths.
    fn noise(gaps: &[(usize, u64)]) -> Noise {
        let mut noise = Noise {
            runtime_ticks: 100_000_000,
            min_gap_ticks: u64::MAX,
            ..Noise::default()
        };
        for (number, ticks) in gaps {
            noise.min_gap_ticks = noise.min_gap_ticks.min(*ticks);
            for _ in 0..*number {
                noise.gaps.add(*ticks);
            }
        }
        noise
    }

    /// 100,000 pairs of 100 ticks, a tenth of the loop's time, and some longer ones.
    fn pairs(long: &[(usize, u64)]) -> Vec<u64> {
        let mut ticks = vec![100; 100_000];
        for (number, long_ticks) in long {
            ticks.extend(vec![*long_ticks; *number]);
        }
        ticks
    }

    /// How many of these pairs are interrupted, and how many are long, but the routine's own.
    fn judged(long_pairs: &mut LongPairs, ticks: &[u64], noise: &Noise) -> (usize, usize) {
        let [explained] = long_pairs.judge([ticks.to_vec()], noise);
        let interrupted = ticks.iter().filter(|one| explained.is_interrupted(**one));
        let own = ticks.iter().filter(|one| explained.is_own(**one));
        (interrupted.count(), own.count())
    }

    #[test]
    fn as_many_long_pairs_as_interrupts_are_taken_for_interrupts() {
        // About 10 interrupts are expected, so at most 29.5 pairs are explained.
        for long in [1, 10, 29] {
            let found = judged(
                &mut LongPairs::default(),
                &pairs(&[(long, 6_000)]),
                &noise(&[(100, 5_000)]),
            );
            assert_eq!(found, (long, 0));
        }
    }

    /// The distribution of a routine that is sometimes slow must keep its tail.
    #[test]
    fn more_long_pairs_than_interrupts_are_the_routines_own() {
        for long in [35, 100, 1_000] {
            let found = judged(
                &mut LongPairs::default(),
                &pairs(&[(long, 6_000)]),
                &noise(&[(100, 5_000)]),
            );
            assert_eq!(found, (0, long));
        }
    }

    /// Symptom: a hypervisor made thousands of gaps a second, of less than a us. A build of which
    /// each fourth call took eleven times as long passed, because these calls were taken for
    /// interrupted ones.
    #[test]
    fn many_short_gaps_do_not_explain_a_call_that_is_far_longer() {
        let found = judged(
            &mut LongPairs::default(),
            &pairs(&[(20, 100_000)]),
            &noise(&[(10_000, 500)]),
        );
        assert_eq!(found, (0, 20));
    }

    /// The caches are cold after an interrupt.
    #[test]
    fn a_gap_explains_an_excess_that_is_some_times_as_long() {
        // Gaps of octave 13, and excesses of octaves 16 and 17.
        for (excess_ticks, expected) in [(40_000, (10, 0)), (70_000, (0, 10))] {
            let found = judged(
                &mut LongPairs::default(),
                &pairs(&[(10, 100 + excess_ticks)]),
                &noise(&[(100, 5_000)]),
            );
            assert_eq!(found, expected, "{excess_ticks}");
        }
    }

    #[test]
    fn interrupts_do_not_count_beside_slow_calls_that_do() {
        let found = judged(
            &mut LongPairs::default(),
            &pairs(&[(10, 6_000), (15, 1_000_000)]),
            &noise(&[(100, 5_000)]),
        );
        assert_eq!(found, (10, 15));
    }

    /// Symptom: each slice had one slow call, and never more than interrupts explain.
    #[test]
    fn slow_calls_count_although_each_slice_has_few_of_them() {
        let mut long_pairs = LongPairs::default();
        let noise = noise(&[(1_000, 5_000), (1, 1_000_000)]);
        let slices = [(); 5].map(|()| judged(&mut long_pairs, &pairs(&[(1, 2_000_000)]), &noise));
        assert_eq!(slices, [(1, 0), (0, 1), (0, 1), (0, 1), (0, 1)]);
    }

    /// Else two equal routines could fall on both sides of a limit.
    #[test]
    fn both_places_of_a_couple_are_judged_together() {
        let (few, many) = (pairs(&[(1, 6_000)]), pairs(&[(100, 6_000)]));
        let judged = LongPairs::default().judge([few, many], &noise(&[(100, 5_000)]));
        assert!(judged.iter().all(|place| place.is_own(6_000)), "{judged:?}");
    }

    #[test]
    fn each_place_of_a_couple_has_a_median_of_its_own() {
        let ticks = [100, 9_000].map(|median_ticks| vec![median_ticks; 100]);
        let judged = LongPairs::default().judge(ticks, &noise(&[(100, 5_000)]));
        assert_eq!(
            judged.map(|place| place.is_interrupted(9_000)),
            [true, false]
        );
    }

    #[test]
    fn without_a_seen_interrupt_no_pair_is_long() {
        let long = pairs(&[(3, 6_000)]);
        let found = judged(&mut LongPairs::default(), &long, &noise(&[]));
        assert_eq!(found, (0, 0));
    }

    #[test]
    fn a_slice_without_pairs_that_count_explains_nothing() {
        let found = judged(&mut LongPairs::default(), &[], &noise(&[(100, 5_000)]));
        assert_eq!(found, (0, 0));
    }
}
