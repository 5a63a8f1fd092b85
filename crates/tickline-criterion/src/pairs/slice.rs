//! Decides which pairs count, in blocks and slices.
//!
//! A read of a fact takes time. Cheap facts are therefore read more often:
//!
//! | period | facts, read at its end | disturbed pairs |
//! |---|---|---|
//! | pair | the CPU, which is read with the counter | this pair |
//! | block, 50 us or one pair | `ru_nivcsw` | all pairs of the block, because the pairs after the preemption find cold caches |
//! | slice, 10 ms or one sample | interrupts; `steal`, frequency, tickline's clock | the long pairs that interrupts explain; all pairs of the slice |
//!
//! This file has only arithmetic: `collector.rs` and `monitor.rs` read clocks and facts.

use std::array;

use crate::measurement::noise_loop::Noise;
use crate::measurement::readings::PairReads;
use crate::measurement::settings::Counting;
use crate::number::count;
use crate::pairs::disturbance::{Disturbance, Disturbances};
use crate::pairs::long_pairs::{LongPairs, judge_long};

/// The bundles of a slice. A disturbed pair excludes its whole bundle.
#[derive(Debug, Default)]
pub(crate) struct Slice<const N: usize> {
    /// The bundles without a disturbance so far, ticks.
    good: Vec<[u64; N]>,
    disturbed: Vec<(Disturbance, [u64; N])>,
    /// The number of pairs that are as long as an interrupt, but count, because interrupts do not
    /// explain them.
    pub(crate) long_kept: u64,
    /// The CPU of the last pair, if it was read with the counter.
    cpu: Option<usize>,
}

impl<const N: usize> Slice<N> {
    /// Moves the bundles out of a block. `common` disturbs all bundles without a disturbance of
    /// their own.
    pub(crate) fn add_block(
        &mut self,
        block: &mut Vec<[PairReads; N]>,
        common: Option<Disturbance>,
    ) {
        for bundle in block.drain(..) {
            let has_moved = Self::has_moved(self.cpu, &bundle);
            self.cpu = Self::last_cpu(&bundle).or(self.cpu);
            let disturbance = if bundle.iter().any(|pair| pair.end_ticks < pair.start_ticks) {
                Some(Disturbance::Backwards)
            } else if has_moved {
                Some(Disturbance::Moved)
            } else {
                common
            };
            let ticks = bundle.map(|pair| pair.ticks());
            match disturbance {
                Some(disturbance) => self.disturbed.push((disturbance, ticks)),
                None => self.good.push(ticks),
            }
        }
    }

    /// Whether a pair of the bundle was on another CPU than `before`, that of the last pair.
    fn has_moved(before: Option<usize>, bundle: &[PairReads; N]) -> bool {
        let mut cpus = bundle
            .iter()
            .filter_map(|pair| pair.cpus)
            .flat_map(|(start, end)| [start, end]);
        let Some(first) = before.or_else(|| cpus.next()) else {
            return false;
        };
        cpus.any(|cpu| cpu != first)
    }

    /// The CPU on which the bundle ended, if it was read with the counter.
    fn last_cpu(bundle: &[PairReads; N]) -> Option<usize> {
        let later = bundle.iter().max_by_key(|pair| pair.end_ticks)?;
        later.cpus.map(|(_, end)| end)
    }

    /// The number of bundles without a disturbance so far.
    pub(crate) fn good_count(&self) -> u64 {
        count(self.good.len())
    }

    pub(crate) fn count(&self) -> u64 {
        self.good_count() + count(self.disturbed.len())
    }

    /// Judges the slice by its facts, and by the long pairs of the benchmark so far. `common`
    /// disturbs all bundles that are not disturbed yet.
    pub(crate) fn judge(
        &mut self,
        common: Option<Disturbance>,
        noise: &Noise,
        long_pairs: &mut [LongPairs; N],
    ) {
        if let Some(disturbance) = common {
            self.disturbed
                .extend(self.good.drain(..).map(|bundle| (disturbance, bundle)));
            return;
        }
        let ticks = array::from_fn(|index| self.good.iter().map(|bundle| bundle[index]).collect());
        let explained = judge_long(long_pairs, ticks, noise);
        let is_interrupted = |bundle: &mut [u64; N]| {
            bundle
                .iter()
                .zip(&explained)
                .any(|(ticks, explained)| explained.is_interrupted(*ticks))
        };
        let interrupted = self.good.extract_if(.., is_interrupted);
        self.disturbed
            .extend(interrupted.map(|bundle| (Disturbance::Interrupted, bundle)));
        let own = self.good.iter().map(|bundle| {
            let pairs = bundle.iter().zip(&explained);
            count(
                pairs
                    .filter(|(ticks, explained)| explained.is_own(**ticks))
                    .count(),
            )
        });
        self.long_kept += own.sum::<u64>();
    }

