//! The next line: what it is made of, and its publication.
//!
//! A signal handler may do an iteration on a small stack. So what is known of the next line lies in
//! the loop's own memory, a [`Plan`], and the steps of a publication are functions that are not
//! inlined: the stack is as large as the largest of them, not as all together.

use super::{
    Control, Iteration, MAX_WINDOW_TICKS, MIN_INTERVAL_NS, MIN_WINDOW_TICKS, Refusal, UNKNOWN_SLOPE,
    WAIT_FOR_HIGH_WATER_NS,
};
use crate::cell::{Bounds, Published, State, StateCell};
use crate::counter::Counter;
use crate::discipline::{DISRUPTED_NS, MEETING_MARGIN_NS, Steering, join, recover, steer};
use crate::estimate::{Fit, Target};
use crate::line::{Line, Slope};
use crate::sample::{Point, Reference};
use crate::shared::{Event, Found, Shared};
use crate::stability::Allowance;
use crate::units::{FixedNs, fixed_from_ns, fixed_to_ns_round, signed, ticks_between};
use crate::word::{START_GRANULARITY_TICKS, Word};

/// What the next line is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    target: Target,
    allowance: Allowance,
    bounds: Bounds,
    steering: Steering,
    word: Word,
    published: Published,
}

impl Plan {
    pub(super) const NONE: Self = {
        const LINE: Line = Line { start_ticks: 0, base_ns: 0, slope: UNKNOWN_SLOPE };
        Self {
            target: Target { ticks: 0, ns: 0, slope: UNKNOWN_SLOPE },
            allowance: Allowance { stability_ppb: 0, slope_ppb: 0, dither_ppb: 0, dither: 0 },
            bounds: Bounds {
                lower: LINE,
                upper: LINE,
                unix_offset_ns: 0,
                unix_bound_ns: 0,
                lower_rounding: 0,
                upper_rounding: 0,
            },
            steering: Steering { slope: UNKNOWN_SLOPE, step_to: None, offset: 0 },
            word: Word::from_bits(0),
            published: Published { line: LINE, window_ticks: 0 },
        }
    };
}

impl Control {
    /// The live word of a line in `slot`.
    fn next_word(&self, word: Word, at_ticks: u64, margin_ticks: u64) -> Option<Word> {
        let next = word.next_published(at_ticks, margin_ticks)?;
        Some(if self.without_unix { next.without_unix() } else { next })
    }

    /// Plans the bounds around the target's slope, for what is allowed for. `None` without a
    /// sample.
    #[inline(never)]
    fn plan_bounds(&mut self) -> Option<()> {
        let slope = self.plan.target.slope;
        let (unix_offset_ns, unix_bound_ns) = self.unix.offset();
        // A reading shows the tick at which the counter last moved; a reference that runs on by
        // itself has run on since.
        let allowance = &self.plan.allowance;
        let max_drift_ppb = allowance.max_drift_ppb();
        let fastest = slope.adjusted_ppb(i64::from(max_drift_ppb));
        let unseen = fastest.over(signed(self.config.resolutions.counter_ticks));
        let range = allowance.dither;
        self.stability.history.put_bounds(&mut self.plan.bounds, slope, max_drift_ppb, range, unseen)?;
        (self.plan.bounds.unix_offset_ns, self.plan.bounds.unix_bound_ns) = (unix_offset_ns, unix_bound_ns);
        Some(())
    }

    /// One sample since a jump or a change of rate: it says where the reference is, and the old
    /// rate must do.
    #[inline(never)]
    fn aim_by_newest(&mut self, old: &Line) -> Option<()> {
        let slope = self.slope.unwrap_or(old.slope);
        let (ticks, ns) = self.stability.history.newest()?.middle(slope);
        self.plan.target = Target { ticks, ns, slope };
        Some(())
    }

