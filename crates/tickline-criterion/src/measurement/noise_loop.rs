//! A loop that only reads the counter. Only interrupts, and pauses by the hypervisor, make gaps in
//! it: the gaps show how often they come, and how long they last.
//!
//! Linux measures the noise of the operating system by the same loop
//! (`Documentation/trace/osnoise-tracer.rst`).

use std::ffi::c_long;

use tickline_core::counter::{Counter, HardwareCounter};

use crate::measurement::thread_meter::preemptions;
use crate::number::{count, round};
use crate::octaves::Octaves;

/// The shortest gap, in multiples of the usual interval between two reads. A read takes 10 to 25
/// ns, so a gap is about 300 ns or longer. The shortest interrupts take as long; no other event in
/// a loop of reads does.
const GAP_INTERVALS: u64 = 16;

/// The first run of the loop, in parts: two periods of the slowest timer, 10 ms.
const FIRST_RUN_NS: f64 = 20e6;
const FIRST_RUN_PARTS: u64 = 400;

/// The number of reads in the calibration, which gives the usual interval.
const READS: usize = 1_001;

/// The gaps that the loop has shown so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Noise {
    /// The total run time of the loop.
    pub(crate) runtime_ticks: u64,
    /// The lengths of the gaps, and the shortest gap.
    pub(crate) gaps: Octaves,
    pub(crate) min_gap_ticks: u64,
}

/// The loop that detects interrupts, which needs a counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoiseLoop {
    counter: HardwareCounter,
    gap_ticks: u64,
    pub(crate) noise: Noise,
}

impl NoiseLoop {
    /// Calibrates the loop, and runs it for the first time.
    pub(crate) fn start(counter: HardwareCounter, ns_per_tick: f64) -> Self {
        let mut noise_loop = Self::calibrate(counter);
        noise_loop.first_run(ns_per_tick, preemptions);
        noise_loop
    }

    /// The first run, in parts. A part in which the thread was preempted, as `read_preemptions`
    /// says, does not count.
    fn first_run(
        &mut self,
        ns_per_tick: f64,
        mut read_preemptions: impl FnMut() -> Option<c_long>,
    ) {
        let part_ticks = round(FIRST_RUN_NS / ns_per_tick) / FIRST_RUN_PARTS;
        let mut preemptions = read_preemptions();
        for _ in 0..FIRST_RUN_PARTS {
            preemptions = self.run_since(preemptions, part_ticks, &mut read_preemptions);
        }
    }

    /// Runs the loop for `for_ticks`, and then reads the thread's preemptions, which were `before`.
    /// If there are more now, the run does not count: a preemption may make a gap. Returns the
    /// preemptions now.
    pub(crate) fn run_since(
        &mut self,
        before: Option<c_long>,
        for_ticks: u64,
        read_preemptions: impl FnOnce() -> Option<c_long>,
    ) -> Option<c_long> {
        let noise = self.noise;
        self.run(for_ticks);
        let now = read_preemptions();
        if have_risen(before, now) {
            self.noise = noise;
        }
        now
    }

    /// Measures the usual interval between two reads.
    pub(crate) fn calibrate(counter: HardwareCounter) -> Self {
        let mut intervals = [0; READS];
        let mut last = counter.now_ordered();
        for interval in &mut intervals {
            let now = counter.now_ordered();
            (*interval, last) = (now.saturating_sub(last), now);
        }
        Self {
            counter,
            gap_ticks: gap_ticks(&intervals),
            noise: Noise {
                min_gap_ticks: u64::MAX,
                ..Noise::default()
            },
        }
    }

    /// Runs the loop for `for_ticks`.
    fn run(&mut self, for_ticks: u64) {
        let begin = self.counter.now_ordered();
        let mut last = begin;
        while last.saturating_sub(begin) < for_ticks {
            let now = self.counter.now_ordered();
            let interval = now.saturating_sub(last);
            if interval > self.gap_ticks {
                self.noise.gaps.add(interval);
                self.noise.min_gap_ticks = self.noise.min_gap_ticks.min(interval);
            }
            last = now.max(last);
        }
        self.noise.runtime_ticks += last.saturating_sub(begin);
    }
}

/// Whether a thread with these preemptions before and now was preempted meanwhile. `false` if it is
/// unknown.
pub(crate) fn have_risen(before: Option<c_long>, now: Option<c_long>) -> bool {
    before.zip(now).is_some_and(|(before, now)| now > before)
}

