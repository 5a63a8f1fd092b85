//! The control loop: sample -> estimate -> discipline -> publication.
//!
//! [`Control::iterate`] is one iteration. Its caller, the driver, holds the clock's lock, and
//! decides when the next iteration comes. An iteration takes a burst of brackets, or up to four
//! bursts if the state changes meanwhile or a burst is of no use. It computes for about a
//! microsecond, and makes at most one publication. `DESIGN.md`, section "The pipeline", lists the
//! stages of an iteration and their functions. A publication has three steps:
//!
//! | before | announce | read clocks and compute | publish |
//! |---|---|---|---|
//! | a line (rule 2) | published -> replacing | the counter | -> published |
//! | no line (rule 7) | no line -> first publication | the reference, between two reads of the counter | -> published, for about 150 us; longer where sampling is slow |
//!
//! After a first publication the next iteration is due at once. Its line has a proven slope and a
//! full window. The writer publishes slower and faster lines alike through `Replacing`, so there is
//! one path to prove.
//!
//! Start-up and a change of rate are handled alike: the interval grows by half from iteration to
//! iteration, from 50 us to the configured one. `control/schedule.rs` says when it is shorter.

use crate::cell::{StateCell, WindowedLine};
use crate::counter::Counter;
use crate::estimate::Fit;
use crate::line::Slope;
use crate::reference::{Reference, Resolutions};
use crate::sample::{BurstSize, Sample, burst};
use crate::shared::{Access, Event, Readings, SampleAge, SharedClock};
use crate::stability::StabilityMonitor;
use crate::state::{Phase, has_atomics};
use crate::units::{FRACTION_BITS, FixedNs, NS_PER_S, ticks_between};
use crate::unix_track::UnixTrack;

mod config;
mod publish;
mod schedule;

pub use crate::discipline::{DISRUPTED_OFFSET_NS, MEETING_MARGIN_NS};
pub use config::{Cadence, Config};
use schedule::SampleDurations;

/// The shortest interval, ns, and the shortest rest that [`driver`](crate::driver) and
/// [`per_cpu`](crate::per_cpu) demand between two iterations. Two brackets of 30 ns that are 50 us
/// apart leave the rate uncertain by 600 ppm, which suffices for another 50 us.
pub const MIN_INTERVAL_NS: u64 = 50_000;

/// The smallest and the largest interval that may be configured, ns.
pub const INTERVAL_RANGE_NS: core::ops::RangeInclusive<u64> = 1_000_000..=10 * NS_PER_S;

/// The fewest brackets in a burst (1.5 us). A sample keeps the shortest half-bracket of each side.
/// With 16 brackets the bound of a steady reference reaches 17 ns, with 32 it reaches 15
/// (`tests/sim/tests/limits/reference.rs`). In loom's models each read is a step, so a burst there
/// has one bracket. Miri takes a thousand times as long, so it gets four.
const BRACKETS: u32 = if cfg!(loom) {
    1
} else if cfg!(miri) {
    4
} else {
    32
};

/// The most brackets in a burst. The head of `sample.rs` says how often 32 brackets are too few.
const MAX_BRACKETS: u32 = if cfg!(any(loom, miri)) {
    BRACKETS
} else {
    4 * BRACKETS
};

/// A burst that has taken longer than this, ns, ends at any bracket from the 32nd on, unless one of
/// the last brackets contradicts the others. A choice, not a measurement: above the time of all 128
/// brackets where the vDSO reads the counter (6 us, at 1.5 us for 32). With a larger one, an
/// iteration could take longer where the reference is a device.
const SLOW_BURST_NS: u64 = 10_000;

/// One burst in this many takes all its brackets: see the head of `sample.rs`.
const FULL_BURST_EVERY: u32 = 8;

/// A burst continues while its sample is wider than the narrowest kept sample by more than this,
/// ns. The reference's rounding alone can cause this difference.
const WIDTH_TOLERANCE_NS: i64 = 1;

/// The slope that is used until the real one is known: 16 GHz. No counter is faster, so a
/// conversion from ns never gives too few ticks.
const UNKNOWN_SLOPE: Slope = Slope {
    bits: 1 << (FRACTION_BITS - 4),
};

/// The most samples that one iteration takes. A writer that was preempted after each sample gives
/// up until the next iteration.
const MAX_SAMPLES: u32 = 4;

