//! Targets whose counter this crate does not read.

use tickline_core::cell::Support;
use tickline_core::gate::Hypervisor;

/// The portable cell works everywhere.
pub(crate) fn cell_support() -> Support {
    crate::engine::Cell::support()
}

/// There is no counter to be invariant.
pub(crate) fn invariant() -> Option<bool> {
    None
}

/// Nobody asks.
pub(crate) fn hypervisor() -> Hypervisor {
    Hypervisor::None
}

/// There is no counter to have a frequency.
pub(crate) fn nominal_hz() -> Option<u64> {
    None
}
