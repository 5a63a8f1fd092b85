//! The pairs that interrupts explain.
//!
//! The kernel does not tell a program about interrupts. A long pair alone proves no interrupt: the
//! routine itself may sometimes be slow, and its distribution must show that. Therefore a loop that
//! detects interrupts runs between blocks ([`noise_loop`](crate::measurement::noise_loop)). Its
//! gaps show how often interrupts and pauses by the hypervisor come, and how long they last.
//!
//! A pair's excess is its time beyond the median of its slice. The excesses of the benchmark so far
//! are compared with the gaps, octave by octave, from the longest on. (A process that serves does
//! not know when its warm-up is over. It compares the excesses of each slice alone, at the price
//! that the last table below states.) The next table says which pairs an octave is judged by, and
//! how many of them interrupts explain:
//!
//! | | |
//! |---|---|
//! | pairs | those of the octave, and those of longer octaves that are explained |
//! | expected gaps | the gaps of the loop, times the total time of the pairs, divided by the loop's run time |
//! | most pairs | the larger of two numbers. First, the expected gaps of the octave, of the [`LONGER_OCTAVES`] octaves below it and of longer ones: an interrupt leaves cold caches behind, so that it costs a routine more time than the loop. Second, twice the expected gaps of the octave and of longer ones: the next pair may find cold caches, too |
//! | in addition | three standard deviations of the first number, which has a Poisson distribution |
//! | at least | one pair, if any gap is expected |
//! | at most | a quarter of all pairs: if more are that long, this is the routine's own distribution |
//!
//! If the octave has more pairs than that, the routine itself is sometimes slow, and they count.
//! With `compare`, an octave is explained only if it is for both routines: otherwise two equal
//! routines could be on different sides of a limit.
//!
//! **The price**: a pause by the hypervisor counts as the routine's own if it is far longer than
//! all that the loop has seen. Slow calls do not count if they are as rare as interrupts, and if
//! the loop has seen gaps of a tenth of their length or longer.
//!
//! | rejected | price |
//! |---|---|
//! | comparing the numbers alone | gaps of a hypervisor, of less than a us and thousands a second, explained a build of which each fourth call took eleven times as long |
//! | a judgement on each slice alone | a slice has so few slow calls that one gap of their length, seen at any time, explains them all |
//! | counting a preempted slow call, less its wait by the CPU clock and the run delay | the caches are cold afterwards; a preemption between the pair and the read of these clocks hides a part of the wait; and where slow calls count that were preempted, and fast ones do not, the tail is too heavy |

use std::array;

use crate::measurement::noise_loop::Noise;
use crate::number::as_f64;
use crate::octaves::{OCTAVES, Octaves, octave_of};

/// A gap explains an excess that is up to this number of octaves longer: at most 8 to 16 times as
/// long.
const LONGER_OCTAVES: usize = 3;

/// The largest share of the pairs that interrupts explain.
const MOST_SHARE: f64 = 0.25;

/// The pairs of a routine so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LongPairs {
    /// The total time of the pairs.
    exposed_ticks: u64,
    excesses: Octaves,
}

/// What interrupts explain in a slice of a routine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Explained {
    median_ticks: u64,
    /// The shortest interrupt; `u64::MAX` if none is known.
    min_excess_ticks: u64,
    octaves: [bool; OCTAVES],
}

impl Explained {
    /// The excess of a pair; `None` if it is not longer than the shortest interrupt.
    fn excess(&self, ticks: u64) -> Option<u64> {
        let excess = ticks.saturating_sub(self.median_ticks);
        (excess > self.min_excess_ticks).then_some(excess)
    }

    /// Whether an interrupt explains how long this pair took.
    pub(crate) fn is_interrupted(&self, ticks: u64) -> bool {
        self.excess(ticks)
            .is_some_and(|excess| self.octaves[octave_of(excess)])
    }

    /// Whether this pair has the length of an interrupt, but no interrupt explains it.
    pub(crate) fn is_own(&self, ticks: u64) -> bool {
        self.excess(ticks).is_some() && !self.is_interrupted(ticks)
    }
}

/// Judges a slice by its pairs, and by those of the slices before in `long_pairs`. `ticks` has the
/// pairs of each routine: of the only one, or of the two of `compare`.
pub(crate) fn judge_long<const N: usize>(
    long_pairs: &mut [LongPairs; N],
    mut ticks: [Vec<u64>; N],
    noise: &Noise,
) -> [Explained; N] {
    let medians = ticks.each_mut().map(|ticks| median(ticks));
    for ((long_pairs, ticks), median) in long_pairs.iter_mut().zip(&ticks).zip(medians) {
        long_pairs.add(ticks, median);
    }
    let each = long_pairs.each_ref().map(|one| one.explained(noise));
    let octaves = array::from_fn(|octave| each.iter().all(|explained| explained[octave]));
    // Without a gap, the length of an interrupt is unknown.
    let min_excess_ticks = match noise.gaps.total() {
        0 => u64::MAX,
        _ => noise.min_gap_ticks,
    };
    medians.map(|median_ticks| Explained {
        median_ticks,
        min_excess_ticks,
        octaves,
    })
}

