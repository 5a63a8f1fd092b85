//! The pairs that interrupts explain.
//!
//! The kernel does not tell a program about interrupts. A long pair alone proves no interrupt,
//! because the routine itself may sometimes be slow, which a distribution must show. Therefore a
//! loop that detects interrupts runs between blocks
//! ([`noise_loop`](crate::measurement::noise_loop)). If a slice has no more long pairs than
//! expected interrupts, these pairs were interrupted. If it has more, the routine itself is
//! sometimes slow, and all of them count.
//!
//! | rejected | price |
//! |---|---|
//! | counting each pair that is longer than the loop's longest gap | the loop runs for a sixteenth of the time or less, so most pauses of some ms are longer than any gap it has seen. In a VM whose hypervisor does not report steal, most such pauses would count |
//! | counting a preempted slow call without its wait, which the CPU clock and the run delay say | the caches are cold afterwards; a preemption between the pair and the question hides a part of the wait; and where slow calls count that were preempted, and fast ones do not, the tail is too heavy |

use crate::measurement::noise_loop::Noise;
use crate::number::as_f64;

/// The judgement on the long pairs of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LongPairs {
    /// Interrupts explain all pairs that are longer than this.
    Interrupts { above_ticks: u64 },
    /// This number of pairs is as long as an interrupt, but too many for interrupts.
    Kept(u64),
}

/// Judges the long pairs of a slice. Changes the order of `ticks`.
pub(crate) fn judge_long(ticks: &mut [u64], noise: &Noise) -> LongPairs {
    // Without a gap, the length of an interrupt is unknown. After a gap, `runtime_ticks` is not 0.
    if ticks.is_empty() || noise.gaps == 0 {
        return LongPairs::Kept(0);
    }
    let exposed_ticks = ticks
        .iter()
        .fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
    let middle = ticks.len() / 2;
    let (_, median, _) = ticks.select_nth_unstable(middle);
    let above_ticks = median.saturating_add(noise.min_gap_ticks);
    let long = crate::number::count(ticks.iter().filter(|ticks| **ticks > above_ticks).count());
    let expected = as_f64(noise.gaps) / as_f64(noise.runtime_ticks) * as_f64(exposed_ticks);
    // Three standard deviations of a Poisson distribution more than expected.
    if as_f64(long) <= (expected + 3.0 * expected.sqrt()).max(1.0) {
        LongPairs::Interrupts { above_ticks }
    } else {
        LongPairs::Kept(long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One interrupt of 5,000 ticks in a million.
    const NOISE: Noise = Noise {
        runtime_ticks: 100_000_000,
        gaps: 100,
        min_gap_ticks: 5_000,
    };

    /// 100,000 pairs of 100 ticks, 10 million ticks in all, and `long` long pairs.
    fn pairs(long: usize) -> Vec<u64> {
        let mut ticks = vec![100; 100_000];
        ticks.extend(vec![6_000; long]);
        ticks
    }

    #[test]
    fn as_many_long_pairs_as_interrupts_are_taken_for_interrupts() {
        // 10 interrupts are expected, and with three deviations at most 19.6.
        for long in [1, 10, 19] {
            assert_eq!(
                judge_long(&mut pairs(long), &NOISE),
                LongPairs::Interrupts { above_ticks: 5_100 }
            );
        }
    }

    /// The distribution of a routine that is sometimes slow must keep its tail.
    #[test]
    fn more_long_pairs_than_interrupts_are_the_routines_own() {
        for long in [25, 100, 1_000] {
            assert_eq!(
                judge_long(&mut pairs(long), &NOISE),
                LongPairs::Kept(crate::number::count(long))
            );
        }
    }

    #[test]
    fn without_a_seen_interrupt_no_pair_is_interrupted() {
        let none = Noise {
            runtime_ticks: 100_000_000,
            ..Noise::default()
        };
        assert_eq!(judge_long(&mut pairs(3), &none), LongPairs::Kept(0));
        assert_eq!(judge_long(&mut [], &NOISE), LongPairs::Kept(0));
    }
}
