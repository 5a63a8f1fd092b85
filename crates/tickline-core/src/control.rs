//! The control loop: sample -> estimate -> discipline -> what to publish.
//!
//! [`Control::maintain`] is one iteration. Its caller holds the clock's lock; who that is, and when it comes again, is the
//! driver's business. An iteration takes a burst of samples, about a microsecond of arithmetic, and one change of state:
//!
//! ```text
//! live: live -> closing, read the counter (x1), compute the line from x1, closing -> live     (rule 2)
//! cold: cold -> opening, ask the reference, opening -> live for 150 us, above that            (rule 7)
//! ```
//!
//! After a recovery the caller runs a second iteration at once, which settles slope and window. Lines that are slower and lines
//! that are faster are both published through `closing`: one path, and always right.
//!
//! Start-up and rate changes are the same thing: the interval is half of the time over which the reference has been
//! watched without a break, between 50 us and the configured interval, so it grows by half from iteration to iteration. A line
//! with half a bracket of error at both ends of its baseline is then off by at most one bracket at the end. It is down to a
//! sixteenth of the configured interval while the bound would otherwise grow wide, or the line is off its target.

use crate::cell::{Bounds, Published, State, StateCell};
use crate::counter::Counter;
use crate::discipline::{DISRUPTED_NS, MEETING_MARGIN_NS, join, recover, steer};
use crate::estimate::{Fit, Target};
use crate::line::Slope;
use crate::sample::{Effort, Point, Reference, Resolutions, burst};
use crate::shared::{Event, Found, Shared};
use crate::stability::{Allowance, SampleOutcome, StabilityMonitor};
use crate::timeline::{Past, PastLines};
use crate::units::{
    FRACTION_BITS, FixedNs, NS_PER_S, fixed_from_ns, fixed_to_ns_round, signed, ticks_between, unsigned,
};
use crate::unix::UnixTrack;
use crate::word::{Phase, START_GRANULARITY_TICKS, Word};

/// The shortest interval, ns: 30 ns of bracket over 50 us is 600 ppm, good enough for another 50 us.
pub const MIN_INTERVAL_NS: u64 = 50_000;

/// The smallest and the largest interval that may be configured, ns.
pub const INTERVAL_RANGE_NS: core::ops::RangeInclusive<u64> = 1_000_000..=10 * NS_PER_S;

/// Brackets in a burst at the least, some 1.5 us. What counts is the shortest half of a bracket on either side: with halves of 7 to 22 ns
/// the bound of a steady reference is 17 ns at its widest with 16 brackets, 15 with 32 (`tickline-sim`, `tests/limits.rs`). Each look
/// is a step in a model by loom, where one bracket must do; Miri, which takes a thousand times as long, gets four.
const BRACKETS: u32 = if cfg!(loom) {
    1
} else if cfg!(miri) {
    4
} else {
    32
};

/// Brackets in a burst at the most. A counter that moves by 10 ns at a time shows the shortest half of a bracket in 1 of 16 only (AMD Zen 5 under
/// KVM), so that 32 brackets miss it in every seventh burst, and the middle of such a sample is off by 5 ns...
const MOST_BRACKETS: u32 = if cfg!(any(loom, miri)) { BRACKETS } else { 4 * BRACKETS };

/// ...but no more than 32 where the reference is so slow that these have taken longer than this, ns.
const BURST_NS: u64 = 10_000;

/// One burst in so many goes on to its end, whatever the others found. All of them may have missed the short sides: on AMD Zen 5 with busy
/// neighbours the narrowest of them stayed at 40 ns for minutes, where a burst of 128 brackets finds 20 to 30.
const FULL_BURST_EVERY: u32 = 8;

/// A burst goes on while its sample is wider than the narrowest one by more than this, ns: what the rounding of the reference does.
const SPARE_WIDTH_NS: i64 = 1;

/// Stands for a slope that is not known yet: 16 GHz, faster than any counter, so that a span of ns is never taken for fewer
/// ticks than it has.
const UNKNOWN_SLOPE: Slope = Slope::from_bits(1 << (FRACTION_BITS - 4));

