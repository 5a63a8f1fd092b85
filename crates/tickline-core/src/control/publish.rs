//! The plan of the next line, and its publication.
//!
//! An iteration plans the line before it changes the state. It then announces the line, reads the
//! counter, and publishes.

use super::{
    Cadence, Control, DISRUPTED_OFFSET_NS, Iteration, MAX_WINDOW_TICKS, MEETING_MARGIN_NS,
    MIN_INTERVAL_NS, NotPublished, Outcome,
};
use crate::cell::{NextLine, PlannedBounds, StateCell, WindowedLine};
use crate::counter::Counter;
use crate::discipline::{Correction, correction_to, first_line_above, meet_old_line};
use crate::estimate::{Allowance, Fit, Target};
use crate::line::Slope;
use crate::reference::Reference;
use crate::sample::Point;
use crate::shared::{Access, Event, LineFigures, Readings};
use crate::state::{Phase, WRAP_MASK};
use crate::units::{FixedNs, ticks_between};

/// The lead of the high-water mark over the reference below which a first line waits until the
/// reference has passed the mark, ns. Three margins: the mark's, that of the line's start, and one
/// in reserve.
pub(super) const WAIT_FOR_HIGH_WATER_NS: i64 = (3 * MEETING_MARGIN_NS).cast_signed();

const _: () = assert!(
    WAIT_FOR_HIGH_WATER_NS.unsigned_abs() < MIN_INTERVAL_NS,
    "a first line that waits for the mark waits for one interval at most"
);

/// The distance below a first line, ns, at which a high-water mark no longer affects the line. It
/// is much more than the tag alters a line from its start to its publication.
const FAR_BELOW_NS: i64 = 1_000_000;

/// The parts of the next line.
#[derive(Debug)]
pub(super) struct Plan {
    target: Target,
    allowance: Allowance,
    bounds: PlannedBounds,
    interval_ns: u64,
    /// Whether the slope comes from samples.
    has_proven_slope: bool,
}

/// A read of the reference.
#[derive(Debug, Clone, Copy)]
struct ReferenceRead {
    /// A tick that was read before the reference.
    after_ticks: u64,
    /// What the reference returned.
    ns: i64,
}

impl Control {
    /// Plans the line that follows a line of slope `old`. The planned bounds hold for the interval,
    /// or for `at_most_ns` if that is shorter.
    pub(super) fn make_plan(
        &self,
        old: Slope,
        fit: Option<&Fit>,
        at_most_ns: Option<u64>,
    ) -> Result<Plan, NotPublished> {
        let interval_ns = self.next_interval_ns(fit);
        // There is a sample, so there are a target and bounds.
        let target = self
            .target(old, fit, interval_ns)
            .ok_or(NotPublished::NoSample)?;
        let over_ns = at_most_ns.map_or(interval_ns, |max_ns| interval_ns.min(max_ns));
        let allowance = self.stability.allowance(fit, over_ns);
        let bounds = self
            .plan_bounds(target.slope, &allowance)
            .ok_or(NotPublished::NoSample)?;
        Ok(Plan {
            target,
            allowance,
            bounds,
            interval_ns,
            has_proven_slope: fit.is_some(),
        })
    }

    /// The target of the line that follows a line of slope `old`; `None` without a sample.
    fn target(&self, old: Slope, fit: Option<&Fit>, interval_ns: u64) -> Option<Target> {
        let history = &self.stability.history;
        if let Some(fit) = fit {
            return history.target(fit, old.ticks_in_ceil(interval_ns));
        }
        // There is only one sample since a jump or a change of rate. It shows the reference's time;
        // the slope stays the old one.
        let slope = self.target_slope.unwrap_or(old);
        let newest = history.newest()?;
        Some(Target {
            ticks: newest.lower.ticks,
            reference_fixed: newest.middle(slope),
            slope,
        })
    }

