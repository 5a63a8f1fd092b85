//! The counter of this target.

use tickline_core::counter::HardwareCounter;

/// The counter of this target. Holding one does not mean that the process may read it: that is the gates' business.
pub(crate) const COUNTER: Option<HardwareCounter> = HardwareCounter::if_present();
