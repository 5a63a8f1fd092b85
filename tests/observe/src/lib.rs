//! Observation of a clock, for measurements, the soak and guests: readings bracketed by two
//! readings of the OS clock, exchanges of readings between threads, and waits for events. For
//! tests: forked children, a page (feature `page`), and how a test says that it did not run. Only
//! this last part is for every system.

#[cfg(unix)]
pub mod fork;
#[cfg(unix)]
mod observation;
#[cfg(all(feature = "page", target_os = "linux", target_arch = "x86_64"))]
pub mod page;

use std::fmt::Display;
use std::io::Write as _;

#[cfg(unix)]
pub use observation::{Bounded, Bracket, Count, clock_ns, monotonic_ns, to_f64, wait_until};

/// Reports that a test did not run. Writes directly to stderr, because the test harness hides the
/// output of tests that pass.
pub fn skip(reason: impl Display) {
    _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
