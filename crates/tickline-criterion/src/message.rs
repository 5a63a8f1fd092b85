//! What is told on the standard error stream.

use std::fmt::Display;
use std::sync::Once;

use crate::incidents::Incidents;

/// Benchmarks are read on a terminal, beside criterion's own lines: the exception to the rule that libraries do not print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Messages {
    /// Printed.
    Shown,
    /// Not printed.
    Hidden,
}

impl Messages {
    /// A line about what is measured with; the first one in a process, because each `criterion_group!` may make its own clock.
    pub(crate) fn at_start(self, what: &dyn Display) {
        static FIRST: Once = Once::new();
        if self == Self::Shown {
            FIRST.call_once(|| print(what));
        }
    }

    /// What went wrong meanwhile, if anything has.
    pub(crate) fn at_end(self, incidents: &Incidents) {
        if self == Self::Shown {
            for line in incidents.to_string().lines() {
                print(&line);
            }
        }
    }
}

#[expect(clippy::print_stderr, reason = "the documented lines, which `quiet` turns off")]
fn print(what: &dyn Display) {
    eprintln!("tickline: {what}");
}
