//! What `tickline bench` adds to a document.

use serde::Serialize;

use crate::measure::costs::LongRun;

/// What `bench` has besides the costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Bench {
    /// Rounds over all clocks, behind each figure of `costs`.
    pub(crate) rounds: u32,
    /// Calls of each clock in the long run.
    pub(crate) calls: u32,
    /// What that took.
    pub(crate) long_run: Vec<LongRun>,
    /// The costs against those of an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compared: Option<Compared>,
}

/// The costs against those of an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Compared {
    /// The file that the earlier run is from.
    pub(crate) file: String,
    /// The version of the program that has written it.
    pub(crate) program_version: String,
    /// In what the machines differ, in words; empty if in nothing that is known.
    pub(crate) differences: Vec<String>,
    /// The clocks that have a cost in both.
    pub(crate) clocks: Vec<ComparedClock>,
    /// Clocks that have a cost in the earlier run only...
    pub(crate) only_then: Vec<String>,
    /// ...and in this one only.
    pub(crate) only_now: Vec<String>,
}

/// One clock, then and now, each by its fastest round.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ComparedClock {
    /// What is called.
    pub(crate) clock: String,
    /// A call then, ns.
    pub(crate) then_ns: f64,
    /// A call now, ns.
    pub(crate) now_ns: f64,
    /// Above 1: slower than then.
    pub(crate) ratio_to_then: f64,
}
