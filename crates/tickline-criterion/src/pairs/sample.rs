//! Takes the pairs of one sample, block by block and slice by slice.

use std::ops::ControlFlow;

use crate::calibration::Scale;
use crate::compare::builds::{Interleaving, Request};
use crate::number::{as_f64, count, index};
use crate::pairs::collector::{Collected, Collector};
use crate::pairs::monitor::BLOCK_PAIRS;
use crate::readings::{Elapsed, Ends};
use crate::time::least_ns;

/// Disturbed groups are replaced by others, until there are this many times the wanted ones.
const MAX_GROUPS: u64 = 2;

/// A sample that is under way.
#[derive(Debug)]
pub(crate) struct Sample<'a, const N: usize> {
    collector: &'a mut Collector<N>,
    request: Request,
    /// Groups that should count.
    wanted: u64,
    /// Groups of slices that are over.
    taken: u64,
    block: Vec<[Ends; N]>,
    /// The time of the slice so far.
    slice_ticks: u64,
}

impl<'a, const N: usize> Sample<'a, N> {
    /// Begins a sample for which `wanted` groups should count.
    pub(crate) fn new(collector: &'a mut Collector<N>, request: Request, wanted: u64) -> Self {
        collector.begin_slice(request);
        let block = Vec::with_capacity(BLOCK_PAIRS.min(index(wanted)));
        Self { collector, request, wanted, taken: 0, block, slice_ticks: 0 }
    }

    /// Adds a group, and continues if the sample needs more.
    #[inline]
    pub(crate) fn push(&mut self, group: [Ends; N]) -> ControlFlow<()> {
        self.block.push(group);
        let is_over = self.block_ticks() >= self.collector.monitor.block_ticks
            || self.block.len() >= BLOCK_PAIRS
            || self.pending() + count(self.block.len()) >= self.wanted;
        if is_over { self.close_block() } else { ControlFlow::Continue(()) }
    }

    /// The time of the block so far.
    fn block_ticks(&self) -> u64 {
        let begin = self.block.first().into_iter().flatten().map(|pair| pair.start_ticks).min();
        let end = self.block.last().into_iter().flatten().map(|pair| pair.end_ticks).max();
        end.unwrap_or(0).saturating_sub(begin.unwrap_or(0))
    }

    /// Groups that count, and those of this slice that may count.
    fn pending(&self) -> u64 {
        self.counted() + self.collector.slice.good_count()
    }

    fn counted(&self) -> u64 {
        count(self.collector.found.counted.len())
    }

    /// Ends a block, and continues if another one is needed.
    #[inline(never)]
    fn close_block(&mut self) -> ControlFlow<()> {
        let ticks = self.block_ticks();
        let Collector { slice, monitor, .. } = &mut *self.collector;
        slice.add_block(&mut self.block, monitor.end_block(ticks));
        self.slice_ticks = self.slice_ticks.saturating_add(ticks);
        let is_over = self.slice_ticks >= self.collector.monitor.slice_ticks
            || self.pending() >= self.wanted
            || self.taken + self.collector.slice.count() >= self.most();
        if !is_over {
            return ControlFlow::Continue(());
        }
        self.close_slice();
        if let Some(Interleaving::Serves(request)) = &self.collector.interleaving {
            // The build that drives decides when the sample is over.
            if *request != self.request {
                return ControlFlow::Break(());
            }
            (self.collector.found, self.taken) = (Collected::default(), 0);
        } else if self.counted() >= self.wanted || self.taken >= self.most() {
            return ControlFlow::Break(());
        }
        if self.collector.interleaving.is_some() {
            self.collector.begin_slice(self.request);
        }
        ControlFlow::Continue(())
    }

    fn most(&self) -> u64 {
        self.wanted.saturating_mul(MAX_GROUPS)
    }

    fn close_slice(&mut self) {
        let Collector { found, slice, monitor, time, interleaving, .. } = &mut *self.collector;
        let groups = slice.count();
        slice.judge(monitor.end_slice(time, slice.cpu), &monitor.noise());
        let counting = time.settings().counting;
        let exchanged = interleaving.as_mut().map(|interleaving| {
            let ticks = slice.counted(counting).map(|group| group[N - 1]).collect();
            interleaving.end_slice(self.request, ticks, slice.disturbances())
        });
        found.add(slice, counting);
        slice.clear();
        self.taken += groups;
        self.slice_ticks = 0;
        found.cost_ticks += time.scale().cost_ticks * as_f64(groups);
        if let Some(Err(error)) = exchanged {
            self.collector.end_interleaving(&error);
        }
    }

    /// The sample for criterion: the mean of the last pairs of the groups that count, times the
    /// iterations.
    pub(crate) fn finish(self) -> Elapsed {
        let Self { collector, request, .. } = self;
        let scale = collector.time.scale();
        let ticks = collector.found.sample_ticks(scale.resolution_ticks);
        let each_ns = scale.net_ns(ticks.unwrap_or(0.0)) / as_f64(request.iterations_per_pair);
        let returned = Elapsed::of_ns(each_ns * as_f64(request.iterations));
        collector.found.rounds_ns.push(each_ns);
        collector.found.returned_ns.push(least_ns(returned.to_ns(&Scale::WALL)));
        returned
    }
}
