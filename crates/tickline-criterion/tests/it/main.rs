//! Tests of the public API, alone and run by criterion.

mod compare;
mod directory;
mod measuring;
mod messages;
mod pairs;

use std::io::Write;

/// Reports that a test did not run. It writes to stderr directly, because the harness hides the
/// output of passing tests.
pub(crate) fn skip(why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {why}").ok();
}
