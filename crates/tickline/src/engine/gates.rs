//! Judging: when the facts are collected, what a verdict does to the line, and who looks again. The verdicts themselves are core's.

use core::sync::atomic::Ordering;

use tickline_core::cell::{StateCell, Support};
use tickline_core::compare::Comparison;
use tickline_core::control::{Config, Control, Renewal};
use tickline_core::counter::HardwareCounter;
use tickline_core::discipline::DISRUPTED_NS;
use tickline_core::gate::{
    Facts, Gate, Reason, Verdict, first_closed, judge_all, judge_calibration, judge_plausible,
};
use tickline_core::sample::Reference;
use tickline_core::units::signed;
use tickline_core::word::Phase;

use super::{Engine, STAGE_CLOSED, STAGE_NEW, STAGE_OPEN};
use crate::builder::Probes;
use crate::facts::{self, COUNTER};
use crate::per_cpu::Table;
use crate::policy::Policy;
use crate::process;
use crate::reference::{HAS_CLOCK, OsClock, step_ns};
use crate::status::State;
use crate::warp;

impl Engine {
    /// Judges by `policy` from now on.
    pub(crate) fn adopt(&self, policy: Policy) {
        // ORDERING: Relaxed, a setting; who judges after this does so because of what is stored below.
        let before = self.policy.swap(policy.to_bits(), Ordering::Relaxed);
        if before != policy.to_bits() && self.is_judged() {
            self.judge_again();
        }
    }

    /// Ends the present line, and has the gates judged again before the next one.
    pub(super) fn judge_again(&self) {
        self.close(facts::cell_support());
        self.apply_switch();
    }

    fn facts(&self, support: Support) -> Facts {
        // Before the result, so that one that comes meanwhile is looked at again; as is one that could not be read now.
        let changes = warp::changes();
        let comparison = warp::result();
        let comparisons = if comparison.is_some() { changes } else { changes.wrapping_sub(1) };
        let facts = facts::collect(&facts::Own {
            disabled: self.is_disabled(),
            probes: self.probes(),
            // ORDERING: Relaxed, a setting.
            policy: Policy::from_bits(self.policy.load(Ordering::Relaxed)),
            comparison: comparison.unwrap_or(Comparison::Pending),
            line_per_cpu: self.per_cpu.is_in_force(),
            was_slow: self.reason_of(Gate::Cost) == Some(Reason::Slow),
            support,
        });
        self.seen.note(&facts, comparisons);
        facts
    }

    /// Whether the CPUs' counters should be compared, by whoever has a thread for it.
    pub(crate) fn wants_comparison(&self) -> bool {
        self.probes() == Probes::Full && self.seen.wants_comparison()
    }

    /// Looks whether what the gates were judged by has changed: the kernel's clocksource, whether it would accept the counter,
    /// or what is known of the counters. If so, they are judged again before the next line. Returns whether that should be
    /// now. For whoever comes at each interval; takes some 10 us. Minimal probes do not look.
    pub(crate) fn watch(&self) -> bool {
        if self.probes() == Probes::Minimal {
            return false;
        }
        let _errno = process::PreserveErrno::new();
        if !self.is_judged() || self.is_disabled() || self.seen.is_current() {
            return false;
        }
        let support = facts::cell_support();
        let Some(control) = self.lock() else { return false };
        let before = self.seen.clocksource();
        let facts = self.facts(support);
        let verdicts = judge_all(&facts);
        // ORDERING: Acquire, pairs with the stores of `stage`.
        let open = self.stage.load(Ordering::Acquire) == STAGE_OPEN;
        if open && first_closed(&verdicts).is_none() && before == self.seen.clocksource() {
            verdicts.into_iter().for_each(|verdict| self.record(verdict));
            return false;
        }
        drop(control);
        self.judge_again();
        true
    }

