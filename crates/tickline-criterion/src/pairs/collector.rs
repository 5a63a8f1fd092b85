//! Takes the samples of one benchmark, block by block and slice by slice, and collects their times
//! and disturbances.

use std::mem;
use std::ops::ControlFlow;
use std::time::{Duration, Instant, SystemTime};

use crate::arguments::criterion::CriterionArguments;
use crate::measurement::calibration::{Scale, least_ns};
use crate::measurement::pair_cost::pair_ticks;
use crate::measurement::progress::{converted_samples, warm_ups_and_measurements};
use crate::measurement::readings::{Elapsed, PairReads};
use crate::measurement::settings::Counting;
use crate::measurement::time::CounterTime;
use crate::number::{as_f64, count, index};
use crate::pairs::disturbance::Disturbances;
use crate::pairs::long_pairs::LongPairs;
use crate::pairs::monitor::{BLOCK_PAIRS, Monitor};
use crate::pairs::serving::{ServedSlice, Serving};
use crate::pairs::slice::Slice;
use crate::statistics::couples::{Couple, Replicate};
use crate::statistics::distribution::{Distribution, quantile};

/// The shortest duration of a pair, ns, if two routines or builds run in turns: a pair gets
/// enough iterations for it. A counter with a resolution of 10 ns reads a pair within 0.5 %. The
/// median of a round's hundreds of pairs is more exact.
const PAIR_NS: f64 = 2_000.0;

/// The largest share of a pair's cost in its time, if two routines or builds run in turns: a pair
/// of iterations without inputs is also long enough for it.
pub(crate) const SHARE_IN_TURNS: f64 = 0.01;

/// The smallest number of bundles in a sample in turns. criterion takes 10 samples or more, so a
/// comparison has enough bundles even if criterion requests few iterations.
const MIN_BUNDLES: u64 = 8;

/// The limit of bundles in a sample, in multiples of the requested number. Further bundles replace
/// disturbed ones up to this limit.
const MAX_BUNDLES: u64 = 2;

/// The limit of iterations in a pair.
const MAX_ITERATIONS: u64 = 1 << 20;

/// The number of trials for each size of a batch. The shortest time counts.
const TRIALS: usize = 5;

/// What decides how many iterations a pair has.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum PairSize {
    /// One; in turns, enough for [`PAIR_NS`] and [`SHARE_IN_TURNS`].
    #[default]
    Usual,
    /// Enough that the pair's cost is at most this share of its time, and enough for turns.
    CostShare(f64),
    /// One, also in turns. This build decides: it requests such pairs from both.
    One,
}

/// What gives a pair of a benchmark more iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreIterations {
    /// `cost_share()`, or turns with another build.
    CostShare,
    /// `cost_share()` in place of `latency()`, which gives a pair one iteration also in turns.
    InPlaceOfLatency,
    /// Nothing: each future is a pair, also in turns.
    Nothing,
}

/// The couples of one copy of the routines' code that were taken one after the other.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// The number of the copy.
    copy: usize,
    /// The number of couples at its end.
    end: usize,
}

/// The bundles of a sample that count.
#[derive(Debug, Clone, Copy, Default)]
struct SampleKept {
    bundles: u64,
    /// The sum of the ticks of their last pairs.
    ticks: u64,
}

/// The results since the warm-up, in bundles of `N` pairs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected<const N: usize> {
    /// The last pair of each bundle that counts.
    pub(crate) kept: Distribution,
    /// The last pair of each excluded bundle whose pairs have a duration.
    pub(crate) excluded: Distribution,
    /// The bundles that count, in order; empty for bundles of one pair, which are too many.
    pub(crate) couples: Vec<[u64; N]>,
    stretches: Vec<Stretch>,
    /// The number of all bundles, and of disturbed bundles.
    pub(crate) bundles: u64,
    pub(crate) disturbances: Disturbances,
    /// The number of pairs that are as long as an interrupt, but count, because interrupts do not
    /// explain them.
    pub(crate) long_kept: u64,
    /// The number of samples without an undisturbed bundle. criterion got the median of all bundles
    /// of such a sample.
    pub(crate) samples_disturbed: u64,
    /// The time that criterion got for each sample, ns.
    pub(crate) returned_ns: Vec<f64>,
    /// The time of one iteration in each sample, ns.
    pub(crate) sample_times_ns: Vec<f64>,
    /// The bundles of the present sample that count.
    sample_kept: SampleKept,
    /// The last pair of each other bundle of the present sample whose pairs have a duration.
    sample_excluded: Distribution,
    /// The sum of the subtracted costs of all bundles.
    pub(crate) cost_ticks: f64,
}

