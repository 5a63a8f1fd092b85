//! Lines on standard error, for errors that no call can return.

use core::fmt;
use std::io::{self, Write};

/// Writes a line to standard error. `eprintln` panics if it is closed.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    _ = writeln!(io::stderr(), "tickline: {text}");
}