    /// The bounds around `slope`, widened by the allowance; `None` without a sample.
    fn plan_bounds(&self, slope: Slope, allowance: &Allowance) -> Option<PlannedBounds> {
        // A read returns the tick at which the counter last moved. A reference with a clock of its
        // own has run on since.
        let fastest = slope.adjusted_ppb(i64::from(allowance.max_drift_ppb));
        let unseen = fastest.over(self.resolutions.unseen_ticks().cast_signed());
        let mut bounds = self.stability.history.bounds(slope, allowance, unseen)?;
        bounds.resolution_ns = self.resolutions.reference_ns;
        let rounded = &mut bounds.rounded;
        rounded.unix_offset_ns = self.unix.offset_ns();
        rounded.unix_bound_ns = self.unix.bound_ns();
        Some(bounds)
    }

    /// The lead-in of a line, from its start to its publication, ticks. Another CPU's counter may
    /// be a little behind the writer's, and a CPU may execute a plain read early. Where each CPU
    /// has a line of its own, a line starts with its publication, because its readers read the
    /// counter before the state.
    fn lead_in_ticks(&self, slope: Slope) -> u64 {
        if self.config.cadence == Cadence::Pinned {
            0
        } else {
            slope.ticks_in_ceil(MEETING_MARGIN_NS)
        }
    }

    /// The line that follows `before`, with `b` = 0, and with start and window.
    fn line_from(
        &self,
        before: &WindowedLine,
        slope: Slope,
        at_ticks: u64,
        window_ticks: u64,
    ) -> Result<WindowedLine, NotPublished> {
        let next = before
            .state
            .next_line(slope)
            .ok_or_else(|| NotPublished::CounterTooSlow { hz: slope.to_hz() })?;
        let state = if self.config.serves_unix_time {
            next
        } else {
            next.without_unix()
        };
        let start_ticks = at_ticks.wrapping_sub(self.lead_in_ticks(slope));
        // A line and its margins do not reach across the wrap of `ticks << SHIFT`. A line is valid
        // for two windows.
        let margin_ticks = slope.ticks_in_ceil(2 * MEETING_MARGIN_NS);
        let in_wrap = start_ticks & WRAP_MASK;
        let left_ticks = WRAP_MASK
            .saturating_sub(in_wrap)
            .saturating_sub(margin_ticks);
        let window_ticks = window_ticks.min(left_ticks >> 1);
        if in_wrap < margin_ticks || window_ticks < margin_ticks {
            return Err(NotPublished::NearWrap);
        }
        Ok(WindowedLine {
            state,
            start_ticks,
            window_ticks,
        })
    }

    /// The line that replaces `old` at `at_ticks` and makes `correction`.
    fn next_line(
        &self,
        old: &WindowedLine,
        correction: &Correction,
        at_ticks: u64,
        window_ticks: u64,
    ) -> Result<WindowedLine, NotPublished> {
        let mut line = self.line_from(old, correction.slope, at_ticks, window_ticks)?;
        let margin_ticks = old.slope().ticks_in_ceil(MEETING_MARGIN_NS);
        line.state = meet_old_line(old, line.state, correction, at_ticks, margin_ticks);
        Ok(line)
    }

    /// Computes the next line as [`swap_lines`](Self::swap_lines) will, and returns its window,
    /// ticks.
    fn warm_up(
        &self,
        plan: &Plan,
        old: &WindowedLine,
        at_ticks: u64,
        window_ticks: u64,
    ) -> Result<u64, NotPublished> {
        let correction = correction_to(old, at_ticks, &plan.target, window_ticks);
        self.next_line(old, &correction, at_ticks, window_ticks)
            .map(|line| line.window_ticks)
    }

    /// The newest sample's lower point, lowered by the reference's resolution.
    fn newest_lower_point(&self) -> Option<Point> {
        let Point { ticks, ns } = self.stability.history.samples().last()?.lower;
        Some(Point {
            ticks,
            ns: ns.saturating_sub(self.resolutions.reference_ns),
        })
    }

