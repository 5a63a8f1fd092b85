//! The control loop: sample -> estimate -> discipline -> what to publish.
//!
//! [`Control::maintain`] is one round. Its caller holds the clock's lock; who that is, and when it comes again, is the
//! driver's business. A round takes a burst of samples, about a microsecond of arithmetic, and one change of state:
//!
//! ```text
//! live: live -> closing, read the counter (x1), compute the line from x1, closing -> live     (rule 2)
//! cold: cold -> live for 100 to 200 us, above everything that a reader may have seen          (rule 7)
//! ```
//!
//! After a recovery the caller runs a second round at once, which settles slope and window. Lines that are slower and lines
//! that are faster are both published through `closing`: one path, and always right.
//!
//! Start-up and rate changes are the same thing: the interval is half of the time over which the reference has been
//! watched without a break, between 50 us and the configured interval, so it grows by half from round to round. A line
//! with half a bracket of error at both ends of its baseline is then off by at most one bracket at the end.

use crate::cell::{Envelope, State, StateCell};
use crate::counter::Counter;
use crate::discipline::{JOIN_SLACK_NS, RECOVERY_RHO_PPB, join, recover, steer};
use crate::estimate::{Fit, History, Target};
use crate::line::{Line, Slope};
use crate::primitive::Ordering;
use crate::sample::{Quanta, Reference, Sample, burst};
use crate::shared::{Event, Shared};
use crate::units::{NS_PER_S, fixed_from_ns, fixed_to_ns_round, ticks_between, unsigned};
use crate::unix::UnixTrack;
use crate::word::{GRANULE_TICKS, MIN_EXPONENT, Phase, Word};

/// The shortest interval, ns: 30 ns of bracket over 50 us is 600 ppm, good enough for another 50 us.
pub const MIN_INTERVAL_NS: u64 = 50_000;

/// The smallest and the largest interval that may be configured, ns.
pub const INTERVAL_RANGE_NS: core::ops::RangeInclusive<u64> = 1_000_000..=10 * NS_PER_S;

/// Brackets in a burst. The narrowest of 8 is within a counter step of the narrowest of 1,000 on an idle machine.
const BRACKETS: u32 = 8;

/// A sample older than this when it is used is taken again, ns: the writer was preempted.
const FRESH_NS: u64 = 100_000;

/// Rounds of sampling before a preempted writer gives up until the next interval.
const ATTEMPTS: u32 = 4;

/// Feasible slopes further apart than this make no line, ppb: twice 2e-3 of bracket over baseline.
const MAX_SPREAD_PPB: i64 = 4_000_000;

/// A break in the watch: so many intervals without a sample, and the rate may have changed unseen.
const BREAK_INTERVALS: u64 = 4;

/// The assumed stability of the reference's rate, ppb: at first what a kernel's dither can do
/// ([`DITHER_PPB`](crate::estimate::DITHER_PPB)); it halves with each full interval in which nothing contradicts it,
/// down to the second figure. That is 5 ns over 0.5 s; over 60 s CLOCK_MONOTONIC was seen to leave a line by 9 ns in
/// all, most of which is the counter's step.
const STABILITY_PPB: core::ops::RangeInclusive<u64> = 10..=200;

/// A contradiction above this share of the gap is a jump of the reference or the counter, not a change of rate, ppb...
const DISRUPTION_PPB: u128 = 1_000_000;

/// ...and so is nothing below this, ns.
const DISRUPTION_NS: u128 = 1_000;

/// When the next line is published, seen from the end of a soft window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Before it: a driver comes by itself, so the soft window lasts 1.5 to 3 intervals.
    Ahead,
    /// At it: a reader that finds it passed renews the line, so the soft window lasts 1 to 2 intervals.
    AtExpiry,
}

/// What a control loop needs to know from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The interval in the steady state, ns. Within [`INTERVAL_RANGE_NS`].
    pub interval_ns: u64,
    /// Largest steps of counter and reference.
    pub quanta: Quanta,
    /// Whether lines are for the slow path only, because 16-byte loads are not atomic here.
    pub guarded: bool,
    /// Who publishes the next line.
    pub renewal: Renewal,
}

