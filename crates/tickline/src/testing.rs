//! A helper of the unit tests.

use std::fmt::Display;
use std::io::Write as _;

/// Reports that a test did not run. Writes directly to stderr, because the test harness hides the
/// output of tests that pass.
pub(crate) fn skip(reason: impl Display) {
    writeln!(std::io::stderr(), "SKIPPED: {reason}").ok();
}