    /// Collects the facts and judges the gates. A control loop if all are open.
    pub(super) fn judge(&self, renewal: Renewal) -> Option<Control> {
        let support = facts::cell_support();
        self.shared.cell.restrict(support);
        let facts = self.facts(support);
        let verdicts = judge_all(&facts);
        for verdict in verdicts {
            self.record(verdict);
        }
        if let Some(reason) = first_closed(&verdicts) {
            // The kernel makes up its mind about the counter within seconds of boot; nothing else passes by itself.
            self.set_due(match reason {
                Reason::KernelUndecided => OsClock.monotonic_ns().saturating_add(signed(self.interval_ns())),
                _ => i64::MAX,
            });
            self.close(support);
            if reason == Reason::Disabled {
                self.apply_switch(); // in case it was enabled meanwhile
            }
            return None;
        }
        // ORDERING: SeqCst, with `apply_switch`: either this sees the flag below, or that closes the stage after this.
        self.stage.store(STAGE_OPEN, Ordering::SeqCst);
        if self.is_disabled() {
            self.apply_switch();
            return None;
        }
        let mut quanta =
            facts.clocksource.quanta(HardwareCounter::CLOCKSOURCE, facts.quantum_ticks.unwrap_or(0));
        quanta.reference_ns = quanta.reference_ns.max(step_ns());
        Some(Control::new(Config {
            interval_ns: self.interval_ns(),
            quanta,
            guarded: support == Support::Guarded,
            renewal,
        }))
    }

    fn record(&self, verdict: Verdict) {
        let code = verdict
            .closed
            .and_then(|reason| Reason::ALL.iter().position(|known| *known == reason))
            .and_then(|place| u8::try_from(place).ok())
            .map_or(0, |place| place.saturating_add(1));
        for (gate, slot) in Gate::ALL.iter().zip(&self.verdicts) {
            if *gate == verdict.gate {
                // ORDERING: Release, pairs with the Acquire load in `verdicts`.
                slot.store(code, Ordering::Release);
            }
        }
    }

    fn reason_of(&self, gate: Gate) -> Option<Reason> {
        let slot = Gate::ALL.iter().zip(&self.verdicts).find(|(known, _)| **known == gate)?.1;
        // ORDERING: Acquire, pairs with the Release store in `record`.
        let code = usize::from(slot.load(Ordering::Acquire));
        code.checked_sub(1).and_then(|place| Reason::ALL.get(place)).copied()
    }

    /// What the gates said last.
    pub(crate) fn verdicts(&self) -> [Verdict; Gate::ALL.len()] {
        let word = self.shared.cell.word();
        let table = self.per_cpu_table();
        let has_line = word.is_gated() || word.phase() != Phase::Cold || table.is_some_and(Table::is_live);
        let measured_hz = table.and_then(Table::unit_here).unwrap_or(&self.shared).gauges.frequency_hz();
        Gate::ALL.map(|gate| match gate {
            Gate::User if self.is_disabled() => {
                Verdict { closed: Some(Reason::Disabled), ..Verdict::open(gate) }
            }
            // With a gate closed there is no line to look for.
            Gate::Calibration => judge_calibration(has_line, measured_hz.is_some()),
            Gate::Plausible => judge_plausible(facts::nominal_hz(), measured_hz),
            _ => Verdict { closed: self.reason_of(gate), ..Verdict::open(gate) },
        })
    }

    /// Whether the gates have been judged at least once.
    pub(crate) fn is_judged(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release stores in `judge` and `close`.
        self.stage.load(Ordering::Acquire) != STAGE_NEW
    }

