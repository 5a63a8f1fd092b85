//! The control loop: sample -> estimate -> discipline -> what to publish.
//!
//! [`Control::maintain`] is one iteration. Its caller, the driver, holds the clock's lock, and
//! decides when the next iteration comes. An iteration takes a burst of brackets, computes for
//! about a microsecond, and changes the state once. `DESIGN.md`, section "The pipeline", has the
//! steps in the order in which their data flow, and the function of each. A publication has three
//! steps:
//!
//! ```text
//! a line (rule 2):  published -> replacing; read the counter; compute the line -> published
//! no line (rule 7): no line -> first publication; ask the reference -> published for some 150 us
//! ```
//!
//! After a recovery the caller runs a second iteration at once. Its line has a slope that is proven
//! and a full window. The writer publishes slower and faster lines alike through `Replacing`, so
//! there is one path to prove.
//!
//! Start-up and a change of rate are one case. The interval is half of the time for which the
//! control loop has watched the reference without a break. It is at least 50 us, and at most the
//! configured interval. So the interval grows by half from iteration to iteration. While the bound
//! would otherwise grow wide, or the line is off its target, the interval is a sixteenth of the
//! configured one. `control/schedule.rs` has the reasons.

use crate::cell::{StateCell, WindowedLine};
use crate::counter::Counter;
use crate::line::Slope;
use crate::sample::{BurstSize, Reference, Resolutions, Sample, UnixTrack, burst};
use crate::shared::{Event, SharedClock};
use crate::stability::StabilityMonitor;
use crate::state::{Phase, is_supported};
use crate::units::{FRACTION_BITS, FixedNs, NS_PER_S, ticks_between};

mod publish;
mod schedule;

pub use crate::discipline::{DISRUPTED_OFFSET_NS, MEETING_MARGIN_NS};
use publish::Plan;
use schedule::RecentTimes;

/// The shortest interval, ns. Brackets of 30 ns that are 50 us apart leave the rate uncertain by
/// 600 ppm, which is good enough for another 50 us.
pub const MIN_INTERVAL_NS: u64 = 50_000;

/// The smallest and the largest interval that may be configured, ns.
pub const INTERVAL_RANGE_NS: core::ops::RangeInclusive<u64> = 1_000_000..=10 * NS_PER_S;

/// The fewest brackets in a burst (1.5 us). A sample keeps the shortest half-bracket of each side.
/// With 16 brackets the bound of a steady reference reaches 17 ns, with 32 it reaches 15
/// (`tickline-sim`, `tests/limits.rs`). In loom's models each read is a step, so a burst there has
/// one bracket. Miri takes a thousand times as long, so it gets four.
const BRACKETS: u32 = if cfg!(loom) {
    1
} else if cfg!(miri) {
    4
} else {
    32
};

/// The most brackets in a burst. A counter that moves by 10 ns at a time shows the shortest
/// half-bracket in 1 bracket of 16 (AMD Zen 5 under KVM). So 32 brackets miss it in every seventh
/// burst, and the middle of such a sample is off by 5 ns.
const MAX_BRACKETS: u32 = if cfg!(any(loom, miri)) { BRACKETS } else { 4 * BRACKETS };

/// If the first 32 brackets have taken longer than this, ns, the reference is slow, and the burst
/// ends, unless one of its last brackets contradicts the others.
const SLOW_BURST_NS: u64 = 10_000;

/// Every eighth burst takes all its brackets, however narrow its sample is, because all samples so
/// far may have missed the short sides. On AMD Zen 5 with busy neighbours the narrowest sample
/// stayed at 40 ns for minutes; a burst of 128 brackets finds 20 to 30.
const FULL_BURST_EVERY: u32 = 8;

/// A burst continues while its sample is wider than the narrowest one by more than this, ns. Even
/// the reference's rounding can cause that much.
const WIDTH_TOLERANCE_NS: i64 = 1;

/// The slope that is used until the real one is known: 16 GHz. No counter is faster, so a
/// conversion from ns never gives too few ticks.
const UNKNOWN_SLOPE: Slope = Slope { bits: 1 << (FRACTION_BITS - 4) };

