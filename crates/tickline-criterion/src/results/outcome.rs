//! The results of a benchmark's pairs: the text below criterion's line, and the JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::measurement::calibration::Scale;
use crate::measurement::settings::Counting;
use crate::number::as_f64;
use crate::pairs::collector::Collected;
use crate::results::cost_share::CostShare;
use crate::results::stored_run::Samples;
use crate::results::text::{INDENT, Ns, iterations};
use crate::statistics::distribution::{Distribution, quantile};

/// The printed, stored and drawn quantiles.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The results of a benchmark's pairs. All times are ns of an iteration. If a pair has several
/// iterations, its time is the mean over them.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    collected: &'a Collected<1>,
    /// The shown pairs, and whether they include disturbed ones.
    shown: &'a Distribution,
    counting: Counting,
    scale: Scale,
    iterations: u64,
    pub(crate) quantiles_ns: [f64; QUANTILES.len()],
    max_ns: f64,
    /// Times and their counts, in rising order.
    pub(crate) histogram: Vec<(f64, u64)>,
}

impl<'a> Outcome<'a> {
    /// `None` if there are no pairs.
    pub(crate) fn new(
        collected: &'a Collected<1>,
        counting: Counting,
        scale: Scale,
        iterations: u64,
    ) -> Option<Self> {
        // If all pairs were disturbed, the text shows the disturbed pairs.
        let (shown, counting) = if collected.kept.0.is_empty() {
            (&collected.excluded, Counting::All)
        } else {
            (&collected.kept, counting)
        };
        let (counted, max_ticks) = (shown.counted(), as_f64(shown.0.max()));
        let each_ns = |ticks: f64| scale.net_ns(ticks) / as_f64(iterations);
        let mut quantiles_ns = [0.0; QUANTILES.len()];
        for (ns, (_, share)) in quantiles_ns.iter_mut().zip(QUANTILES) {
            // A quantile is not above the slowest pair, although the interval that this pair
            // represents is partly above it.
            *ns =
                each_ns(quantile(&counted, as_f64(scale.resolution_ticks), share)?.min(max_ticks));
        }
        let histogram = shown.histogram_ns(&scale, iterations);
        let max_ns = each_ns(max_ticks);
        Some(Self {
            collected,
            shown,
            counting,
            scale,
            iterations,
            quantiles_ns,
            max_ns,
            histogram,
        })
    }

    /// What later runs are compared with.
    pub(crate) fn samples(&self) -> Samples {
        Samples {
            sample_times_ns: self.collected.sample_times_ns.clone(),
            histogram_ns: self.histogram.clone(),
        }
    }

    /// What only scripts read.
    pub(crate) fn json(&self) -> Value {
        let Self {
            collected,
            scale,
            shown,
            ..
        } = self;
        let keys = QUANTILES
            .map(|(name, _)| name.replace('.', "_"))
            .into_iter()
            .chain(["max".to_owned()]);
        let times_ns = self.quantiles_ns.into_iter().chain([self.max_ns]);
        json!({
            "iterations_per_pair": self.iterations,
            "pair_cost_subtracted_ns": scale.cost_ticks * scale.rate.ns_per_tick,
            "resolution_ns": as_f64(scale.resolution_ticks) * scale.rate.ns_per_tick,
            "pairs": collected.bundles,
            "pairs_counted": shown.0.len(),
            "disturbed_are": self.counting.name(),
            "disturbed": collected.disturbances.json(),
            "clock_codes": collected.disturbances.clock_codes(),
            "disturbed_max_ns": collected
                .disturbances
                .longest_json(|ticks| self.each_ns(as_f64(ticks))),
            "long_pairs_kept": collected.long_kept,
            "samples_disturbed": collected.samples_disturbed,
            "quantiles_ns": keys.zip(times_ns).collect::<BTreeMap<_, _>>(),
            "mean_ns": scale.net_ns(shown.0.mean()) / as_f64(self.iterations),
        })
    }

    /// The time of an iteration, ns, of a pair that took `ticks`.
    fn each_ns(&self, ticks: f64) -> f64 {
        self.scale.net_ns(ticks) / as_f64(self.iterations)
    }

