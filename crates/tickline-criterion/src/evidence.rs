//! What the system and tickline's clock say about disturbances: of this thread, its CPU, and the
//! counter.
//!
//! A fact that the system does not give is `None`. It then disturbs no pair.

use tickline::{Event, Events, State, Status};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as system;

pub(crate) use system::{bind, cpu, cpu_facts, preemptions};

/// What is known of a CPU at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuFacts {
    /// Time that the hypervisor gave to others, in units of `/proc/stat` (`USER_HZ`).
    pub(crate) stolen: Option<u64>,
    /// The frequency of its core, kHz.
    pub(crate) frequency_khz: Option<u64>,
}

/// A change of frequency by more than this disturbs pairs, %. `compare` finds such a difference in
/// a routine of 50 ns.
const FREQUENCY_CHANGE_PERCENT: u64 = 2;

impl CpuFacts {
    pub(crate) fn has_stolen_since(&self, earlier: &Self) -> bool {
        self.stolen.zip(earlier.stolen).is_some_and(|(now, before)| now > before)
    }

    pub(crate) fn has_changed_frequency_since(&self, earlier: &Self) -> bool {
        self.frequency_khz.zip(earlier.frequency_khz).is_some_and(|(now, before)| {
            now.abs_diff(before).saturating_mul(100) > before.saturating_mul(FREQUENCY_CHANGE_PERCENT)
        })
    }
}

/// Events after which a sample, or the rate that converts it, may be wrong.
///
/// Three events are not among them: recalibrations; lines that were not renewed in time, which says
/// nothing against the counter; and bounds violated by some ns, which concern the rate's
/// uncertainty, not a sample.
pub(crate) const DISTURBING: [Event; 5] =
    [Event::CounterReset, Event::Disruption, Event::RateChange, Event::UnixStep, Event::GateClosed];

/// What tickline's clock says at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockFacts {
    pub(crate) events: Events,
    pub(crate) state: State,
}

impl ClockFacts {
    pub(crate) fn of(status: &Status) -> Self {
        Self { events: status.events, state: status.state }
    }

    /// Whether the clock noticed an event since then, or did not vouch for the counter at one end.
    pub(crate) fn is_disturbed_since(&self, earlier: &Self) -> bool {
        let happened = |event| self.events.get(event) > earlier.events.get(event);
        DISTURBING.into_iter().any(happened)
            || [self.state, earlier.state].into_iter().any(|state| state != State::Fast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_are_unknown_disturb_nothing() {
        let known = CpuFacts { stolen: Some(7), frequency_khz: Some(2_000_000) };
        for (now, before) in [(CpuFacts::default(), known), (known, CpuFacts::default()), (known, known)] {
            assert!(!now.has_stolen_since(&before) && !now.has_changed_frequency_since(&before));
        }
    }

    #[test]
    fn one_tick_is_stolen_and_two_percent_are_the_same_frequency() {
        let before = CpuFacts { stolen: Some(7), frequency_khz: Some(2_000_000) };
        assert!(CpuFacts { stolen: Some(8), ..before }.has_stolen_since(&before));
        for (khz, has_changed) in
            [(2_040_000, false), (1_960_000, false), (2_041_000, true), (1_959_000, true)]
        {
            let now = CpuFacts { frequency_khz: Some(khz), ..before };
            assert_eq!(now.has_changed_frequency_since(&before), has_changed, "{khz}");
        }
    }
}
