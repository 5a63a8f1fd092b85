//! The next line: what it is made of, and its publication.
//!
//! A signal handler may do an iteration on a small stack (2 KiB, `DESIGN.md`). So what is known of
//! the next line lies in the loop's own memory, a [`Plan`], and the steps of a publication are
//! functions that are not inlined: the stack is as large as the largest of them, not as all
//! together. A step that may fail returns `Option<()>`, and leaves its result in the plan.

use super::{
    Control, Iteration, MAX_WINDOW_TICKS, MIN_INTERVAL_NS, Refusal, Renewal, UNKNOWN_SLOPE,
    WAIT_FOR_HIGH_WATER_NS,
};
use crate::cell::{Bounds, Snapshot, StateCell};
use crate::counter::Counter;
use crate::discipline::{DISRUPTED_NS, MEETING_MARGIN_NS, Steering, join, recover, steer};
use crate::estimate::{Fit, Target};
use crate::line::{Line, Slope};
use crate::sample::{Point, Reference};
use crate::shared::{Event, Found, Shared};
use crate::stability::Allowance;
use crate::state::{Serves, State, turn_mask};
use crate::units::{FixedNs, signed, ticks_between};

/// What the next line is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    target: Target,
    allowance: Allowance,
    bounds: Bounds,
    steering: Steering,
    line: Snapshot,
}

impl Plan {
    pub(super) const NONE: Self = {
        const ZERO: FixedNs = FixedNs::ZERO;
        const LINE: Line = Line { start_ticks: 0, base_ns: 0, slope: UNKNOWN_SLOPE };
        Self {
            target: Target { ticks: 0, ns: ZERO, slope: UNKNOWN_SLOPE },
            allowance: Allowance { stability_ppb: 0, slope_ppb: 0, dither_ppb: 0, dither: ZERO },
            bounds: Bounds {
                lower: LINE,
                upper: LINE,
                unix_offset_ns: 0,
                unix_bound_ns: 0,
                lower_rounding: ZERO,
                upper_rounding: ZERO,
            },
            steering: Steering { slope: UNKNOWN_SLOPE, step_to: None, offset: ZERO },
            line: Snapshot { state: State { m: 0, b: 0 }, start_ticks: 0, window_ticks: 0, shift: 0 },
        }
    };
}

impl Control {
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

    /// Plans the target of a line that replaces one of the slope `old`. `None` without a sample.
    #[inline(never)]
    fn plan_target(&mut self, old: Slope, fit: Option<&Fit>, interval_ns: u64) -> Option<()> {
        let history = &self.stability.history;
        match fit {
            Some(fit) => history.put_target(&mut self.plan.target, fit, old.ticks_in(interval_ns))?,
            None => {
                // One sample since a jump or a change of rate: it says where the reference is, and
                // the old rate must do.
                let slope = self.slope.unwrap_or(old);
                let (ticks, ns) = history.newest()?.middle(slope);
                self.plan.target = Target { ticks, ns, slope };
            }
        }
        Some(())
    }

    /// How long before its publication a line starts, ticks. Another CPU's counter may be a little
    /// behind the writer's, and a plain read is executed early. Where each CPU has a line of its
    /// own, a line starts with its publication: its readers read the counter before the state.
    fn lead_in_ticks(&self, slope: Slope) -> u64 {
        if self.config.renewal == Renewal::Pinned { 0 } else { slope.ticks_in(MEETING_MARGIN_NS) }
    }

    /// Plans the state of the line that follows `state`, and for which ticks it is used.
    fn plan_line(
        &mut self,
        before: &Snapshot,
        slope: Slope,
        at_ticks: u64,
        window_ticks: u64,
    ) -> Result<(), Refusal> {
        let serves = if self.without_unix { Serves::Monotonic } else { Serves::Both };
        let state = before.state.next_line(slope, before.shift, serves).ok_or(Refusal::OutOfRange)?;
        let start_ticks = at_ticks.wrapping_sub(self.lead_in_ticks(slope));
        // A line and its margins do not reach across the end of a turn. It is valid for two windows.
        let margin_ticks = slope.ticks_in(2 * MEETING_MARGIN_NS);
        let in_turn = start_ticks & turn_mask(before.shift);
        let left_ticks = turn_mask(before.shift).saturating_sub(in_turn).saturating_sub(margin_ticks);
        let window_ticks = window_ticks.min(left_ticks >> 1);
        if in_turn < margin_ticks || window_ticks < margin_ticks {
            return Err(Refusal::Early);
        }
        self.plan.line = Snapshot { state, start_ticks, window_ticks, shift: before.shift };
        Ok(())
    }

