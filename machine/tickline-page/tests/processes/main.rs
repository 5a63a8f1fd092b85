//! Tests that need other processes. They are apart from `tests/file.rs`, which locks many pages: a
//! forked child holds its parent's locks until its exec.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a role prints what it has found; a test may panic"
)]

use std::fmt::Display;
use std::io::{self, Write as _};

mod c_header;
mod cases;
#[cfg(all(
    feature = "clock",
    target_os = "linux",
    target_arch = "x86_64",
    target_env = "gnu"
))]
mod denied;
#[cfg(all(feature = "file", target_os = "linux"))]
mod locked;
#[cfg(all(feature = "file", target_os = "linux"))]
mod namespaces;
#[cfg(all(feature = "file", target_os = "linux"))]
mod truncated;
#[cfg(all(feature = "file", target_os = "linux"))]
mod writer;

/// Reports that a test did not run. Writes directly to stderr, because the test harness hides the
/// output of tests that pass.
fn skip(reason: impl Display) {
    _ = writeln!(io::stderr(), "SKIPPED: {reason}");
}