    /// Rule 2: replaces the line `old` by the planned line.
    pub(super) fn replace(
        &mut self,
        plan: &Plan,
        old: &WindowedLine,
        access: &Access<'_, impl StateCell, impl Counter, impl Reference>,
    ) -> Result<Iteration, NotPublished> {
        let Access {
            shared,
            counter,
            reference,
        } = *access;
        let readings = shared.readings();
        let before_ticks = counter.now_ordered();
        if !readings.may_use(old, before_ticks, reference) {
            readings.retire_unusable(old, before_ticks, self.newest_lower_point(), reference);
            return Err(NotPublished::StateChanged);
        }
        self.check_newest_sample(before_ticks, plan.target.slope)?;
        let offset = old
            .fixed_at(before_ticks)
            .saturating_sub(plan.target.fixed_at(before_ticks));
        let interval_ns = self.interval_at_offset_ns(plan.interval_ns, offset, plan.target.slope);
        let old_slope = old.slope();
        let window_ticks = self.window_ticks(
            old_slope.ticks_in_ceil(interval_ns),
            self.lead_in_ticks(old_slope),
        );
        // A warm-up. A thread that has just woken has cold caches, and would keep the readers
        // waiting for microseconds, until they help. The warm-up also shows whether the next line
        // can be built, before the old line is withdrawn.
        let built_window_ticks = self.warm_up(plan, old, before_ticks, window_ticks)?;
        let correction = self.swap_lines(plan, old, access, window_ticks)?;
        self.has_proven_slope = plan.has_proven_slope;
        self.record_replacement(plan, &correction, readings, offset, interval_ns);
        // Before the ticks wrap, windows become shorter than the interval (`line_from`).
        let built_window_ns = old_slope
            .over(built_window_ticks.cast_signed())
            .floor_ns()
            .unsigned_abs();
        Ok(Iteration {
            outcome: Outcome::Published,
            next_in_ns: interval_ns.min(built_window_ns).max(MIN_INTERVAL_NS),
        })
    }

    /// Records the replacement of a line that was off by `offset`, and stores the new line's
    /// figures.
    fn record_replacement<S>(
        &mut self,
        plan: &Plan,
        correction: &Correction,
        readings: &Readings<S>,
        offset: FixedNs,
        interval_ns: u64,
    ) {
        readings.events.count(Event::Replacement);
        if correction.step_to.is_some() {
            readings.events.count(Event::StepForward);
        }
        let is_back = correction.step_to.is_some() || self.is_usual(offset, plan.target.slope);
        self.is_disrupted |= offset > FixedNs::from_ns(DISRUPTED_OFFSET_NS);
        self.is_disrupted &= !is_back;
        self.record(plan, correction.offset, readings, interval_ns);
    }

    /// `line` with the bounds and the evidence of its plan.
    const fn with_bounds(&self, line: WindowedLine, plan: &Plan) -> NextLine {
        NextLine {
            line,
            bounds: plan.bounds,
            suspended_ns: self.suspended_ns,
        }
    }

    /// The three steps of rule 2: announce, read the counter, publish.
    fn swap_lines(
        &self,
        plan: &Plan,
        old: &WindowedLine,
        access: &Access<'_, impl StateCell, impl Counter, impl Reference>,
        window_ticks: u64,
    ) -> Result<Correction, NotPublished> {
        let Access {
            shared,
            counter,
            reference,
        } = *access;
        let readings = shared.readings();
        let Some(replacing) = readings.announce(old) else {
            return Err(NotPublished::StateChanged);
        };
        let at_ticks = counter.now_ordered();
        // The bend removes the offset by the end of the window, not of the interval. A line may be
        // in use until its validity ends. With a bend for the interval, it would be off by several
        // times the offset by then.
        let correction = correction_to(old, at_ticks, &plan.target, window_ticks);
        match self.next_line(old, &correction, at_ticks, window_ticks) {
            Ok(line) if old.is_valid_at(at_ticks) => {
                let next = self.with_bounds(line, plan);
                if readings.cell.publish(replacing.state, &next) {
                    Ok(correction)
                } else {
                    Err(NotPublished::StateChanged)
                }
            }
            _ => {
                readings.help_at(
                    &replacing,
                    || at_ticks,
                    self.newest_lower_point(),
                    reference,
                );
                Err(NotPublished::StateChanged)
            }
        }
    }