    /// Plans the line that replaces `old` at `at_ticks`.
    #[inline(never)]
    fn plan_next(&mut self, old: &Snapshot, at_ticks: u64, window_ticks: u64) -> Result<(), Refusal> {
        // An offset is gone at the end of the window, not before: the line may be in use to the end
        // of its validity, and a bend that removed the offset within the interval would by then
        // have made several times as much.
        self.plan.steering = steer(old, at_ticks, &self.plan.target, window_ticks);
        self.plan_line(old, self.plan.steering.slope, at_ticks, window_ticks)?;
        let margin_ticks = old.slope().ticks_in(MEETING_MARGIN_NS);
        let Plan { line, steering, .. } = &mut self.plan;
        line.state = join(old, line.state, steering, at_ticks, margin_ticks);
        Ok(())
    }

    /// The newest sample's point below the reference.
    fn proven(&self) -> Option<Point> {
        self.stability.history.samples().last().map(|sample| sample.lower)
    }

    /// Rule 2: replaces a line by the next one.
    #[inline(never)]
    pub(super) fn replace<S: StateCell>(
        &mut self,
        old: &Snapshot,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
        fit: Option<&Fit>,
    ) -> Result<(Iteration, u64), Refusal> {
        let interval_ns = self.interval_ns(fit);
        let old_slope = old.slope();
        self.plan_target(old_slope, fit, interval_ns).ok_or(Refusal::Stale)?;
        self.plan.allowance = self.stability.allowance(fit, interval_ns);
        self.plan_bounds().ok_or(Refusal::Stale)?;
        let before_ticks = counter.now_ordered();
        if shared.is_over(old, before_ticks, reference) {
            shared.expire(old, before_ticks, self.proven(), reference);
            return Err(Refusal::Lost);
        }
        let slope = self.plan.target.slope;
        if self.is_stale(before_ticks, slope) {
            return Err(Refusal::Stale);
        }
        let offset = old.fixed_at(before_ticks).minus(self.plan.target.at(before_ticks));
        let interval_ns = self.interval_at_offset_ns(interval_ns, offset, slope);
        let window_ticks = self.window_ticks(old_slope.ticks_in(interval_ns), self.lead_in_ticks(old_slope));
        // A warm-up: a thread that has just woken has none of this in its caches, and would keep
        // the readers waiting for microseconds (without this, a reader helped in one replacement of
        // 25). And no line ends in vain.
        self.plan_next(old, before_ticks, window_ticks)?;
        self.exchange(old, shared, counter, reference, window_ticks)?;
        self.note_replacement(shared, offset, interval_ns, fit.is_some());
        Ok((Iteration::Published, interval_ns))
    }

    /// The three steps of rule 2: announce, read the counter, publish.
    #[inline(never)]
    fn exchange<S: StateCell>(
        &mut self,
        old: &Snapshot,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
        window_ticks: u64,
    ) -> Result<(), Refusal> {
        let replacing = Snapshot { state: old.state.replacing(), ..*old };
        if !shared.cell.swap(old.state, replacing.state) {
            return Err(Refusal::Lost);
        }
        let at_ticks = counter.now_ordered();
        if !old.is_valid_at(at_ticks) || self.plan_next(old, at_ticks, window_ticks).is_err() {
            shared.help_at(&replacing, at_ticks, self.proven(), reference);
            return Err(Refusal::Lost);
        }
        self.publish(shared, replacing.state)
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
        self.disrupted |= offset > FixedNs::from_ns(DISRUPTED_NS);
        self.disrupted &= !is_back;
        self.record(shared, interval_ns);
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
        let most = FixedNs::from_ns(reference_ns.saturating_add(resolutions.reference_ns))
            .plus(target.slope.over(since_ticks));
        // A writer that was stopped in between knows it better by its samples.
        let most = most.min(bounds.upper.fixed_at(at_ticks)).max(FixedNs::from_ns(reference_ns));
        target.at(at_ticks).max(most)
    }