impl<const N: usize> Collected<N> {
    /// Adds the results of a judged slice.
    pub(crate) fn add(&mut self, slice: &Slice<N>, counting: Counting) {
        let last = |bundle: [u64; N]| bundle[N - 1];
        self.kept.extend(slice.counted(counting).map(last));
        self.excluded.extend(slice.excluded(counting).map(last));
        if N > 1 {
            self.couples.extend(slice.counted(counting));
        }
        self.bundles += slice.count();
        self.disturbances.add_all(slice.disturbances());
        self.long_kept += slice.long_kept;
        for bundle in slice.counted(counting) {
            let SampleKept { bundles, ticks } = &mut self.sample_kept;
            *bundles += 1;
            *ticks = ticks.saturating_add(last(bundle));
        }
        self.sample_excluded
            .extend(slice.excluded(counting).map(last));
    }

    /// Ends a stretch of a copy of the routines' code.
    fn end_stretch(&mut self, copy: usize) {
        let end = self.couples.len();
        self.stretches.push(Stretch { copy, end });
    }

    /// Ends a sample. Returns the mean of its pairs that count, ticks. If all pairs were disturbed,
    /// returns their median, because their mean would mostly show the disturbances. `None` if there
    /// are no pairs.
    pub(crate) fn sample_ticks(&mut self, resolution_ticks: u64) -> Option<f64> {
        let excluded = &mut self.sample_excluded;
        let SampleKept { bundles, ticks } = mem::take(&mut self.sample_kept);
        let ticks = if bundles > 0 {
            Some(as_f64(ticks) / as_f64(bundles))
        } else {
            self.samples_disturbed += u64::from(!excluded.0.is_empty());
            quantile(&excluded.counted(), as_f64(resolution_ticks), 0.5)
        };
        if !excluded.0.is_empty() {
            excluded.0.reset();
        }
        ticks
    }
}

impl Collected<2> {
    /// The couples by the copy of the code that ran.
    pub(crate) fn replicates(&self, copies: usize) -> Vec<Replicate> {
        let mut replicates = vec![Replicate::default(); copies];
        let mut start = 0;
        for Stretch { copy, end } in self.stretches.iter().copied() {
            let couples: &[Couple] = &self.couples[start..end];
            replicates[copy].add_stretch(couples.iter().copied());
            start = end;
        }
        replicates
    }
}

/// The bundles of one benchmark, over all of its samples.
#[derive(Debug)]
pub(crate) struct Collector<const N: usize> {
    pub(crate) time: CounterTime,
    /// A process that serves has no scale of its own.
    ns_per_tick: f64,
    monitor: Monitor,
    pub(crate) pair_size: PairSize,
    /// The number of iterations in a pair, once chosen.
    iterations_per_pair: Option<u64>,
    /// The number of the present warm-up or measurement, for each of which criterion makes a
    /// bencher.
    bencher: u64,
    slice: Slice<N>,
    /// The pairs of each routine since the warm-up. A process that serves does not know when its
    /// warm-up is over, and has those of a slice.
    long_pairs: [LongPairs; N],
    pub(crate) collected: Collected<N>,
    /// The process that this process takes slices for.
    pub(crate) serving: Option<Serving>,
    /// When the first sample after the warm-up began.
    measuring_since: Instant,
    /// The time from then until the end of the last sample.
    measured_for: Duration,
    /// When the collector was made, and how many samples criterion had converted by then.
    pub(crate) begin: SystemTime,
    converted: u64,
    /// The number of the measurement's untrusted samples by then.
    untrusted: u64,
}

