//! What the clocks show at one moment.

use tickline::backend::OsClock;
use tickline_core::clocksource::Clocksource;
use tickline_core::reference::{Reference as _, SUSPENDED_BOUND_NS};

/// The word of a marker that no hypervisor offers.
pub(crate) const NO_MARKER: u64 = u64::MAX;

/// The hypervisor's disruption marker, which changes when it moves or restores the machine;
/// [`NO_MARKER`] where none offers one.
#[inline]
pub(crate) fn marker_word() -> u64 {
    OsClock.disruption_marker().unwrap_or(NO_MARKER)
}

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
    /// The word of the hypervisor's [disruption marker](marker_word).
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

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Moment = Moment {
        ticks: None,
        raw_ns: 0,
        realtime_ns: 0,
        width_ns: 0,
        suspended_ns: 1_000_000_000,
        marker: 7,
        clocksource: Clocksource::Tsc,
    };

    /// Whether the machine was disrupted if it was suspended for so much longer.
    fn is_disrupted_by(longer_ns: i64) -> bool {
        let now = Moment {
            suspended_ns: BEFORE.suspended_ns + longer_ns,
            ..BEFORE
        };
        now.is_disrupted_since(&BEFORE)
    }

    #[test]
    fn readings_of_the_time_suspended_may_differ_by_their_bound() {
        let bound_ns = i64::try_from(SUSPENDED_BOUND_NS).expect("a small number");
        assert!(!is_disrupted_by(bound_ns) && !is_disrupted_by(-bound_ns));
    }

    #[test]
    fn a_machine_that_was_suspended_is_disrupted() {
        let bound_ns = i64::try_from(SUSPENDED_BOUND_NS).expect("a small number");
        assert!(is_disrupted_by(bound_ns + 1));
    }

    #[test]
    fn a_machine_that_was_moved_is_disrupted() {
        let now = Moment {
            marker: 8,
            ..BEFORE
        };
        assert!(now.is_disrupted_since(&BEFORE));
    }

    #[test]
    fn another_clocksource_disrupts() {
        let now = Moment {
            clocksource: Clocksource::Hpet,
            ..BEFORE
        };
        assert!(now.is_disrupted_since(&BEFORE));
    }

    #[test]
    fn a_clocksource_that_becomes_known_disrupts_nothing() {
        let before = Moment {
            clocksource: Clocksource::Unknown,
            ..BEFORE
        };
        assert!(!BEFORE.is_disrupted_since(&before));
    }
}
