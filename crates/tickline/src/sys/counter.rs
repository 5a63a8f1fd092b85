//! The counter of this target.

use tickline_core::counter::HardwareCounter;

/// The counter of this target. Whether the process may read it, the gates find out.
pub(crate) const COUNTER: Option<HardwareCounter> =
    if cfg!(miri) { None } else { HardwareCounter::if_present() };
