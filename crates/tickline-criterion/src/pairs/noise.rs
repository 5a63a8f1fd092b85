//! The rate of interrupts, and the pairs that they explain.
//!
//! The kernel does not tell a program about interrupts. A long pair alone proves no interrupt,
//! because the routine itself may sometimes be slow, which a distribution must show. Therefore a
//! loop that only reads the counter runs between blocks. Only interrupts make gaps in it. The gaps
//! show how often interrupts come, and how short they can be. If a slice has no more long pairs
//! than expected interrupts, these pairs were interrupted. If it has more, the routine itself is
//! sometimes slow, and all of them count.
//!
//! Linux measures the noise of the operating system by the same loop
//! (`Documentation/trace/osnoise-tracer.rst`).

use tickline_core::counter::{Counter, HardwareCounter};

use crate::number::as_f64;

/// The shortest gap, in multiples of the usual interval between two reads. A read takes 10 to 25
/// ns, so a gap is about 300 ns or longer. The shortest interrupts take as long; no other event in
/// a loop of reads does.
const GAP_INTERVALS: u64 = 16;

/// The number of reads in the calibration, which gives the usual interval.
const READS: usize = 1_001;

/// The gaps that the loop has shown so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Noise {
    /// The total run time of the loop.
    pub(crate) runtime_ticks: u64,
    /// The number of gaps, and the shortest gap.
    pub(crate) gaps: u64,
    pub(crate) min_gap_ticks: u64,
}

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

/// The loop that detects interrupts, which needs a counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoiseLoop {
    counter: HardwareCounter,
    gap_ticks: u64,
    pub(crate) noise: Noise,
}

impl NoiseLoop {
    /// Measures the usual interval between two reads.
    pub(crate) fn calibrate(counter: HardwareCounter) -> Self {
        let mut intervals = [0; READS];
        let mut last = counter.now_ordered();
        for interval in &mut intervals {
            let now = counter.now_ordered();
            (*interval, last) = (now.saturating_sub(last), now);
        }
        // The median would not do, because it may be 0 with a coarse counter.
        let usual = intervals
            .iter()
            .copied()
            .filter(|ticks| *ticks > 0)
            .min()
            .unwrap_or(1);
        let mean = intervals.iter().sum::<u64>() / crate::number::count(READS);
        Self {
            counter,
            gap_ticks: GAP_INTERVALS * usual.max(mean.min(4 * usual)),
            noise: Noise {
                min_gap_ticks: u64::MAX,
                ..Noise::default()
            },
        }
    }

    /// Runs the loop for `for_ticks`.
    pub(crate) fn run(&mut self, for_ticks: u64) {
        let begin = self.counter.now_ordered();
        let mut last = begin;
        while last.saturating_sub(begin) < for_ticks {
            let now = self.counter.now_ordered();
            let interval = now.saturating_sub(last);
            if interval > self.gap_ticks {
                self.noise.gaps += 1;
                self.noise.min_gap_ticks = self.noise.min_gap_ticks.min(interval);
            }
            last = now.max(last);
        }
        self.noise.runtime_ticks += last.saturating_sub(begin);
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

    #[test]
    fn a_noise_loop_ends_and_adds_to_the_loops_before() {
        let Some(counter) = HardwareCounter::if_present() else {
            return;
        };
        let mut noise_loop = NoiseLoop::calibrate(counter);
        assert!(noise_loop.gap_ticks > 0);
        noise_loop.run(10_000);
        let first = noise_loop.noise;
        noise_loop.run(10_000);
        let sum = noise_loop.noise;
        assert!(first.runtime_ticks >= 10_000, "{first:?}");
        assert!(sum.runtime_ticks >= first.runtime_ticks + 10_000, "{sum:?}");
        assert!(
            sum.gaps >= first.gaps && sum.min_gap_ticks <= first.min_gap_ticks,
            "{sum:?}"
        );
    }
}