/// The longest window, ticks. A line is valid for twice that, which is half of the range in which
/// [`Line::ns_at`](crate::line::Line::ns_at) converts its bounds exactly.
const MAX_WINDOW_TICKS: u64 = 1 << 46;

const _: () = assert!(2 * MAX_WINDOW_TICKS < crate::line::Line::MAX_DELTA_TICKS);

/// The result of an iteration.
///
/// ```
/// use tickline_core::control::Outcome;
///
/// fn in_a_word(outcome: Outcome) -> &'static str {
///     match outcome {
///         Outcome::Published | Outcome::PublishedFirst => "the counter serves",
///         Outcome::NoAtomics | Outcome::CounterTooSlow => "the counter cannot serve",
///         Outcome::RetrySoon => "the next iteration may publish a line",
///         _ => "the reference serves for now",
///     }
/// }
/// assert_eq!(in_a_word(Outcome::Calibrating), "the reference serves for now");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A line was published.
    Published,
    /// A first line was published. It is short, so the next iteration is due at once.
    PublishedFirst,
    /// No line yet, because the samples do not suffice. If they contradicted the previous line,
    /// this iteration has ended it.
    Calibrating,
    /// No line was published, for a reason that passes by itself: another thread changed the state,
    /// the writer was preempted too often, or the reference has not passed the high-water mark. An
    /// earlier line stays in use, unless this iteration has found that it no longer counts.
    RetrySoon,
    /// No line: the clock is barred.
    Barred,
    /// No line: the processor can't swap the state ([`has_atomics`]).
    NoAtomics,
    /// No line was published, because the counter is too slow for one: see
    /// [`LineCell`](crate::cell::LineCell). The next iteration measures its frequency again.
    CounterTooSlow,
}

/// The result of an iteration, and when the next one is due.
///
/// ```
/// use core::time::Duration;
/// use tickline_core::control::Iteration;
///
/// fn sleep_until_due(iteration: Iteration) {
///     std::thread::sleep(Duration::from_nanos(iteration.next_in_ns));
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "`next_in_ns` says when the next iteration is due"]
pub struct Iteration {
    /// What the iteration did, or why it published no line.
    pub outcome: Outcome,
    /// Time until the next iteration, ns. 0: it is due at once.
    pub next_in_ns: u64,
}

impl Iteration {
    const fn new(outcome: Outcome, next_in_ns: u64) -> Self {
        Self {
            outcome,
            next_in_ns,
        }
    }
}

/// The writer's memory. Only the holder of the clock's lock reaches it.
///
/// The driver may change the settings between two iterations: the next iteration reads them anew,
/// and nothing else depends on their earlier values. Other resolutions need a [`new`](Self::new)
/// control loop, because the kept samples have the earlier ones.
///
/// ```
/// use tickline_core::control::{Config, Control, Outcome};
/// # use tickline_core::{cell::LineCell, counter::Counter, reference::{Reference, ReferenceKind, Resolutions}};
/// # struct Machine(core::cell::Cell<u64>);
/// # impl Machine {
/// #     fn wait_ns(&self, ns: u64) { self.0.set(self.0.get() + ns) }
/// # }
/// # impl Counter for Machine {
/// #     fn now(&self) -> u64 { self.wait_ns(10); self.0.get() }
/// #     fn barrier(&self) {}
/// # }
/// # impl Reference for Machine {
/// #     fn monotonic_ns(&self) -> i64 { self.now() as i64 }
/// #     fn unix_ns(&self) -> i64 { self.now() as i64 }
/// # }
/// # let machine = Machine(core::cell::Cell::new(5_000_000));
/// # let clock = tickline_core::shared::SharedClock::new(LineCell::new());
/// # let resolutions = Resolutions::new(1, 1, ReferenceKind::Independent);
///
/// let mut control = Control::new(resolutions, Config::new(500_000_000));
/// let mut iteration = control.iterate(&clock, &machine, &machine);
/// while iteration.outcome != Outcome::Published {
///     machine.wait_ns(iteration.next_in_ns);
///     iteration = control.iterate(&clock, &machine, &machine);
/// }
/// let readings = clock.readings();
/// assert!(readings.read_ns(&machine).is_some() && readings.read_unix_ns(&machine).is_some());
///
/// // The driver changes a setting: the next line leaves Unix time to the reference.
/// control.config.serves_unix_time = false;
/// machine.wait_ns(iteration.next_in_ns);
/// assert_eq!(control.iterate(&clock, &machine, &machine).outcome, Outcome::Published);
/// assert!(readings.read_ns(&machine).is_some() && readings.read_unix_ns(&machine).is_none());
///
/// // An iteration limits the interval, and leaves the setting as it is.
/// for interval_ns in [0, u64::MAX] {
///     control.config.interval_ns = interval_ns;
///     let iteration = control.iterate(&clock, &machine, &machine);
///     assert_eq!(control.config.interval_ns, interval_ns);
///     assert!((50_000..=10_000_000_000).contains(&iteration.next_in_ns));
/// }
/// ```
#[derive(Debug)]
pub struct Control {
    /// The settings of the next iteration.
    pub config: Config,
    /// Resolutions of counter and reference.
    pub(crate) resolutions: Resolutions,
    stability: StabilityMonitor,
    unix: UnixTrack,
    /// The slope of the last target.
    target_slope: Option<Slope>,
    /// The durations of the last samples.
    sample_durations: SampleDurations,
    /// Whether the slope of the present line is proven: it comes from samples, and the line is not
    /// a first line.
    has_proven_slope: bool,
    /// Iterations in a row that published no line.
    iterations_without_line: u32,
    /// Bursts so far.
    burst_count: u32,
    /// The machine's total time suspended before the newest sample, ns.
    suspended_ns: Option<i64>,
    /// The last disruption marker before a sample.
    disruption_marker: Option<u64>,
    /// The tick of the first sample after a hypervisor has moved or restored the machine; `None`
    /// once an interval has passed since.
    moved_at_ticks: Option<u64>,
    /// Whether the line has not reached its target since the reference or the counter jumped, or
    /// since the samples had a break.
    is_disrupted: bool,
}

