//! Decides which pairs count: in blocks, slices, and the tally of a benchmark.
//!
//! Asking for a fact takes time. Cheap facts are therefore asked for more often:
//!
//! | span | asked at its end | names |
//! |---|---|---|
//! | pair | the CPU, which comes with the counter | this pair |
//! | block, 50 us or one pair | `ru_nivcsw` | all pairs of the block: the preemption has cooled the caches for the pairs after it |
//! | slice, 10 ms or one sample | interrupts, `steal`, frequency, tickline's clock | the long pairs; all pairs of the slice |
//!
//! This file is arithmetic alone: `collector.rs` reads clocks and facts.

use hdrhistogram::Histogram;

use crate::elapsed::as_f64;
use crate::pair::Ends;
use crate::pairs::cause::{Cause, Causes};
use crate::pairs::quantile::Counted;
use crate::pairs::spin::{Long, Spins, judge};

/// Digits of a histogram's values: exact to 2,047 ticks, within 0.1 % above.
const DIGITS: u8 = 3;

/// The longest pair that a histogram holds, ticks: minutes. Longer ones count as this.
const LONGEST_TICKS: u64 = 1 << 40;

/// Whether the kernel took the CPU away from the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preempted {
    /// It did not, or the system does not say.
    No,
    Yes,
}

/// Pairs that wait for the facts at the slice's end.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// The pairs without a cause so far, ticks.
    good: Vec<u64>,
    named: Vec<(Cause, u64)>,
    last_cpu: Option<usize>,
}

impl Slice {
    /// Pairs of a block. Leaves `pairs` empty.
    pub(crate) fn block(&mut self, pairs: &mut Vec<Ends>, preempted: Preempted) {
        for Ends { start_ticks, end_ticks, cpus } in pairs.drain(..) {
            let has_moved = cpus
                .is_some_and(|(start, end)| start != end || self.last_cpu.is_some_and(|last| last != start));
            self.last_cpu = cpus.map(|(_, end)| end).or(self.last_cpu);
            match end_ticks.checked_sub(start_ticks) {
                None => self.named.push((Cause::Backwards, 0)),
                Some(ticks) if has_moved => self.named.push((Cause::Moved, ticks)),
                Some(ticks) if preempted == Preempted::Yes => self.named.push((Cause::Preempted, ticks)),
                Some(ticks) => self.good.push(ticks),
            }
        }
    }

    /// Pairs without a cause so far.
    pub(crate) fn good(&self) -> u64 {
        crate::number::count(self.good.len())
    }

    pub(crate) fn all(&self) -> u64 {
        self.good() + crate::number::count(self.named.len())
    }

    /// The CPU of the last pair, if it came with the counter.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.last_cpu
    }
}

/// Pairs whose facts are known.
#[derive(Debug, Clone)]
pub(crate) struct Pairs {
    histogram: Histogram<u64>,
    sum_ticks: f64,
}

impl Pairs {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_TICKS, DIGITS);
        Self { histogram: histogram.expect("bounds and digits are constants"), sum_ticks: 0.0 }
    }

    fn add(&mut self, ticks: u64) {
        self.histogram.saturating_record(ticks);
        self.sum_ticks += as_f64(ticks);
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Ticks of all pairs.
    pub(crate) fn sum_ticks(&self) -> f64 {
        self.sum_ticks
    }

    /// The longest pair, ticks, as exact as the histogram is.
    pub(crate) fn max_ticks(&self) -> u64 {
        self.histogram.max()
    }

    /// Values and their counts, in rising order.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let middle = |value: u64| as_f64(self.histogram.median_equivalent(value));
        self.histogram
            .iter_recorded()
            .map(|step| (middle(step.value_iterated_to()), step.count_at_value()))
            .collect()
    }
}

/// Which pairs count: [`crate::Builder::include_disturbed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    Undisturbed,
    All,
}