/// A sample older than this when it is used is taken again, ns: the writer was preempted.
const FRESH_NS: u64 = 100_000;

/// A high-water mark that is ahead of the reference by less than this is waited for, ns: its slack, and what a rounded tick adds.
const WAIT_FOR_HIGH_WATER_NS: i64 = 10_000;

/// An offset below this, and twice the newest sample's width, is nothing to hurry for, ns.
const USUAL_OFFSET_NS: i64 = 50;

/// A thread must be allowed to come so late, ns: a tick of a kernel at 250 Hz. With 62 us to 1 ms instead, a thread that always
/// came 5 ms late left the clock cold for up to 74 % of the time (`tickline-sim`, interval 10 ms, rates that change by 20 ppm).
const LATENESS_NS: u64 = 4_000_000;

/// Iterations without a line before they come less often.
const PATIENT_ITERATIONS: u32 = 16;

/// Iterations of sampling before a preempted writer gives up until the next interval.
const ATTEMPTS: u32 = 4;

/// The shortest window, ticks: eight granules. A line's start lies up to two before the tick at which it was published.
pub const MIN_WINDOW_TICKS: u64 = 8 * START_GRANULARITY_TICKS;

/// The longest window, ticks: a line is valid for twice that, half of what [`Line::at`](crate::line::Line::at) converts exactly.
pub const MAX_WINDOW_TICKS: u64 = 1 << 46;

const _: () = assert!(2 * MAX_WINDOW_TICKS < crate::line::MAX_DELTA_TICKS);

/// When the next line is published, seen from the end of a line's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Before it: a driver comes by itself, so the window lasts for 2 intervals.
    Ahead,
    /// Before it, by a driver that has to get to a certain CPU first, which may be busy: the window lasts for 4 intervals.
    Pinned,
    /// At it: a reader that finds it passed renews the line, so the window lasts for 1 interval.
    AtExpiry,
}

/// What a control loop needs to know from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The interval in the steady state, ns. Within [`INTERVAL_RANGE_NS`].
    pub interval_ns: u64,
    /// Largest steps of counter and reference.
    pub resolutions: Resolutions,
    /// Who publishes the next line.
    pub renewal: Renewal,
}

/// What an iteration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Iteration {
    /// A line was published.
    Published,
    /// A short line was published after a cold spell: run another iteration at once.
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
    config: Config,
    stability: StabilityMonitor,
    unix: UnixTrack,
    /// The slope of the last target.
    slope: Option<Slope>,
    /// How old a sample was at the least when it came to using it, ticks.
    least_age_ticks: u64,
    /// Whether the present line's slope has proven itself: it came from samples, and not straight after a recovery.
    settled: bool,
    /// Iterations in a row without a line.
    fruitless: u32,
    /// Bursts so far.
    bursts: u32,
    /// Whether lines leave Unix time to the OS.
    without_unix: bool,
    /// How long the machine had been suspended before the newest sample, ns.
    suspended_ns: Option<i64>,
    /// Whether the reference or the counter jumped, and the line has not been on its target since.
    disrupted: bool,
}

/// Why a line could not be published.
enum Refusal {
    /// The samples were taken too long ago: take others.
    Stale,
    /// The state changed.
    Lost,
    /// The last line or high-water mark is younger than a granule: come back later.
    Early,
}