impl<const N: usize> Collector<N> {
    /// A collector for the measurement of the last bencher on this thread.
    pub(crate) fn new(serving: Option<Serving>) -> Self {
        let (time, bencher) = (CounterTime::current(), warm_ups_and_measurements());
        let ns_per_tick = serving
            .as_ref()
            .map_or(time.scale().rate.ns_per_tick, |serving| serving.ns_per_tick);
        Self {
            untrusted: time.untrusted(),
            serving,
            measuring_since: Instant::now(),
            measured_for: Duration::ZERO,
            monitor: Monitor::new(&time, ns_per_tick),
            ns_per_tick,
            time,
            pair_size: PairSize::default(),
            iterations_per_pair: None,
            bencher,
            slice: Slice::default(),
            long_pairs: [LongPairs::default(); N],
            collected: Collected::default(),
            begin: SystemTime::now(),
            converted: converted_samples(),
        }
    }

    /// Whether criterion has measured. If it tests or profiles, it converts at most one sample.
    pub(crate) fn has_measured(&self) -> bool {
        converted_samples().wrapping_sub(self.converted) > 1
            || CriterionArguments::of_this_process().are_quick()
    }

    /// The number of the benchmark's samples that can't be trusted.
    pub(crate) fn untrusted(&self) -> u64 {
        self.time.untrusted() - self.untrusted
    }

    /// Begins a call of the benchmark, by default of `iterations`. A process that serves waits for
    /// a request; `None` if there are no more.
    pub(crate) fn begin_call(&mut self, iterations: u64) -> Option<u64> {
        let Some(serving) = &mut self.serving else {
            return Some(iterations);
        };
        let request = serving.next_request()?;
        self.iterations_per_pair = request.iterations_per_pair.or(self.iterations_per_pair);
        Some(request.iterations)
    }

    /// Whether two routines or two builds run in turns.
    fn is_in_turns(&self) -> bool {
        N > 1 || self.serving.is_some()
    }

    /// The time from the warm-up until the end of the last sample, without criterion's analysis and
    /// plots.
    pub(crate) const fn measured_for(&self) -> Duration {
        self.measured_for
    }

    /// The cost of a pair, ticks, also if it is not subtracted.
    pub(crate) fn cost_ticks(&self) -> f64 {
        match self.time.session() {
            Some(session) => session.observations().scale.cost_ticks,
            None => pair_ticks(self.time.pair_clock()),
        }
    }

    /// The number of iterations in a pair.
    pub(crate) fn iterations_per_pair(&self) -> u64 {
        self.iterations_per_pair.unwrap_or(1)
    }

    /// Whether [`PairSize::One`] has decided that a pair has one iteration. The pairs of futures
    /// have one in any case, and leave it undecided.
    pub(crate) fn has_pairs_of_one(&self) -> bool {
        self.pair_size == PairSize::One && self.iterations_per_pair.is_some()
    }

    /// What gives a pair more iterations. Only futures, which have one in each pair, leave the
    /// number of iterations undecided.
    pub(crate) fn more_iterations(&self) -> MoreIterations {
        if self.iterations_per_pair.is_none() {
            MoreIterations::Nothing
        } else if self.pair_size == PairSize::One {
            MoreIterations::InPlaceOfLatency
        } else {
            MoreIterations::CostShare
        }
    }

    /// Chooses the number of iterations in a pair, once, by [`PairSize`]. `trial_ticks` takes a
    /// pair of a given number of iterations.
    pub(crate) fn choose_iterations_per_pair(
        &mut self,
        inputs: Inputs,
        trial_ticks: impl FnMut(u64) -> u64,
    ) -> u64 {
        if let Some(iterations) = self.iterations_per_pair {
            return iterations;
        }
        let iterations = match self.min_pair_ticks(inputs, || self.cost_ticks()) {
            Some(min_ticks) => iterations_lasting(min_ticks, trial_ticks),
            None => 1,
        };
        *self.iterations_per_pair.insert(iterations)
    }

