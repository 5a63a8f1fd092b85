//! The gates of a clock: when the clock collects the facts, how a verdict affects its line, and
//! when it judges again. The rules are in `tickline_core::gate`.
//!
//! A judgement goes one way, under the clock's lock, which the ticket holds:
//!
//! ```text
//! core: ticket -> collector: facts -> core: verdicts -> record -> core: settle the ticket
//! ```
//!
//! A reader may judge in a signal handler. It [prepares](Engine::prepare_one_task) the facts, one
//! task a call.

use core::sync::atomic::Ordering;

use tickline_core::clocksource::Clocksource;
use tickline_core::counter::HardwareCounter;
use tickline_core::driver::{Next, Obstacle, Ticket};
use tickline_core::gate::keeper::{Decision, LineKind, Stage};
use tickline_core::gate::{
    Cost, Facts, Gate, Reason, SwitchedOffBy, Trust, Verdict, first_closed, judge,
};
use tickline_core::reference::Reference;

use super::{Engine, UNKNOWN_PS};
use crate::settings::Probes;
use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER};
use crate::trust::{compare, facts};

/// The bit of a recorded verdict that says: the reason is a warning, and the gate is open.
const WARNING: u8 = 1 << 7;

const _: () = assert!(
    Reason::ALL.len() < WARNING as usize,
    "the number of a reason would be taken for a warning"
);

/// The time after which the cost of a slow counter is measured again, ns.
const COST_RETRY_NS: i64 = 5_000_000_000;

/// The grounds of a decision. A line stays in use until a judgement has other grounds. Two
/// decisions on the same grounds may differ: the counter's resolution is measured for each, and
/// each has its own time to judge again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grounds {
    /// Why the first closed gate is closed.
    closed_by: Option<Reason>,
    /// Why Unix time comes from the OS clock.
    unix_closed_by: Option<Reason>,
    clocksource: Clocksource,
}

/// The verdicts of `judge` for all gates.
pub(super) fn each_gate(judge: impl Fn(Gate) -> Verdict) -> [Verdict; Gate::ALL.len()] {
    core::array::from_fn(|index| judge(Gate::ALL[index]))
}

impl Engine {
    /// Ends the present line. The gates are judged again before the next line.
    pub(crate) fn request_judgement(&self) {
        self.clock
            .request_judgement(COUNTER.as_ref(), &self.probed_os_clock());
    }

    /// Adds the facts about the clock: its settings, its lines, earlier verdicts.
    fn add_clock_facts(&self, facts: &mut Facts, kind: LineKind) {
        // ORDERING: Relaxed for both, single settings.
        facts.assume_invariant = self.assume_invariant.load(Ordering::Relaxed);
        let trust = usize::from(self.trust.load(Ordering::Relaxed));
        facts.trust = Trust::ALL.get(trust).copied().unwrap_or_default();
        facts.switched_off_by = self.is_disabled().then_some(SwitchedOffBy::Program);
        facts.has_line_per_cpu = kind == LineKind::PerCpu;
        facts.was_slower_than_os = self.closing_reason(Gate::Cost) == Some(Reason::Slow);
        facts.unix_was_slower_than_os = self.closing_reason(Gate::UnixCost).is_some();
    }

    /// Replaces the ticket's facts. Returns `false` while another thread uses the collector, whose
    /// memory this needs, or the result of the comparison, without which a gate might close for
    /// good.
    fn collect(&self, ticket: &mut Ticket<'_>) -> bool {
        let (Some(mut collector), Some(comparison)) = (self.collector(), compare::result()) else {
            return false;
        };
        let kind = ticket.line_kind();
        let facts = ticket.facts_mut();
        *facts = Facts::UNKNOWN;
        facts.comparison = comparison;
        self.add_clock_facts(facts, kind);
        collector.finish(self.clock.changes(), self.probes(), facts);
        true
    }

