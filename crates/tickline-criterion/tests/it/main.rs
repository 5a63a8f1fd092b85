//! The crate as its users see it, alone and through the whole of criterion.

mod compare;
mod directory;
mod measuring;
mod messages;
mod pairs;

use std::io::Write;

/// Says aloud that a test did not run: straight to stderr, because what passing tests print is
/// hidden.
pub(crate) fn skip(why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {why}").ok();
}