const _: () = assert!(
    size_of::<Control>() <= 4 * 1_024,
    "a program without an operating system has it on its stack"
);

/// What an iteration has learnt from a sample.
struct Sampled {
    /// Whether the sample is consistent with the history.
    is_consistent: bool,
    /// The slopes that fit all samples, if they are certain enough to be used.
    fit: Option<Fit>,
}

/// Why no sample of an iteration has made a line.
enum NoUsableSample {
    /// Each was too old when it was complete; the last one had this age.
    TooOld(SampleAge),
    /// The samples failed for various reasons, or the counter ran backwards in all brackets.
    Various,
}

/// Why a line could not be published.
enum NotPublished {
    /// There is no sample; the writer takes one.
    NoSample,
    /// The samples are too old; the writer takes others.
    SamplesTooOld(SampleAge),
    /// The state to be replaced is gone: another thread has changed it, or this thread has retired
    /// the line.
    StateChanged,
    /// The reference has not passed the high-water mark yet; the writer tries again later.
    BelowHighWater,
    /// The ticks are about to wrap, or have just wrapped ([`WRAP_MASK`](crate::state::WRAP_MASK));
    /// the writer tries again later.
    NearWrap,
    /// The counter has this frequency, Hz, and is too slow for [`SHIFT`](crate::state::SHIFT).
    CounterTooSlow { hz: u64 },
}

impl Control {
    /// A control loop without samples, for a counter and a reference of these resolutions.
    #[must_use]
    pub const fn new(resolutions: Resolutions, config: Config) -> Self {
        Self {
            config,
            resolutions,
            stability: StabilityMonitor::new(),
            unix: UnixTrack::UNKNOWN,
            target_slope: None,
            sample_durations: SampleDurations::NONE,
            has_proven_slope: false,
            iterations_without_line: 0,
            burst_count: 0,
            suspended_ns: None,
            disruption_marker: None,
            moved_at_ticks: None,
            is_disrupted: false,
        }
    }

    /// The tick of the oldest sample on which the next line's bounds will rest; `None` without a
    /// sample. The bounds assume that the reference has changed its rate by no more than the
    /// maximum drift since then: a test that disturbs the reference can tell which bounds must
    /// hold.
    #[must_use]
    pub fn oldest_sample_ticks(&self) -> Option<u64> {
        let Sample { upper, lower } = self.stability.history.samples().first()?;
        Some(if ticks_between(upper.ticks, lower.ticks) > 0 {
            upper.ticks
        } else {
            lower.ticks
        })
    }

