//! Targets without a counter that this crate reads, and those whose processor tells programs
//! nothing about it: RISC-V, where the ISA manual demands one rate (volume I, Zicntr) and the
//! frequency stands in the device tree.

use tickline_core::gate::Hypervisor;

/// There is nothing to read.
pub(crate) fn learn() -> bool {
    true
}

/// Unknown.
pub(crate) fn invariant() -> Option<bool> {
    None
}

/// Unknown.
pub(crate) fn hypervisor() -> Hypervisor {
    Hypervisor::None
}

/// There is no such register.
pub(crate) const NAMED_BESIDE_THE_COUNTER: bool = false;

/// Unknown.
pub(crate) fn nominal_hz() -> Option<u64> {
    None
}
