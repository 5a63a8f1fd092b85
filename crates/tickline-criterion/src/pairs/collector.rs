//! Takes the pairs of a benchmark, sample by sample.

use crate::current;
use crate::elapsed::{Elapsed, as_f64};
use crate::pair::{Ends, Source};
use crate::pairs::outcome::Outcome;
use crate::pairs::slice::{Counting, Slice, Tally};
use crate::pairs::watch::{BLOCK_PAIRS, Watch};
use crate::session::Scale;
use crate::time::{CounterTime, least_ns};

/// Disturbed pairs are replaced by others, until there are this many times the wanted pairs.
const MOST_PAIRS: u64 = 2;

/// The most iterations of a pair.
const MOST_ITERATIONS: u64 = 1 << 20;

/// Trials of each size of a batch. The shortest time counts.
const TRIALS: usize = 5;

/// Whether a block or a sample needs more pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Full,
}

/// The pairs of one benchmark, over all of its samples.
#[derive(Debug)]
pub(crate) struct Collector {
    time: CounterTime,
    source: Source,
    counting: Counting,
    watch: Watch,
    /// Iterations in a pair, once chosen.
    iterations: Option<u64>,
    /// The number of the present bencher. criterion makes one for its warm-up and another one for
    /// the samples.
    bencher: u64,
    tally: Tally,
    slice: Slice<1>,
    /// What criterion got for each sample, ns.
    told_ns: Vec<f64>,
    /// The costs that were taken off in each slice, weighted by its pairs.
    scales: Scales,
}

#[derive(Debug, Default)]
struct Scales {
    taken_off_ticks: f64,
    weight: f64,
}

impl Collector {
    /// Collects for the measurement of the bencher that was made last on this thread.
    pub(crate) fn new() -> Self {
        let (time, bencher) = (CounterTime::current(), current::benchers());
        Self {
            counting: time.counting(),
            source: time.source(),
            watch: Watch::new(&time),
            time,
            iterations: None,
            bencher,
            tally: Tally::new(),
            slice: Slice::new(),
            told_ns: Vec::new(),
            scales: Scales::default(),
        }
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// How many iterations a pair has: one, or as many as keep the cost of the pair below `share`
    /// of its time. `trial` takes a pair of a given number of iterations.
    pub(crate) fn iterations(&mut self, share: Option<f64>, mut trial: impl FnMut(u64) -> Ends) -> u64 {
        if let Some(iterations) = self.iterations {
            return iterations;
        }
        let mut iterations = 1;
        if let Some(share) = share {
            let mut least = |iterations| {
                let ticks = (0..TRIALS).map(|_| {
                    let Ends { start_ticks, end_ticks, .. } = trial(iterations);
                    end_ticks.saturating_sub(start_ticks)
                });
                ticks.min().unwrap_or(0)
            };
            // The OS clock's cost is not known.
            let cost_ticks = match self.time.scale().cost_ticks {
                0.0 => as_f64(least(0)),
                ticks => ticks,
            };
            while as_f64(least(iterations)) * share < cost_ticks && iterations < MOST_ITERATIONS {
                iterations *= 2;
            }
        }
        self.iterations = Some(iterations);
        iterations
    }

    /// Begins a sample of `iterations`.
    pub(crate) fn sample(&mut self, iterations: u64) -> Sample<'_> {
        let bencher = current::benchers();
        if bencher != self.bencher {
            // The warm-up is over.
            self.bencher = bencher;
            (self.tally, self.told_ns, self.scales) = (Tally::new(), Vec::new(), Scales::default());
        }
        let pairs = iterations.div_ceil(self.iterations.unwrap_or(1)).max(1);
        self.watch.begin(&self.time, self.slice.cpu());
        Sample {
            iterations,
            wanted: pairs,
            taken: 0,
            block: Vec::with_capacity(BLOCK_PAIRS.min(usize::try_from(pairs).unwrap_or(BLOCK_PAIRS))),
            slice_ticks: 0,
            collector: self,
        }
    }

    /// The distribution so far; `None` without pairs.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let scale = self.time.scale();
        let taken_off_ticks = match self.scales.weight {
            0.0 => scale.taken_off_ticks,
            weight => self.scales.taken_off_ticks / weight,
        };
        Outcome::new(
            &self.tally,
            self.counting,
            Scale { taken_off_ticks, ..scale },
            self.iterations.unwrap_or(1),
            self.told_ns.clone(),
        )
    }

    pub(crate) fn time(&self) -> &CounterTime {
        &self.time
    }
}

/// A sample that is under way.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    collector: &'a mut Collector,
    iterations: u64,
    /// Pairs that should count.
    wanted: u64,
    /// Pairs of slices that are over.
    taken: u64,
    block: Vec<[Ends; 1]>,
    /// The time of the slice so far.
    slice_ticks: u64,
}

impl Sample<'_> {
    /// Adds a pair. Returns whether the block is full.
    #[inline]
    pub(crate) fn push(&mut self, pair: Ends) -> Flow {
        self.block.push([pair]);
        let begin_ticks = self.block.first().map_or(0, |[first]| first.start_ticks);
        let is_over = pair.end_ticks.saturating_sub(begin_ticks) >= self.collector.watch.block_ticks
            || self.block.len() >= BLOCK_PAIRS
            || self.pending() + crate::number::count(self.block.len()) >= self.wanted;
        if is_over { Flow::Full } else { Flow::More }
    }

    /// Pairs that count, and those of this slice that may count.
    fn pending(&self) -> u64 {
        self.collector.tally.in_sample() + self.collector.slice.good()
    }

    /// Ends a block. Returns whether another one is needed.
    pub(crate) fn close_block(&mut self) -> Flow {
        let ends = self.block.first().zip(self.block.last());
        let ticks = ends.map_or(0, |([first], [last])| last.end_ticks.saturating_sub(first.start_ticks));
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
        let is_enough = self.collector.tally.in_sample() >= self.wanted || self.taken >= self.most();
        if is_enough { Flow::Full } else { Flow::More }
    }

    fn most(&self) -> u64 {
        self.wanted.saturating_mul(MOST_PAIRS)
    }

    fn close_slice(&mut self) {
        let Collector { tally, slice, watch, scales, time, .. } = &mut *self.collector;
        let pairs = slice.all();
        let disturbed = watch.end_slice(time, slice.cpu());
        tally.add(&slice.end(disturbed, &watch.spins));
        self.taken += pairs;
        self.slice_ticks = 0;
        scales.taken_off_ticks += time.scale().taken_off_ticks * as_f64(pairs);
        scales.weight += as_f64(pairs);
    }

    /// The sample for criterion: the mean of the pairs that count, times the iterations.
    pub(crate) fn finish(self) -> Elapsed {
        let Self { collector, iterations, .. } = self;
        let scale = collector.time.scale();
        let mean_ticks = collector.tally.sample_mean_ticks(collector.counting).unwrap_or(0.0);
        let each_ns = scale.net_ns(mean_ticks) / as_f64(collector.iterations.unwrap_or(1));
        let told = Elapsed::of_ns(each_ns * as_f64(iterations));
        collector.told_ns.push(least_ns(told.to_ns(0.0, 0.0)));
        told
    }
}
