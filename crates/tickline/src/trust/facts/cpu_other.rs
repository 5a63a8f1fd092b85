//! Targets other than x86_64, whose processors tell programs nothing but, on aarch64, the counter's
//! frequency. On RISC-V the ISA manual demands one rate (volume I, Zicntr), and the frequency
//! stands in the device tree.

use crate::status::Hypervisor;

/// Unknown. On aarch64 the generic timer counts at one rate by definition (Arm ARM D12.1.1), and no
/// register says so.
pub(crate) fn invariant() -> Option<bool> {
    None
}

/// Unknown.
pub(crate) fn hypervisor() -> Hypervisor {
    Hypervisor::None
}

/// Whether a process that may not read the counter may not read its frequency either. That is so
/// for `CNTFRQ_EL0` and `CNTVCT_EL0` (Linux 6.12, `arch/arm64/kernel/traps.c`,
/// `cntfrq_read_handler`).
pub(crate) const NAMED_BESIDE_THE_COUNTER: bool = cfg!(target_arch = "aarch64");

/// The counter's frequency as firmware has written it down in `CNTFRQ_EL0`, Hz. For a process that
/// may read the counter.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(crate) fn nominal_hz() -> Option<u64> {
    crate::sys::COUNTER.map(|counter| counter.nominal_hz()).filter(|hz| *hz != 0)
}

/// Unknown.
#[cfg(any(not(target_arch = "aarch64"), miri))]
pub(crate) fn nominal_hz() -> Option<u64> {
    None
}