    /// Plans the target of a line that replaces `old`. `None` without a sample.
    #[inline(never)]
    fn plan_replacement(&mut self, old: &Line, fit: Option<&Fit>, interval_ns: u64) -> Option<()> {
        let target = &mut self.plan.target;
        match fit {
            Some(fit) => {
                let horizon_ticks = old.slope.ticks_in(interval_ns);
                self.stability.history.put_target(target, fit, horizon_ticks)?;
            }
            None => self.aim_by_newest(old)?,
        }
        self.plan.allowance = self.stability.allowance(fit, interval_ns);
        Some(())
    }

    /// Plans the line that replaces the one of `state` at `at_ticks`. `None` if that is younger
    /// than the start granularity.
    #[inline(never)]
    fn plan_next(&mut self, state: &State, at_ticks: u64, window_ticks: u64) -> Option<()> {
        let old = &state.line;
        let margin_ticks = old.slope.ticks_in(MEETING_MARGIN_NS);
        let word = self.next_word(state.word, at_ticks, reset_tolerance_ticks(old.slope))?;
        // An offset is gone at the end of the window, not before: the line may be in use to the end
        // of its validity, and a bend that removed the offset within the interval would by then
        // have made several times as much.
        let plan = &mut self.plan;
        plan.steering = steer(old, at_ticks, &plan.target, window_ticks);
        plan.published.line = join(old, &plan.steering, word.to_bits(), at_ticks, margin_ticks);
        plan.published.window_ticks = window_ticks;
        plan.word = word;
        Some(())
    }

    /// Whether the line of `state` is over at `ticks`; ends it then.
    #[inline(never)]
    fn is_over<S: StateCell>(
        &self,
        state: &State,
        ticks: u64,
        shared: &Shared<S>,
        reference: &impl Reference,
    ) -> bool {
        if shared.is_over(state, ticks, reference) {
            shared.expire(state, ticks, self.proven(), reference);
            return true;
        }
        false
    }

    /// The newest sample's point below the reference.
    fn proven(&self) -> Option<Point> {
        self.stability.history.samples().last().map(|sample| sample.lower)
    }

    /// Rule 2: replaces a line by the next one.
    #[inline(never)]
    pub(super) fn replace<S: StateCell>(
        &mut self,
        state: &State,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
        fit: Option<&Fit>,
    ) -> Result<(Iteration, u64), Refusal> {
        let interval_ns = self.interval_ns(fit);
        self.plan_replacement(&state.line, fit, interval_ns).ok_or(Refusal::Stale)?;
        self.plan_bounds().ok_or(Refusal::Stale)?;
        let before = counter.now_ordered();
        if self.is_over(state, before, shared, reference) {
            return Err(Refusal::Lost);
        }
        let slope = self.plan.target.slope;
        if self.is_stale(before, slope) {
            return Err(Refusal::Stale);
        }
        let offset = state.line.fixed_at(before).saturating_sub(self.plan.target.at(before));
        let interval_ns = self.interval_at_offset_ns(interval_ns, offset, slope);
        let window_ticks = self.window_ticks(state.line.slope.ticks_in(interval_ns));
        // A warm-up: a thread that has just woken has none of this in its caches, and would keep
        // the readers waiting for microseconds (without this, a reader helped in one replacement of
        // 25). And no line ends in vain.
        self.plan_next(state, before, window_ticks).ok_or(Refusal::Early)?;
        self.exchange(state, shared, counter, reference, window_ticks)?;
        self.note_replacement(shared, offset, interval_ns, fit.is_some());
        Ok((Iteration::Published, interval_ns))
    }

    /// The three steps of rule 2.
    #[inline(never)]
    fn exchange<S: StateCell>(
        &mut self,
        state: &State,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
        window_ticks: u64,
    ) -> Result<(), Refusal> {
        let replacing = State { word: state.word.replacing(), ..*state };
        if !shared.cell.swap(state.word, replacing.word) {
            return Err(Refusal::Lost);
        }
        let at_ticks = counter.now_ordered();
        let next = self.plan_next(state, at_ticks, window_ticks).filter(|()| state.is_valid_at(at_ticks));
        if next.is_none() {
            shared.help_at(&replacing, at_ticks, self.proven(), reference);
            return Err(Refusal::Lost);
        }
        shared.note_suspended(self.plan.word.slot(), self.suspended_ns);
        self.publish(shared, replacing.word)
    }