impl Control {
    /// A control loop that knows nothing yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            stability: StabilityMonitor::new(),
            unix: UnixTrack::new(),
            slope: None,
            least_age_ticks: u64::MAX,
            settled: false,
            fruitless: 0,
            bursts: 0,
            without_unix: false,
            suspended_ns: None,
            disrupted: false,
        }
    }

    /// The same, whose lines leave Unix time to the OS: see [`Gate::UnixCost`](crate::gate::Gate::UnixCost).
    #[must_use]
    pub const fn without_unix(self) -> Self {
        Self { without_unix: true, ..self }
    }

    /// The live word of a line in `slot`.
    fn next_word(&self, word: Word, at_ticks: u64, margin_ticks: u64) -> Option<Word> {
        let next = word.next_published(at_ticks, margin_ticks)?;
        Some(if self.without_unix { next.without_unix() } else { next })
    }

    /// What it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Changes who publishes the next line, and how often.
    pub fn reschedule(&mut self, renewal: Renewal, interval_ns: u64) {
        self.config.renewal = renewal;
        self.config.interval_ns = interval_ns;
    }

    /// The tick of the oldest sample that the next bounds would rest on.
    #[must_use]
    pub fn evidence_ticks(&self) -> Option<u64> {
        let newest = self.stability.history.newest()?.lower.ticks;
        let points = self.stability.history.samples().iter().flat_map(|sample| [sample.upper, sample.lower]);
        points.map(|point| point.ticks).max_by_key(|ticks| ticks_between(*ticks, newest))
    }

    /// One round. Never panics, allocates or waits.
    pub fn maintain<S: StateCell, P: PastLines>(
        &mut self,
        shared: &Shared<S, P>,
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

    fn iterate<S: StateCell, P: PastLines>(
        &mut self,
        shared: &Shared<S, P>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> (Iteration, u64) {
        let mut is_stale = false;
        for _ in 0..ATTEMPTS {
            // Before the samples: a suspend after this one is seen as one by whoever ends the line.
            self.suspended_ns = reference.suspended_ns();
            let effort = self.effort();
            self.bursts = self.bursts.wrapping_add(1);
            let Some(sample) = burst(counter, reference, self.config.resolutions, effort, self.slope) else {
                continue;
            };
            let slope = self.slope.unwrap_or(UNKNOWN_SLOPE);
            let steering_ppb = reference.steering_ppb();
            let noted = self.stability.note(&sample, steering_ppb, slope, self.config.interval_ns, shared);
            if noted == SampleOutcome::Void {
                self.unix.clear();
                self.disrupted = true;
            }
            if self.unix.update(reference) {
                shared.count(Event::UnixStep);
            }
            let fit = self.stability.fit(slope, shared);
            self.least_age_ticks = self.least_age_ticks.min(self.age_ticks(counter.now_ordered()));

            let state = shared.cell.load();
            let result = match state.word.phase() {
                // We hold the lock, so its writer is gone: it was in the process that forked us, or is closing a gate.
                Phase::Replacing | Phase::FirstPublication => {
                    shared.help(&state, counter, reference);
                    continue;
                }
                _ if state.word.is_gate_closed() => return (Iteration::GateClosed, self.config.interval_ns),
                // A loop that was begun anew knows nothing of the line that it finds, whose slope may be bent.
                Phase::Published if self.slope.is_none() || noted == SampleOutcome::Void && !self.settled => {
                    // All that is known of this line's slope is void. Its readers get the OS until there is another.
                    if shared.cell.swap(state.word, state.word.replacing()) {
                        let closing = State { word: state.word.replacing(), ..state };
                        shared.help(&closing, counter, reference);
                    }
                    return (Iteration::Learning, MIN_INTERVAL_NS);
                }
                Phase::Published => self.replace(&state, shared, counter, reference, fit.as_ref()),
                Phase::NoLine => match fit.filter(|_| self.stability.is_confirmed()) {
                    None => return (Iteration::Learning, self.patience_ns()),
                    Some(fit) => self.recover_line(&state, shared, counter, reference, &fit),
                },
            };
            is_stale = matches!(result, Err(Refusal::Stale));
            match result {
                Ok(done) => return done,
                Err(Refusal::Stale) => {}
                Err(Refusal::Lost) if matches!(shared.cell.word().phase(), Phase::NoLine) => {}
                Err(Refusal::Lost | Refusal::Early) => return (Iteration::Lost, MIN_INTERVAL_NS),
            }
        }
        if is_stale {
            shared.gauges.count_stale_iteration();
        }
        (Iteration::Lost, self.patience_ns())
    }

    /// How many brackets the next burst has: as many as it takes for a sample as narrow as the narrowest, within limits.
    fn effort(&self) -> Effort {
        let narrowest = self.slope.and_then(|slope| Some((slope, self.stability.history.narrowest(slope)?)));
        let is_full = self.bursts % FULL_BURST_EVERY == FULL_BURST_EVERY - 1;
        match narrowest {
            Some((slope, narrowest)) => Effort {
                brackets: BRACKETS,
                wanted: if is_full { 0 } else { narrowest.saturating_add(fixed_from_ns(SPARE_WIDTH_NS)) },
                most_brackets: MOST_BRACKETS,
                most_ticks: slope.ticks_in(BURST_NS),
            },
            None => Effort::fixed(BRACKETS),
        }
    }

    /// Time until the next try after iterations without a line, ns: the shortest interval at first, then longer and longer, so
    /// that a reference of which nothing can be learnt (one that stands still, say) costs little.
    fn patience_ns(&self) -> u64 {
        let doublings = self.fruitless.saturating_sub(PATIENT_ITERATIONS).min(20);
        (MIN_INTERVAL_NS << doublings).min(self.config.interval_ns.max(MIN_INTERVAL_NS))
    }

    /// The interval for which the next line is good, ns.
    fn interval_ns(&self, fit: Option<&Fit>) -> u64 {
        let good_ns = fit.map_or(0, |fit| {
            // Whoever comes by itself can come more often to keep the bound narrow; readers do while that is all that can be done.
            let hurries = match self.config.renewal {
                Renewal::Ahead | Renewal::Pinned => true,
                Renewal::AtExpiry => !self.stability.dither_is_known(),
            };
            let short_ns = self.short_interval_ns();
            let narrow_ns = self.stability.narrow_for_ns(fit, self.config.interval_ns);
            let wanted_ns = if hurries { narrow_ns.max(short_ns) } else { u64::MAX };
            self.stability.good_for_ns(fit).min(wanted_ns)
        });
        let least_ns = fit.map_or(MIN_INTERVAL_NS, |fit| self.least_interval_ns(fit.slope_max));
        good_ns.clamp(least_ns.min(self.config.interval_ns), self.config.interval_ns)
    }

    /// The shortest interval on this machine, ns: four times the quickest iteration, where that is long. A line must not be over before
    /// the next one can be there.
    fn least_interval_ns(&self, slope: Slope) -> u64 {
        let rounds_ticks = i64::try_from(self.least_age_ticks.saturating_mul(4)).unwrap_or(0);
        MIN_INTERVAL_NS.max(unsigned(fixed_to_ns_round(slope.over(rounds_ticks)).max(0)))
    }

    /// The same for a line that starts `offset` away from its target: short, so that the offset is gone soon.
    fn interval_at_offset_ns(&self, interval_ns: u64, offset: FixedNs, slope: Slope) -> u64 {
        if self.is_usual(offset, slope) { interval_ns } else { interval_ns.min(self.short_interval_ns()) }
    }

    /// Whether an offset is no larger than samples as wide as the newest one make it.
    fn is_usual(&self, offset: FixedNs, slope: Slope) -> bool {
        let width = self.stability.history.newest().map_or(0, |newest| newest.width(slope));
        offset.saturating_abs() <= fixed_from_ns(USUAL_OFFSET_NS).saturating_add(width.saturating_mul(2))
    }

    /// The interval when there is reason to hurry, ns: a sixteenth, but not so short that the line is over before a thread that
    /// comes late has come.
    fn short_interval_ns(&self) -> u64 {
        (self.config.interval_ns >> 4).max(LATENESS_NS).min(self.config.interval_ns)
    }

    fn bounds(&self, slope: Slope, allowance: Allowance) -> Option<Bounds> {
        let (unix_offset_ns, unix_bound_ns) = self.unix.offset();
        // A reading shows the tick at which the counter last moved; a reference that runs on by itself has run on since.
        let max_drift_ppb = allowance.max_drift_ppb();
        let fastest = slope.adjusted_ppb(i64::from(max_drift_ppb));
        let unseen = fastest.over(signed(self.config.resolutions.counter_ticks));
        let bounds = self.stability.history.bounds_with(slope, max_drift_ppb, allowance.dither, unseen)?;
        Some(Bounds { unix_offset_ns, unix_bound_ns, ..bounds })
    }

    /// How old the newest sample is at `ticks`, ticks.
    fn age_ticks(&self, ticks: u64) -> u64 {
        self.stability.history.newest().map_or(u64::MAX, |newest| {
            let age = |point: Point| ticks_between(point.ticks, ticks).unsigned_abs();
            age(newest.upper).max(age(newest.lower))
        })
    }

    /// Whether the newest sample is too old to be used at `ticks`: the writer was preempted. On a slow machine an iteration alone
    /// takes as long as that; there, twice the quickest iteration is the limit, but never more than half of the interval: a
    /// change of rate between sample and line would go unnoticed for longer than the line is meant to last. A machine
    /// that is slower than that gets no line ([`Gauges::samples_are_stale`](crate::shared::Gauges::samples_are_stale)).
    fn is_stale(&self, ticks: u64, slope: Slope) -> bool {
        let slow_ticks =
            self.least_age_ticks.saturating_mul(2).min(slope.ticks_in(self.config.interval_ns >> 1));
        self.age_ticks(ticks) > slope.ticks_in(FRESH_NS).max(slow_ticks)
    }

    /// The window of a line, ticks.
    fn window_ticks(&self, interval_ticks: u64) -> u64 {
        let intervals = match self.config.renewal {
            Renewal::Ahead => 2,
            Renewal::Pinned => 4,
            Renewal::AtExpiry => 1,
        };
        interval_ticks.saturating_mul(intervals).clamp(MIN_WINDOW_TICKS, MAX_WINDOW_TICKS)
    }

    /// Rule 2: replaces a line by the next one.
    fn replace<S: StateCell, P: PastLines>(
        &mut self,
        state: &State,
        shared: &Shared<S, P>,
        counter: &impl Counter,
        reference: &impl Reference,
        fit: Option<&Fit>,
    ) -> Result<(Iteration, u64), Refusal> {
        let old = state.line;
        let interval_ns = self.interval_ns(fit);
        let target = match fit {
            Some(fit) => self.stability.history.target(fit, old.slope.ticks_in(interval_ns)),
            // One sample since a jump or a change of rate: it says where the reference is, and the old rate must do.
            None => self.stability.history.newest().map(|newest| {
                let slope = self.slope.unwrap_or(old.slope);
                let (ticks, ns) = newest.middle(slope);
                Target { ticks, ns, slope }
            }),
        };
        let target = target.ok_or(Refusal::Stale)?;
        let allowance = self.stability.allowance(fit, interval_ns);
        let bounds = self.bounds(target.slope, allowance).ok_or(Refusal::Stale)?;

        let newest = self.stability.history.newest().map(|sample| sample.lower);
        let before = counter.now_ordered();
        if shared.is_over(state, before, reference) {
            shared.expire(state, before, newest, reference);
            return Err(Refusal::Lost);
        }
        if self.is_stale(before, target.slope) {
            return Err(Refusal::Stale);
        }
        let offset = old.fixed_at(before).saturating_sub(target.at(before));
        let interval_ns = self.interval_at_offset_ns(interval_ns, offset, target.slope);
        let window_ticks = self.window_ticks(old.slope.ticks_in(interval_ns));
        let margin_ticks = old.slope.ticks_in(MEETING_MARGIN_NS);
        let reset_ticks = reset_tolerance_ticks(old.slope);
        let next = |at_ticks| {
            let word = self.next_word(state.word, at_ticks, reset_ticks)?;
            // An offset is gone at the end of the window, not before: the line may be in use to the end of its validity,
            // and a bend that removed the offset within the interval would by then have made several times as much.
            let steering = steer(&old, at_ticks, &target, window_ticks);
            let line = join(&old, &steering, word.to_bits(), at_ticks, margin_ticks);
            Some((steering, word, Published { line, window_ticks }))
        };
        // A warm-up: a thread that has just woken has none of this in its caches, and would keep the readers waiting for
        // microseconds (one closing in 25 was helped by a reader without this). And no line is closed in vain.
        let (_, word, published) = core::hint::black_box(next(before)).ok_or(Refusal::Early)?;
        let past = |at_ticks, word: Word, line| Past::new(at_ticks, line, word.slot(), i64::MAX);
        shared.timeline.make_room(&past(before, word, published.line));

        let closing = State { word: state.word.replacing(), ..*state };
        if !shared.cell.swap(state.word, closing.word) {
            return Err(Refusal::Lost);
        }
        let at_ticks = counter.now_ordered();
        let next = next(at_ticks).filter(|_| state.is_valid_at(at_ticks));
        let Some((steering, word, published)) = next else {
            shared.help_at(&closing, at_ticks, newest, reference);
            return Err(Refusal::Lost);
        };
        shared.note_suspended(word.slot(), self.suspended_ns);
        let past = past(at_ticks, word, published.line);
        publish(shared, closing.word, word, &published, &past, &bounds)?;
        shared.count(Event::Publication);
        if steering.step_to.is_some() {
            shared.count(Event::StepForward);
        }
        self.settled = fit.is_some();
        let is_back = steering.step_to.is_some() || self.is_usual(offset, target.slope);
        self.disrupted |= offset > fixed_from_ns(DISRUPTED_NS);
        self.disrupted &= !is_back;
        self.stability.published(bounds, target);
        let offset_ns = fixed_to_ns_round(steering.offset);
        self.record(shared, target.slope, (&bounds, &allowance), interval_ns, offset_ns);
        Ok((Iteration::Published, interval_ns))
    }

    /// Rule 7: the first line. Announces it, reads the reference once more between two reads of the counter, and starts the line no lower
    /// than the reference may be at the second one. No reading of the reference that counts is made later.
    fn recover_line<S: StateCell, P: PastLines>(
        &mut self,
        state: &State,
        shared: &Shared<S, P>,
        counter: &impl Counter,
        reference: &impl Reference,
        fit: &Fit,
    ) -> Result<(Iteration, u64), Refusal> {
        let interval_ns = self.interval_ns(Some(fit));
        let target =
            self.stability.history.target(fit, fit.slope_max.ticks_in(interval_ns)).ok_or(Refusal::Stale)?;
        let slope = target.slope;
        let allowance = self.stability.allowance(Some(fit), MIN_INTERVAL_NS);
        let bounds = self.bounds(slope, allowance).ok_or(Refusal::Stale)?;
        // 75 us, and twice that for the validity; with a slow counter so long that the second iteration, which must come two granules
        // later, comes in time.
        let least_ticks = slope.ticks_in(self.least_interval_ns(slope));
        let window_ticks =
            least_ticks.saturating_add(least_ticks >> 1).clamp(2 * MIN_WINDOW_TICKS, MAX_WINDOW_TICKS);
        let reset_ticks = reset_tolerance_ticks(slope);
        let (high_water_ns, resolutions) = (state.high_water_ns(), self.config.resolutions);
        let next = |at_ticks: u64, before_ticks: u64, reference_ns: i64| {
            if self.is_stale(at_ticks, slope) {
                return Err(Refusal::Stale);
            }
            let word = self.next_word(state.word, at_ticks, reset_ticks).ok_or(Refusal::Early)?;
            // No less than the reference may be by now. A thread has read the reference, and its plain read of the counter is executed
            // before the publication, so it meets this line at a tick before `at_ticks`: there, too, the line is not below that.
            let since_ticks =
                ticks_between(before_ticks, at_ticks).saturating_add(signed(resolutions.counter_ticks));
            let most = fixed_from_ns(reference_ns.saturating_add(resolutions.reference_ns))
                .saturating_add(slope.over(since_ticks));
            // A writer that was stopped in between knows it better by its samples.
            let most = most.min(bounds.upper.fixed_at(at_ticks)).max(fixed_from_ns(reference_ns));
            let edge = target.at(at_ticks).max(most);
            let high_water_lead = fixed_from_ns(high_water_ns).saturating_sub(edge);
            if (1..fixed_from_ns(WAIT_FOR_HIGH_WATER_NS)).contains(&high_water_lead) {
                // The high-water mark is ahead by no more than its slack: better to let the reference pass it than to start ahead.
                return Err(Refusal::Early);
            }
            let line = recover(edge, high_water_ns, slope, word.to_bits(), at_ticks);
            Ok((word, Published { line, window_ticks }))
        };
        // A warm-up, as before a closing; and nothing is opened in vain.
        let now_ticks = counter.now_ordered();
        let (word, published) = next(now_ticks, now_ticks, i64::MIN)?;
        let past = |at_ticks, word: Word, line| Past::new(at_ticks, line, word.slot(), high_water_ns);
        shared.timeline.make_room(&past(word.to_bits(), word, published.line));

        let opening = State { word: state.word.first_publication(), ..*state };
        if !shared.cell.swap(state.word, opening.word) {
            return Err(Refusal::Lost);
        }
        let before_ticks = counter.now_ordered();
        let reference_ns = reference.monotonic_ns();
        let at_ticks = counter.now_ordered();
        let (word, published) = next(at_ticks, before_ticks, reference_ns).inspect_err(|_| {
            shared.help(&opening, counter, reference);
        })?;
        let line = published.line;
        let past = past(at_ticks, word, line);
        shared.note_suspended(word.slot(), self.suspended_ns);
        shared.timeline.note_first(&past);
        publish(shared, opening.word, word, &published, &past, &bounds)?;
        shared.count(Event::Recovery);
        let offset = line.fixed_at(at_ticks).saturating_sub(target.at(at_ticks));
        self.settled = false;
        // Ahead of the reference there is only a line that starts from a high-water mark.
        self.disrupted = !self.is_usual(offset, slope) && offset > fixed_from_ns(WAIT_FOR_HIGH_WATER_NS);
        self.stability.published(bounds, target);
        self.record(shared, slope, (&bounds, &allowance), interval_ns, fixed_to_ns_round(offset));
        Ok((Iteration::Recovered, MIN_INTERVAL_NS))
    }

    /// Remembers what was published, and shows it.
    fn record<S, P>(
        &mut self,
        shared: &Shared<S, P>,
        slope: Slope,
        (bounds, allowance): (&Bounds, &Allowance),
        interval_ns: u64,
        offset_ns: i64,
    ) {
        self.slope = Some(slope);
        let disrupted = self.disrupted;
        shared.gauges.show(&Found { slope, bounds, allowance, interval_ns, offset_ns, disrupted });
    }
}

/// Rule 12: publishes the `next` line. Stamps know it before anybody can take one by it: a thread may look
/// at the clock right after the swap, or in a handler that has interrupted this one there.
fn publish<S: StateCell, P: PastLines>(
    shared: &Shared<S, P>,
    from: Word,
    to: Word,
    next: &Published,
    past: &Past,
    bounds: &Bounds,
) -> Result<(), Refusal> {
    shared.timeline.push(past);
    if !shared.cell.publish(from, to, next, bounds) {
        shared.timeline.take_back();
        return Err(Refusal::Lost);
    }
    Ok(())
}

/// How far behind a word's tick the counter must be to count as reset: 1 ms, and ten granules at least. Less is a tick that
/// was rounded up.
fn reset_tolerance_ticks(slope: Slope) -> u64 {
    slope.ticks_in(1_000_000).max(START_GRANULARITY_TICKS.saturating_mul(10))
}

// Long, single-threaded, and of safe code alone: Miri would take minutes and find nothing that it does not find in the tests of
// `shared`, which run the same loop.
#[cfg(all(test, not(miri)))]
mod dither_tests;
#[cfg(all(test, not(miri)))]
mod following_tests;
#[cfg(all(test, not(miri)))]
mod stamp_tests;
#[cfg(all(test, not(miri)))]
mod tests;
