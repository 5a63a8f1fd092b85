//! The control loop: sample -> estimate -> discipline -> what to publish.
//!
//! [`Control::maintain`] is one iteration. Its caller, the driver, holds the clock's lock, and
//! decides when the next iteration comes. An iteration takes a burst of brackets, computes for
//! about a microsecond, and changes the state once. `DESIGN.md`, section "The pipeline", has the
//! steps in the order in which their data flow, and the function of each. A publication has three
//! steps:
//!
//! ```text
//! a line:  published -> replacing; read the counter; compute the line -> published   (rule 2)
//! no line: no line -> first publication; ask the reference -> published, valid for 150 us   (rule 7)
//! ```
//!
//! After a recovery the caller runs a second iteration at once, which settles slope and window.
//! The writer publishes slower and faster lines alike through `Replacing`, so there is one path to
//! prove.
//!
//! Start-up and a change of rate are one case: the interval is half of the time for which the
//! control loop has watched the reference without a break, from 50 us up to the configured
//! interval. So the interval grows by half from iteration to iteration. While the bound would
//! otherwise grow wide, or the line is off its target, the interval is a sixteenth of the
//! configured one. `control/schedule.rs` has the reasons.

use crate::cell::{CellLine, StateCell};
use crate::counter::Counter;
use crate::line::Slope;
use crate::sample::{BurstSize, Reference, Resolutions, UnixTrack, burst};
use crate::shared::{Event, SharedClock};
use crate::stability::{SampleOutcome, StabilityMonitor};
use crate::state::{Phase, is_supported};
use crate::units::{FRACTION_BITS, FixedNs, NS_PER_S, ticks_between};

mod publish;
mod schedule;

pub use crate::discipline::{DISRUPTED_OFFSET_NS, MEETING_MARGIN_NS};
use publish::Plan;
use schedule::RecentTimes;

/// The shortest interval, ns: 30 ns of bracket over 50 us is 600 ppm, good enough for another 50
/// us.
pub const MIN_INTERVAL_NS: u64 = 50_000;

/// The smallest and the largest interval that may be configured, ns.
pub const INTERVAL_RANGE_NS: core::ops::RangeInclusive<u64> = 1_000_000..=10 * NS_PER_S;

/// Brackets in a burst at the least, some 1.5 us. What counts is the shortest half of a bracket
/// on either side: with halves of 7 to 22 ns the bound of a steady reference is 17 ns at its
/// widest with 16 brackets, 15 with 32 (`tickline-sim`, `tests/limits.rs`). Each read is a step
/// in a model by loom, where one bracket must do; Miri, which takes a thousand times as long,
/// gets four.
const BRACKETS: u32 = if cfg!(loom) {
    1
} else if cfg!(miri) {
    4
} else {
    32
};

/// The most brackets in a burst. A counter that moves by 10 ns at a time shows the shortest
/// half of a bracket in 1 of 16 only (AMD Zen 5 under KVM), so that 32 brackets miss it in every
/// seventh burst, and the middle of such a sample is off by 5 ns.
const MOST_BRACKETS: u32 = if cfg!(any(loom, miri)) { BRACKETS } else { 4 * BRACKETS };

/// Where the first 32 brackets have taken longer than this, ns, a burst has no more: the reference
/// is slow.
const SLOW_BURST_NS: u64 = 10_000;

/// Every eighth burst takes all its brackets, however narrow its sample is. All of them may have
/// missed the short sides: on AMD Zen 5 with busy neighbours the narrowest of them stayed at 40
/// ns for minutes, where a burst of 128 brackets finds 20 to 30.
const FULL_BURST_EVERY: u32 = 8;

/// A burst goes on while its sample is wider than the narrowest one by more than this, ns: what
/// the rounding of the reference does.
const SPARE_WIDTH_NS: i64 = 1;

/// Stands for a slope that is not known yet: 16 GHz, faster than any counter, so that a time in
/// ns is never converted to too few ticks.
const UNKNOWN_SLOPE: Slope = Slope { bits: 1 << (FRACTION_BITS - 4) };

