//! The settings of a measurement.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::message::Messages;

/// The range of [`crate::measurement::CounterTimeBuilder::settle`]: a shorter time gives no rate.
pub(crate) const SETTLE_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(60);

/// The settings of a measurement, except its clock's settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) messages: Messages,
    pub(crate) counting: Counting,
    pub(crate) output_directory: Option<Arc<Path>>,
}

/// The setting of the pairs that count:
/// [`crate::measurement::CounterTimeBuilder::include_disturbed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    Undisturbed,
    All,
}

impl Counting {
    /// The treatment of disturbed pairs, as printed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Undisturbed => "excluded",
            Self::All => "included",
        }
    }
}
