//! What a clock knows of the OS clock, for the leases of a page.

use tickline_core::counter::HardwareCounter;
use tickline_core::unstable::lease::Estimate;

use super::Engine;
use crate::sys::reference::step_ns;
use crate::trust::facts;

impl Engine {
    /// The bounds of the OS clock, while one line is in use on all CPUs, and the OS clock is within
    /// its bounds.
    pub(crate) fn lease_estimate(&self) -> Option<Estimate> {
        // By the window of readers: nobody recalibrates a clock whose thread has died.
        let is_used = !self.per_cpu.is_in_force() && self.read_bounds().is_some();
        if !is_used || self.is_disrupted() {
            return None;
        }
        Estimate::of(&self.shared)
    }
}

/// The resolution of the OS clock, ns.
pub(crate) fn os_resolution_ns() -> i64 {
    // The counter's own resolution matters for brackets alone.
    let found = facts::clocksource().resolutions(HardwareCounter::CLOCKSOURCE, 0);
    found.reference_ns.max(step_ns()).max(1)
}