/// If a sample is older than this, ns, when it is used, the writer was preempted, and takes
/// another.
const MAX_SAMPLE_AGE_NS: u64 = 100_000;

/// If the high-water mark is ahead of the reference by less than this, ns, a first line waits until
/// the reference has passed the mark. The figure is one and a half times the sum of two margins.
/// One is the margin of the mark. The other is the time by which a line starts before its
/// publication.
const WAIT_FOR_HIGH_WATER_NS: i64 = 15_000;

/// An offset shortens the interval if it is larger than this and twice the newest sample's width
/// together, ns.
const USUAL_OFFSET_NS: i64 = 50;

/// The lateness that a thread may have without losing its line, ns: a tick of a kernel at 250 Hz.
/// With a limit of 62 us to 1 ms, and a thread that always came 5 ms late, the clock had no line
/// for up to 74 % of the time (`tickline-sim`, interval 10 ms, rates that change by 20 ppm).
const MAX_LATENESS_NS: u64 = 4_000_000;

/// After this many iterations without a line, the next ones come less often.
const QUICK_RETRIES: u32 = 16;

/// The most samples that one iteration takes. A writer that was preempted after each of them gives
/// up until the next iteration.
const MAX_SAMPLES: u32 = 4;

/// The longest window, ticks. A line is valid for twice that, which is half of the range in which
/// [`Line::at`](crate::line::Line::at) converts its bounds exactly.
const MAX_WINDOW_TICKS: u64 = 1 << 46;

const _: () = assert!(2 * MAX_WINDOW_TICKS < crate::line::Line::MAX_DELTA_TICKS);

/// Who runs the iterations of a control loop. The lines differ in three ways:
///
/// | | window, intervals | starts | may be short to keep the bound narrow |
/// |---|---|---|---|
/// | `Timer` | 2 | 5 us before its publication | yes |
/// | `PinnedThread` | 4 | with its publication | yes |
/// | `Readers` | 1 | 5 us before its publication | until the range of the kernel's dither is known |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrivenBy {
    /// A thread, a timer or the program, which comes by itself before the window ends.
    Timer,
    /// A thread that must first get onto a certain CPU, which may be busy. That CPU has a line of
    /// its own.
    PinnedThread,
    /// A reader that finds the window passed.
    Readers,
}

/// The settings of a control loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The interval in the steady state, ns. Within [`INTERVAL_RANGE_NS`].
    pub interval_ns: u64,
    /// Resolutions of counter and reference.
    pub resolutions: Resolutions,
    /// Who runs the iterations.
    pub driven_by: DrivenBy,
}

/// What an iteration came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A line was published.
    Published,
    /// A short line was published where there was none: run another iteration at once.
    Recovered,
    /// No line yet: the samples say too little. If they spoke against the line that was there, this
    /// iteration has ended it.
    Calibrating,
    /// No line yet, for a reason that passes soon. Another thread changed the state, the writer was
    /// preempted too often, or the reference has not passed the high-water mark.
    RetrySoon,
    /// No line: a gate is closed.
    GateClosed,
    /// No line, and none to come: the processor can't swap the state, or the counter is too slow.
    Unsupported,
}

/// An iteration: what it came to, and when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "`next_in_ns` says when the next iteration is due"]
pub struct Iteration {
    /// What it came to.
    pub outcome: Outcome,
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
    /// How long the last samples took.
    sampling: RecentTimes,
    /// Whether the slope of the present line is proven: it comes from samples, and the line is not
    /// the first one after a recovery.
    slope_is_proven: bool,
    /// Iterations in a row without a line.
    iterations_without_line: u32,
    /// Bursts so far.
    burst_count: u32,
    /// How long the machine had been suspended before the newest sample, ns.
    suspended_ns: Option<i64>,
    /// Whether the reference or the counter jumped, and the line has not reached its target
    /// since.
    disrupted: bool,
    /// What the next line is made of. Each publication makes it first.
    plan: Plan,
}

