//! Targets without a counter that this crate reads, and those whose processor tells programs nothing about it: RISC-V, where
//! the ISA manual demands one rate (volume I, Zicntr) and the frequency stands in the device tree.

use tickline_core::cell::Support;
use tickline_core::gate::Hypervisor;

/// The portable cell works everywhere.
pub(crate) fn cell_support() -> Support {
    crate::engine::Cell::support()
}

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

/// Nobody names it to programs.
pub(crate) fn nominal_hz() -> Option<u64> {
    None
}
