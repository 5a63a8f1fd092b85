//! The counter of this target.

use tickline_core::counter::HardwareCounter;

/// The counter of this target. The gates find out whether the process may read it.
pub(crate) const COUNTER: Option<HardwareCounter> =
    if cfg!(miri) { None } else { HardwareCounter::if_present() };
