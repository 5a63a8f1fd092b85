//! Whether a driver rests after an iteration, and for how long at least.

use crate::control::{Iteration, MIN_INTERVAL_NS, Outcome};

impl Iteration {
    /// The iteration with a rest of at least [`MIN_INTERVAL_NS`] after it. Otherwise a driver
    /// would spin while other threads void each first line.
    pub(crate) fn with_least_rest(mut self) -> Self {
        self.next_in_ns = self.next_in_ns.max(MIN_INTERVAL_NS);
        self
    }
}

/// A driver's last iteration. It decides whether the present one is followed by a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastIteration {
    /// The driver has rested since, or there was none.
    Rested,
    /// The last iteration has published a first line, and the driver has not rested since.
    PublishedFirst,
}

impl LastIteration {
    /// Returns whether the driver repeats `iteration` without a rest, and uses up the one such
    /// repeat that the publication of a first line gives: that line is short. After the repeat the
    /// driver rests.
    pub(crate) fn take_immediate_repeat(&mut self, iteration: &Iteration) -> bool {
        let repeats = iteration.outcome == Outcome::PublishedFirst && *self == Self::Rested;
        *self = if repeats {
            Self::PublishedFirst
        } else {
            Self::Rested
        };
        repeats
    }
}
