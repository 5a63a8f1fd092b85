//! What `tickline bench` adds to a document.

use serde::Serialize;

use crate::measure::costs::LongRun;

/// The results of `bench` beside the costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Bench {
    /// Rounds over all clocks, for the figures in `costs`.
    pub(crate) rounds: u32,
    /// Calls of each clock in the long run.
    pub(crate) calls: u32,
    /// The long run of each clock.
    pub(crate) long_run: Vec<LongRun>,
}