impl LongPairs {
    fn add(&mut self, ticks: &[u64], median_ticks: u64) {
        for ticks in ticks {
            self.exposed_ticks = self.exposed_ticks.saturating_add(*ticks);
            self.excesses.add(ticks.saturating_sub(median_ticks));
        }
    }

    /// The octaves that gaps explain.
    fn explained(&self, noise: &Noise) -> [bool; OCTAVES] {
        // The loop may not have run: then it has no gaps, and none is expected.
        let exposed = as_f64(self.exposed_ticks) / as_f64(noise.runtime_ticks.max(1));
        let expected_from = |octave| exposed * as_f64(noise.gaps.count_from(octave));
        let most_of_all = MOST_SHARE * as_f64(self.excesses.total());
        let mut explained = [false; OCTAVES];
        let mut pairs = 0;
        for octave in (0..OCTAVES).rev() {
            let shorter = expected_from(octave.saturating_sub(LONGER_OCTAVES));
            let most = most_explained(shorter, expected_from(octave)).min(most_of_all);
            let with_octave = pairs + self.excesses.count_in(octave);
            if as_f64(with_octave) <= most {
                explained[octave] = true;
                pairs = with_octave;
            }
        }
        explained
    }
}

/// The most pairs of an octave and of longer ones that interrupts explain. `as_long` is the number
/// of expected gaps of the octave and of longer ones; `shorter` has those of the
/// [`LONGER_OCTAVES`] octaves below it as well.
fn most_explained(shorter: f64, as_long: f64) -> f64 {
    if shorter == 0.0 {
        return 0.0;
    }
    let most = shorter.max(2.0 * as_long) + 3.0 * shorter.sqrt();
    // However rare an interrupt is, one may come.
    most.max(1.0)
}

