//! What `tickline watch` adds to a document.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::track::Point;

/// Why the watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// The time that was asked for has passed.
    Time,
    /// A signal, or a key.
    Stopped,
    /// Nobody reads standard output any more.
    ReaderLeft,
}

/// The looks in sum.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Watch {
    /// Time between two looks, s.
    pub(crate) interval_s: f64,
    /// How long it was watched, s.
    pub(crate) watched_s: f64,
    /// Why it ended.
    pub(crate) ended_by: Ending,
    #[serde(flatten)]
    pub(crate) all: Figures,
    /// By how much the offset grew while the counter served, ppb; null with less than three such looks.
    pub(crate) skew_ppb: Option<f64>,
    /// How often each event happened meanwhile.
    pub(crate) events: BTreeMap<&'static str, u64>,
    /// The looks on single CPUs.
    pub(crate) cpus: Vec<CpuWatch>,
}

/// The looks on one CPU in sum.
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

/// What some looks amount to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Figures {
    /// How many.
    pub(crate) looks: u64,
    /// Those that the counter served.
    pub(crate) fast_looks: u64,
    /// The lowest offset from CLOCK_MONOTONIC, ns.
    pub(crate) least_offset_ns: f64,
    /// The highest one, ns.
    pub(crate) most_offset_ns: f64,
    /// The largest claimed bound to either side, ns.
    pub(crate) largest_bound_ns: u64,
    /// Looks whose reading was outside of its bracket.
    pub(crate) outside_bracket: u64,
    /// Looks that contradict the claimed bound.
    pub(crate) bound_violated: u64,
}

impl Figures {
    pub(crate) fn add(&mut self, point: &Point, state: tickline::State) {
        if self.looks == 0 {
            (self.least_offset_ns, self.most_offset_ns) = (point.offset_ns, point.offset_ns);
        }
        self.looks += 1;
        self.fast_looks += u64::from(state == tickline::State::Fast);
        self.least_offset_ns = self.least_offset_ns.min(point.offset_ns);
        self.most_offset_ns = self.most_offset_ns.max(point.offset_ns);
        self.largest_bound_ns = self.largest_bound_ns.max(point.before_ns).max(point.after_ns);
        self.outside_bracket += u64::from(!point.inside);
        self.bound_violated += u64::from(point.violated);
    }
}