    /// The value of a first line at `at_ticks`: the later one of the target and the latest time
    /// that the reference may show by now. `read` is a read of the reference between its own tick
    /// and `at_ticks`. Without one, the value is the target.
    ///
    /// Another thread may just have returned the reference's time. The CPU may execute that
    /// thread's next plain read early, and so use this line at a tick before `at_ticks`. Even at
    /// that earlier tick the line must not be below the time that the thread returned.
    fn first_fixed(&self, plan: &Plan, at_ticks: u64, read: Option<ReferenceRead>) -> FixedNs {
        let target = plan.target.fixed_at(at_ticks);
        let Some(ReferenceRead { after_ticks, ns }) = read else {
            return target;
        };
        let resolutions = &self.resolutions;
        let since_ticks = ticks_between(after_ticks, at_ticks)
            .saturating_add(resolutions.unseen_ticks().cast_signed());
        let latest = FixedNs::from_ns(ns.saturating_add(resolutions.reference_ns))
            .saturating_add(plan.target.slope.over(since_ticks));
        // If the writer was stopped between the two reads, the samples' upper bound is tighter.
        let latest = latest
            .min(plan.bounds.rounded.upper.fixed_at(at_ticks))
            .max(FixedNs::from_ns(ns));
        target.max(latest)
    }

    /// The first line, which passes through `from` at `at_ticks`, or above it.
    fn first_line(
        &self,
        slope: Slope,
        before: &WindowedLine,
        at_ticks: u64,
        from: FixedNs,
    ) -> Result<WindowedLine, NotPublished> {
        // The window is one and a half of the shortest interval plus the lead-in, and longer where
        // sampling is slow. This suffices, because the second iteration follows at once.
        let min_ticks = slope.ticks_in_ceil(self.min_interval_ns(slope));
        let window_ticks = min_ticks
            .saturating_add(min_ticks >> 1)
            .saturating_add(self.lead_in_ticks(slope))
            .min(MAX_WINDOW_TICKS);
        let mut line = self.line_from(before, slope, at_ticks, window_ticks)?;
        let high_water_ns = before.state.high_water_ns();
        let at_start = from.saturating_sub(slope.over(ticks_between(line.start_ticks, at_ticks)));
        let ahead = FixedNs::from_ns(high_water_ns).saturating_sub(at_start);
        if ahead > FixedNs::ZERO && ahead < FixedNs::from_ns(WAIT_FOR_HIGH_WATER_NS) {
            // The high-water mark is ahead by no more than its margin. The reference passes it
            // soon; a line that started now would be ahead of the reference.
            return Err(NotPublished::BelowHighWater);
        }
        // A mark far below, such as a new clock's, means nothing. Values of `b` wrap, so they must
        // not be that far apart.
        let lowest_ns = at_start.floor_ns().saturating_sub(FAR_BELOW_NS);
        line.state = first_line_above(
            line.state,
            line.start_ticks,
            high_water_ns.max(lowest_ns),
            at_ticks,
            from,
        );
        Ok(line)
    }