    /// The bundles of a judged slice that count.
    pub(crate) fn counted(&self, counting: Counting) -> impl Iterator<Item = [u64; N]> {
        let included = self
            .disturbed_with_length()
            .filter(move |_| counting == Counting::All);
        self.good.iter().copied().chain(included)
    }

    /// The bundles of a judged slice that do not count, although they have a duration.
    pub(crate) fn excluded(&self, counting: Counting) -> impl Iterator<Item = [u64; N]> {
        self.disturbed_with_length()
            .filter(move |_| counting == Counting::Undisturbed)
    }

    /// The disturbed bundles with a duration. A pair that ran backwards has none, so its bundle
    /// never counts.
    fn disturbed_with_length(&self) -> impl Iterator<Item = [u64; N]> {
        let has_length =
            |(disturbance, _): &&(Disturbance, _)| *disturbance != Disturbance::Backwards;
        self.disturbed
            .iter()
            .filter(has_length)
            .map(|(_, bundle)| *bundle)
    }

    /// The disturbances of the disturbed bundles.
    pub(crate) fn disturbances(&self) -> Disturbances {
        let mut disturbances = Disturbances::default();
        self.disturbed
            .iter()
            .for_each(|(disturbance, bundle)| disturbances.add_bundle(*disturbance, bundle[N - 1]));
        disturbances
    }

