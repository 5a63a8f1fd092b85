//! The disturbances of pairs. A disturbed pair does not count.

use std::collections::BTreeSet;
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
    /// During the slice, tickline's clock noticed an event, or had a closed gate: the code of the
    /// event, of the gate's reason, or of the clock's state.
    Clock(&'static str),
}

impl Disturbance {
    /// The place among [`NAMES`].
    const fn index(self) -> usize {
        match self {
            Self::Backwards => 0,
            Self::Moved => 1,
            Self::Preempted => 2,
            Self::Interrupted => 3,
            Self::Stolen => 4,
            Self::Frequency => 5,
            Self::Clock(_) => CLOCK,
        }
    }
}

/// The place of [`Disturbance::Clock`].
const CLOCK: usize = 6;

/// The printed names of the disturbances; also keys of the JSON.
const NAMES: [&str; 7] = [
    "backwards",
    "moved",
    "preempted",
    "interrupted",
    "stolen",
    "frequency",
    "clock",
];

/// The number of bundles by disturbance, and the longest. Its text names the disturbances that
/// occurred: `preempted 512, clock 3 (gate_closed)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Disturbances {
    bundles: [u64; NAMES.len()],
    /// The longest bundle of each disturbance; 0 if there is none, or if a coarse counter read the
    /// same at both ends of each. A process that serves sends none.
    #[serde(skip)]
    longest_ticks: [u64; NAMES.len()],
    /// The codes of [`Disturbance::Clock`], each once. A process that serves has none, because it
    /// does not watch the clock.
    #[serde(skip)]
    clock_codes: BTreeSet<&'static str>,
}

impl Disturbances {
    /// Adds a bundle whose last pair has this length.
    pub(crate) fn add_bundle(&mut self, disturbance: Disturbance, ticks: u64) {
        self.add(disturbance, 1);
        let longest = &mut self.longest_ticks[disturbance.index()];
        *longest = ticks.max(*longest);
    }

    /// Adds this number of bundles, of unknown lengths.
    pub(crate) fn add(&mut self, disturbance: Disturbance, bundles: u64) {
        self.bundles[disturbance.index()] += bundles;
        if let Disturbance::Clock(code) = disturbance {
            self.clock_codes.insert(code);
        }
    }

    pub(crate) fn add_all(&mut self, other: Self) {
        self.bundles
            .iter_mut()
            .zip(other.bundles)
            .for_each(|(sum, bundles)| *sum += bundles);
        self.longest_ticks
            .iter_mut()
            .zip(other.longest_ticks)
            .for_each(|(longest, ticks)| *longest = ticks.max(*longest));
        self.clock_codes.extend(other.clock_codes);
    }

    pub(crate) fn total(&self) -> u64 {
        self.bundles.iter().sum()
    }

    /// What happened to tickline's clock.
    pub(crate) const fn clock_codes(&self) -> &BTreeSet<&'static str> {
        &self.clock_codes
    }

    /// The JSON with all counts by name.
    pub(crate) fn json(&self) -> Value {
        NAMES
            .into_iter()
            .zip(self.bundles)
            .map(|(name, bundles)| (name.to_owned(), json!(bundles)))
            .collect()
    }

    /// The JSON with the longest bundle of each disturbance by name, as `length` says it; null if
    /// it has 0 ticks.
    pub(crate) fn longest_json(&self, length: impl Fn(u64) -> f64) -> Value {
        NAMES
            .into_iter()
            .zip(self.longest_ticks)
            .map(|(name, ticks)| (name.to_owned(), json!((ticks > 0).then(|| length(ticks)))))
            .collect()
    }

    /// The text with the longest bundle of each disturbance, as `length` says it, unless it has 0
    /// ticks: `preempted 512 (up to 3.31 ms), clock 3 (gate_closed, up to 21.0 ns)`.
    pub(crate) fn with_longest(&self, length: impl Fn(u64) -> String) -> String {
        self.text(|index| {
            let ticks = self.longest_ticks[index];
            (ticks > 0).then(|| format!("up to {}", length(ticks)))
        })
    }

    /// The names of the disturbances that occurred, each with its count, and with a note.
    fn text(&self, note: impl Fn(usize) -> Option<String>) -> String {
        let mut texts = Vec::new();
        for (index, name) in NAMES.into_iter().enumerate() {
            let bundles = self.bundles[index];
            if bundles == 0 {
                continue;
            }
            let mut notes = Vec::new();
            if index == CLOCK {
                notes.extend(self.clock_codes.iter().map(|code| (*code).to_owned()));
            }
            notes.extend(note(index));
            if notes.is_empty() {
                texts.push(format!("{name} {bundles}"));
            } else {
                texts.push(format!("{name} {bundles} ({})", notes.join(", ")));
            }
        }
        texts.join(", ")
    }
}