    /// The shortest duration of a pair whose readings cost so much, ticks. `None` if a pair has one
    /// iteration, however short.
    fn min_pair_ticks(&self, inputs: Inputs, cost_ticks: impl FnOnce() -> f64) -> Option<f64> {
        let chosen = match self.pair_size {
            PairSize::CostShare(share) => Some(share),
            PairSize::Usual | PairSize::One => None,
        };
        if !self.is_in_turns() {
            return chosen.map(|share| cost_ticks() / share);
        }
        let of_turns = (inputs == Inputs::None).then_some(SHARE_IN_TURNS);
        let share = chosen.into_iter().chain(of_turns).reduce(f64::min);
        let min_ticks = PAIR_NS / self.ns_per_tick;
        Some(share.map_or(min_ticks, |share| min_ticks.max(cost_ticks() / share)))
    }

    /// Begins a sample of `iterations`.
    pub(crate) fn begin_sample(&mut self, iterations: u64) -> Sample<'_, N> {
        let bencher = warm_ups_and_measurements();
        if bencher != self.bencher {
            // The warm-up is over.
            self.bencher = bencher;
            self.long_pairs = [LongPairs::default(); N];
            self.collected = Collected::default();
            self.measuring_since = Instant::now();
        }
        if self.serving.is_some() {
            self.long_pairs = [LongPairs::default(); N];
        }
        let min_bundles = if self.is_in_turns() { MIN_BUNDLES } else { 1 };
        let wanted = iterations
            .div_ceil(self.iterations_per_pair())
            .max(min_bundles);
        self.monitor.begin(&self.time);
        let block = Vec::with_capacity(BLOCK_PAIRS.min(index(wanted)));
        Sample {
            collector: self,
            iterations,
            wanted,
            bundles_in_slices: 0,
            block,
            slice_ticks: 0,
        }
    }

    /// The conversion of ticks into ns, with the mean of the subtracted costs.
    pub(crate) fn scale(&self) -> Scale {
        let scale = self.time.scale();
        Scale {
            cost_ticks: self.collected.cost_ticks / as_f64(self.collected.bundles.max(1)),
            ..scale
        }
    }
}

/// What the iterations of a pair get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inputs {
    None,
    /// Each has an input of its own, all of which are made before the pair. They take time, which
    /// no trial counts, and memory.
    MadeBefore,
}

/// The number of iterations in a pair that lasts `min_ticks` or more.
fn iterations_lasting(min_ticks: f64, mut trial_ticks: impl FnMut(u64) -> u64) -> u64 {
    let mut min_trial_ticks = |iterations| (0..TRIALS).map(|_| trial_ticks(iterations)).min();
    let mut iterations = 1;
    while min_ticks > 0.0
        && iterations < MAX_ITERATIONS
        && min_trial_ticks(iterations).is_some_and(|ticks| as_f64(ticks) < min_ticks)
    {
        iterations *= 2;
    }
    iterations
}

/// A sample in progress.
#[derive(Debug)]
pub(crate) struct Sample<'a, const N: usize> {
    collector: &'a mut Collector<N>,
    /// The number of iterations for which criterion gets a time.
    iterations: u64,
    /// The requested number of bundles that count.
    wanted: u64,
    /// The number of bundles in complete slices.
    bundles_in_slices: u64,
    block: Vec<[PairReads; N]>,
    /// The duration of the slice so far.
    slice_ticks: u64,
}

