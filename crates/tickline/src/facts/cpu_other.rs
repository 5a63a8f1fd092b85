//! Targets whose counter this crate does not read.

use tickline_core::cell::Support;

/// The portable cell works everywhere.
pub(crate) fn cell_support() -> Support {
    crate::engine::Cell::support()
}

/// There is no counter to be invariant.
pub(crate) fn invariant() -> Option<bool> {
    None
}
