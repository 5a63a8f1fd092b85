//! The crate's output: results on stdout, and all other lines on stderr.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Once;

/// Whether the crate prints. Other libraries of this project do not print, but users read the
/// results of benchmarks on a terminal, among criterion's own lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Messages {
    /// Printed.
    Shown,
    /// Not printed.
    Hidden,
}

impl Messages {
    /// Prints lines below criterion's last lines, on the same stream.
    pub(crate) fn beside_criterion(self, lines: &dyn Display) {
        if self == Self::Shown {
            _ = writeln!(io::stdout(), "{lines}");
        }
    }

    /// Prints why another build is not compared with this build.
    pub(crate) fn not_compared(self, error: &str) {
        self.print(&format_args!("not compared with the other build: {error}"));
    }

    /// Prints a line once in a process.
    pub(crate) fn print_once(self, first: &Once, text: &dyn Display) {
        if self == Self::Shown {
            first.call_once(|| self.print(text));
        }
    }

    /// Prints a line. A closed stream must not cause a panic, least of all in a drop.
    pub(crate) fn print(self, text: &dyn Display) {
        if self == Self::Shown {
            _ = writeln!(io::stderr(), "tickline: {text}");
        }
    }
}