    /// Plans the first line, which is at `from` at `at_ticks`.
    #[inline(never)]
    fn plan_first(&mut self, before: &Snapshot, at_ticks: u64, from: FixedNs) -> Result<(), Refusal> {
        let slope = self.plan.target.slope;
        self.plan_line(before, slope, at_ticks, self.plan.line.window_ticks)?;
        let start_ticks = self.plan.line.start_ticks;
        let high_water_ns = before.state.high_water_ns();
        let at_start = from.minus(slope.over(ticks_between(start_ticks, at_ticks)));
        let ahead = FixedNs::from_ns(high_water_ns).minus(at_start);
        if ahead > FixedNs::ZERO && ahead < FixedNs::from_ns(WAIT_FOR_HIGH_WATER_NS) {
            // The high-water mark is ahead by no more than its margin: better to let the reference
            // pass it than to start ahead.
            return Err(Refusal::Early);
        }
        let line = &mut self.plan.line;
        line.state = recover(line.state, before.shift, start_ticks, high_water_ns, at_ticks, from);
        Ok(())
    }

    /// Rule 7: the first line. Announces it, reads the reference once more between two reads of the
    /// counter, and starts the line no lower than the reference may be at the second one. No
    /// reading of the reference that counts is made later.
    #[inline(never)]
    pub(super) fn recover_line<S: StateCell>(
        &mut self,
        before: &Snapshot,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
        fit: &Fit,
    ) -> Result<(Iteration, u64), Refusal> {
        let interval_ns = self.interval_ns(Some(fit));
        self.plan_target(fit.slope_max, Some(fit), interval_ns).ok_or(Refusal::Stale)?;
        self.plan.allowance = self.stability.allowance(Some(fit), MIN_INTERVAL_NS);
        self.plan_bounds().ok_or(Refusal::Stale)?;
        let slope = self.plan.target.slope;
        // 75 us, and twice that for the validity: the second iteration follows at once.
        let least_ticks = slope.ticks_in(self.least_interval_ns(slope));
        self.plan.line.window_ticks = least_ticks
            .saturating_add(least_ticks >> 1)
            .saturating_add(self.lead_in_ticks(slope))
            .min(MAX_WINDOW_TICKS);
        // A warm-up, as before a replacement; and no first publication is announced in vain.
        let now_ticks = counter.now_ordered();
        if self.is_stale(now_ticks, slope) {
            return Err(Refusal::Stale);
        }
        let from = self.first_ns(now_ticks, now_ticks, i64::MIN);
        self.plan_first(before, now_ticks, from)?;
        self.publish_first(before, shared, counter, reference)?;
        shared.count(Event::Recovery);
        self.record(shared, interval_ns);
        Ok((Iteration::Recovered, MIN_INTERVAL_NS))
    }

    /// The steps of rule 7. Remembers how far the line is off its target.
    #[inline(never)]
    fn publish_first<S: StateCell>(
        &mut self,
        before: &Snapshot,
        shared: &Shared<S>,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Result<(), Refusal> {
        let first = Snapshot { state: before.state.first_publication(), ..*before };
        if !shared.cell.swap(before.state, first.state) {
            return Err(Refusal::Lost);
        }
        let before_ticks = counter.now_ordered();
        let reference_ns = reference.monotonic_ns();
        let at_ticks = counter.now_ordered();
        let planned = if self.is_stale(at_ticks, self.plan.target.slope) {
            Err(Refusal::Stale)
        } else {
            let from = self.first_ns(at_ticks, before_ticks, reference_ns);
            self.plan_first(before, at_ticks, from)
        };
        if planned.is_err() {
            shared.help(&first, counter, reference);
            return planned;
        }
        self.publish(shared, first.state)?;
        let Plan { target, line, .. } = &self.plan;
        let offset = line.fixed_at(at_ticks).minus(target.at(at_ticks));
        self.settled = false;
        // Ahead of the reference there is only a line that starts from a high-water mark.
        self.disrupted =
            !self.is_usual(offset, target.slope) && offset > FixedNs::from_ns(WAIT_FOR_HIGH_WATER_NS);
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
        let offset_ns = self.plan.steering.offset.round_ns();
        shared.gauges.show(&Found { slope, bounds, allowance, interval_ns, offset_ns, disrupted });
    }

    /// Publishes the planned line.
    fn publish<S: StateCell>(&self, shared: &Shared<S>, from: State) -> Result<(), Refusal> {
        let published = shared.cell.publish(from, &self.plan.line, &self.plan.bounds, self.suspended_ns);
        if published { Ok(()) } else { Err(Refusal::Lost) }
    }
}