impl<const N: usize> Sample<'_, N> {
    /// Adds a bundle, and continues if the sample needs more.
    #[inline]
    pub(crate) fn push(&mut self, bundle: [PairReads; N]) -> ControlFlow<()> {
        self.block.push(bundle);
        let is_over = self.block_ticks() >= self.collector.monitor.block_ticks
            || self.block.len() >= BLOCK_PAIRS
            || self.pending() >= self.wanted;
        if is_over {
            self.close_block()
        } else {
            ControlFlow::Continue(())
        }
    }

    /// The duration of the block so far.
    fn block_ticks(&self) -> u64 {
        let start = self
            .block
            .first()
            .into_iter()
            .flatten()
            .map(|pair| pair.start_ticks)
            .min();
        let end = self
            .block
            .last()
            .into_iter()
            .flatten()
            .map(|pair| pair.end_ticks)
            .max();
        end.unwrap_or(0).saturating_sub(start.unwrap_or(0))
    }

    /// The number of bundles that count, and of bundles of this slice that may count.
    fn pending(&self) -> u64 {
        self.collector.collected.sample_kept.bundles
            + self.collector.slice.good_count()
            + count(self.block.len())
    }

    /// The smallest number of bundles that the sample still needs.
    pub(crate) fn min_left(&self) -> u64 {
        let bundles =
            self.bundles_in_slices + self.collector.slice.count() + count(self.block.len());
        self.wanted
            .saturating_sub(self.pending())
            .min(self.max_bundles().saturating_sub(bundles))
            .max(1)
    }

    /// Ends a block, and continues if the sample needs another one.
    #[inline(never)]
    fn close_block(&mut self) -> ControlFlow<()> {
        let ticks = self.block_ticks();
        let Collector { slice, monitor, .. } = &mut *self.collector;
        slice.add_block(&mut self.block, monitor.end_block(ticks));
        self.slice_ticks = self.slice_ticks.saturating_add(ticks);
        let is_over = self.slice_ticks >= self.collector.monitor.slice_ticks
            || self.pending() >= self.wanted
            || self.bundles_in_slices + self.collector.slice.count() >= self.max_bundles();
        if !is_over {
            return ControlFlow::Continue(());
        }
        self.close_slice();
        // A process that serves takes one slice for each request.
        if self.collector.serving.is_some()
            || self.pending() >= self.wanted
            || self.bundles_in_slices >= self.max_bundles()
        {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Whether the sample has this share of the bundles that it needs: `part` of `parts`.
    pub(crate) fn has_share(&self, part: usize, parts: usize) -> bool {
        self.pending() * count(parts) >= self.wanted * count(part)
    }

    /// Ends a stretch of a copy of the routines' code, in the middle or at the end of a sample.
    pub(crate) fn end_stretch(&mut self, copy: usize) {
        if !self.block.is_empty() {
            _ = self.close_block();
        }
        if self.collector.slice.count() > 0 {
            self.close_slice();
        }
        self.collector.collected.end_stretch(copy);
    }

    fn max_bundles(&self) -> u64 {
        self.wanted.saturating_mul(MAX_BUNDLES)
    }

    fn close_slice(&mut self) {
        let Collector {
            collected,
            slice,
            long_pairs,
            monitor,
            time,
            serving,
            iterations_per_pair,
            ..
        } = &mut *self.collector;
        let bundles = slice.count();
        let common = monitor.end_slice(time);
        slice.judge(common, &monitor.noise(), long_pairs);
        let counting = time.settings().counting;
        if let Some(serving) = serving {
            serving.reply(ServedSlice {
                clock: time.measured_by(),
                iterations_per_pair: iterations_per_pair.unwrap_or(1),
                disturbances: slice.disturbances(),
                ticks: slice
                    .counted(counting)
                    .map(|bundle| bundle[N - 1])
                    .collect(),
            });
        }
        collected.add(slice, counting);
        slice.clear();
        self.bundles_in_slices += bundles;
        self.slice_ticks = 0;
        collected.cost_ticks += time.scale().cost_ticks * as_f64(bundles);
    }

    /// The sample for criterion: the mean of the last pairs of the bundles that count, multiplied
    /// by the iterations.
    pub(crate) fn finish(self) -> Elapsed {
        let Self {
            collector,
            iterations,
            ..
        } = self;
        let scale = collector.time.scale();
        let ticks = collector.collected.sample_ticks(scale.resolution_ticks);
        let each_ns = scale.net_ns(ticks.unwrap_or(0.0)) / as_f64(collector.iterations_per_pair());
        let returned = Elapsed::from_ns(each_ns * as_f64(iterations));
        collector.collected.sample_times_ns.push(each_ns);
        collector
            .collected
            .returned_ns
            .push(least_ns(returned.to_ns(&Scale::WALL)));
        collector.measured_for = collector.measuring_since.elapsed();
        returned
    }
}

#[cfg(test)]
mod tests;