    /// Whether a gate is closed.
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: Acquire, as in `is_judged`.
        self.stage.load(Ordering::Acquire) == STAGE_CLOSED
    }

    fn close(&self, support: Support) {
        // ORDERING: SeqCst, with `judge` and `apply_switch`, see there.
        self.stage.store(STAGE_CLOSED, Ordering::SeqCst);
        self.per_cpu.gate();
        // Without a compare-and-swap nothing was ever published, and the word cannot change.
        if let (Some(counter), true) = (COUNTER, support != Support::Missing) {
            self.shared.close_gate(&counter, &self.followed());
        }
    }

    pub(crate) fn disable(&self) {
        // ORDERING: SeqCst, with `apply_switch`.
        self.disabled.store(1, Ordering::SeqCst);
        self.apply_switch();
    }

    pub(crate) fn enable(&self) {
        // ORDERING: SeqCst, with `apply_switch`.
        self.disabled.store(0, Ordering::SeqCst);
        self.apply_switch();
    }

    /// Brings stage and gate in line with the switch, and looks again: whoever was the last to turn it, or to look, leaves
    /// them as it is.
    fn apply_switch(&self) {
        let support = facts::cell_support();
        loop {
            let disabled = self.is_disabled();
            if disabled {
                self.set_due(i64::MAX);
                self.close(support);
            } else {
                self.reconsider();
            }
            if self.is_disabled() == disabled {
                return;
            }
        }
    }

    pub(super) fn is_disabled(&self) -> bool {
        // ORDERING: SeqCst, with the stores in `disable` and `enable`, and those of `stage`.
        self.disabled.load(Ordering::SeqCst) != 0
    }

    /// Lets the gates be judged again before the next line.
    pub(super) fn reconsider(&self) {
        self.set_due(i64::MIN);
        self.per_cpu.ungate();
        // ORDERING: SeqCst, with `judge` and `apply_switch`, see there.
        self.stage.store(STAGE_NEW, Ordering::SeqCst);
        if let (Some(counter), true) = (COUNTER, facts::cell_support() != Support::Missing) {
            self.shared.open_gate(&counter, &self.followed());
        }
    }

    /// What a reading would be served by now.
    pub(crate) fn state(&self) -> State {
        if !HAS_CLOCK {
            return State::Unavailable;
        }
        if let Some(reason) = first_closed(&self.verdicts()) {
            return State::Fallback(reason);
        }
        let live = self.shared.cell.word().is_live() || self.per_cpu.open_table().is_some_and(Table::is_live);
        match COUNTER.is_some() && live {
            true if self.is_disrupted() => State::Disrupted,
            true => State::Fast,
            false => State::Calibrating,
        }
    }

    /// Whether readings by the line are off because the OS clock or the counter jumped: the control loop says so, or, before it
    /// has come, the OS clock does, which is then far outside of the line's bounds.
    fn is_disrupted(&self) -> bool {
        let unit = self.per_cpu_table().and_then(Table::unit_here).unwrap_or(&self.shared);
        if unit.gauges.is_disrupted() {
            return true;
        }
        let before_ns = OsClock.monotonic_ns();
        let Some(reading) = self.read_bounds().or_else(|| self.bounds_by_cpu()) else { return false };
        let after_ns = OsClock.monotonic_ns();
        let (earliest_ns, latest_ns) = reading.bounds_ns();
        let missed_ns = earliest_ns.saturating_sub(after_ns).max(before_ns.saturating_sub(latest_ns));
        missed_ns > DISRUPTED_NS
    }
}

#[cfg(test)]
mod tests {
    use tickline_core::cell::{Envelope, State as CellState};
    use tickline_core::line::Line;
    use tickline_core::word::Word;

    use super::*;
    use crate::engine::DEFAULT_INTERVAL_NS;
    use crate::status::Driver;

    /// As after a suspend with the counter running: line and bounds are ahead of the OS clock. Nobody has done a round since, and
    /// yet the state says so; the next round finds it, and until the line is back it is not "fast".
    #[test]
    fn a_line_that_is_ahead_of_the_os_clock_is_disrupted() {
        let engine = Engine::new(Driver::Manual, DEFAULT_INTERVAL_NS);
        let give_up_ns = OsClock.monotonic_ns() + 5_000_000_000;
        while engine.state() != State::Fast {
            engine.serve(Renewal::Ahead);
            if OsClock.monotonic_ns() > give_up_ns || engine.is_closed() {
                eprintln!("SKIPPED: no line by the counter here: {}", engine.state());
                return;
            }
        }
        // A line may end while this thread is stopped: then it is tried again.
        let cell = &engine.shared.cell;
        let is_ahead = || {
            let state = cell.load_whole();
            if !state.word.is_live() {
                return false;
            }
            let (line, known) = (engine.shared.line(state), cell.envelope(state.word.slot()));
            let ahead = |line: Line| Line { base_ns: line.base_ns + 50_000_000, ..line };
            let bounds = Envelope { lower: ahead(known.lower), upper: ahead(known.upper), ..known };
            let Some(counter) = COUNTER else { return false };
            let ticks = tickline_core::counter::Counter::now_ordered(&counter);
            let exponent = state.word.soft_ticks().trailing_zeros();
            let word = Word::live(ticks, exponent, state.word.slot().other(), false);
            let next = Line { start_ticks: word.ticks(), base_ns: ahead(line).at(ticks), ..line };
            let closing = CellState { word: state.word.closing(), ..state };
            cell.retire(state, closing.word, state.base_ns) && cell.publish(closing, word, &next, &bounds)
        };
        let seen = (0..1_000).any(|_| {
            engine.serve(Renewal::Ahead);
            is_ahead() && engine.state() == State::Disrupted
        });
        assert!(seen, "{}", engine.state());
        // The round finds the OS clock far below the bounds, and the line goes on at half rate, or goes cold.
        engine.serve(Renewal::Ahead);
        assert_ne!(engine.state(), State::Fast);
    }
}
