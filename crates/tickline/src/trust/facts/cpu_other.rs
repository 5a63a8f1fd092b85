//! Targets other than x86_64. Their processors state no facts to programs, except for the counter's
//! frequency on aarch64. On RISC-V the ISA manual demands one rate (volume I, Zicntr), and the
//! frequency is in the device tree.

use crate::options::Probes;
use crate::status::Hypervisor;

/// Whether the counter is invariant. The architectures demand it: Arm ARM D12.1.1 for the generic
/// timer of aarch64, the ISA manual for RISC-V.
pub(crate) fn is_counter_invariant() -> bool {
    true
}

/// Unknown.
pub(crate) fn hypervisor() -> Hypervisor {
    Hypervisor::None
}

/// The counter's frequency as firmware has written it down in `CNTFRQ_EL0`, Hz. A process that may
/// not read `CNTVCT_EL0` may not read it either (Linux 6.12, `arch/arm64/kernel/traps.c`,
/// `cntfrq_read_handler`). With minimal probes tickline does not ask.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(crate) fn nominal_hz(probes: Probes) -> Option<u64> {
    let may_ask = probes == Probes::Full && crate::sys::may_read_counter();
    let hz = crate::sys::COUNTER.filter(|_| may_ask)?.nominal_hz();
    (hz != 0).then_some(hz)
}

/// Unknown.
#[cfg(any(not(target_arch = "aarch64"), miri))]
pub(crate) fn nominal_hz(_: Probes) -> Option<u64> {
    None
}