    /// Begins another slice, on the same CPU.
    pub(crate) fn clear(&mut self) {
        self.good.clear();
        self.disturbed.clear();
        self.long_kept = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::collector::Collected;

    /// A hundred gaps of 5,000 ticks in a hundred million.
    fn noise() -> Noise {
        let mut noise = Noise {
            runtime_ticks: 100_000_000,
            min_gap_ticks: 5_000,
            ..Noise::default()
        };
        for _ in 0..100 {
            noise.gaps.add(5_000);
        }
        noise
    }

    /// Judges the first slice of a benchmark.
    fn judge<const N: usize>(slice: &mut Slice<N>, common: Option<Disturbance>) {
        slice.judge(common, &noise(), &mut [LongPairs::default(); N]);
    }

    fn pair(start_ticks: u64, ticks: u64) -> PairReads {
        PairReads {
            start_ticks,
            end_ticks: start_ticks + ticks,
            cpus: Some((0, 0)),
        }
    }

    fn on(cpus: (usize, usize)) -> PairReads {
        PairReads {
            cpus: Some(cpus),
            ..pair(0, 100)
        }
    }

    fn found(slice: &mut Slice<1>, common: Option<Disturbance>) -> Collected<1> {
        let mut found = Collected::default();
        judge(slice, common);
        found.add(slice, Counting::Undisturbed);
        found
    }

    #[test]
    fn only_pairs_around_a_move_are_counted_as_moved() {
        let mut slice = Slice::default();
        // The thread moves within the second pair, and between the third and the fourth.
        let cpus = [(0, 0), (0, 1), (1, 1), (0, 0), (0, 0)];
        slice.add_block(&mut cpus.map(|cpus| [on(cpus)]).to_vec(), None);
        let found = found(&mut slice, None);
        assert_eq!(
            (
                found.disturbances.to_string().as_str(),
                found.disturbances.total()
            ),
            ("moved 2", 2)
        );
        assert_eq!((found.kept.0.len(), found.excluded.0.len()), (3, 2));
    }

    #[test]
    fn a_disturbed_pair_excludes_its_partner() {
        let two = |a: u64, b: u64| [pair(0, a), pair(a, b)];
        let mut slice = Slice::default();
        slice.add_block(&mut vec![two(100, 102); 100_000], None);
        slice.add_block(&mut vec![two(100, 102); 10], Some(Disturbance::Preempted));
        let moved = [on((0, 1)), on((1, 1))];
        slice.add_block(&mut vec![moved, two(100, 102), two(100, 9_000)], None);
        judge(&mut slice, None);
        assert_eq!(
            slice.disturbances().to_string(),
            "moved 2, preempted 10, interrupted 1"
        );
        assert_eq!(slice.good.len(), 100_000);
        assert_eq!(slice.counted(Counting::All).count(), 100_013);
    }

    #[test]
    fn a_disturbed_slice_disturbs_each_pair_that_was_not_disturbed_before() {
        use Disturbance::{Clock, Frequency, Stolen};
        for (disturbance, text) in [
            (Stolen, "stolen 5"),
            (Frequency, "frequency 5"),
            (Clock("unix_step"), "clock 5 (unix_step)"),
        ] {
            let mut slice = Slice::default();
            slice.add_block(&mut vec![[pair(0, 100)]; 10], Some(Disturbance::Preempted));
            slice.add_block(&mut vec![[pair(0, 100)]; 5], None);
            assert_eq!((slice.good_count(), slice.count()), (5, 15));
            let found = found(&mut slice, Some(disturbance));
            assert_eq!(
                found.disturbances.to_string(),
                format!("preempted 10, {text}")
            );
            assert_eq!(found.kept.0.len(), 0);
        }
    }

    /// What is found of 100,000 pairs of 100 ticks, one with an interrupt, and one that runs
    /// backwards.
    fn interrupted_and_backwards() -> Collected<1> {
        let mut slice = Slice::default();
        let mut pairs = vec![[pair(0, 100)]; 100_000];
        pairs.push([pair(0, 7_000)]);
        pairs.push([PairReads {
            start_ticks: 9,
            end_ticks: 3,
            cpus: None,
        }]);
        slice.add_block(&mut pairs, None);
        found(&mut slice, None)
    }

    #[test]
    fn disturbed_pairs_are_counted_by_disturbance() {
        let found = interrupted_and_backwards();
        assert_eq!(found.disturbances.to_string(), "backwards 1, interrupted 1");
    }

    #[test]
    fn each_pair_is_kept_or_counted_as_disturbed() {
        let found = interrupted_and_backwards();
        assert_eq!(
            found.kept.0.len() + found.disturbances.total(),
            found.bundles
        );
    }

    #[test]
    fn each_pair_of_a_slice_is_a_bundle() {
        assert_eq!(interrupted_and_backwards().bundles, 100_002);
    }

    /// 7,003 is the end of the histogram's interval. A pair that ran backwards has no length.
    #[test]
    fn an_excluded_pair_that_has_a_length_is_in_the_histogram_of_excluded_pairs() {
        let excluded = interrupted_and_backwards().excluded.0;
        assert_eq!((excluded.len(), excluded.max()), (1, 7_003));
    }

    #[test]
    fn a_sample_has_the_mean_of_the_undisturbed_pairs() {
        let mut found = interrupted_and_backwards();
        assert_eq!(found.sample_ticks(1), Some(100.0));
    }

    /// Symptom: because of one preemption, criterion's mean of a routine of 43 ns was 83 to 250 ns.
    #[test]
    fn a_preempted_pair_is_not_in_the_mean_unless_all_are_included() {
        for (counting, expected) in [
            (Counting::Undisturbed, 100.0),
            (Counting::All, 10_000_100.0 / 2.0),
        ] {
            let mut slice = Slice::default();
            slice.add_block(&mut vec![[pair(0, 100)]], None);
            slice.add_block(
                &mut vec![[pair(0, 10_000_000)]],
                Some(Disturbance::Preempted),
            );
            let mut found = Collected::default();
            judge(&mut slice, None);
            found.add(&slice, counting);
            assert_eq!(found.sample_ticks(1), Some(expected));
            assert_eq!(found.samples_disturbed, 0);
            assert_eq!(found.sample_ticks(1), None, "the next sample is empty");
        }
    }

    /// What is found in a sample without an undisturbed pair.
    fn found_in_a_disturbed_sample() -> Collected<1> {
        let mut slice = Slice::default();
        slice.add_block(&mut vec![[pair(0, 300)]; 9], Some(Disturbance::Preempted));
        slice.add_block(
            &mut vec![[pair(0, 10_000_000)]],
            Some(Disturbance::Preempted),
        );
        found(&mut slice, None)
    }

    /// Symptom: under load, criterion's line had 5.61 us, above a p50 of 1.41 us.
    #[test]
    fn a_sample_without_an_undisturbed_pair_has_a_median() {
        let ticks = found_in_a_disturbed_sample().sample_ticks(1);
        let ticks = ticks.expect("pairs");
        assert!((ticks - 300.0).abs() < 1.0, "{ticks}");
    }

    #[test]
    fn a_sample_without_an_undisturbed_pair_is_counted() {
        let mut found = found_in_a_disturbed_sample();
        found.sample_ticks(1).expect("pairs");
        assert_eq!(found.samples_disturbed, 1);
    }

    /// Symptom: a sample of seconds took hundreds of megabytes, 8 bytes for each pair.
    #[test]
    fn a_longer_sample_takes_no_more_memory() {
        let mut found = Collected::default();
        let mut length_after_another_sample = || {
            let mut slice = Slice::default();
            slice.add_block(&mut vec![[pair(0, 100)]; 10_000], None);
            slice.add_block(
                &mut vec![[pair(0, 100)]; 10_000],
                Some(Disturbance::Preempted),
            );
            found.add(&slice, Counting::Undisturbed);
            format!("{found:?}").len() // It has all elements of all fields.
        };
        let short = length_after_another_sample();
        let long = length_after_another_sample();
        assert!(long < short + 100, "{short} {long}");
    }

    #[test]
    fn long_pairs_that_are_too_many_for_interrupts_count_and_are_reported() {
        let mut slice = Slice::default();
        let mut pairs = vec![[pair(0, 100)]; 10_000];
        pairs.extend(vec![[pair(0, 8_000)]; 100]);
        slice.add_block(&mut pairs, None);
        let found = found(&mut slice, None);
        assert_eq!((found.long_kept, found.disturbances.total()), (100, 0));
        assert_eq!(found.kept.counted(), [(100.0, 10_000), (8_002.0, 100)]);
    }
}
