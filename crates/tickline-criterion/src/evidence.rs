//! What the system says about disturbances of this thread and its CPU.
//!
//! A fact that the system does not give is `None`. It then disturbs no pair.

use std::ffi::c_long;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as system;

/// How often the kernel took the CPU away from this thread, since the thread began.
pub(crate) fn preemptions() -> Option<c_long> {
    system::preemptions()
}

/// The CPU that this thread runs on.
pub(crate) fn cpu() -> Option<usize> {
    system::cpu()
}

/// Binds this thread to a CPU, and the processes that it starts. Returns whether it is bound.
pub(crate) fn bind(cpu: usize) -> bool {
    system::bind(cpu)
}

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
    /// The facts of `cpu`. If that is not known, `stolen` is that of all CPUs together.
    pub(crate) fn of(cpu: Option<usize>) -> Self {
        system::cpu_facts(cpu)
    }

    pub(crate) fn has_stolen_since(&self, earlier: &Self) -> bool {
        self.stolen.zip(earlier.stolen).is_some_and(|(now, before)| now > before)
    }

    pub(crate) fn has_changed_frequency_since(&self, earlier: &Self) -> bool {
        self.frequency_khz.zip(earlier.frequency_khz).is_some_and(|(now, before)| {
            now.abs_diff(before).saturating_mul(100) > before.saturating_mul(FREQUENCY_CHANGE_PERCENT)
        })
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
