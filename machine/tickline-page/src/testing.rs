//! A helper of the unit tests.

#![allow(dead_code, reason = "each test that skips needs a feature and Linux")]

use std::fmt::Display;
use std::io::{self, Write as _};

/// Reports that a test did not run. Writes directly to stderr, because the test harness hides the
/// output of tests that pass.
pub(crate) fn skip(reason: impl Display) {
    _ = writeln!(io::stderr(), "SKIPPED: {reason}");
}
