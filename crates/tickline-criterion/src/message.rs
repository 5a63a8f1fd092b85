//! The messages on the standard error stream.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Once;

use crate::calibration::Calibration;
use crate::error::Error;
use crate::incidents::Incidents;

/// Libraries of this project do not print, except here: users read the results of benchmarks on a
/// terminal, among criterion's own lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Messages {
    /// Printed.
    Shown,
    /// Not printed.
    Hidden,
}

impl Messages {
    /// Prints how exact the counter is. It does so once in a process, although each
    /// `criterion_group!` may make its own clock.
    pub(crate) fn by_counter(self, calibration: &Calibration) {
        static FIRST: Once = Once::new();
        if self == Self::Shown {
            FIRST.call_once(|| self.print(calibration));
        }
    }

    /// Prints why `WallTime` measures instead. It does so each time: a gate that was open for an
    /// earlier clock may be closed for a later one, and the results would look alike.
    pub(crate) fn by_wall_time(self, error: &Error) {
        self.print(&format_args!("measuring with WallTime: {error}"));
    }

    /// Prints lines below those that criterion has just printed, on the same stream.
    pub(crate) fn beside_criterion(self, lines: &dyn Display) {
        if self == Self::Shown {
            writeln!(io::stdout(), "{lines}").ok();
        }
    }

    /// Prints that there is no comparison.
    pub(crate) fn too_few(self, have: u64, what: &str, least: u64) {
        self.print(&format_args!("not compared: {have} {what} count, {least} are needed; measure longer"));
    }

    /// Prints why another build takes no turns.
    pub(crate) fn not_in_turns(self, error: &str) {
        self.print(&format_args!("not compared with the other build: {error}"));
    }

    /// Prints why there is no comparison with a baseline.
    pub(crate) fn no_baseline(self, name: &str, folder: &Path, error: &dyn Display) {
        self.print(&format_args!(
            "not compared: no baseline {name} in {}: {error}; `cargo bench -- --save-baseline {name}` saves one",
            folder.display()
        ));
    }

    /// Prints why a distribution could not be stored.
    pub(crate) fn not_stored(self, error: &str) {
        self.print(&format_args!("not stored: {error}"));
    }

    /// Prints that criterion's files were not found, once in a process.
    pub(crate) fn not_found(self, looked_in: &Path) {
        static FIRST: Once = Once::new();
        if self == Self::Shown {
            FIRST.call_once(|| {
                self.print(&format_args!(
                    "not stored: criterion's files are not in {}; if the program calls Criterion::output_directory, \
                     it must pass it to CounterTime::builder().output_directory as well",
                    looked_in.display()
                ));
            });
        }
    }

    /// Prints the incidents, if there were any.
    pub(crate) fn at_end(self, incidents: &Incidents) {
        incidents.to_string().lines().for_each(|line| self.print(&line));
    }

    /// A closed stream is no reason to panic, least of all in a drop.
    fn print(self, what: &dyn Display) {
        if self == Self::Shown {
            writeln!(io::stderr(), "tickline: {what}").ok();
        }
    }
}