    /// Remembers the replacement of a line that was off by `offset`, and shows it.
    #[inline(never)]
    fn note_replacement<S>(&mut self, shared: &Shared<S>, offset: FixedNs, interval_ns: u64, settled: bool) {
        let (steering, target) = (&self.plan.steering, &self.plan.target);
        shared.events.count(Event::Publication);
        if steering.step_to.is_some() {
            shared.events.count(Event::StepForward);
        }
        self.settled = settled;
        let is_back = steering.step_to.is_some() || self.is_usual(offset, target.slope);
        self.disrupted |= offset > fixed_from_ns(DISRUPTED_NS);
        self.disrupted &= !is_back;
        self.record(shared, interval_ns);
    }

    /// Plans the target of a first line.
    #[inline(never)]
    fn plan_recovery(&mut self, fit: &Fit, interval_ns: u64) -> Option<()> {
        let horizon_ticks = fit.slope_max.ticks_in(interval_ns);
        self.stability.history.put_target(&mut self.plan.target, fit, horizon_ticks)?;
        self.plan.allowance = self.stability.allowance(Some(fit), MIN_INTERVAL_NS);
        Some(())
    }

    /// Where a first line starts at `at_ticks`: at the target, or at what the reference may be at
    /// most by now. It was read as `reference_ns` between `before_ticks` and `at_ticks`.
    ///
    /// Another thread may have read the reference just before. Its plain read of the counter is
    /// executed before the publication, so it meets this line at a tick before `at_ticks`. There,
    /// too, the line is not below what the reference was.
    #[inline(never)]
    fn first_ns(&self, at_ticks: u64, before_ticks: u64, reference_ns: i64) -> FixedNs {
        let Plan { target, bounds, .. } = &self.plan;
        let resolutions = &self.config.resolutions;
        let since_ticks =
            ticks_between(before_ticks, at_ticks).saturating_add(signed(resolutions.counter_ticks));
        let most = fixed_from_ns(reference_ns.saturating_add(resolutions.reference_ns))
            .saturating_add(target.slope.over(since_ticks));
        // A writer that was stopped in between knows it better by its samples.
        let most = most.min(bounds.upper.fixed_at(at_ticks)).max(fixed_from_ns(reference_ns));
        target.at(at_ticks).max(most)
    }

    /// Plans the first line, which starts at `at_ticks` from `from`.
    #[inline(never)]
    fn plan_first(&mut self, state: &State, at_ticks: u64, from: FixedNs) -> Result<(), Refusal> {
        let slope = self.plan.target.slope;
        let reset_ticks = reset_tolerance_ticks(slope);
        let word = self.next_word(state.word, at_ticks, reset_ticks).ok_or(Refusal::Early)?;
        let high_water_ns = state.high_water_ns();
        let high_water_lead = fixed_from_ns(high_water_ns).saturating_sub(from);
        if (1..fixed_from_ns(WAIT_FOR_HIGH_WATER_NS)).contains(&high_water_lead) {
            // The high-water mark is ahead by no more than its margin: better to let the reference
            // pass it than to start ahead.
            return Err(Refusal::Early);
        }
        self.plan.published.line = recover(from, high_water_ns, slope, word.to_bits(), at_ticks);
        self.plan.word = word;
        Ok(())
    }