    /// The share of the pair's cost in the median pair.
    pub(crate) fn cost_share(&self, cost_ticks: f64) -> CostShare {
        let net_ticks =
            self.quantiles_ns[0] * as_f64(self.iterations) / self.scale.rate.ns_per_tick;
        CostShare::new(cost_ticks, net_ticks + self.scale.cost_ticks)
    }

    /// The number of pairs, and their disturbances: also the second line of a plot.
    pub(crate) fn caption(&self) -> String {
        let unit = format!("pairs of {}", iterations(self.iterations));
        let Collected {
            bundles,
            disturbances,
            ..
        } = self.collected;
        let total = disturbances.total();
        if total == 0 {
            format!("{bundles} {unit}, none disturbed")
        } else {
            let are = self.counting.name();
            let longest = |ticks| Ns(self.each_ns(as_f64(ticks))).to_string();
            let disturbances = disturbances.with_longest(longest);
            format!("{bundles} {unit}, {total} disturbed and {are}: {disturbances}")
        }
    }
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{INDENT}pairs: ")?;
        for ((name, _), ns) in QUANTILES.into_iter().zip(self.quantiles_ns) {
            write!(f, " {name} {} ", Ns(ns))?;
        }
        write!(f, " max {}\n{INDENT}{}", Ns(self.max_ns), self.caption())?;
        let Collected {
            long_kept,
            samples_disturbed,
            ..
        } = self.collected;
        if *long_kept > 0 {
            write!(
                f,
                "\n{INDENT}{long_kept} long pairs count as the routine's own, because interrupts do not explain \
                 them; the maximum may be an interrupt's"
            )?;
        }
        if *samples_disturbed > 0 {
            write!(
                f,
                "\n{INDENT}{samples_disturbed} samples have no undisturbed pair: criterion got the median of theirs"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::calibration::Rate;
    use crate::measurement::noise_loop::Noise;
    use crate::measurement::readings::PairReads;
    use crate::pairs::disturbance::Disturbance;
    use crate::pairs::long_pairs::LongPairs;
    use crate::pairs::slice::Slice;

    const SCALE: Scale = Scale {
        rate: Rate {
            ns_per_tick: 0.5,
            uncertainty_ppb: 0.0,
        },
        cost_ticks: 40.0,
        resolution_ticks: 2,
    };

    fn found(blocks: &[(u64, usize, Option<Disturbance>)]) -> Collected<1> {
        let (mut found, mut slice) = (Collected::default(), Slice::default());
        for (ticks, pairs, disturbed) in blocks {
            let pair = PairReads {
                start_ticks: 0,
                end_ticks: *ticks,
                cpus: None,
            };
            slice.add_block(&mut vec![[pair]; *pairs], *disturbed);
        }
        slice.judge(None, &Noise::default(), &mut [LongPairs::default()]);
        found.add(&slice, Counting::Undisturbed);
        found
    }

    /// 1,000 pairs that count, one of which takes twice as long, and ten that were preempted.
    fn preempted() -> Collected<1> {
        found(&[
            (440, 999, None),
            (840, 1, None),
            (9_999, 10, Some(Disturbance::Preempted)),
        ])
    }

    fn outcome(found: &Collected<1>, iterations: u64) -> Outcome<'_> {
        Outcome::new(found, Counting::Undisturbed, SCALE, iterations).expect("pairs")
    }

    #[test]
    fn times_are_per_iteration_without_the_pairs_cost() {
        let found = preempted();
        for (iterations, each_ns) in [(1, 200.0), (4, 50.0)] {
            let outcome = outcome(&found, iterations);
            assert!(
                (outcome.quantiles_ns[0] - each_ns).abs() < 0.3,
                "{outcome:?}"
            );
            assert_eq!(outcome.max_ns, 2.0 * each_ns);
        }
    }

    #[test]
    fn the_json_has_the_number_of_pairs_and_of_those_that_count() {
        let json = outcome(&preempted(), 1).json();
        assert_eq!(json["pairs"], 1_010);
        assert_eq!(json["pairs_counted"], 1_000);
    }

    #[test]
    fn the_json_has_the_number_of_pairs_with_each_disturbance() {
        let json = outcome(&preempted(), 1).json();
        assert_eq!(json["disturbed"]["preempted"], 10);
    }

    /// Symptom: nothing showed that the excluded pairs were the routine's tail.
    #[test]
    fn the_json_has_the_longest_pair_with_each_disturbance() {
        for (iterations, each_ns) in [(1, 4_979.5), (10, 497.95)] {
            let json = outcome(&preempted(), iterations).json();
            let found = json["disturbed_max_ns"]["preempted"].as_f64();
            assert!((found.expect("a length") - each_ns).abs() < 1e-6, "{json}");
            assert_eq!(json["disturbed_max_ns"]["interrupted"], Value::Null);
        }
    }

    #[test]
    fn the_json_says_whether_disturbed_pairs_count() {
        let found = preempted();
        for (counting, are) in [
            (Counting::Undisturbed, "excluded"),
            (Counting::All, "included"),
        ] {
            let outcome = Outcome::new(&found, counting, SCALE, 1).expect("pairs");
            assert_eq!(outcome.json()["disturbed_are"], are);
        }
    }

    #[test]
    fn the_json_has_the_subtracted_cost_of_a_pair() {
        for iterations in [1, 4] {
            let json = outcome(&preempted(), iterations).json();
            assert_eq!(json["pair_cost_subtracted_ns"], 20.0);
        }
    }

    #[test]
    fn the_share_of_a_pairs_cost_is_that_of_the_whole_pair() {
        // A median pair of 440 ticks has 40 of its own, in any number of iterations.
        for iterations in [1, 4] {
            let share = outcome(&preempted(), iterations).cost_share(40.0).0;
            assert!((share - 40.0 / 440.0).abs() < 1e-3, "{share}");
        }
    }

    #[test]
    fn the_histogram_has_the_pairs_that_count() {
        let samples = outcome(&preempted(), 1).samples();
        assert_eq!(samples.histogram_ns[0].1, 999);
    }

    /// The text about 999 pairs of equal length, and ten that were preempted.
    fn text(counting: Counting, iterations: u64) -> String {
        let found = found(&[(440, 999, None), (9_999, 10, Some(Disturbance::Preempted))]);
        let outcome = Outcome::new(&found, counting, SCALE, iterations);
        outcome.expect("pairs").to_string()
    }

    #[test]
    fn the_text_has_the_quantiles_and_the_slowest_pair() {
        let text = text(Counting::Undisturbed, 1);
        let line = text.lines().next().expect("a line").trim();
        assert!(line.starts_with("pairs:  p50 200.0 ns  p90 200."), "{text}");
        assert!(line.ends_with("max 200.0 ns"), "{text}");
    }

    #[test]
    fn the_text_ends_with_what_was_excluded() {
        let text = text(Counting::Undisturbed, 1);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines[1],
            "1009 pairs of 1 iteration, 10 disturbed and excluded: preempted 10 (up to 4.98 us)"
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn the_text_has_the_iterations_of_a_pair_and_what_was_included() {
        let text = text(Counting::All, 8);
        assert!(
            text.contains("pairs of 8 iterations, 10 disturbed and included"),
            "{text}"
        );
    }

    /// Symptom: nothing said what that means for the numbers above.
    #[test]
    fn the_text_says_what_long_pairs_that_count_do_to_the_maximum() {
        let mut found = preempted();
        found.long_kept = 3;
        let text = outcome(&found, 1).to_string();
        assert!(
            text.ends_with(
                "3 long pairs count as the routine's own, because interrupts do not explain them; the maximum may be \
                 an interrupt's"
            ),
            "{text}"
        );
    }

    #[test]
    fn if_all_pairs_are_disturbed_they_are_shown_as_included() {
        let found = found(&[(440, 5, Some(Disturbance::Preempted))]);
        let outcome = Outcome::new(&found, Counting::Undisturbed, SCALE, 1).expect("pairs");
        assert!(
            outcome.to_string().contains("5 disturbed and included"),
            "{outcome}"
        );
    }

    #[test]
    fn without_pairs_there_is_no_outcome() {
        let nothing = Collected::default();
        assert!(Outcome::new(&nothing, Counting::Undisturbed, SCALE, 1).is_none());
    }
}