/// Why a line could not be published.
enum NotPublished {
    /// The samples are too old: take others.
    SamplesTooOld,
    /// There is no such line to replace any more: another thread has changed the state, or this one
    /// has retired the line.
    Lost,
    /// The reference has not passed the high-water mark yet, or the ticks are about to wrap
    /// ([`wrap_mask`](crate::state::wrap_mask)): try again later.
    Early,
    /// The counter is too slow for the cell's `SHIFT`.
    CounterTooSlow,
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
            slope_is_proven: false,
            iterations_without_line: 0,
            burst_count: 0,
            suspended_ns: None,
            disrupted: false,
            plan: Plan::EMPTY,
        }
    }

    /// Forgets everything, and goes on as a new control loop with `config` would. It works in
    /// place, because a signal handler's stack has no room for another loop.
    pub fn begin_anew(&mut self, config: Config) {
        static UNCALIBRATED: StabilityMonitor = StabilityMonitor::new();
        (self.config, self.serves_unix) = (config, true);
        // Not an assignment, which makes a copy on the stack without optimisation: the monitor is
        // too large for that.
        core::slice::from_mut(&mut self.stability).copy_from_slice(core::slice::from_ref(&UNCALIBRATED));
        self.unix = UnixTrack::new();
        (self.slope, self.suspended_ns) = (None, None);
        self.sampling = RecentTimes::NONE;
        (self.slope_is_proven, self.disrupted) = (false, false);
        (self.iterations_without_line, self.burst_count) = (0, 0);
        self.plan = Plan::EMPTY;
    }

    /// The tick of the oldest sample that the next bounds would rest on.
    #[doc(hidden)]
    #[must_use]
    pub fn oldest_sample_ticks(&self) -> Option<u64> {
        let Sample { upper, lower } = self.stability.history.samples().first()?;
        Some(if ticks_between(upper.ticks, lower.ticks) > 0 { upper.ticks } else { lower.ticks })
    }

    /// One iteration. Never panics, allocates or waits.
    pub fn maintain<S: StateCell>(
        &mut self,
        shared: &SharedClock<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Iteration {
        let iteration = self.iterate(&Io { shared, counter, reference });
        self.iterations_without_line = match iteration.outcome {
            Outcome::Published | Outcome::Recovered | Outcome::GateClosed => 0,
            _ => self.iterations_without_line.saturating_add(1),
        };
        iteration
    }

    fn iterate(&mut self, io: &Io<'_, impl StateCell, impl Counter, impl Reference>) -> Iteration {
        let Io { shared, counter, .. } = io;
        let iteration = |outcome, next_in_ns| Iteration { outcome, next_in_ns };
        let interval_ns = self.config.interval_ns;
        let mut samples_too_old = false;
        for _ in 0..MAX_SAMPLES {
            let begin_ticks = counter.now_ordered();
            let Some(is_consistent) = self.take_sample(io) else { continue };
            let fit = self.stability.refit(self.slope.unwrap_or(UNKNOWN_SLOPE), &shared.events);
            self.sampling.add(ticks_between(begin_ticks, counter.now_ordered()));

            let seen = shared.cell.snapshot();
            let result = match seen.state.phase() {
                // This thread holds the lock, so no writer will finish this publication. The
                // publication's writer is in this process's parent. Or a thread is closing the
                // gate.
                Phase::Replacing | Phase::FirstPublication => {
                    io.help(&seen);
                    continue;
                }
                _ if !is_supported() => return iteration(Outcome::Unsupported, interval_ns),
                _ if seen.state.is_gate_closed() => return iteration(Outcome::GateClosed, interval_ns),
                // A control loop that starts anew knows nothing about the line that it finds,
                // whose slope may be bent.
                Phase::Published if self.slope.is_none() || !is_consistent && !self.slope_is_proven => {
                    io.end_line(&seen);
                    return iteration(Outcome::Calibrating, MIN_INTERVAL_NS);
                }
                Phase::Published => self
                    .make_plan(seen.slope(), fit.as_ref(), u64::MAX)
                    .and_then(|()| self.replace(&seen, io)),
                Phase::NoLine => match &fit {
                    Some(found) if self.stability.is_confirmed() => self
                        .make_plan(found.slope_max, fit.as_ref(), MIN_INTERVAL_NS)
                        .and_then(|()| self.recover_line(&seen, io)),
                    _ => return iteration(Outcome::Calibrating, self.retry_interval_ns()),
                },
            };
            samples_too_old = matches!(result, Err(NotPublished::SamplesTooOld));
            match result {
                Ok(done) => return done,
                Err(NotPublished::SamplesTooOld) => {}
                Err(NotPublished::Lost) if shared.cell.load().phase() == Phase::NoLine => {}
                Err(NotPublished::Lost) => return iteration(Outcome::RetrySoon, MIN_INTERVAL_NS),
                Err(NotPublished::Early) => {
                    // The samples are good enough, so the next iterations need not come less often.
                    self.iterations_without_line = 0;
                    return iteration(Outcome::RetrySoon, MIN_INTERVAL_NS);
                }
                Err(NotPublished::CounterTooSlow) => {
                    shared.figures.store_counter_too_slow();
                    return iteration(Outcome::Unsupported, interval_ns);
                }
            }
        }
        if samples_too_old {
            shared.figures.count_samples_too_old();
        }
        iteration(Outcome::RetrySoon, self.retry_interval_ns())
    }

    /// Takes a burst, and adds its sample to what is known. Returns whether the sample is
    /// consistent with that; `None` if the counter ran backwards in all brackets.
    #[inline(never)]
    fn take_sample(&mut self, io: &Io<'_, impl StateCell, impl Counter, impl Reference>) -> Option<bool> {
        let Io { shared, counter, reference } = *io;
        // Asked before the sample is taken. The thread that ends the line asks again, and so
        // notices each suspend since.
        self.suspended_ns = reference.suspended_ns();
        let size = self.burst_size();
        self.burst_count = self.burst_count.wrapping_add(1);
        let sample = burst(counter, reference, self.config.resolutions, size, self.slope)?;
        let slope = self.slope.unwrap_or(UNKNOWN_SLOPE);
        let steering_ppb = reference.steering_ppb();
        let is_consistent =
            self.stability.add_sample(&sample, steering_ppb, slope, self.config.interval_ns, &shared.events);
        if !is_consistent {
            self.unix = UnixTrack::new();
            self.disrupted = true;
        }
        if self.unix.update(reference) {
            shared.events.count(Event::UnixStep);
        }
        Some(is_consistent)
    }

    /// How many brackets the next burst has. It goes on until its sample is as narrow as the
    /// narrowest one, within limits.
    fn burst_size(&self) -> BurstSize {
        let narrowest = self.slope.and_then(|slope| Some((slope, self.stability.history.narrowest(slope)?)));
        let Some((slope, narrowest)) = narrowest else { return BurstSize::fixed(BRACKETS) };
        let is_full = self.burst_count % FULL_BURST_EVERY == FULL_BURST_EVERY - 1;
        let enough = narrowest.plus(FixedNs::from_ns(WIDTH_TOLERANCE_NS));
        BurstSize {
            min_brackets: BRACKETS,
            wanted_width: if is_full { FixedNs::ZERO } else { enough },
            max_brackets: MAX_BRACKETS,
            max_ticks: slope.ticks_in(SLOW_BURST_NS),
        }
    }
}

/// What an iteration works with.
struct Io<'a, S, C, R> {
    shared: &'a SharedClock<S>,
    counter: &'a C,
    reference: &'a R,
}

impl<S: StateCell, C: Counter, R: Reference> Io<'_, S, C, R> {
    /// See [`SharedClock::help`].
    fn help(&self, seen: &WindowedLine) {
        self.shared.help(seen, self.counter, self.reference);
    }

    /// Ends a line whose slope may be wrong. Readers get the OS clock until there is another line.
    #[inline(never)]
    fn end_line(&self, line: &WindowedLine) {
        if let Some(replacing) = self.shared.announce(line) {
            self.help(&replacing);
        }
    }
}

// These tests are long and single-threaded, and have only safe code. Miri would take minutes and
// find nothing that it does not find in the tests of `shared`, which run the same loop.
#[cfg(all(test, not(miri)))]
mod following_tests;
#[cfg(all(test, not(miri)))]
mod tests;
