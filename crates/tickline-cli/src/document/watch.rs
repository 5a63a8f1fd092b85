//! What `tickline watch` adds to a document.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::migration::Change;
use crate::measure::track::Point;
use crate::measure::watch::{CpuSample, Sample, Slope, state_name};

/// Changes of the machine's clocks that are kept.
const MOST_CHANGES: usize = 1_000;

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
#[derive(Debug, Clone, Default, Serialize)]
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
    #[serde(skip)]
    pub(crate) slope: Slope,
    /// The count of each event meanwhile.
    pub(crate) events: BTreeMap<&'static str, u64>,
    /// What changed in the machine's clocks meanwhile, the first 1,000: another clocksource, and
    /// jumps of the counter, as when a guest is moved to another host; absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<Change>,
    /// The samples on single CPUs.
    pub(crate) cpus: Vec<CpuWatch>,
}

impl Watch {
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.all.add(&sample.point, sample.state);
        if sample.state == tickline::State::Fast {
            self.slope.add(sample.point.at_s, sample.point.offset_ns);
            self.skew_ppb = self.slope.ppb();
        }
        self.add_cpu_samples(&sample.new_cpus);
        self.events = sample.events.iter().copied().collect();
        let space = MOST_CHANGES.saturating_sub(self.changes.len());
        self.changes.extend(sample.changes.iter().take(space).cloned());
    }

    /// Adds samples on CPUs. Must be called at the end as well: they go on after the last sample of
    /// the main thread, so without that call the states would be an interval old.
    pub(crate) fn add_cpu_samples(&mut self, samples: &[CpuSample]) {
        for CpuSample { cpu, point, state } in samples {
            let place = self.cpus.binary_search_by_key(cpu, |known| known.cpu).unwrap_or_else(|place| {
                self.cpus.insert(place, CpuWatch { cpu: *cpu, ..CpuWatch::default() });
                place
            });
            self.cpus[place].state = state_name(*state);
            self.cpus[place].figures.add(point, *state);
        }
    }
}

/// The summary of the samples on one CPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
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
        self.largest_bound_ns = self.largest_bound_ns.max(point.bound_before_ns).max(point.bound_after_ns);
        self.outside_bracket += u64::from(!point.inside_bracket);
        self.bound_violated += u64::from(point.bound_violated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::point;

    /// `watch --secs 2` reported "calibrating" for every CPU at its end, although the counter
    /// served: it lost the CPUs' samples after the main thread's last one.
    #[test]
    fn a_cpu_sample_after_the_last_one_counts() {
        let sample = |at_s, state| CpuSample { cpu: 3, point: point(at_s, 1.0), state };
        let mut watch = Watch::default();
        watch.add_cpu_samples(&[sample(0.0, tickline::State::Calibrating)]);
        watch.add_cpu_samples(&[sample(1.0, tickline::State::Fast)]);
        assert_eq!((watch.cpus[0].state, watch.cpus[0].figures.samples), ("fast", 2));
    }
}
