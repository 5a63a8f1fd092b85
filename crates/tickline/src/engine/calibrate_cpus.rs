//! The engine's part in a line for each CPU: the thread's pass over the CPUs, and the way back to
//! the common line.

use tickline_core::control::Cadence;
use tickline_core::driver::{Next, Obstacle};
use tickline_core::gate::keeper::LineKind;

use super::Engine;
use crate::per_cpu::calibrations::CpuCalibrations;
use crate::sys::StoppableSleep;

impl Engine {
    /// The thread's pass over the CPUs: calibrates those that are due. Returns the time until the
    /// next CPU is due, ns, or the obstacle, as [`iterate`](Self::iterate) does.
    pub(crate) fn calibrate_cpus(
        &self,
        calibrations: &mut CpuCalibrations,
        sleep: &StoppableSleep,
    ) -> Result<u64, Obstacle> {
        let Ok(cpu_lines) = self.cpu_lines_or_new() else {
            return self.iterate(Cadence::Scheduled);
        };
        self.clock.set_line_kind(LineKind::PerCpu);
        let next = self.ask();
        let obstacle = match next {
            Next::CalibrateCpus(permit) => {
                self.end_refusals();
                return Ok(calibrations.run(cpu_lines, &permit, self.interval_ns(), sleep));
            }
            Next::NoIteration(obstacle) => obstacle,
            // `Iterate`: another thread has changed the kind of lines. The others do not come here:
            // `ask` settles each ticket, and a rest follows only an iteration.
            Next::Iterate(_) | Next::Judge(_) | Next::Rest(_) => Obstacle::Unjudged,
        };
        self.record_obstacle(obstacle);
        Err(obstacle)
    }

    /// Returns to the common line. A pass over the CPUs holds the clock's lock, so the first common
    /// line comes after the pass.
    pub(crate) fn leave_per_cpu(&self) {
        self.clock.set_line_kind(LineKind::Common);
    }
}
