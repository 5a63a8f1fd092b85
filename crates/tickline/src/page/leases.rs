//! What a clock knows of the OS clock, for the leases of a page.

use tickline_core::cell::Bounds;
use tickline_core::counter::HardwareCounter;
use tickline_core::shared::LineReading;
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
        let LineReading { bounds, .. } = self.read_bounds()?;
        let unix = (!self.os_serves_unix()).then(|| unix_interval_ns(&bounds));
        Some(Estimate { lower: bounds.lower, upper: bounds.upper, unix_ns: unix })
    }
}

/// The least and the most that Unix time minus monotonic time may be, ns.
fn unix_interval_ns(bounds: &Bounds) -> (i64, i64) {
    let bound_ns = i64::try_from(bounds.unix_bound_ns).unwrap_or(i64::MAX);
    (bounds.unix_offset_ns.saturating_sub(bound_ns), bounds.unix_offset_ns.saturating_add(bound_ns))
}

/// The resolution of the OS clock, ns.
pub(crate) fn os_resolution_ns() -> i64 {
    // The counter's own resolution matters for brackets alone.
    let found = facts::clocksource().resolutions(HardwareCounter::CLOCKSOURCE, 0);
    found.reference_ns.max(resolution_ns()).max(1)
}
