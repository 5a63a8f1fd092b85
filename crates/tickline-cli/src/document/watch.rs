//! What `tickline watch` adds to a document.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::migration::Change;
use crate::measure::track::Point;

/// Why `watch` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// The requested time has passed.
    #[default]
    Time,
    /// A signal.
    Stopped,
    /// The reader of standard output has closed it.
    ReaderLeft,
}

/// The summary of all samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Watch {
    /// Time between two samples, s.
    pub(crate) interval_s: f64,
    /// Time from the first sample to the end, s.
    pub(crate) watched_s: f64,
    /// Why it ended.
    pub(crate) ended_by: Ending,
    #[serde(flatten)]
    pub(crate) all: Figures,
    /// The growth of the offset while the counter served, ppb; null with less than three such
    /// samples.
    pub(crate) skew_ppb: Option<f64>,
    /// The count of each event meanwhile.
    pub(crate) events: BTreeMap<&'static str, u64>,
    /// What changed in the machine's clocks meanwhile, the first 1,000: another clocksource, and
    /// jumps of the counter, as when a guest is moved to another host; absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<Change>,
    /// The samples on single CPUs.
    pub(crate) cpus: Vec<CpuWatch>,
}

/// The summary of the samples on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CpuWatch {
    /// The CPU's number.
    pub(crate) cpu: u32,
    /// Its state at the end.
    pub(crate) state: &'static str,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// The sums and extremes of some samples.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Figures {
    /// Number of samples.
    pub(crate) samples: u64,
    /// Samples that the counter served.
    pub(crate) fast_samples: u64,
    /// The lowest offset from CLOCK_MONOTONIC, ns.
    pub(crate) least_offset_ns: f64,
    /// The highest offset from CLOCK_MONOTONIC, ns.
    pub(crate) most_offset_ns: f64,
    /// The largest claimed bound to either side, ns.
    pub(crate) largest_bound_ns: u64,
    /// Samples whose reading was outside of its bracket.
    pub(crate) outside_bracket: u64,
    /// Samples that contradict the claimed bound.
    pub(crate) bound_violated: u64,
}

impl Figures {
    pub(crate) fn add(&mut self, point: &Point, state: tickline::State) {
        if self.samples == 0 {
            (self.least_offset_ns, self.most_offset_ns) = (point.offset_ns, point.offset_ns);
        }
        self.samples += 1;
        self.fast_samples += u64::from(state == tickline::State::Fast);
        self.least_offset_ns = self.least_offset_ns.min(point.offset_ns);
        self.most_offset_ns = self.most_offset_ns.max(point.offset_ns);
        self.largest_bound_ns = self.largest_bound_ns.max(point.before_ns).max(point.after_ns);
        self.outside_bracket += u64::from(!point.inside);
        self.bound_violated += u64::from(point.violated);
    }
}
