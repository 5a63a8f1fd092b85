//! Takes the pairs of a benchmark, or the couples of a comparison, sample by sample.

use std::mem;

use crate::current;
use crate::elapsed::Elapsed;
use crate::number::{as_f64, count};
use crate::pair::{Ends, Source};
use crate::pairs::cause::{Cause, Causes};
use crate::pairs::quantile::median;
use crate::pairs::slice::{Counting, Judged, Slice};
use crate::pairs::watch::{BLOCK_PAIRS, Watch};
use crate::session::Scale;
use crate::time::{CounterTime, least_ns};

/// Disturbed groups are replaced by others, until there are this many times the wanted ones.
const MOST_GROUPS: u64 = 2;

/// The most iterations of a pair.
const MOST_ITERATIONS: u64 = 1 << 20;

/// Trials of each size of a batch. The shortest time counts.
const TRIALS: usize = 5;

/// Whether a block or a sample needs more groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Full,
}

/// What keeps the groups whose facts are known: a distribution, or couples in their order.
pub(crate) trait Keep<const N: usize> {
    /// Keeps a group, ticks, that nothing disturbed, or this.
    fn add(&mut self, group: [u64; N], disturbed: Option<Cause>);
}

/// What was found since the warm-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected<K> {
    pub(crate) kept: K,
    pub(crate) causes: Causes,
    /// Pairs as long as an interrupt makes them. They count, because there were too many for
    /// interrupts.
    pub(crate) long_kept: u64,
    /// Samples without an undisturbed group. criterion got the median of all groups of such a
    /// sample.
    pub(crate) samples_disturbed: u64,
    /// What criterion got for each sample, ns.
    pub(crate) returned_ns: Vec<f64>,
    /// The last pairs of the present sample's groups, ticks: of the undisturbed ones, and of the
    /// others that have a length.
    undisturbed: Vec<u64>,
    disturbed: Vec<u64>,
    /// The costs that were taken off in each slice, weighted by its groups.
    taken_off_ticks: f64,
    weight: f64,
}

impl<K> Collected<K> {
    /// Adds what was found of a slice.
    pub(crate) fn add<const N: usize>(&mut self, judged: Judged<N>)
    where
        K: Keep<N>,
    {
        self.long_kept += judged.long_kept;
        let named = judged.named.into_iter().map(|(cause, group)| (group, Some(cause)));
        for (group, disturbed) in judged.good.into_iter().map(|group| (group, None)).chain(named) {
            self.kept.add(group, disturbed);
            let last_ticks = group[N - 1];
            match disturbed {
                None => self.undisturbed.push(last_ticks),
                Some(cause) => {
                    self.causes.add(cause, 1);
                    // A pair that ran backwards has no length.
                    self.disturbed.extend((cause != Cause::Backwards).then_some(last_ticks));
                }
            }
        }
    }

    /// Ends a sample. Returns the mean of its pairs that count, ticks. If all were disturbed, it is
    /// their median: a mean would be that of what disturbed them. `None` if there are none.
    pub(crate) fn sample_ticks(&mut self, counting: Counting, resolution_ticks: u64) -> Option<f64> {
        let (mut counted, disturbed) = (mem::take(&mut self.undisturbed), mem::take(&mut self.disturbed));
        match counting {
            Counting::Undisturbed if counted.is_empty() => {
                self.samples_disturbed += u64::from(!disturbed.is_empty());
                let ticks: Vec<f64> = disturbed.into_iter().map(as_f64).collect();
                return median(&ticks, as_f64(resolution_ticks));
            }
            Counting::Undisturbed => {}
            Counting::All => counted.extend(disturbed),
        }
        let sum: f64 = counted.iter().copied().map(as_f64).sum();
        (!counted.is_empty()).then(|| sum / as_f64(count(counted.len())))
    }
}

/// The groups of one benchmark, over all of its samples.
#[derive(Debug)]
pub(crate) struct Collector<const N: usize, K> {
    pub(crate) time: CounterTime,
    watch: Watch,
    /// Iterations in a pair, once chosen.
    iterations: Option<u64>,
    /// The number of the present bencher. criterion makes one for its warm-up and another one for
    /// the samples.
    bencher: u64,
    slice: Slice<N>,
    pub(crate) found: Collected<K>,
}

impl<const N: usize, K: Keep<N> + Default> Collector<N, K> {
    /// Collects for the measurement of the bencher that was made last on this thread.
    pub(crate) fn new() -> Self {
        let (time, bencher) = (CounterTime::current(), current::benchers());
        Self {
            watch: Watch::new(&time),
            time,
            iterations: None,
            bencher,
            slice: Slice::new(),
            found: Collected::default(),
        }
    }

    pub(crate) fn source(&self) -> Source {
        self.time.source()
    }

    /// What a pair costs, ticks.
    pub(crate) fn cost_ticks(&self) -> f64 {
        match self.time.scale().cost_ticks {
            // The OS clock's cost is not known.
            0.0 => {
                let trials = (0..TRIALS).map(|_| self.source().start().ends().ticks());
                as_f64(trials.min().unwrap_or(0))
            }
            ticks => ticks,
        }
    }

    /// Iterations in a pair.
    pub(crate) fn each(&self) -> u64 {
        self.iterations.unwrap_or(1)
    }

