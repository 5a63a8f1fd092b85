//! The status of a clock: its state, its verdicts and its figures.

use tickline_core::cell::StateCell;
use tickline_core::control::DISRUPTED_OFFSET_NS;
use tickline_core::gate::{Gate, Reason, Verdict, first_closed, judge_missing_line};
use tickline_core::reference::Reference;
use tickline_core::shared::{BoundedReading, Figures, SharedClock};
use tickline_core::state::Phase;

use super::Engine;
use super::gates::each_gate;
use crate::per_cpu::CpuLines;
use crate::status::{ClockState, EventCounts, Status};
use crate::sys::COUNTER;
use crate::sys::reference::{HAS_CLOCK, OsClock};
use crate::trust::{compare, facts};

impl Engine {
    /// A reading by the line that serves this CPU; `None` without one.
    fn read_bounded_here(&self) -> Option<BoundedReading> {
        self.read_bounded().or_else(|| self.read_bounded_by_cpu())
    }

    /// Half the width of the interval that contains the OS clock now, ns. `None` without a line.
    fn bound_ns(&self) -> Option<u64> {
        let reading = self.read_bounded_here()?;
        let (earliest_ns, latest_ns) = reading.bounds_ns();
        Some(latest_ns.abs_diff(earliest_ns).div_ceil(2))
    }

    /// The present status of this clock.
    pub(crate) fn status(&self) -> Status {
        let cpu_lines = self.cpu_lines();
        let figures = self.figures();
        let has_figures = figures.frequency_hz.is_some();
        Status {
            state: self.state(),
            is_judged: self.is_judged(),
            verdicts: self.verdicts(),
            driver: self.driver(),
            environment: facts::environment_switch(self.probes()),
            is_virtual: facts::is_virtual(),
            comparison: compare::result_or_pending(),
            frequency_hz: figures.frequency_hz,
            bound_ns: self.bound_ns(),
            max_drift_ppb: has_figures.then_some(figures.max_drift_ppb),
            offset_ns: has_figures.then_some(figures.offset_ns),
            interval_ns: has_figures.then_some(figures.interval_ns),
            events: EventCounts::from_fn(|event| {
                if self.backend.is_some() {
                    return 0; // the clock was barred for the backend
                }
                let by_cpu = cpu_lines.map_or(0, |lines| lines.event_count(event));
                self.clock.shared.event_count(event).saturating_add(by_cpu)
            }),
            per_cpu: cpu_lines.map_or_else(Vec::new, CpuLines::status),
        }
    }

    /// The last verdicts.
    pub(crate) fn verdicts(&self) -> [Verdict; Gate::ALL.len()] {
        if let Some(backend) = &self.backend {
            // The backend has judged the counter, if it reads one.
            let state = backend.state();
            return each_gate(|gate| match state {
                ClockState::Fallback(reason) if gate == reason.gate() => {
                    Verdict::new(gate, Some(reason))
                }
                _ => Verdict::new(gate, None),
            });
        }
        let state = self.clock.shared.cell.load();
        // A barred clock has no line, and none is expected.
        let has_line = state.is_barred()
            || state.phase() != Phase::NoLine
            || self.cpu_lines().is_some_and(CpuLines::is_published);
        each_gate(|gate| match gate {
            Gate::User if self.is_disabled() => Verdict::new(gate, Some(Reason::DisabledByProgram)),
            Gate::Calibration if !has_line && self.has_stopped_driver() => {
                Verdict::new(gate, Some(Reason::DriverStopped))
            }
            Gate::Calibration if !has_line => judge_missing_line(&self.figures()),
            _ => self.recorded_verdict(gate),
        })
    }

    /// The last figures of the control loop for the line that serves this CPU.
    fn figures(&self) -> Figures {
        let clock = self.cpu_lines().and_then(CpuLines::clock_here);
        clock.map_or_else(|| self.clock.shared.figures(), SharedClock::figures)
    }

    /// The clock that a reading would come from now, and why.
    pub(crate) fn state(&self) -> ClockState {
        if !HAS_CLOCK {
            return ClockState::Unavailable;
        }
        if let Some(backend) = &self.backend {
            return backend.state();
        }
        if let Some(reason) = first_closed(self.verdicts()) {
            return ClockState::Fallback(reason);
        }
        let is_published = self.clock.shared.cell.load().is_published()
            || self.cpu_lines().is_some_and(CpuLines::is_published);
        match COUNTER.is_some() && is_published {
            true if self.is_disrupted() => ClockState::Disrupted,
            true => ClockState::Fast,
            false => ClockState::Calibrating,
        }
    }

    /// Whether readings by the line are off because the OS clock or the counter has jumped. The
    /// control loop's next iteration detects a jump. Before it, a read of the OS clock does: after
    /// a jump that clock is far outside the line's bounds.
    pub(crate) fn is_disrupted(&self) -> bool {
        if self.figures().is_disrupted {
            return true;
        }
        let before_ns = OsClock.monotonic_ns();
        let Some(reading) = self.read_bounded_here() else {
            return false;
        };
        let after_ns = OsClock.monotonic_ns();
        let (earliest_ns, latest_ns) = reading.bounds_ns();
        let missed_ns = earliest_ns
            .saturating_sub(after_ns)
            .max(before_ns.saturating_sub(latest_ns));
        missed_ns > DISRUPTED_OFFSET_NS
    }
}
