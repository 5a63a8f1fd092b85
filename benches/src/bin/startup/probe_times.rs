//! The times that a child of `startup` prints, as JSON.

use serde::{Deserialize, Serialize};

/// The child's readings of `CLOCK_MONOTONIC`, and its longest call, ns.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ProbeTimes {
    /// Before the first call.
    pub(crate) start_ns: u64,
    /// After the first call.
    pub(crate) first_ns: u64,
    /// When the counter served; `None` if it never did.
    pub(crate) counter_ns: Option<u64>,
    /// The duration of the longest call.
    pub(crate) slowest_ns: u64,
}
