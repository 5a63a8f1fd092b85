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
    /// The comparison of the costs with those of an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compared: Option<Compared>,
}

/// The costs of an earlier run and of this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Compared {
    /// The file with the earlier run.
    pub(crate) file: String,
    /// The version of the program that has written that file.
    pub(crate) program_version: String,
    /// The known differences between the machines, in words.
    pub(crate) differences: Vec<String>,
    /// The clocks that have a cost in both runs.
    pub(crate) clocks: Vec<ComparedClock>,
    /// Clocks that have a cost in the earlier run only.
    pub(crate) only_then: Vec<String>,
    /// Clocks that have a cost in this run only.
    pub(crate) only_now: Vec<String>,
    /// The limit of `--fail-above`, percent; null without one.
    pub(crate) fail_above_percent: Option<f64>,
    /// The clocks that are slower than in the earlier run by more than that limit.
    pub(crate) too_slow: Vec<String>,
}

/// One clock's fastest round, in the earlier run and in this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ComparedClock {
    /// What is called.
    pub(crate) clock: String,
    /// A call in the earlier run, ns.
    pub(crate) then_ns: f64,
    /// A call in this run, ns.
    pub(crate) now_ns: f64,
    /// `now_ns` divided by `then_ns`: above 1 is slower than before.
    pub(crate) ratio_to_then: f64,
}
