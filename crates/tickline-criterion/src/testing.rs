//! What a test needs that can't run everywhere.

use std::io::{self, Write};

use tickline_core::counter::HardwareCounter;

/// Reports that a test did not run. It writes to stderr directly, because the harness hides the
/// output of passing tests.
pub(crate) fn skip(why: &str) {
    _ = writeln!(io::stderr(), "SKIPPED: {why}");
}

/// The counter; `None`, with a printed line, on a target without one.
pub(crate) fn counter() -> Option<HardwareCounter> {
    let counter = HardwareCounter::if_present();
    if counter.is_none() {
        skip("no counter on this target");
    }
    counter
}