    /// Runs one task of the collection of facts, unless the gates are open. Returns whether the
    /// reader may go on to an iteration: the gates are open, or the facts are complete. A whole
    /// collection takes too long for one call.
    pub(super) fn prepare_one_task(&self) -> bool {
        if self.clock.stage() == Stage::Open {
            return true;
        }
        let Some(mut collector) = self.collector() else {
            self.record_refusal();
            return false;
        };
        // A driver that has stopped would hold one of the two locks. This reader may never come to
        // an iteration, which would end the row of refusals.
        if !self.clock.is_locked() {
            self.end_refusals();
        }
        collector.run_one(
            self.clock.changes(),
            self.probes(),
            compare::result_or_pending(),
        )
    }

    /// Whether the clock's thread should compare the CPUs' counters.
    pub(crate) fn needs_comparison(&self) -> bool {
        self.probes() == Probes::Full
            && self
                .clock
                .lock(sys::lock_token())
                .is_some_and(|locked| facts::needs_comparison(locked.facts()))
    }

    /// Collects the facts, judges the gates, records the verdicts, and settles the ticket. If
    /// another thread uses what `collect` needs, the next holder of the clock's lock judges.
    pub(super) fn collect_and_settle<'a>(&self, mut ticket: Ticket<'a>) -> Next<'a> {
        if !self.collect(&mut ticket) {
            return Next::NoIteration(Obstacle::LockHeld);
        }
        let grounds = self.judge_and_record(ticket.facts());
        self.settle_by(ticket, grounds)
    }

    /// Judges the gates again if facts have changed since the last judgement: the kernel's
    /// clocksource, whether the kernel would accept the counter, or the comparison of the counters.
    /// The line stays in use if the judgement has the same grounds, or if another thread uses what
    /// `collect` needs. Returns whether the gates were judged; the next iteration is then due now.
    ///
    /// The thread calls this at least once in each interval, other drivers when
    /// [`count_iteration`](tickline_core::driver::DrivenClock::count_iteration) says so. The call
    /// takes about 10 us. With minimal probes it does nothing.
    pub(crate) fn review(&self) -> bool {
        let _errno = sys::PreserveErrno::new();
        if self.probes() != Probes::Full {
            return false;
        }
        let Some(mut ticket) = self.clock.ask_review(sys::lock_token()) else {
            return false;
        };
        let last = self.last_grounds(ticket.facts());
        if facts::are_current(ticket.facts()) || !self.collect(&mut ticket) {
            return false;
        }
        let grounds = self.judge_and_record(ticket.facts());
        if Some(grounds) == last {
            return false;
        }
        _ = self.settle_by(ticket, grounds);
        true
    }

    /// The grounds of the last judgement, by `facts`, if the gates are open.
    fn last_grounds(&self, facts: &Facts) -> Option<Grounds> {
        (self.clock.stage() == Stage::Open).then(|| Grounds {
            closed_by: None,
            unix_closed_by: self.closing_reason(Gate::UnixCost),
            clocksource: facts.clocksource,
        })
    }

    /// Judges the gates by these facts, and records the verdicts.
    fn judge_and_record(&self, facts: &Facts) -> Grounds {
        let verdicts = each_gate(|gate| judge(gate, facts));
        verdicts
            .iter()
            .for_each(|verdict| self.record_verdict(*verdict));
        self.record_cost(facts.cost);
        Grounds {
            closed_by: first_closed(verdicts),
            unix_closed_by: verdicts[Gate::UnixCost as usize].closed_by(),
            clocksource: facts.clocksource,
        }
    }

    /// Settles the ticket by the decision that these grounds lead to.
    fn settle_by<'a>(&self, ticket: Ticket<'a>, grounds: Grounds) -> Next<'a> {
        let decision = self.decision(grounds, ticket.facts());
        ticket.settle(decision, COUNTER.as_ref(), &self.probed_os_clock())
    }

    fn decision(&self, grounds: Grounds, facts: &Facts) -> Decision {
        let wait_ns = match grounds.closed_by {
            None => {
                let resolution_ticks = facts.resolution_ticks.unwrap_or(0);
                let mut resolutions = grounds
                    .clocksource
                    .resolutions(HardwareCounter::CLOCKSOURCE, resolution_ticks);
                resolutions.reference_ns = resolutions.reference_ns.max(OsClock::resolution_ns());
                return Decision::Open {
                    resolutions,
                    serves_unix_time: grounds.unix_closed_by.is_none(),
                };
            }
            // The kernel decides about the counter within seconds of boot.
            Some(Reason::KernelUndecided) => Some(self.interval_ns().cast_signed()),
            // The measurement took only 20 us, which may not have been typical.
            Some(Reason::Slow) => Some(COST_RETRY_NS),
            // Every other reason stays until a review finds other facts, or a call asks for a
            // judgement.
            Some(_) => None,
        };
        Decision::Closed {
            retry_at_ns: wait_ns.map(|ns| OsClock.monotonic_ns().saturating_add(ns)),
        }
    }

    #[inline(never)]
    pub(crate) fn record_verdict(&self, verdict: Verdict) {
        let code_of = |reason: Option<Reason>| reason.map_or(0, |reason| reason as u8 + 1);
        let code = match verdict.warning() {
            None => code_of(verdict.closed_by()),
            warning => code_of(warning) | WARNING,
        };
        // ORDERING: Relaxed, a single value. The keeper's word, which settling exchanges
        // afterwards, orders it before the stage.
        self.verdicts[verdict.gate() as usize].store(code, Ordering::Relaxed);
    }

    pub(super) fn recorded_verdict(&self, gate: Gate) -> Verdict {
        // ORDERING: Relaxed, as in `record_verdict`.
        let code = self.verdicts[gate as usize].load(Ordering::Relaxed);
        let index = usize::from(code & !WARNING).checked_sub(1);
        let reason = index.and_then(|index| Reason::ALL.get(index)).copied();
        match reason {
            None => Verdict::open(gate),
            Some(reason) if code & WARNING != 0 => Verdict::with_warning(reason),
            Some(reason) => Verdict::closed(reason),
        }
    }

    fn record_cost(&self, cost: Option<Cost>) {
        let costs_ps = cost.map_or([UNKNOWN_PS; 3], |cost| {
            [cost.counter_ps, cost.os_ps, cost.os_unix_ps]
        });
        for (recorded, ps) in self.costs_ps.iter().zip(costs_ps) {
            // ORDERING: Relaxed, figures for display.
            recorded.store(ps, Ordering::Relaxed);
        }
    }

    /// The cost of readings, as the last judgement measured it.
    pub(super) fn recorded_cost(&self) -> Option<Cost> {
        // ORDERING: Relaxed, as in `record_cost`.
        let costs_ps = self
            .costs_ps
            .each_ref()
            .map(|ps| ps.load(Ordering::Relaxed));
        let [counter_ps, os_ps, os_unix_ps] = costs_ps;
        (counter_ps != UNKNOWN_PS).then_some(Cost {
            counter_ps,
            os_ps,
            os_unix_ps,
        })
    }

    fn closing_reason(&self, gate: Gate) -> Option<Reason> {
        self.recorded_verdict(gate).closed_by()
    }

    /// Whether Unix time comes from the OS clock, by the last judgement.
    pub(crate) fn os_serves_unix(&self) -> bool {
        self.closing_reason(Gate::UnixCost).is_some() || self.closing_reason(Gate::Cost).is_some()
    }

    /// Whether the gates were judged since a judgement was last requested, or the clock is
    /// disabled.
    pub(crate) fn is_judged(&self) -> bool {
        self.clock.stage() != Stage::Unjudged
    }

    pub(crate) fn disable(&self) {
        if let Some(backend) = &self.backend {
            return backend.disable();
        }
        self.clock
            .disable(COUNTER.as_ref(), &self.probed_os_clock());
    }

    pub(crate) fn enable(&self) {
        if let Some(backend) = &self.backend {
            return backend.enable();
        }
        self.clock.enable();
    }

    pub(super) fn is_disabled(&self) -> bool {
        self.clock.stage() == Stage::Disabled
    }
}

#[cfg(test)]
mod tests;