/// 0 if there are no ticks. Changes their order.
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
        let mut alone = [*long_pairs];
        let [explained] = judge_long(&mut alone, [ticks.to_vec()], noise);
        [*long_pairs] = alone;
        let interrupted = ticks.iter().filter(|one| explained.is_interrupted(**one));
        let own = ticks.iter().filter(|one| explained.is_own(**one));
        (interrupted.count(), own.count())
    }

    /// The same of the first slice of a benchmark.
    fn judged_first(ticks: &[u64], noise: &Noise) -> (usize, usize) {
        judged(&mut LongPairs::default(), ticks, noise)
    }

    #[test]
    fn as_many_long_pairs_as_interrupts_are_taken_for_interrupts() {
        // About 10 interrupts are expected: twice as many, and 9.5 more, are explained.
        for long in [1, 10, 29] {
            let found = judged_first(&pairs(&[(long, 6_000)]), &noise(&[(100, 5_000)]));
            assert_eq!(found, (long, 0));
        }
    }

    /// The distribution of a routine that is sometimes slow must keep its tail.
    #[test]
    fn more_long_pairs_than_interrupts_are_the_routines_own() {
        for long in [35, 100, 1_000] {
            let found = judged_first(&pairs(&[(long, 6_000)]), &noise(&[(100, 5_000)]));
            assert_eq!(found, (0, long));
        }
    }

    /// Symptom: a hypervisor made thousands of gaps a second, of less than a us. A build of which
    /// each fourth call took eleven times as long passed, because these calls were taken for
    /// interrupted ones.
    #[test]
    fn many_short_gaps_do_not_explain_a_call_that_is_far_longer() {
        let found = judged_first(&pairs(&[(20, 100_000)]), &noise(&[(10_000, 500)]));
        assert_eq!(found, (0, 20));
    }

    /// The caches are cold after an interrupt.
    #[test]
    fn a_gap_explains_an_excess_that_is_up_to_three_octaves_longer() {
        // Gaps of octave 13, and excesses of octaves 16 and 17.
        for (excess_ticks, expected) in [(40_000, (10, 0)), (70_000, (0, 10))] {
            let ticks = pairs(&[(10, 100 + excess_ticks)]);
            let found = judged_first(&ticks, &noise(&[(100, 5_000)]));
            assert_eq!(found, expected, "{excess_ticks}");
        }
    }

    /// The next pair finds cold caches, too, but takes no longer than the interrupt.
    #[test]
    fn a_gap_explains_two_pairs_only_if_their_octave_is_no_longer_than_its_own() {
        // Gaps of octave 13, and excesses of octaves 13 and 14.
        for (excess_ticks, expected) in [(6_000, (20, 0)), (12_000, (0, 20))] {
            let ticks = pairs(&[(20, 100 + excess_ticks)]);
            let found = judged_first(&ticks, &noise(&[(90, 5_000)]));
            assert_eq!(found, expected, "{excess_ticks}");
        }
    }

    /// The expected gaps, which are ten, explain 30 pairs of this octave and of longer ones.
    #[test]
    fn longer_pairs_that_are_explained_leave_fewer_gaps_for_the_others() {
        for (longer, expected) in [(5, (25, 0)), (15, (15, 20))] {
            let ticks = pairs(&[(longer, 12_100), (20, 6_100)]);
            let found = judged_first(&ticks, &noise(&[(100, 5_000)]));
            assert_eq!(found, expected, "{longer}");
        }
    }

    #[test]
    fn a_pair_that_is_no_longer_than_the_shortest_gap_is_not_long() {
        for (excess_ticks, expected) in [(5_000, (0, 0)), (5_001, (10, 0))] {
            let ticks = pairs(&[(10, 100 + excess_ticks)]);
            let found = judged_first(&ticks, &noise(&[(100, 5_000)]));
            assert_eq!(found, expected, "{excess_ticks}");
        }
    }

    #[test]
    fn interrupts_do_not_count_beside_many_slow_calls_that_do() {
        let ticks = pairs(&[(10, 6_000), (5_000, 1_000_000)]);
        let found = judged_first(&ticks, &noise(&[(100, 5_000)]));
        assert_eq!(found, (10, 5_000));
    }

    /// Symptom: each slice had one slow call, and never more than interrupts explain.
    #[test]
    fn slow_calls_count_although_each_slice_has_few_of_them() {
        let mut long_pairs = LongPairs::default();
        let noise = noise(&[(1_000, 5_000), (1, 1_000_000)]);
        let slices = [(); 5].map(|()| judged(&mut long_pairs, &pairs(&[(1, 2_000_000)]), &noise));
        assert_eq!(slices, [(1, 0), (0, 1), (0, 1), (0, 1), (0, 1)]);
    }

    /// The time of all slices is compared with all of their long pairs.
    #[test]
    fn interrupts_are_explained_in_each_of_many_slices() {
        let mut long_pairs = LongPairs::default();
        for _ in 0..20 {
            let found = judged(
                &mut long_pairs,
                &pairs(&[(10, 6_000)]),
                &noise(&[(100, 5_000)]),
            );
            assert_eq!(found, (10, 0));
        }
    }

    #[test]
    fn an_interrupt_that_is_expected_rarely_is_explained() {
        // A hundredth is expected.
        let found = judged_first(
            &[vec![100; 10_000], vec![6_000]].concat(),
            &noise(&[(1, 5_000)]),
        );
        assert_eq!(found, (1, 0));
    }

    /// Symptom: of a routine of 200 us, each fourth call took 250 us, and p90 was 200 us.
    #[test]
    fn more_than_a_quarter_of_the_pairs_are_never_interrupted() {
        for (long, expected) in [(320, (320, 0)), (350, (0, 350))] {
            let ticks = [vec![1_000_000; 1_000], vec![1_006_000; long]].concat();
            assert_eq!(judged_first(&ticks, &noise(&[(100, 5_000)])), expected);
        }
    }

    /// Otherwise two equal routines could be on different sides of a limit.
    #[test]
    fn an_octave_that_is_one_routines_own_is_the_others_too() {
        let ticks = [pairs(&[(1, 6_000)]), pairs(&[(100, 6_000)])];
        let noise = noise(&[(100, 5_000)]);
        let judged = judge_long(&mut [LongPairs::default(); 2], ticks, &noise);
        assert_eq!(judged.map(|one| one.is_own(6_000)), [true; 2]);
    }

    #[test]
    fn each_routine_has_a_median_of_its_own() {
        let ticks = [100, 9_000].map(|median_ticks| vec![median_ticks; 100]);
        let noise = noise(&[(100, 5_000)]);
        let judged = judge_long(&mut [LongPairs::default(); 2], ticks, &noise);
        assert_eq!(judged.map(|one| one.is_interrupted(9_000)), [true, false]);
    }

    #[test]
    fn without_a_seen_interrupt_no_pair_is_long() {
        let found = judged_first(&pairs(&[(3, 6_000)]), &noise(&[]));
        assert_eq!(found, (0, 0));
    }

    #[test]
    fn a_slice_may_have_no_pairs_that_count() {
        assert_eq!(judged_first(&[], &noise(&[(100, 5_000)])), (0, 0));
    }
}