    /// Rule 7: publishes a first line. The writer announces the line. Then it reads the reference
    /// once more, between two reads of the counter, and starts the line no lower than the reference
    /// may be at the second read. No later reading of the reference counts.
    pub(super) fn publish_first_line(
        &mut self,
        plan: &Plan,
        before: &WindowedLine,
        access: &Access<'_, impl StateCell, impl Counter, impl Reference>,
    ) -> Result<Iteration, NotPublished> {
        let slope = plan.target.slope;
        let interval_ns = plan.interval_ns;
        // A warm-up, as in `replace`. It also shows whether the line can be built, before the line
        // is announced.
        let now_ticks = access.counter.now_ordered();
        self.check_newest_sample(now_ticks, slope)?;
        // The reference is not read yet, so this line starts at the target.
        let from = self.first_fixed(plan, now_ticks, None);
        self.first_line(slope, before, now_ticks, from)?;
        let offset = self.swap_in_first_line(plan, before, access)?;
        let readings = access.shared.readings();
        readings.events.count(Event::FirstPublication);
        self.has_proven_slope = false;
        // Only a line that starts from a high-water mark is ahead of the reference.
        self.is_disrupted =
            !self.is_usual(offset, slope) && offset > FixedNs::from_ns(WAIT_FOR_HIGH_WATER_NS);
        self.record(plan, offset, readings, interval_ns);
        Ok(Iteration {
            outcome: Outcome::PublishedFirst,
            next_in_ns: 0,
        })
    }

    /// The steps of rule 7. Returns the line's offset from its target.
    fn swap_in_first_line(
        &self,
        plan: &Plan,
        before: &WindowedLine,
        access: &Access<'_, impl StateCell, impl Counter, impl Reference>,
    ) -> Result<FixedNs, NotPublished> {
        let Access {
            shared,
            counter,
            reference,
        } = *access;
        let readings = shared.readings();
        let first = before.state.first_publication();
        if !readings.cell.try_swap(before.state, first) {
            return Err(NotPublished::StateChanged);
        }
        let read = ReferenceRead {
            after_ticks: counter.now_ordered(),
            ns: reference.monotonic_ns(),
        };
        let at_ticks = counter.now_ordered();
        let target = &plan.target;
        let line = self
            .check_newest_sample(at_ticks, target.slope)
            .and_then(|()| {
                let from = self.first_fixed(plan, at_ticks, Some(read));
                self.first_line(target.slope, before, at_ticks, from)
            });
        let published = line.and_then(|line| {
            let next = self.with_bounds(line, plan);
            if readings.cell.publish(first, &next) {
                Ok(line
                    .fixed_at(at_ticks)
                    .saturating_sub(target.fixed_at(at_ticks)))
            } else {
                Err(NotPublished::StateChanged)
            }
        });
        if published.is_err() {
            // The state need not be `first`: the high-water mark of `state/portable.rs` may have
            // risen since, or the clock may have been barred.
            let mut left = readings.cell.snapshot();
            while left.state.phase() == Phase::FirstPublication {
                readings.help(&left, counter, reference);
                left = readings.cell.snapshot();
            }
        }
        published
    }

    /// Records a line that was published `offset` away from its target, and stores its figures.
    fn record<S>(
        &mut self,
        plan: &Plan,
        offset: FixedNs,
        readings: &Readings<S>,
        interval_ns: u64,
    ) {
        let slope = plan.target.slope;
        self.stability
            .record_publication(plan.bounds.rounded, plan.target);
        self.target_slope = Some(slope);
        let interval_ticks = slope.ticks_in_ceil(self.interval_ns());
        let newest_ticks = self.newest_lower_point().map(|point| point.ticks);
        // A line is near its target at once if the reference was moved with the counter. The
        // figures report the move for an interval, so that a program that asks only now and then
        // learns of it.
        self.moved_at_ticks = self.moved_at_ticks.filter(|moved_ticks| {
            // A counter that was reset since is far from that tick.
            newest_ticks.is_some_and(|ticks| ticks.wrapping_sub(*moved_ticks) < interval_ticks)
        });
        readings.figures.store(&LineFigures {
            frequency_hz: slope.to_hz(),
            max_drift_ppb: u64::from(plan.allowance.max_drift_ppb),
            interval_ns,
            offset_ns: offset.round_ns(),
            is_disrupted: self.is_disrupted || self.moved_at_ticks.is_some(),
        });
    }
}
