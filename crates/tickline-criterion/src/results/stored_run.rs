//! A run of a benchmark, as this crate's file has it: what later runs are compared with.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::criterion_folder;
use crate::measurement::measured_by::MeasuredBy;
use crate::pairs::collector::Collector;
use crate::results::cost_share::CostShare;

/// A run of a benchmark. Its fields are keys of the file, which has more of them for scripts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredRun {
    /// The clock; `None` of a file that does not say so.
    pub(crate) measured_by: Option<MeasuredBy>,
    /// The number of criterion's samples that can't be trusted.
    #[serde(default)]
    pub(crate) samples_untrusted: u64,
    /// `None` of comparisons of routines, whose pairs have enough iterations.
    pub(crate) pair_cost_share: Option<CostShare>,
    #[serde(flatten)]
    pub(crate) parts: Parts,
}

/// The parts of a run, each with a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Parts {
    /// `pairs.json`.
    Samples(Samples),
    /// `comparison.json`.
    Rounds(Rounds),
}

/// criterion's samples of a distribution, ns of an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// Each is a mean.
    pub(crate) sample_times_ns: Vec<f64>,
    /// Times and their counts, in rising order.
    pub(crate) histogram_ns: Vec<(f64, u64)>,
}

/// The rounds of a comparison, ns of an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rounds {
    /// B less A, medians.
    pub(crate) rounds_ns: Vec<f64>,
    pub(crate) median_a_ns: f64,
    /// B less A, means.
    pub(crate) mean_rounds_ns: Vec<f64>,
    pub(crate) mean_a_ns: f64,
}

impl StoredRun {
    pub(crate) fn new<const N: usize>(
        collector: &Collector<N>,
        pair_cost_share: Option<CostShare>,
        parts: Parts,
    ) -> Self {
        Self {
            measured_by: Some(collector.time.measured_by()),
            samples_untrusted: collector.untrusted(),
            pair_cost_share,
            parts,
        }
    }

    /// The run in a file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let json = criterion_folder::read(path)?;
        Self::deserialize(&json).map_err(|error| {
            // serde does not say what untagged parts lack.
            let of_parts = if path.file_stem().is_some_and(|stem| stem == "comparison") {
                Rounds::deserialize(&json).err()
            } else {
                Samples::deserialize(&json).err()
            };
            format!("{}: {}", path.display(), of_parts.unwrap_or(error))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A run of these samples, by the counter.
    pub(crate) fn of_samples(sample_times_ns: &[f64]) -> StoredRun {
        of_parts(Parts::Samples(Samples {
            sample_times_ns: sample_times_ns.to_vec(),
            ..Samples::default()
        }))
    }

    /// A run of these parts, by the counter.
    pub(crate) fn of_parts(parts: Parts) -> StoredRun {
        StoredRun {
            measured_by: Some(MeasuredBy::Counter),
            samples_untrusted: 0,
            pair_cost_share: None,
            parts,
        }
    }

    #[test]
    fn a_file_may_lack_its_clock_and_the_number_of_untrusted_samples() {
        let json = json!({ "sample_times_ns": [], "histogram_ns": [] });
        let run = StoredRun {
            measured_by: None,
            ..of_samples(&[])
        };
        assert_eq!(serde_json::from_value::<StoredRun>(json).ok(), Some(run));
    }
}
