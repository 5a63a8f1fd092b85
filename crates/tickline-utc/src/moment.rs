//! What the clocks show at one moment.

use tickline_core::clocksource::Clocksource;
use tickline_core::reference::SUSPENDED_BOUND_NS;

/// The time of one moment by each clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The counter, ticks; `None` if it does not serve.
    pub(crate) ticks: Option<u64>,
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub(crate) raw_ns: i64,
    /// `CLOCK_REALTIME`, ns.
    pub(crate) realtime_ns: i64,
    /// The time that it took to read these clocks, plus their resolutions, ns. Each reading is the
    /// clock's time at the moment to within this width.
    pub(crate) width_ns: i64,
    /// The time for which the machine has been suspended since its start, ns.
    pub(crate) suspended_ns: i64,
    /// The hypervisor's disruption marker, which changes when it moves or restores the machine.
    pub(crate) marker: u64,
    /// The kernel's clocksource: another clocksource has another rate.
    pub(crate) clocksource: Clocksource,
}

impl Moment {
    /// Whether the machine was suspended or moved between the two moments, or the kernel changed
    /// its clocksource.
    pub(crate) fn is_disrupted_since(&self, before: &Self) -> bool {
        self.suspended_ns.abs_diff(before.suspended_ns) > SUSPENDED_BOUND_NS
            || self.marker != before.marker
            || self.clocksource != before.clocksource && before.clocksource != Clocksource::Unknown
    }
}
