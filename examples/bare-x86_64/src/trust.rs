//! The decision whether the clock may use the counter: the gates of `tickline-core`, over the facts
//! of a machine without a kernel.

use core::arch::x86_64::__cpuid;

use tickline_core::clocksource::Clocksource;
use tickline_core::comparison::CounterComparison;
use tickline_core::gate::{self, Facts, Gate, Reason, Trust};

use crate::say;

/// CPUID 8000_0007h EDX bit 8 (Intel SDM vol. 3B 18.17.1; AMD APM vol. 3 E.4.6).
fn is_invariant() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// Judges the gates and prints them. Returns the first reason not to use the counter, if there is
/// one.
pub fn judge(counter_ticks: u64) -> Option<Reason> {
    let mut facts = Facts::UNKNOWN;
    facts.has_counter = true;
    facts.has_atomics = tickline_core::state::has_atomics();
    facts.may_read_counter = true;
    facts.matching_clocksource = Clocksource::Tsc;
    facts.is_virtual = false;
    // There is no kernel, and so no kernel's verdict.
    facts.trust = Trust::Measured;
    // QEMU's emulation does not call its counter invariant, although its rate does not change. On a
    // real machine this should be `false`.
    facts.assume_invariant = true;
    facts.is_invariant = is_invariant();
    // Other CPUs were never started.
    facts.comparison = CounterComparison::Single;
    facts.resolution_ticks = Some(counter_ticks);
    let verdicts = Gate::ALL.iter().map(|gate| gate::judge(*gate, &facts));
    for verdict in verdicts.clone() {
        say!(
            "gate {}: {}",
            verdict.gate().code(),
            verdict.closed_by().map_or("open", Reason::code)
        );
    }
    gate::first_closed(verdicts)
}
