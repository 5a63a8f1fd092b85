//! The disturbances of pairs. A disturbed pair does not count.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A disturbance of a pair. A pair with several disturbances counts under the first of backwards,
/// moved, preempted, clock, stolen, frequency, interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// The counter stepped back.
    Backwards,
    /// The thread was on different CPUs at the ends of the pair, or for this and the last pair.
    Moved,
    /// The kernel took the CPU from the thread during the block: `ru_nivcsw` rose.
    Preempted,
    /// The pair is so long that it contains an interrupt ([`super::long_pairs`]).
    Interrupted,
    /// The hypervisor took time from the CPU during the slice: its `steal` in `/proc/stat` rose.
    Stolen,
    /// The core's frequency changed during the slice.
    Frequency,
    /// During the slice, tickline's clock noticed an event, or had a closed gate.
    Clock,
}

/// The printed names of the disturbances, in the order of the variants; also keys of the JSON.
const NAMES: [&str; 7] = [
    "backwards",
    "moved",
    "preempted",
    "interrupted",
    "stolen",
    "frequency",
    "clock",
];

/// The number of groups by disturbance. Its text names the disturbances that occurred: `preempted
/// 512, interrupted 3`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disturbances(pub(crate) [u64; NAMES.len()]);

impl Disturbances {
    pub(crate) fn add(&mut self, disturbance: Disturbance, groups: u64) {
        self.0[disturbance as usize] += groups;
    }

    pub(crate) fn add_all(&mut self, other: Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, groups)| *sum += groups);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The JSON with all counts by name.
    pub(crate) fn json(&self) -> Value {
        NAMES
            .into_iter()
            .zip(self.0)
            .map(|(name, groups)| (name.to_owned(), json!(groups)))
            .collect()
    }
}

impl fmt::Display for Disturbances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let occurred = NAMES
            .into_iter()
            .zip(self.0)
            .filter(|(_, groups)| *groups > 0);
        let texts: Vec<String> = occurred
            .map(|(name, groups)| format!("{name} {groups}"))
            .collect();
        f.write_str(&texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disturbance_has_its_own_count_and_name() {
        use Disturbance::{Backwards, Clock, Frequency, Interrupted, Moved, Preempted, Stolen};
        let all = [
            Backwards,
            Moved,
            Preempted,
            Interrupted,
            Stolen,
            Frequency,
            Clock,
        ];
        let mut disturbances = Disturbances::default();
        (1..)
            .zip(all)
            .for_each(|(groups, disturbance)| disturbances.add(disturbance, groups));
        assert_eq!(disturbances.total(), 28);
        assert_eq!(
            disturbances.to_string(),
            "backwards 1, moved 2, preempted 3, interrupted 4, stolen 5, frequency 6, clock 7"
        );
        assert_eq!(Disturbances::default().to_string(), "");
    }
}