/// All pairs of a benchmark, and of one of its samples.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    undisturbed: Pairs,
    all: Pairs,
    pub(crate) causes: Causes,
    /// Pairs as long as an interrupt makes them. They count, because there were too many for
    /// interrupts.
    pub(crate) long_kept: u64,
    /// Number and sum of the present sample's pairs: the undisturbed ones, and all.
    sample: [(u64, f64); 2],
    /// Samples without an undisturbed pair. criterion got the mean of all pairs of such a sample.
    pub(crate) samples_disturbed: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            undisturbed: Pairs::new(),
            all: Pairs::new(),
            causes: Causes::default(),
            long_kept: 0,
            sample: [(0, 0.0); 2],
            samples_disturbed: 0,
        }
    }

    /// Adds a slice. If `disturbed` is a cause, it is that of all pairs without another one. Leaves
    /// `slice` empty.
    pub(crate) fn slice(&mut self, slice: &mut Slice, disturbed: Option<Cause>, spins: &Spins) {
        let mut named = std::mem::take(&mut slice.named);
        if let Some(cause) = disturbed {
            named.extend(slice.good.drain(..).map(|ticks| (cause, ticks)));
        }
        match judge(&mut slice.good, spins) {
            Long::Kept(pairs) => self.long_kept += pairs,
            Long::Interrupts { above_ticks } => slice.good.retain(|ticks| {
                let is_good = *ticks <= above_ticks;
                if !is_good {
                    named.push((Cause::Interrupted, *ticks));
                }
                is_good
            }),
        }
        for ticks in slice.good.drain(..) {
            self.undisturbed.add(ticks);
            self.all.add(ticks);
            for (count, sum) in &mut self.sample {
                (*count, *sum) = (*count + 1, *sum + as_f64(ticks));
            }
        }
        for (cause, ticks) in named {
            self.causes.add(cause, 1);
            if cause != Cause::Backwards {
                self.all.add(ticks);
                let (count, sum) = &mut self.sample[1];
                (*count, *sum) = (*count + 1, *sum + as_f64(ticks));
            }
        }
    }

    pub(crate) fn pairs(&self, counting: Counting) -> &Pairs {
        match counting {
            Counting::Undisturbed => &self.undisturbed,
            Counting::All => &self.all,
        }
    }

    /// Undisturbed pairs of the sample so far.
    pub(crate) fn in_sample(&self) -> u64 {
        self.sample[0].0
    }

    /// Ends a sample. Returns the mean of its pairs that count, ticks. If all were disturbed, it is
    /// the mean of all; `None` if there are none.
    pub(crate) fn sample_mean_ticks(&mut self, counting: Counting) -> Option<f64> {
        let [undisturbed, all] = std::mem::take(&mut self.sample);
        let (count, sum) = match counting {
            Counting::Undisturbed if undisturbed.0 > 0 => undisturbed,
            Counting::Undisturbed => {
                self.samples_disturbed += u64::from(all.0 > 0);
                all
            }
            Counting::All => all,
        };
        (count > 0).then(|| sum / as_f64(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPINS: Spins = Spins { spun_ticks: 100_000_000, gaps: 100, least_gap_ticks: 5_000 };

    fn pair(start_ticks: u64, ticks: u64) -> Ends {
        Ends { start_ticks, end_ticks: start_ticks + ticks, cpus: Some((0, 0)) }
    }

    fn on(cpus: (usize, usize)) -> Ends {
        Ends { cpus: Some(cpus), ..pair(0, 100) }
    }

    fn tally(slice: &mut Slice, disturbed: Option<Cause>) -> Tally {
        let mut tally = Tally::new();
        tally.slice(slice, disturbed, &SPINS);
        tally
    }

    #[test]
    fn pairs_around_a_move_are_named_and_those_on_either_side_count() {
        let mut slice = Slice::default();
        // A move within the second pair; and one between the third and the fourth.
        let cpus = [(0, 0), (0, 1), (1, 1), (0, 0), (0, 0)];
        slice.block(&mut cpus.map(on).to_vec(), Preempted::No);
        let tally = tally(&mut slice, None);
        assert_eq!((tally.causes.to_string().as_str(), tally.causes.total()), ("moved 2", 2));
        assert_eq!((tally.undisturbed.count(), tally.all.count()), (3, 5));
    }

    #[test]
    fn a_preemption_names_its_block_and_no_other() {
        let mut slice = Slice::default();
        for preempted in [Preempted::No, Preempted::Yes, Preempted::No] {
            slice.block(&mut vec![pair(0, 100); 10], preempted);
        }
        assert_eq!((slice.good(), slice.all()), (20, 30));
        let tally = tally(&mut slice, None);
        assert_eq!(tally.causes.to_string(), "preempted 10");
        assert_eq!(tally.undisturbed.count(), 20);
    }

    #[test]
    fn a_disturbed_slice_is_named_and_what_had_a_name_keeps_it() {
        for cause in [Cause::Stolen, Cause::Frequency, Cause::Clock] {
            let mut slice = Slice::default();
            slice.block(&mut vec![pair(0, 100); 10], Preempted::Yes);
            slice.block(&mut vec![pair(0, 100); 5], Preempted::No);
            let tally = tally(&mut slice, Some(cause));
            assert_eq!((tally.causes.get(Cause::Preempted), tally.causes.get(cause)), (10, 5));
            assert_eq!(tally.undisturbed.count(), 0);
        }
    }

    #[test]
    fn nothing_is_lost_whatever_its_cause() {
        let mut slice = Slice::default();
        let mut pairs = vec![pair(0, 100); 100_000];
        pairs.push(pair(0, 7_000)); // an interrupt
        pairs.push(Ends { start_ticks: 9, end_ticks: 3, cpus: None });
        slice.block(&mut pairs, Preempted::No);
        let mut tally = tally(&mut slice, None);
        assert_eq!(tally.causes.to_string(), "backwards 1, interrupted 1");
        assert_eq!(tally.undisturbed.count() + tally.causes.total(), 100_002);
        assert_eq!(tally.pairs(Counting::All).count(), 100_001, "a pair that ran backwards has no length");
        assert_eq!(tally.pairs(Counting::All).max_ticks(), 7_003, "the end of the histogram's interval");
        assert_eq!(tally.sample_mean_ticks(Counting::Undisturbed), Some(100.0));
    }

    /// Symptom: criterion's mean of a routine of 43 ns was 83 to 250 ns, because of one preemption.
    #[test]
    fn a_preempted_pair_is_not_in_the_mean_unless_all_are_included() {
        for (counting, expected) in [(Counting::Undisturbed, 100.0), (Counting::All, 10_000_100.0 / 2.0)] {
            let mut slice = Slice::default();
            slice.block(&mut vec![pair(0, 100)], Preempted::No);
            slice.block(&mut vec![pair(0, 10_000_000)], Preempted::Yes);
            let mut tally = tally(&mut slice, None);
            assert_eq!(tally.sample_mean_ticks(counting), Some(expected));
            assert_eq!(tally.samples_disturbed, 0);
            assert_eq!(tally.sample_mean_ticks(counting), None, "the next sample is empty");
        }
    }

    #[test]
    fn a_sample_without_an_undisturbed_pair_has_a_mean_and_is_counted() {
        let mut slice = Slice::default();
        slice.block(&mut vec![pair(0, 300)], Preempted::Yes);
        let mut tally = tally(&mut slice, None);
        assert_eq!(tally.in_sample(), 0);
        assert_eq!(tally.sample_mean_ticks(Counting::Undisturbed), Some(300.0));
        assert_eq!(tally.samples_disturbed, 1);
    }

    #[test]
    fn long_pairs_that_are_too_many_for_interrupts_count_and_are_told() {
        let mut slice = Slice::default();
        let mut pairs = vec![pair(0, 100); 10_000];
        pairs.extend(vec![pair(0, 8_000); 100]);
        slice.block(&mut pairs, Preempted::No);
        let tally = tally(&mut slice, None);
        assert_eq!((tally.long_kept, tally.causes.total()), (100, 0));
        assert_eq!(tally.undisturbed.counted(), [(100.0, 10_000), (8_002.0, 100)]);
    }
}
