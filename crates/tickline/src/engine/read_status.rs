//! The status of a clock: its state, its verdicts and its figures.

use tickline_core::control::DISRUPTED_OFFSET_NS;
use tickline_core::gate::{Gate, Reason, Verdict, first_closed, judge_missing_line};
use tickline_core::reference::Reference;
use tickline_core::shared::{BoundedReading, Figures, SharedClock};
use tickline_core::state::{LineState, Phase};

use super::Engine;
use super::gates::each_gate;
use crate::environment::{EnvironmentSwitch, environment_switch};
use crate::per_cpu::CpuLines;
use crate::status::{ClockState, EventCounts, Status};
use crate::sys::COUNTER;
use crate::sys::reference::{HAS_CLOCK, OsClock};
use crate::trust::{compare, facts};

impl Engine {
    /// An ordered reading by the line that serves this CPU; `None` without one.
    fn read_ordered_bounded_here(&self) -> Option<BoundedReading> {
        self.read_ordered_bounded()
            .or_else(|| self.read_ordered_bounded_by_this_cpu())
    }

    /// Half the width of the OS clock's range now, ns. `None` without a line.
    fn bound_ns(&self) -> Option<u64> {
        let reading = self.read_ordered_bounded_here()?;
        let range = reading.monotonic_range();
        Some(range.latest_ns.abs_diff(range.earliest_ns).div_ceil(2))
    }

    /// The present status of this clock.
    pub(crate) fn status(&self) -> Status {
        let cpu_lines = self.cpu_lines();
        let Figures {
            last_line,
            too_old_sample,
            too_slow_counter_hz,
            ..
        } = self.figures();
        let (state, verdicts) = self.state_and_verdicts();
        Status {
            state,
            is_judged: self.is_judged(),
            verdicts,
            driver: self.driver(),
            environment: environment_switch(self.probes()),
            is_virtual: facts::is_virtual(),
            comparison: compare::result_or_pending(),
            cost: self.recorded_cost(),
            too_old_sample,
            too_slow_counter_hz,
            frequency_hz: last_line.map(|line| line.frequency_hz),
            bound_ns: self.bound_ns(),
            max_drift_ppb: last_line.map(|line| line.max_drift_ppb),
            offset_ns: last_line.map(|line| line.offset_ns),
            interval_ns: last_line.map(|line| line.interval_ns),
            events: EventCounts::from_fn(|event| {
                if self.backend.is_some() {
                    return 0; // the clock was barred for the backend
                }
                let by_cpu = cpu_lines.map_or(0, |lines| lines.event_count(event));
                self.clock
                    .readings()
                    .event_count(event)
                    .saturating_add(by_cpu)
            }),
            per_cpu: cpu_lines.map_or_else(Vec::new, CpuLines::status),
        }
    }

    /// Whether each CPU has a line of its own, and this one is still to get it.
    pub(crate) fn awaits_line_of_this_cpu(&self) -> bool {
        self.cpu_lines().is_some_and(CpuLines::awaits_line_here)
    }

    /// The clock that a reading would come from now, and why.
    pub(crate) fn state(&self) -> ClockState {
        self.state_and_verdicts().0
    }

    /// The state, and the verdicts that it follows from: both are judged once, so they never
    /// contradict each other.
    fn state_and_verdicts(&self) -> (ClockState, [Verdict; Gate::ALL.len()]) {
        if let Some(backend) = &self.backend {
            let state = backend.state();
            return (state, verdicts_of_backend(state));
        }
        let common = self.clock.readings().state();
        let has_cpu_line = self.cpu_lines().is_some_and(CpuLines::has_line);
        // The next reading retires a line that has ended.
        let has_common_line = common.phase() != Phase::NoLine && !self.has_ended(common);
        // A barred clock has no line, and none is expected.
        let has_line = common.is_barred() || has_common_line || has_cpu_line;
        let verdicts = each_gate(|gate| match gate {
            Gate::User if self.is_disabled() => Verdict::closed(Reason::DisabledByProgram),
            // Also before the gates are judged: the clock will never be calibrated.
            Gate::User if environment_switch(self.probes()) == EnvironmentSwitch::Off => {
                Verdict::closed(Reason::DisabledByEnvironment)
            }
            Gate::Calibration if !has_line && self.has_stopped_driver() => {
                Verdict::closed(Reason::DriverStopped)
            }
            Gate::Calibration if !has_line => judge_missing_line(&self.figures()),
            _ => self.recorded_verdict(gate),
        });
        let is_published = common.is_published() && has_common_line;
        let is_fast = COUNTER.is_some() && (is_published || has_cpu_line);
        let state = if !HAS_CLOCK {
            ClockState::Unavailable
        } else if let Some(reason) = first_closed(verdicts) {
            ClockState::Fallback(reason)
        } else if !is_fast {
            ClockState::Calibrating
        } else if self.is_disrupted() {
            ClockState::Disrupted
        } else {
            ClockState::Fast
        };
        (state, verdicts)
    }

    /// Whether `line`, the state of the common line, is published, but serves no reading any more,
    /// as after a pause in which nobody renewed it.
    fn has_ended(&self, line: LineState) -> bool {
        line.is_published()
            && self.read_ordered_bounded_while_valid().is_none()
            // A writer may have replaced the line since.
            && self.clock.readings().is_still(line)
    }

    /// The last figures of the control loop for the line that serves this CPU.
    fn figures(&self) -> Figures {
        let clock = self.cpu_lines().and_then(CpuLines::clock_here);
        clock
            .map_or_else(|| self.clock.readings(), SharedClock::readings)
            .figures()
    }

    /// Whether readings by the line are off because the OS clock or the counter has jumped. The
    /// control loop's next iteration detects a jump. Before it, a read of the OS clock does: after
    /// a jump that clock is far outside the line's bounds.
    pub(crate) fn is_disrupted(&self) -> bool {
        if self
            .figures()
            .last_line
            .is_some_and(|line| line.is_disrupted)
        {
            return true;
        }
        let before_ns = OsClock.monotonic_ns();
        let Some(reading) = self.read_ordered_bounded_here() else {
            return false;
        };
        let after_ns = OsClock.monotonic_ns();
        let range = reading.monotonic_range();
        let missed_ns = range
            .earliest_ns
            .saturating_sub(after_ns)
            .max(before_ns.saturating_sub(range.latest_ns));
        missed_ns > DISRUPTED_OFFSET_NS
    }
}

/// The verdicts of a backend in this state: it has judged the counter, if it reads one.
fn verdicts_of_backend(state: ClockState) -> [Verdict; Gate::ALL.len()] {
    each_gate(|gate| match state {
        ClockState::Fallback(reason) if gate == reason.gate() => Verdict::closed(reason),
        _ => Verdict::open(gate),
    })
}