/// What a round did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Round {
    /// A line was published.
    Published,
    /// A short line was published after a cold spell: run another round at once.
    Recovered,
    /// No line yet: the samples say too little.
    Learning,
    /// No line: the state changed under the writer, or it was preempted too often. Try again soon.
    Lost,
    /// No line: a gate is closed.
    Gated,
}

/// What a round did, and when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// What happened.
    pub round: Round,
    /// Time until the next round, ns.
    pub next_in_ns: u64,
}

/// The writer's memory. Reached only under the clock's lock.
#[derive(Debug)]
pub struct Control {
    config: Config,
    history: History,
    /// The slope of the last target.
    slope: Option<Slope>,
    /// The bounds published last.
    envelope: Option<Envelope>,
    /// The tick since which the reference has been watched without a break.
    watched_since_ticks: u64,
    stability_ppb: u64,
    steering_ppb: Option<i64>,
    unix: UnixTrack,
}

/// Why a line could not be published.
enum Refusal {
    Stale,
    Lost,
}

impl Control {
    /// A control loop that knows nothing yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            history: History::new(),
            slope: None,
            envelope: None,
            watched_since_ticks: 0,
            stability_ppb: *STABILITY_PPB.end(),
            steering_ppb: None,
            unix: UnixTrack::new(),
        }
    }

    /// What it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Changes who publishes the next line.
    pub fn set_renewal(&mut self, renewal: Renewal) {
        self.config.renewal = renewal;
    }

    /// One round. Never panics, allocates or waits.
    pub fn maintain<S: StateCell>(
        &mut self,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Outcome {
        let outcome = |round, next_in_ns| Outcome { round, next_in_ns };
        for _ in 0..ATTEMPTS {
            let quanta = self.config.quanta;
            let Some(sample) = burst(counter, reference, quanta, BRACKETS, self.slope) else {
                continue;
            };
            self.note_steering(reference);
            self.note_sample(&sample, shared);
            if self.unix.update(reference) {
                shared.count(Event::UnixStep);
            }
            let (fit, dropped) = self.history.fit();
            if dropped > 0 {
                shared.count(Event::RateChange);
            }
            let fit = fit.filter(|fit| fit.slope_max.ppb_above(fit.slope_min) <= MAX_SPREAD_PPB);
            let interval_ns = self.interval_ns(fit.as_ref(), dropped > 0);

            let state = shared.cell.load_whole();
            let result = match state.word.phase() {
                // We hold the lock, so its writer is gone: it was in the process that forked us, or is closing a gate.
                Phase::Closing => {
                    shared.finish_closing(state, counter, reference);
                    continue;
                }
                _ if state.word.is_gated() => return outcome(Round::Gated, self.config.interval_ns),
                Phase::Live | Phase::LiveGuarded => {
                    self.relay(state, shared, counter, reference, fit.as_ref(), interval_ns)
                }
                Phase::Cold => match fit {
                    None => return outcome(Round::Learning, MIN_INTERVAL_NS),
                    Some(fit) => self.restart(state, shared, counter, &fit, interval_ns),
                },
            };
            match result {
                Ok(Round::Recovered) => return outcome(Round::Recovered, MIN_INTERVAL_NS),
                Ok(round) => return outcome(round, interval_ns),
                Err(Refusal::Stale) => {}
                Err(Refusal::Lost) if matches!(shared.cell.word().phase(), Phase::Cold) => {}
                Err(Refusal::Lost) => return outcome(Round::Lost, MIN_INTERVAL_NS),
            }
        }
        outcome(Round::Lost, MIN_INTERVAL_NS)
    }

    /// Takes note of the kernel's steering: a change widens rho by as much.
    fn note_steering(&mut self, reference: &impl Reference) {
        let steering_ppb = reference.steering_ppb();
        if let (Some(before), Some(now)) = (self.steering_ppb, steering_ppb) {
            let change = before.abs_diff(now);
            if change != 0 {
                self.stability_ppb =
                    self.stability_ppb.max(change.saturating_add(*STABILITY_PPB.end())).min(NS_PER_S);
            }
        }
        self.steering_ppb = steering_ppb;
    }

    /// Holds a sample against the last bounds, learns how stable the reference is, and keeps the sample.
    fn note_sample<S>(&mut self, sample: &Sample, shared: &Shared<S>) {
        let slope = self.slope.unwrap_or(Slope::from_bits(1 << crate::units::FRACTION_BITS));
        let since_last =
            self.history.newest().map(|last| ticks_between(last.lower.ticks, sample.lower.ticks));
        let break_ticks = slope.ticks_in(self.config.interval_ns.saturating_mul(BREAK_INTERVALS));
        match since_last {
            None => self.watched_since_ticks = sample.lower.ticks,
            Some(gap) if gap < 0 => self.disrupt(sample, shared),
            Some(gap) => {
                let gap = unsigned(gap);
                match self.contradiction(sample) {
                    Some((excess_ns, age_ns)) => {
                        shared.count(Event::BoundViolation);
                        let rate_ppb = excess_ns
                            .saturating_mul(u128::from(NS_PER_S))
                            .checked_div(age_ns)
                            .unwrap_or(u128::MAX);
                        if rate_ppb > DISRUPTION_PPB && excess_ns > DISRUPTION_NS {
                            self.disrupt(sample, shared);
                        }
                        let doubled = u64::try_from(rate_ppb.saturating_mul(2)).unwrap_or(u64::MAX);
                        self.stability_ppb = doubled.clamp(*STABILITY_PPB.end(), NS_PER_S >> 1);
                    }
                    None if gap > break_ticks => {
                        self.watched_since_ticks = sample.lower.ticks;
                        self.stability_ppb = self.stability_ppb.max(*STABILITY_PPB.end());
                    }
                    None if gap >= slope.ticks_in(self.config.interval_ns >> 1) => {
                        self.stability_ppb = (self.stability_ppb >> 1).max(*STABILITY_PPB.start());
                    }
                    None => {}
                }
            }
        }
        self.history.push(*sample, slope);
    }

    /// How far `sample` proves the reference to be outside the last bounds, ns, and how old those were, ns.
    fn contradiction(&self, sample: &Sample) -> Option<(u128, u128)> {
        let envelope = self.envelope?;
        let below =
            envelope.lower.fixed_at(sample.upper.ticks).saturating_sub(fixed_from_ns(sample.upper.ns));
        let above =
            fixed_from_ns(sample.lower.ns).saturating_sub(envelope.upper.fixed_at(sample.lower.ticks));
        let excess = below.max(above);
        let age = envelope.lower.slope.over(ticks_between(envelope.lower.start_ticks, sample.lower.ticks));
        let whole_ns = |fixed: i128| u128::try_from(fixed >> crate::units::FRACTION_BITS).unwrap_or(0);
        (excess > 0).then(|| (whole_ns(excess).max(1), whole_ns(age).max(1)))
    }

    /// The reference or the counter jumped: what was learnt is void, but the slope may still help.
    fn disrupt<S>(&mut self, sample: &Sample, shared: &Shared<S>) {
        shared.count(Event::Disruption);
        self.history.clear();
        self.envelope = None;
        self.unix.clear();
        self.watched_since_ticks = sample.lower.ticks;
        self.stability_ppb = *STABILITY_PPB.end();
    }

    /// The interval for which the next line is good: half as long as the reference has been watched, within limits.
    fn interval_ns(&mut self, fit: Option<&Fit>, changed: bool) -> u64 {
        let Some(newest) = self.history.newest() else { return MIN_INTERVAL_NS };
        let slope = fit.map_or(Slope::default(), |fit| fit.slope_min);
        let watched_ticks = unsigned(ticks_between(self.watched_since_ticks, newest.lower.ticks).max(0));
        let watched_ticks =
            if changed { self.history.baseline_ticks().min(watched_ticks) } else { watched_ticks };
        if changed {
            self.watched_since_ticks = newest.lower.ticks.wrapping_sub(watched_ticks);
        }
        let watched = slope.over(crate::units::signed(watched_ticks >> 1));
        unsigned(fixed_to_ns_round(watched).max(0)).clamp(MIN_INTERVAL_NS, self.config.interval_ns)
    }

    /// The stated limit of the reference's rate around the target's slope, ppb: its assumed stability, and what the
    /// samples leave open.
    fn rho_ppb(&self, fit: Option<&Fit>) -> u32 {
        let open = fit.map_or(*STABILITY_PPB.end(), |fit| {
            unsigned(fit.slope_max.ppb_above(fit.slope_min).max(0)).div_ceil(2)
        });
        u32::try_from(self.stability_ppb.saturating_add(open)).unwrap_or(u32::MAX)
    }

    fn bounds(&self, slope: Slope, fit: Option<&Fit>) -> Option<Envelope> {
        let (unix_offset_ns, unix_slack_ns) = self.unix.offset();
        let envelope = self.history.envelope(slope, self.rho_ppb(fit))?;
        Some(Envelope { unix_offset_ns, unix_slack_ns, ..envelope })
    }

    fn is_stale(&self, ticks: u64, slope: Slope) -> bool {
        self.history.newest().is_none_or(|newest| {
            ticks_between(newest.upper.ticks, ticks).unsigned_abs() > slope.ticks_in(FRESH_NS)
        })
    }

    /// The soft window's exponent for an interval.
    fn exponent(&self, interval_ticks: u64) -> u32 {
        let wanted = match self.config.renewal {
            Renewal::Ahead => interval_ticks.saturating_add(interval_ticks >> 1),
            Renewal::AtExpiry => interval_ticks,
        };
        ceil_log2(wanted)
    }

    /// Rule 2: replaces a line by the next one.
    fn relay<S: StateCell>(
        &mut self,
        state: State,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
        fit: Option<&Fit>,
        interval_ns: u64,
    ) -> Result<Round, Refusal> {
        let old = shared.line(state);
        let horizon_ticks = old.slope.ticks_in(interval_ns);
        let target = match fit {
            Some(fit) => self.history.target(fit, horizon_ticks),
            // One sample since a disruption: it says where the reference is, and the old rate must do.
            None => self.history.newest().map(|newest| {
                let slope = self.slope.unwrap_or(old.slope);
                let (ticks, ns) = newest.middle(slope);
                Target { ticks, ns, slope }
            }),
        };
        let target = target.ok_or(Refusal::Stale)?;
        let envelope = self.bounds(target.slope, fit).ok_or(Refusal::Stale)?;

        let before = counter.now_ordered();
        if before.wrapping_sub(old.start_ticks) >= state.word.hard_ticks() {
            shared.expire(state, &old, before, reference);
            return Err(Refusal::Lost);
        }
        if self.is_stale(before, target.slope) {
            return Err(Refusal::Stale);
        }
        if !state.word.precedes(before, reset_slack_ticks(old.slope)) {
            return Ok(Round::Published); // the line is younger than a granule: nothing to correct yet
        }
        if !shared.cell.retire(state, state.word.closing(), state.base_ns) {
            return Err(Refusal::Lost);
        }
        let closing = State { word: state.word.closing(), ..state };
        let at_ticks = counter.now_ordered();
        if at_ticks.wrapping_sub(old.start_ticks) >= state.word.hard_ticks() {
            shared.finish_closing(closing, counter, reference);
            return Err(Refusal::Lost);
        }
        let steering = steer(&old, at_ticks, &target, horizon_ticks);
        let word = Word::live(
            at_ticks,
            self.exponent(horizon_ticks),
            state.word.slot().other(),
            self.config.guarded,
        );
        let line = join(&old, &steering, word.ticks(), at_ticks, old.slope.ticks_in(JOIN_SLACK_NS));
        if !shared.cell.publish(closing, word, &line, &envelope) {
            return Err(Refusal::Lost);
        }
        shared.count(Event::Publication);
        if steering.step_to.is_some() {
            shared.count(Event::StepForward);
        }
        let offset_ns = fixed_to_ns_round(steering.offset);
        self.note_line(shared, at_ticks, &line, target.slope, envelope, fit, interval_ns, offset_ns);
        Ok(Round::Published)
    }

    /// Rule 7: the first line after a cold spell.
    fn restart<S: StateCell>(
        &mut self,
        state: State,
        shared: &Shared<S>,
        counter: &impl Counter,
        fit: &Fit,
        interval_ns: u64,
    ) -> Result<Round, Refusal> {
        let target = self.history.target(fit, fit.slope_max.ticks_in(interval_ns)).ok_or(Refusal::Stale)?;
        let envelope = self.bounds(target.slope, Some(fit)).ok_or(Refusal::Stale)?;
        let slope = fit.slope_max.adjusted_ppb(RECOVERY_RHO_PPB);
        let quantum = slope.over(crate::units::signed(self.config.quanta.counter_ticks));

        let at_ticks = counter.now_ordered();
        if self.is_stale(at_ticks, slope) || !state.word.precedes(at_ticks, reset_slack_ticks(slope)) {
            return Err(Refusal::Stale);
        }
        let upper_edge =
            self.history.upper_edge(at_ticks, slope).ok_or(Refusal::Stale)?.saturating_add(quantum);
        // Soft 50 to 100 us, hard 100 to 200; two granules at least.
        let exponent = ceil_log2(slope.ticks_in(MIN_INTERVAL_NS)).max(MIN_EXPONENT);
        let word = Word::live(at_ticks, exponent, state.word.slot().other(), self.config.guarded);
        let line = recover(upper_edge, state.base_ns, slope, word.ticks(), at_ticks);
        if !shared.cell.publish(state, word, &line, &envelope) {
            return Err(Refusal::Lost);
        }
        shared.count(Event::Recovery);
        let offset_ns = fixed_to_ns_round(line.fixed_at(at_ticks).saturating_sub(target.at(at_ticks)));
        self.note_line(shared, at_ticks, &line, target.slope, envelope, Some(fit), interval_ns, offset_ns);
        Ok(Round::Recovered)
    }

    #[expect(clippy::too_many_arguments, reason = "the one place that records all of a publication")]
    fn note_line<S>(
        &mut self,
        shared: &Shared<S>,
        at_ticks: u64,
        line: &Line,
        slope: Slope,
        envelope: Envelope,
        fit: Option<&Fit>,
        interval_ns: u64,
        offset_ns: i64,
    ) {
        shared.timeline.push(at_ticks, line);
        self.slope = Some(slope);
        self.envelope = Some(envelope);
        let gauges = &shared.gauges;
        // ORDERING: Relaxed for all, figures on their own for display.
        gauges.frequency_hz.store(slope.to_hz(), Ordering::Relaxed);
        // ORDERING: as above.
        gauges.rho_ppb.store(u64::from(self.rho_ppb(fit)), Ordering::Relaxed);
        // ORDERING: as above.
        gauges.interval_ns.store(interval_ns, Ordering::Relaxed);
        // ORDERING: as above.
        gauges.offset_ns.store(unsigned(offset_ns), Ordering::Relaxed);
    }
}

/// How far behind a word's tick the counter must be to count as reset: 1 ms, and ten granules at least. Less is a tick that
/// was rounded up.
fn reset_slack_ticks(slope: Slope) -> u64 {
    slope.ticks_in(1_000_000).max(GRANULE_TICKS.saturating_mul(10))
}

/// The smallest exponent whose power of two is not below `n`.
fn ceil_log2(n: u64) -> u32 {
    64_u32.saturating_sub(n.saturating_sub(1).leading_zeros())
}

#[cfg(test)]
mod tests;
