//! What a test needs that can't run everywhere.

use tickline_core::counter::HardwareCounter;
use tickline_observe::skip;

/// The counter; `None`, with a printed line, on a target without one.
pub(crate) fn counter() -> Option<HardwareCounter> {
    let counter = HardwareCounter::if_present();
    if counter.is_none() {
        skip("no counter on this target");
    }
    counter
}