/// The least interval between two reads that is a gap, if these are the usual intervals.
fn gap_ticks(intervals: &[u64]) -> u64 {
    // The median would not do, because it may be 0 with a coarse counter.
    let usual = intervals
        .iter()
        .copied()
        .filter(|ticks| *ticks > 0)
        .min()
        .unwrap_or(1);
    let mean = intervals.iter().sum::<u64>() / count(intervals.len());
    GAP_INTERVALS * usual.max(mean.min(4 * usual))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::counter;

    #[test]
    fn a_gap_is_far_longer_than_the_usual_interval() {
        for (intervals, usual) in [
            (&[25, 25, 25, 25], 25),
            // A coarse counter: its step.
            (&[0, 0, 0, 100], 100),
            (&[0, 0, 0, 0], 1),
            // The mean, unless an interruption makes it more than four times the shortest.
            (&[10, 10, 10, 50], 20),
            (&[10, 10, 10, 10_000], 40),
        ] {
            assert_eq!(gap_ticks(intervals), GAP_INTERVALS * usual, "{intervals:?}");
        }
    }

    #[test]
    fn a_calibrated_noise_loop_has_a_length_of_a_gap() {
        let Some(counter) = counter() else { return };
        assert!(NoiseLoop::calibrate(counter).gap_ticks > 0);
    }

    #[test]
    fn a_noise_loop_runs_for_its_ticks() {
        let Some(counter) = counter() else { return };
        let mut noise_loop = NoiseLoop::calibrate(counter);
        noise_loop.run(10_000);
        let noise = noise_loop.noise;
        assert!(noise.runtime_ticks >= 10_000, "{noise:?}");
    }

    #[test]
    fn a_noise_loop_adds_to_the_loops_before() {
        let Some(counter) = counter() else { return };
        let mut noise_loop = NoiseLoop::calibrate(counter);
        noise_loop.run(10_000);
        let first = noise_loop.noise;
        noise_loop.run(10_000);
        let sum = noise_loop.noise;
        assert!(sum.runtime_ticks >= first.runtime_ticks + 10_000, "{sum:?}");
        assert!(
            sum.gaps.total() >= first.gaps.total() && sum.min_gap_ticks <= first.min_gap_ticks,
            "{sum:?}"
        );
    }

    #[test]
    fn a_run_counts_unless_the_thread_was_preempted() {
        let Some(counter) = counter() else { return };
        for (before, now, counts) in [
            (Some(3), Some(3), true),
            (Some(3), Some(4), false),
            (None, Some(4), true),
            (Some(3), None, true),
            (None, None, true),
        ] {
            let mut noise_loop = NoiseLoop::calibrate(counter);
            let calibrated = noise_loop.noise;
            assert_eq!(noise_loop.run_since(before, 10_000, || now), now);
            assert_eq!(noise_loop.noise != calibrated, counts, "{before:?} {now:?}");
        }
    }

    /// A preemption of this thread can't be had on request, so the test makes the count rise.
    #[test]
    fn a_part_of_the_first_run_counts_unless_the_thread_was_preempted() {
        let Some(counter) = counter() else { return };
        let mut noise_loop = NoiseLoop::calibrate(counter);
        let calibrated = noise_loop.noise;
        let mut preemptions = 0;
        noise_loop.first_run(1.0, || {
            preemptions += 1;
            Some(preemptions)
        });
        assert_eq!(noise_loop.noise, calibrated, "each part was preempted");
        noise_loop.first_run(1.0, || Some(0));
        let noise = noise_loop.noise;
        assert!(noise.runtime_ticks >= 20_000_000, "no part was: {noise:?}");
    }

    /// A shorter one would make every pair above the median look like an interrupt.
    #[test]
    fn the_shortest_gap_is_above_the_limit_also_before_the_first_gap() {
        let Some(counter) = counter() else { return };
        let mut noise_loop = NoiseLoop::calibrate(counter);
        assert_eq!(noise_loop.noise.min_gap_ticks, u64::MAX);
        noise_loop.run(1_000_000);
        assert!(
            noise_loop.noise.min_gap_ticks > noise_loop.gap_ticks,
            "{noise_loop:?}"
        );
    }
}