/// A sample older than this when it is used is taken again, ns: the writer was preempted.
const FRESH_NS: u64 = 100_000;

/// A first line waits for the reference if the high-water mark is ahead of it by less than this,
/// ns. This is one and a half times the sum of two margins: the margin of the mark, and the time by
/// which a line starts before its publication.
const WAIT_FOR_HIGH_WATER_NS: i64 = 15_000;

/// An offset below this, or below twice the newest sample's width, does not shorten the interval,
/// ns.
const USUAL_OFFSET_NS: i64 = 50;

/// A thread must be allowed to come so late, ns: a tick of a kernel at 250 Hz. With 62 us to 1 ms
/// instead, a thread that always came 5 ms late left the clock without a line for up to 74 % of
/// the time (`tickline-sim`, interval 10 ms, rates that change by 20 ppm).
const LATENESS_NS: u64 = 4_000_000;

/// After this many iterations without a line they come less often.
const PATIENT_ITERATIONS: u32 = 16;

/// Iterations of sampling before a preempted writer gives up until the next interval.
const ATTEMPTS: u32 = 4;

/// The longest window, ticks: a line is valid for twice that, half of what
/// [`Line::at`](crate::line::Line::at) converts exactly for its bounds.
const MAX_WINDOW_TICKS: u64 = 1 << 46;

const _: () = assert!(2 * MAX_WINDOW_TICKS < crate::line::Line::MAX_DELTA_TICKS);

/// Who runs the iterations of a control loop. Decides how long a line's window lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrivenBy {
    /// A thread, a timer or the program, which comes by itself before the window ends: the window
    /// lasts for 2 intervals.
    Timer,
    /// A thread that must first get onto a certain CPU, which may be busy: the window lasts for 4
    /// intervals.
    PinnedThread,
    /// A reader that finds the window passed: the window lasts for 1 interval.
    Readers,
}

/// What a control loop needs to know from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The interval in the steady state, ns. Within [`INTERVAL_RANGE_NS`].
    pub interval_ns: u64,
    /// Resolutions of counter and reference.
    pub resolutions: Resolutions,
    /// Who runs the iterations.
    pub driven_by: DrivenBy,
}

/// What an iteration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Iteration {
    /// A line was published.
    Published,
    /// A short line was published where there was none: run another iteration at once.
    Recovered,
    /// No line yet: the samples say too little.
    Learning,
    /// No line: the state changed under the writer, or it was preempted too often. Try again soon.
    Lost,
    /// No line: a gate is closed.
    GateClosed,
}

/// What an iteration did, and when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// What happened.
    pub iteration: Iteration,
    /// Time until the next iteration, ns.
    pub next_in_ns: u64,
}

/// The writer's memory. Reached only under the clock's lock.
#[derive(Debug)]
pub struct Control {
    /// The settings of the next iteration. A driver may change interval and driver between two
    /// iterations.
    pub config: Config,
    /// Whether the lines serve Unix time, as they do after [`begin_anew`](Self::begin_anew), or
    /// leave that to the OS. See [`Gate::UnixCost`](crate::gate::Gate::UnixCost).
    pub serves_unix: bool,
    stability: StabilityMonitor,
    unix: UnixTrack,
    /// The slope of the last target.
    slope: Option<Slope>,
    /// How long sampling took of late.
    sampling: RecentTimes,
    /// Whether the present line's slope has proven itself: it came from samples, and not straight
    /// after a recovery.
    settled: bool,
    /// Iterations in a row without a line.
    fruitless: u32,
    /// Bursts so far.
    bursts: u32,
    /// How long the machine had been suspended before the newest sample, ns.
    suspended_ns: Option<i64>,
    /// Whether the reference or the counter jumped, and the line has not reached its target
    /// since.
    disrupted: bool,
    /// What the next line is made of.
    plan: Option<Plan>,
}

