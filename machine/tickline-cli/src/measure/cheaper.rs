//! Measures, within some microseconds, whether one call is cheaper than another. `tickline run`
//! can't wait for a table of costs.

use tickline_core::counter::{Counter, HardwareCounter};

use super::{calls, narrowest};

/// Whether a call takes less than three quarters of the other one's time. A call that the vDSO
/// answers takes a third of a system call, or less. If the vDSO makes the system call itself, the
/// call takes longer than the bare system call.
pub(crate) fn is_cheaper(call: &str, other: &str) -> bool {
    const BRACKETS: u32 = 64;
    let Some(counter) = HardwareCounter::if_present() else {
        return true;
    };
    let calls = calls::all(Some(counter));
    let ticks = |name| {
        let call = calls.iter().find(|call| call.name == name)?.run.as_ref()?;
        let (start, (), end) = narrowest(BRACKETS, || counter.now_ordered(), || call(1));
        Some(end.wrapping_sub(start))
    };
    let ticks = ticks(call).zip(ticks(other));
    ticks.is_none_or(|(ticks, other)| ticks.saturating_mul(4) < other.saturating_mul(3))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::measure::calls::{MONOTONIC_COARSE, SYSTEM_CALL};

    /// Symptom: `run` said of each guest with kvm-clock that its clock needs no system call.
    #[test]
    fn a_call_without_the_vdso_is_not_cheaper_than_a_system_call() {
        assert!(!is_cheaper(SYSTEM_CALL, SYSTEM_CALL));
        // With any clocksource the vDSO answers this one.
        let is_mapped =
            fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("[vdso]"));
        assert!(!is_mapped || is_cheaper(MONOTONIC_COARSE, SYSTEM_CALL));
    }
}