    /// The interval of [`config`](Self::config), within its limits, ns.
    pub(crate) fn interval_ns(&self) -> u64 {
        let max_ns = *INTERVAL_RANGE_NS.end();
        self.config.interval_ns.clamp(MIN_INTERVAL_NS, max_ns)
    }

    /// One iteration. Never panics, allocates or waits.
    ///
    /// Two control loops MUST NOT iterate for one clock at the same time: they could publish lines
    /// of which readings step back. `counter` and `reference` MUST be those of every other call for
    /// this clock, as [`SharedClock`] says, and have the resolutions of this loop, on which the
    /// bounds rest.
    pub fn iterate<S: StateCell>(
        &mut self,
        shared: &SharedClock<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Iteration {
        let access = Access {
            shared,
            counter,
            reference,
        };
        let result = self.sample_and_publish(&access);
        shared.readings().figures.record_iteration(match result {
            Err(NoUsableSample::TooOld(age)) => Some(age),
            Ok(_) | Err(NoUsableSample::Various) => None,
        });
        let iteration =
            result.unwrap_or_else(|_| Iteration::new(Outcome::RetrySoon, self.retry_interval_ns()));
        self.iterations_without_line = match iteration.outcome {
            Outcome::Published | Outcome::PublishedFirst | Outcome::Barred => 0,
            _ => self.iterations_without_line.saturating_add(1),
        };
        iteration
    }

    /// Takes samples until one makes a line, or shows that there can be none now.
    fn sample_and_publish(
        &mut self,
        access: &Access<'_, impl StateCell, impl Counter, impl Reference>,
    ) -> Result<Iteration, NoUsableSample> {
        let readings = access.shared.readings();
        let mut too_old_samples: u32 = 0;
        let mut failure = NoUsableSample::Various;
        for _ in 0..MAX_SAMPLES {
            let Some(sampled) = self.take_sample(access) else {
                continue;
            };
            let snapshot = readings.cell.snapshot();
            if matches!(
                snapshot.state.phase(),
                Phase::Replacing | Phase::FirstPublication
            ) {
                // This thread holds the lock, so no writer will finish this publication: its writer
                // was in the parent of this process, or another thread is barring the clock.
                readings.help(&snapshot, access.counter, access.reference);
                continue;
            }
            match self.publish_next(&sampled, &snapshot, access) {
                Ok(iteration) => return Ok(iteration),
                Err(why) => {
                    if let NotPublished::SamplesTooOld(age) = why {
                        too_old_samples = too_old_samples.saturating_add(1);
                        if too_old_samples == MAX_SAMPLES {
                            failure = NoUsableSample::TooOld(age);
                        }
                    }
                    if let Some(iteration) = self.end_without_line(&why, readings) {
                        return Ok(iteration);
                    }
                }
            }
        }
        Err(failure)
    }

    /// Takes a burst, adds its sample to the history, and fits lines to the history. `None` if the
    /// counter ran backwards in all brackets.
    fn take_sample(
        &mut self,
        access: &Access<'_, impl StateCell, impl Counter, impl Reference>,
    ) -> Option<Sampled> {
        let Access {
            shared,
            counter,
            reference,
        } = *access;
        let events = &shared.readings().events;
        let begin_ticks = counter.now_ordered();
        // The reference is asked before the sample. The thread that ends the line asks again, and
        // so notices each suspend in between. If the machine is moved after this, the next
        // iteration notices it.
        self.suspended_ns = reference.suspended_ns();
        let marker = reference.disruption_marker();
        let size = self.burst_size();
        self.burst_count = self.burst_count.wrapping_add(1);
        let sample = burst(
            counter,
            reference,
            self.resolutions,
            size,
            self.target_slope,
        )?;
        let slope = self.target_slope.unwrap_or(UNKNOWN_SLOPE);
        let steering_ppb = reference.steering_ppb();
        let is_moved = self.record_marker(marker);
        if is_moved {
            // Another host's counter has another rate, and a restored one may go on from any value.
            // A kernel that keeps time by the counter is moved with it, so no sample shows this.
            self.stability.disrupt(&sample, events);
            self.moved_at_ticks = Some(sample.lower.ticks);
        }
        let fits_the_earlier =
            self.stability
                .add_sample(&sample, steering_ppb, slope, self.interval_ns(), events);
        let is_consistent = fits_the_earlier && !is_moved;
        if !is_consistent {
            self.unix = UnixTrack::UNKNOWN;
            self.is_disrupted = true;
        }
        if self.unix.update(reference) {
            events.count(Event::UnixStep);
        }
        let fit = self.stability.refit(slope, events);
        self.sample_durations
            .add(ticks_between(begin_ticks, counter.now_ordered()));
        Some(Sampled { is_consistent, fit })
    }

    /// Remembers the disruption marker. Returns whether it has changed. A marker that becomes known
    /// says nothing of the time before, and one that nobody states any more says nothing.
    fn record_marker(&mut self, marker: Option<u64>) -> bool {
        let Some(marker) = marker else {
            return false;
        };
        self.disruption_marker
            .replace(marker)
            .is_some_and(|before| before != marker)
    }

    /// Publishes the next line, if the clock may have one: a line after the one in `snapshot`, or a
    /// first line. A line that the sample disproves is retired.
    fn publish_next(
        &mut self,
        sampled: &Sampled,
        snapshot: &WindowedLine,
        access: &Access<'_, impl StateCell, impl Counter, impl Reference>,
    ) -> Result<Iteration, NotPublished> {
        if !has_atomics() {
            return Ok(Iteration::new(Outcome::NoAtomics, self.interval_ns()));
        }
        if snapshot.state.is_barred() {
            return Ok(Iteration::new(Outcome::Barred, self.interval_ns()));
        }
        let fit = sampled.fit.as_ref();
        if snapshot.state.is_published() {
            // A new control loop does not know whether the slope of an existing line is bent to
            // remove an offset.
            if self.target_slope.is_none() || !sampled.is_consistent && !self.has_proven_slope {
                access.retire_line(snapshot);
                return Ok(Iteration::new(Outcome::Calibrating, MIN_INTERVAL_NS));
            }
            let plan = self.make_plan(snapshot.slope(), fit, None)?;
            return self.replace(&plan, snapshot, access);
        }
        match fit {
            Some(found) if self.stability.is_confirmed() => {
                let plan = self.make_plan(found.slope_max, fit, Some(MIN_INTERVAL_NS))?;
                self.publish_first_line(&plan, snapshot, access)
            }
            _ => Ok(Iteration::new(
                Outcome::Calibrating,
                self.retry_interval_ns(),
            )),
        }
    }

    /// The iteration that ends because no line could be published; `None` if another sample may
    /// make one.
    fn end_without_line<S: StateCell>(
        &mut self,
        why: &NotPublished,
        readings: &Readings<S>,
    ) -> Option<Iteration> {
        match why {
            NotPublished::NoSample | NotPublished::SamplesTooOld(_) => None,
            // The line has ended: the next sample may make a first line.
            NotPublished::StateChanged if readings.cell.load().phase() == Phase::NoLine => None,
            NotPublished::StateChanged => Some(Iteration::new(Outcome::RetrySoon, MIN_INTERVAL_NS)),
            NotPublished::BelowHighWater | NotPublished::NearWrap => {
                // The samples are good enough, so the next iterations need not come less often.
                self.iterations_without_line = 0;
                Some(Iteration::new(Outcome::RetrySoon, MIN_INTERVAL_NS))
            }
            NotPublished::CounterTooSlow { hz } => {
                readings.figures.store_too_slow_counter(*hz);
                Some(Iteration::new(Outcome::CounterTooSlow, self.interval_ns()))
            }
        }
    }

    /// The size of the next burst. Within limits, the burst goes on until its sample is as narrow
    /// as the narrowest kept sample.
    fn burst_size(&self) -> BurstSize {
        let narrowest = self
            .target_slope
            .and_then(|slope| Some((slope, self.stability.history.narrowest(slope)?)));
        let Some((slope, narrowest)) = narrowest else {
            return BurstSize::fixed(BRACKETS);
        };
        let is_full = self.burst_count % FULL_BURST_EVERY == FULL_BURST_EVERY - 1;
        let enough = narrowest.saturating_add(FixedNs::from_ns(WIDTH_TOLERANCE_NS));
        BurstSize {
            min_brackets: BRACKETS,
            wanted_width: if is_full { FixedNs::ZERO } else { enough },
            max_brackets: MAX_BRACKETS,
            max_ticks: slope.ticks_in_ceil(SLOW_BURST_NS),
        }
    }
}

// These tests are long and single-threaded, and have only safe code. Miri would take minutes and
// find nothing that it does not find in the tests of `shared`, which run the same loop.
#[cfg(all(test, not(miri)))]
mod tests;