/// Why a line could not be published.
enum Refusal {
    /// The samples were taken too long ago: take others.
    Stale,
    /// The state changed.
    Lost,
    /// The reference has not passed the high-water mark yet, or the ticks are about to wrap
    /// ([`wrap_mask`](crate::state::wrap_mask)): try again later.
    Early,
    /// The counter is too slow for the cell's `SHIFT`.
    OutOfRange,
}

impl Control {
    /// A control loop that knows nothing yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            serves_unix: true,
            stability: StabilityMonitor::new(),
            unix: UnixTrack::new(),
            slope: None,
            sampling: RecentTimes::NONE,
            settled: false,
            fruitless: 0,
            bursts: 0,
            suspended_ns: None,
            disrupted: false,
            plan: None,
        }
    }

    /// Forgets everything, and goes on as a new control loop with `config` would. It works in
    /// place, because a signal handler's stack has no room for another loop.
    pub fn begin_anew(&mut self, config: Config) {
        static UNLEARNT: StabilityMonitor = StabilityMonitor::new();
        (self.config, self.serves_unix) = (config, true);
        // Not an assignment: without optimisation that makes a copy on the stack.
        core::slice::from_mut(&mut self.stability).copy_from_slice(core::slice::from_ref(&UNLEARNT));
        self.unix = UnixTrack::new();
        self.slope = None;
        self.sampling = RecentTimes::NONE;
        (self.settled, self.disrupted) = (false, false);
        (self.fruitless, self.bursts) = (0, 0);
        self.suspended_ns = None;
    }

    /// The tick of the oldest sample that the next bounds would rest on.
    #[must_use]
    pub fn oldest_sample_ticks(&self) -> Option<u64> {
        let newest = self.stability.history.newest()?.lower.ticks;
        let points = self.stability.history.samples().iter().flat_map(|sample| [sample.upper, sample.lower]);
        points.map(|point| point.ticks).max_by_key(|ticks| ticks_between(*ticks, newest))
    }

    /// One iteration. Never panics, allocates or waits.
    pub fn maintain<S: StateCell>(
        &mut self,
        shared: &SharedClock<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Outcome {
        let (iteration, next_in_ns) = self.iterate(shared, counter, reference);
        self.fruitless = if matches!(iteration, Iteration::Learning | Iteration::Lost) {
            self.fruitless.saturating_add(1)
        } else {
            0
        };
        Outcome { iteration, next_in_ns }
    }

    fn iterate<S: StateCell>(
        &mut self,
        shared: &SharedClock<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> (Iteration, u64) {
        let mut is_stale = false;
        for _ in 0..ATTEMPTS {
            let begin_ticks = counter.now_ordered();
            let Some(outcome) = self.take_sample(shared, counter, reference) else { continue };
            let fit = self.stability.fit(self.slope.unwrap_or(UNKNOWN_SLOPE), &shared.events);
            self.sampling.add(ticks_between(begin_ticks, counter.now_ordered()));

            let line = shared.cell.snapshot();
            let result = match line.state.phase() {
                // This thread holds the lock, so the writer is gone: it was in the process that
                // forked this one, or it closes a gate.
                Phase::Replacing | Phase::FirstPublication => {
                    shared.help(&line, counter, reference);
                    continue;
                }
                _ if !is_supported() => return (Iteration::Learning, self.config.interval_ns),
                _ if line.state.is_gate_closed() => return (Iteration::GateClosed, self.config.interval_ns),
                // A control loop that starts anew knows nothing about the line that it finds,
                // whose slope may be bent.
                Phase::Published
                    if self.slope.is_none() || outcome == SampleOutcome::Void && !self.settled =>
                {
                    end_line(&line, shared, counter, reference);
                    return (Iteration::Learning, MIN_INTERVAL_NS);
                }
                Phase::Published => match self.make_plan(line.slope(), fit.as_ref(), u64::MAX) {
                    Ok(()) => self.replace(&line, shared, counter, reference, fit.is_some()),
                    Err(refusal) => Err(refusal),
                },
                Phase::NoLine => match &fit {
                    Some(found) if self.stability.is_confirmed() => {
                        match self.make_plan(found.slope_max, fit.as_ref(), MIN_INTERVAL_NS) {
                            Ok(()) => self.recover_line(&line, shared, counter, reference),
                            Err(refusal) => Err(refusal),
                        }
                    }
                    _ => return (Iteration::Learning, self.patience_ns()),
                },
            };
            is_stale = matches!(result, Err(Refusal::Stale));
            match result {
                Ok(done) => return done,
                Err(Refusal::Stale) => {}
                Err(Refusal::Lost) if shared.cell.load().phase() == Phase::NoLine => {}
                Err(Refusal::Lost) => return (Iteration::Lost, MIN_INTERVAL_NS),
                Err(Refusal::Early) => {
                    // Not for want of samples: the next iterations need not come less often.
                    self.fruitless = 0;
                    return (Iteration::Lost, MIN_INTERVAL_NS);
                }
                Err(Refusal::OutOfRange) => {
                    shared.gauges.show_out_of_range();
                    return (Iteration::Learning, self.config.interval_ns);
                }
            }
        }
        if is_stale {
            shared.gauges.count_stale_iteration();
        }
        (Iteration::Lost, self.patience_ns())
    }

    /// Takes a burst, and notes what it says.
    #[inline(never)]
    fn take_sample<S>(
        &mut self,
        shared: &SharedClock<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Option<SampleOutcome> {
        // Before the samples: a suspend after this one is seen as one by the thread that ends the
        // line.
        self.suspended_ns = reference.suspended_ns();
        let size = self.burst_size();
        self.bursts = self.bursts.wrapping_add(1);
        let sample = burst(counter, reference, self.config.resolutions, size, self.slope)?;
        let slope = self.slope.unwrap_or(UNKNOWN_SLOPE);
        let steering_ppb = reference.steering_ppb();
        let outcome =
            self.stability.add_sample(&sample, steering_ppb, slope, self.config.interval_ns, &shared.events);
        if outcome == SampleOutcome::Void {
            self.unix = UnixTrack::new();
            self.disrupted = true;
        }
        if self.unix.update(reference) {
            shared.events.count(Event::UnixStep);
        }
        Some(outcome)
    }

    /// How many brackets the next burst has: as many as it takes for a sample as narrow as the
    /// narrowest, within limits.
    fn burst_size(&self) -> BurstSize {
        let narrowest = self.slope.and_then(|slope| Some((slope, self.stability.history.narrowest(slope)?)));
        let Some((slope, narrowest)) = narrowest else { return BurstSize::fixed(BRACKETS) };
        let is_full = self.bursts % FULL_BURST_EVERY == FULL_BURST_EVERY - 1;
        let enough = narrowest.plus(FixedNs::from_ns(SPARE_WIDTH_NS));
        BurstSize {
            least_brackets: BRACKETS,
            wanted_width: if is_full { FixedNs::ZERO } else { enough },
            most_brackets: MOST_BRACKETS,
            most_ticks: slope.ticks_in(SLOW_BURST_NS),
        }
    }
}

/// Ends a line of whose slope nothing is known any more. Readers get the OS clock until there is
/// another line.
#[inline(never)]
fn end_line<S: StateCell>(
    line: &CellLine,
    shared: &SharedClock<S>,
    counter: &impl Counter,
    reference: &impl Reference,
) {
    let replacing = CellLine { state: line.state.replacing(), ..*line };
    if shared.cell.swap(line.state, replacing.state) {
        shared.help(&replacing, counter, reference);
    }
}

// These tests are long, single-threaded, and of safe code alone. Miri would take minutes and find
// nothing that it does not find in the tests of `shared`, which run the same loop.
#[cfg(all(test, not(miri)))]
mod following_tests;
#[cfg(all(test, not(miri)))]
mod tests;