impl fmt::Display for Disturbances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|_| None))
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
            Clock("gate_closed"),
        ];
        let mut disturbances = Disturbances::default();
        (1..)
            .zip(all)
            .for_each(|(bundles, disturbance)| disturbances.add(disturbance, bundles));
        assert_eq!(disturbances.total(), 28);
        assert_eq!(
            disturbances.to_string(),
            "backwards 1, moved 2, preempted 3, interrupted 4, stolen 5, frequency 6, clock 7 (gate_closed)"
        );
        assert_eq!(Disturbances::default().to_string(), "");
    }

    #[test]
    fn what_happened_to_the_clock_is_named_once() {
        let [mut sum, mut later] = [Disturbances::default(), Disturbances::default()];
        sum.add(Disturbance::Clock("unix_step"), 2);
        later.add(Disturbance::Clock("gate_closed"), 3);
        later.add(Disturbance::Clock("unix_step"), 1);
        sum.add_all(later);
        assert_eq!(sum.to_string(), "clock 6 (gate_closed, unix_step)");
    }

    /// Preempted bundles of 300 and 200 ticks, and one during an event of the clock.
    fn of_known_lengths() -> Disturbances {
        let [mut sum, mut later] = [Disturbances::default(), Disturbances::default()];
        sum.add_bundle(Disturbance::Preempted, 300);
        later.add_bundle(Disturbance::Preempted, 200);
        later.add_bundle(Disturbance::Clock("unix_step"), 7);
        sum.add_all(later);
        sum
    }

    /// Symptom: a tail that was excluded left no trace in the text.
    #[test]
    fn the_longest_bundle_of_each_disturbance_is_named() {
        let text = of_known_lengths().with_longest(|ticks| format!("{ticks} ticks"));
        assert_eq!(
            text,
            "preempted 2 (up to 300 ticks), clock 1 (unix_step, up to 7 ticks)"
        );
    }

    #[test]
    fn the_json_has_the_longest_bundle_of_each_disturbance() {
        let json = of_known_lengths().longest_json(|ticks| crate::number::as_f64(ticks) / 2.0);
        assert_eq!(
            (&json["preempted"], &json["clock"]),
            (&json!(150.0), &json!(3.5))
        );
        assert_eq!(json["interrupted"], Value::Null);
    }

    /// The counter may be so coarse that a pair begins and ends at the same tick.
    #[test]
    fn a_longest_bundle_of_0_ticks_is_not_named() {
        let mut disturbances = Disturbances::default();
        disturbances.add_bundle(Disturbance::Moved, 0);
        assert_eq!(disturbances.with_longest(|_| "0".to_owned()), "moved 1");
        assert_eq!(disturbances.longest_json(|_| 0.0)["moved"], Value::Null);
    }

    /// Builds of other versions of this crate read and write them.
    #[test]
    fn a_process_that_serves_sends_the_counts_alone() {
        let mut sent = Disturbances::default();
        sent.add(Disturbance::Moved, 2);
        let text = serde_json::to_string(&sent).expect("JSON");
        assert_eq!(text, "[0,2,0,0,0,0,0]");
        assert_eq!(
            serde_json::from_str::<Disturbances>(&text).expect("JSON"),
            sent
        );
    }
}
