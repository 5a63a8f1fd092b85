//! What the test programs share.

use std::io::Write;

/// Says aloud that a test did not run: straight to stderr, because the test harness hides what
/// passing tests print.
pub(crate) fn skip(why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {why}").ok();
}
