//! Targets without a counter that this crate reads, and those whose processor tells programs nothing about it: RISC-V, where
//! the ISA manual demands one rate (volume I, Zicntr) and the frequency stands in the device tree.

use tickline_core::gate::Hypervisor;

/// The processor is not asked.
pub(crate) fn learn() -> bool {
    true
}

/// Nobody claims it.
pub(crate) fn invariant() -> Option<bool> {
    None
}

/// Nobody asks.
pub(crate) fn hypervisor() -> Hypervisor {
    Hypervisor::None
}

/// Nothing names it.
pub(crate) const NAMED_BESIDE_THE_COUNTER: bool = false;

/// Nobody names it to programs.
pub(crate) fn nominal_hz() -> Option<u64> {
    None
}
