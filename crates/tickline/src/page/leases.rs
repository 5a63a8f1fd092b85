//! What a clock knows of the OS clock, for the leases of a page.

use tickline_core::counter::HardwareCounter;
use tickline_core::shared::BoundedReading;
use tickline_page::protocol::Estimate;

use crate::engine::Engine;
use crate::sys::reference::resolution_ns;
use crate::trust::facts;

impl Engine {
    /// The bounds of the OS clock, while one line is in use on all CPUs, and the OS clock is within
    /// its bounds.
    pub(crate) fn lease_estimate(&self) -> Option<Estimate> {
        if self.is_disrupted() {
            return None;
        }
        // By the window of readers: nobody recalibrates a clock whose thread has died. With a line
        // for each CPU there is none that this would read.
        let BoundedReading { bounds, .. } = self.read_bounds()?;
        // The least and the most that Unix time minus monotonic time may be.
        let (offset_ns, bound_ns) = (bounds.unix_offset_ns, bounds.unix_bound_ns);
        let unix_ns =
            (offset_ns.saturating_sub_unsigned(bound_ns), offset_ns.saturating_add_unsigned(bound_ns));
        let unix_ns = (!self.os_serves_unix()).then_some(unix_ns);
        Some(Estimate { lower: bounds.lower, upper: bounds.upper, unix_ns })
    }
}

/// The resolution of the OS clock, ns.
pub(crate) fn os_resolution_ns() -> i64 {
    // The counter's own resolution matters for brackets alone.
    let found = facts::clocksource().resolutions(HardwareCounter::CLOCKSOURCE, 0);
    found.reference_ns.max(resolution_ns()).max(1)
}