    /// Rule 7: the first line. Announces it, reads the reference once more between two reads of the
    /// counter, and starts the line no lower than the reference may be at the second one. No
    /// reading of the reference that counts is made later.
    #[inline(never)]
    pub(super) fn recover_line<S: StateCell>(
        &mut self,
        state: &State,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
        fit: &Fit,
    ) -> Result<(Iteration, u64), Refusal> {
        let interval_ns = self.interval_ns(Some(fit));
        self.plan_recovery(fit, interval_ns).ok_or(Refusal::Stale)?;
        self.plan_bounds().ok_or(Refusal::Stale)?;
        let slope = self.plan.target.slope;
        // 75 us, and twice that for the validity. With a slow counter so long that the second
        // iteration, which must come twice the start granularity later, comes in time.
        let least_ticks = slope.ticks_in(self.least_interval_ns(slope));
        self.plan.published.window_ticks =
            least_ticks.saturating_add(least_ticks >> 1).clamp(2 * MIN_WINDOW_TICKS, MAX_WINDOW_TICKS);
        // A warm-up, as before a replacement; and no first publication is announced in vain.
        let now_ticks = counter.now_ordered();
        if self.is_stale(now_ticks, slope) {
            return Err(Refusal::Stale);
        }
        let from = self.first_ns(now_ticks, now_ticks, i64::MIN);
        self.plan_first(state, now_ticks, from)?;
        self.publish_first(state, shared, counter, reference)?;
        shared.count(Event::Recovery);
        self.record(shared, interval_ns);
        Ok((Iteration::Recovered, MIN_INTERVAL_NS))
    }

    /// The steps of rule 7. Remembers how far the line is off its target.
    #[inline(never)]
    fn publish_first<S: StateCell>(
        &mut self,
        state: &State,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Result<(), Refusal> {
        let first = State { word: state.word.first_publication(), ..*state };
        if !shared.cell.swap(state.word, first.word) {
            return Err(Refusal::Lost);
        }
        let before_ticks = counter.now_ordered();
        let reference_ns = reference.monotonic_ns();
        let at_ticks = counter.now_ordered();
        let planned = if self.is_stale(at_ticks, self.plan.target.slope) {
            Err(Refusal::Stale)
        } else {
            let from = self.first_ns(at_ticks, before_ticks, reference_ns);
            self.plan_first(state, at_ticks, from)
        };
        if planned.is_err() {
            shared.help(&first, counter, reference);
            return planned;
        }
        shared.note_suspended(self.plan.word.slot(), self.suspended_ns);
        self.publish(shared, first.word)?;
        let Plan { target, published, .. } = &self.plan;
        let offset = published.line.fixed_at(at_ticks).saturating_sub(target.at(at_ticks));
        self.settled = false;
        // Ahead of the reference there is only a line that starts from a high-water mark.
        self.disrupted =
            !self.is_usual(offset, target.slope) && offset > fixed_from_ns(WAIT_FOR_HIGH_WATER_NS);
        self.plan.steering.offset = offset;
        Ok(())
    }

    /// Remembers what was published, and shows it.
    #[inline(never)]
    fn record<S>(&mut self, shared: &Shared<S>, interval_ns: u64) {
        let Plan { target, allowance, bounds, .. } = &self.plan;
        self.stability.published(*bounds, *target);
        self.slope = Some(target.slope);
        let (slope, disrupted) = (target.slope, self.disrupted);
        let offset_ns = fixed_to_ns_round(self.plan.steering.offset);
        shared.gauges.show(&Found { slope, bounds, allowance, interval_ns, offset_ns, disrupted });
    }

    /// Publishes the planned line.
    fn publish<S: StateCell>(&self, shared: &Shared<S>, from: Word) -> Result<(), Refusal> {
        let Plan { word, published, bounds, .. } = &self.plan;
        if shared.cell.publish(from, *word, published, bounds) { Ok(()) } else { Err(Refusal::Lost) }
    }
}

/// How far behind a word's tick the counter must be to count as reset: 1 ms, and ten times the
/// start granularity at least. Less is a tick that was rounded up.
fn reset_tolerance_ticks(slope: Slope) -> u64 {
    slope.ticks_in(1_000_000).max(START_GRANULARITY_TICKS.saturating_mul(10))
}
