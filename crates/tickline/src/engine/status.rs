//! What a clock says about itself, filled in.

use tickline_core::gate::CounterComparison;

use super::Engine;
use crate::options::Probes;
use crate::status::{Events, Status};
use crate::sys::reference;
use crate::trust::{compare, facts};

impl Engine {
    /// Half the width of the interval that contains the OS clock now, ns. `None` without a line.
    fn bound_ns(&self) -> Option<u64> {
        let reading = self.read_bounds().or_else(|| self.bounds_by_cpu())?;
        let (earliest_ns, latest_ns) = reading.bounds_ns();
        Some(latest_ns.abs_diff(earliest_ns).div_ceil(2))
    }

    /// What this clock says about itself, now.
    pub(crate) fn status(&self) -> Status {
        let table = self.cpu_lines();
        let figures = self.figures();
        let has_figures = figures.frequency_hz.is_some();
        Status {
            state: self.state(),
            is_judged: self.is_judged(),
            verdicts: self.verdicts(),
            driver: self.driver(),
            environment: facts::environment(self.probes()),
            hypervisor: facts::hypervisor(),
            comparison: compare::result().unwrap_or(CounterComparison::Pending),
            nominal_hz: facts::nominal_hz(self.probes()),
            frequency_hz: figures.frequency_hz,
            bound_ns: self.bound_ns(),
            max_drift_ppb: has_figures.then_some(figures.max_drift_ppb),
            offset_ns: has_figures.then_some(figures.offset_ns),
            interval_ns: has_figures.then_some(figures.interval_ns),
            utc_error_ns: if self.probes() == Probes::Full { reference::utc_error_ns() } else { None },
            events: Events::of(|event| {
                let by_cpu = table.map_or(0, |table| table.events(event));
                self.clock.shared.events(event).saturating_add(by_cpu)
            }),
            per_cpu: table.map_or_else(Vec::new, |table| table.status()),
        }
    }
}