    /// Chooses how many iterations a pair has, once: enough that it takes at least `least_ticks`.
    /// `trial_ticks` takes a pair of a given number of iterations.
    pub(crate) fn choose(&mut self, least_ticks: f64, mut trial_ticks: impl FnMut(u64) -> u64) -> u64 {
        *self.iterations.get_or_insert_with(|| {
            let mut least = |iterations| (0..TRIALS).map(|_| trial_ticks(iterations)).min();
            let mut iterations = 1;
            while least_ticks > 0.0
                && iterations < MOST_ITERATIONS
                && least(iterations).is_some_and(|ticks| as_f64(ticks) < least_ticks)
            {
                iterations *= 2;
            }
            iterations
        })
    }

    /// Begins a sample of `iterations`, and of `least_groups` groups or more.
    pub(crate) fn sample(&mut self, iterations: u64, least_groups: u64) -> Sample<'_, N, K> {
        let bencher = current::benchers();
        if bencher != self.bencher {
            // The warm-up is over.
            (self.bencher, self.found) = (bencher, Collected::default());
        }
        let wanted = iterations.div_ceil(self.each()).max(least_groups);
        self.watch.begin(&self.time, self.slice.cpu());
        Sample {
            iterations,
            wanted,
            taken: 0,
            block: Vec::with_capacity(BLOCK_PAIRS.min(usize::try_from(wanted).unwrap_or(BLOCK_PAIRS))),
            begin_ticks: 0,
            slice_ticks: 0,
            collector: self,
        }
    }

    /// How ticks become ns, with the mean of the costs that were taken off.
    pub(crate) fn scale(&self) -> Scale {
        let scale = self.time.scale();
        let taken_off_ticks = match self.found.weight {
            0.0 => scale.taken_off_ticks,
            weight => self.found.taken_off_ticks / weight,
        };
        Scale { taken_off_ticks, ..scale }
    }
}

/// A sample that is under way.
#[derive(Debug)]
pub(crate) struct Sample<'a, const N: usize, K> {
    collector: &'a mut Collector<N, K>,
    iterations: u64,
    /// Groups that should count.
    wanted: u64,
    /// Groups of slices that are over.
    taken: u64,
    block: Vec<[Ends; N]>,
    /// When the block began.
    begin_ticks: u64,
    /// The time of the slice so far.
    slice_ticks: u64,
}

impl<const N: usize, K: Keep<N> + Default> Sample<'_, N, K> {
    /// Adds a group. Returns whether the block is full.
    #[inline]
    pub(crate) fn push(&mut self, group: [Ends; N]) -> Flow {
        if self.block.is_empty() {
            self.begin_ticks = group.iter().map(|pair| pair.start_ticks).min().unwrap_or(0);
        }
        self.block.push(group);
        let is_over = self.block_ticks() >= self.collector.watch.block_ticks
            || self.block.len() >= BLOCK_PAIRS
            || self.pending() + count(self.block.len()) >= self.wanted;
        if is_over { Flow::Full } else { Flow::More }
    }

    /// The time of the block so far.
    fn block_ticks(&self) -> u64 {
        let ends = self.block.last().into_iter().flatten().map(|pair| pair.end_ticks);
        ends.max().unwrap_or(0).saturating_sub(self.begin_ticks)
    }

    /// Groups that count, and those of this slice that may count.
    fn pending(&self) -> u64 {
        self.counted() + self.collector.slice.good()
    }

    fn counted(&self) -> u64 {
        count(self.collector.found.undisturbed.len())
    }

    /// Ends a block. Returns whether another one is needed.
    pub(crate) fn close_block(&mut self) -> Flow {
        let ticks = self.block_ticks();
        let Collector { slice, watch, .. } = &mut *self.collector;
        slice.block(&mut self.block, watch.end_block(ticks));
        self.slice_ticks = self.slice_ticks.saturating_add(ticks);
        let is_over = self.slice_ticks >= self.collector.watch.slice_ticks
            || self.pending() >= self.wanted
            || self.taken + self.collector.slice.all() >= self.most();
        if !is_over {
            return Flow::More;
        }
        self.close_slice();
        let is_enough = self.counted() >= self.wanted || self.taken >= self.most();
        if is_enough { Flow::Full } else { Flow::More }
    }

    fn most(&self) -> u64 {
        self.wanted.saturating_mul(MOST_GROUPS)
    }

    fn close_slice(&mut self) {
        let Collector { found, slice, watch, time, .. } = &mut *self.collector;
        let groups = slice.all();
        let disturbed = watch.end_slice(time, slice.cpu());
        found.add(slice.end(disturbed, &watch.spins));
        self.taken += groups;
        self.slice_ticks = 0;
        found.taken_off_ticks += time.scale().taken_off_ticks * as_f64(groups);
        found.weight += as_f64(groups);
    }

    /// The sample for criterion: the mean of the last pairs of the groups that count, times the
    /// iterations.
    pub(crate) fn finish(self) -> Elapsed {
        let Self { collector, iterations, .. } = self;
        let scale = collector.time.scale();
        let ticks = collector.found.sample_ticks(collector.time.counting(), scale.resolution_ticks);
        let each_ns = scale.net_ns(ticks.unwrap_or(0.0)) / as_f64(collector.each());
        let returned = Elapsed::of_ns(each_ns * as_f64(iterations));
        collector.found.returned_ns.push(least_ns(returned.to_ns(0.0, 0.0)));
        returned
    }
}
