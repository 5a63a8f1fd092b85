//! What the looks amount to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::track::Point;
use crate::measure::watch::{CpuLook, Sample, Slope, state_name};

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
    fn add(&mut self, point: &Point, state: tickline::State) {
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

/// Tells which looks on CPUs are new.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    seen_s: BTreeMap<u32, f64>,
}

impl Fresh {
    pub(crate) fn of<'a>(&mut self, sample: &'a Sample) -> impl Iterator<Item = &'a CpuLook> + use<'a, '_> {
        sample.cpus.iter().filter(|look| {
            let before = self.seen_s.insert(look.cpu, look.point.at_s);
            before.is_none_or(|at_s| at_s < look.point.at_s)
        })
    }
}

/// Adds up the looks.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    all: Figures,
    slope: Slope,
    cpus: BTreeMap<u32, (&'static str, Figures)>,
    fresh: Fresh,
    /// As counted at the last look.
    events: Vec<(&'static str, u64)>,
}

impl Tally {
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.all.add(&sample.point, sample.state);
        if sample.state == tickline::State::Fast {
            self.slope.add(sample.point.at_s, sample.point.offset_ns);
        }
        for look in self.fresh.of(sample) {
            let (state, figures) = self.cpus.entry(look.cpu).or_default();
            *state = state_name(look.state);
            figures.add(&look.point, look.state);
        }
        self.events.clone_from(&sample.events);
    }

    pub(crate) fn end(self, interval_s: f64, watched_s: f64, ended_by: Ending) -> Watch {
        let cpus = self.cpus.into_iter().map(|(cpu, (state, figures))| CpuWatch { cpu, state, figures });
        Watch {
            interval_s,
            watched_s,
            ended_by,
            all: self.all,
            skew_ppb: self.slope.ppb(),
            events: self.events.into_iter().collect(),
            cpus: cpus.collect(),
        }
    }
}
