//! The distribution of a benchmark's pairs: the text below criterion's line, and the JSON.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::number::as_f64;
use crate::pairs::cause::Causes;
use crate::pairs::collector::Collected;
use crate::pairs::distribution::Distribution;
use crate::pairs::quantile::quantile;
use crate::pairs::slice::Counting;
use crate::session::Scale;

/// The version of the JSON.
const VERSION: u32 = 1;

/// The quantiles that are printed, stored and drawn: name, key in the JSON, share.
pub(crate) const QUANTILES: [(&str, &str, f64); 4] =
    [("p50", "p50", 0.5), ("p90", "p90", 0.9), ("p99", "p99", 0.99), ("p99.9", "p99_9", 0.999)];

/// Puts the text under criterion's columns.
pub(crate) const INDENT: &str = "                        ";

/// The distribution of a benchmark's pairs. All times are ns of an iteration. If a pair has several
/// iterations, they are means over those.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    counting: Counting,
    iterations: u64,
    /// The cost of a pair that was taken off, and the counter's resolution, both in ns of a pair.
    taken_off_ns: f64,
    resolution_ns: f64,
    /// All pairs, and those that count.
    pairs: u64,
    counted: u64,
    causes: Causes,
    long_kept: u64,
    samples_disturbed: u64,
    pub(crate) quantiles_ns: [f64; QUANTILES.len()],
    pub(crate) max_ns: f64,
    mean_ns: f64,
    /// The mean of each of criterion's samples, in the order of time.
    rounds_ns: Vec<f64>,
    /// Times and how many pairs took them, in rising order.
    pub(crate) histogram: Vec<(f64, u64)>,
}

impl Outcome {
    /// `None` if there are no pairs.
    pub(crate) fn new(
        found: &Collected<Distribution>,
        counting: Counting,
        scale: Scale,
        iterations: u64,
    ) -> Option<Self> {
        // If all pairs were disturbed, the text shows them, rather than nothing.
        let shown = match found.kept.pairs(counting).count() {
            0 => Counting::All,
            _ => counting,
        };
        let pairs = found.kept.pairs(shown);
        let counted = pairs.counted();
        let each_ns = |ticks: f64| scale.net_ns(ticks) / as_f64(iterations);
        let width_ticks = as_f64(scale.resolution_ticks);
        let mut quantiles_ns = [0.0; QUANTILES.len()];
        for (ns, (_, _, share)) in quantiles_ns.iter_mut().zip(QUANTILES) {
            // Not above the slowest pair, although the interval for which that pair stands reaches
            // further.
            *ns = each_ns(quantile(&counted, width_ticks, share)?.min(as_f64(pairs.max_ticks())));
        }
        Some(Self {
            counting: shown,
            iterations,
            taken_off_ns: scale.cost_ticks * scale.ns_per_tick,
            resolution_ns: width_ticks * scale.ns_per_tick,
            pairs: found.kept.pairs(Counting::Undisturbed).count() + found.causes.total(),
            counted: pairs.count(),
            causes: found.causes,
            long_kept: found.long_kept,
            samples_disturbed: found.samples_disturbed,
            quantiles_ns,
            max_ns: each_ns(as_f64(pairs.max_ticks())),
            mean_ns: each_ns(pairs.sum_ticks() / as_f64(pairs.count())),
            rounds_ns: found.rounds_ns.clone(),
            histogram: counted.iter().map(|(ticks, count)| (each_ns(*ticks), *count)).collect(),
        })
    }

    /// `benchmark` is criterion's name for it.
    pub(crate) fn json(&self, benchmark: &str) -> Value {
        let mut quantiles_ns = Map::new();
        for ((_, key, _), ns) in QUANTILES.into_iter().zip(self.quantiles_ns) {
            quantiles_ns.insert(key.to_owned(), json!(ns));
        }
        quantiles_ns.insert("max".to_owned(), json!(self.max_ns));
        json!({
            "version": VERSION,
            "benchmark": benchmark,
            "iterations_per_pair": self.iterations,
            "pair_cost_taken_off_ns": self.taken_off_ns,
            "resolution_ns": self.resolution_ns,
            "pairs": self.pairs,
            "pairs_counted": self.counted,
            "disturbed_are": self.counting.name(),
            "disturbed": self.causes.json(),
            "long_pairs_kept": self.long_kept,
            "samples_disturbed": self.samples_disturbed,
            "quantiles_ns": quantiles_ns,
            "mean_ns": self.mean_ns,
            "rounds_ns": self.rounds_ns,
            "histogram_ns": self.histogram,
        })
    }

    /// What a plot's second line says.
    pub(crate) fn disturbances(&self) -> String {
        let what = match self.iterations {
            1 => "pairs".to_owned(),
            iterations => format!("pairs of {iterations} iterations"),
        };
        match self.causes.total() {
            0 => format!("{} {what}, none disturbed", self.pairs),
            total => format!(
                "{} {what}, {total} disturbed and {}: {}",
                self.pairs,
                self.counting.name(),
                self.causes
            ),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{INDENT}pairs: ")?;
        for ((name, _, _), ns) in QUANTILES.into_iter().zip(self.quantiles_ns) {
            write!(f, " {name} {} ", Ns(ns))?;
        }
        write!(f, " max {}\n{INDENT}{}", Ns(self.max_ns), self.disturbances())?;
        if self.long_kept > 0 {
            write!(
                f,
                "\n{INDENT}{} took as long as an interrupt does; there were fewer interrupts, so these count",
                self.long_kept
            )?;
        }
        if self.samples_disturbed > 0 {
            write!(
                f,
                "\n{INDENT}{} samples have no undisturbed pair: criterion got the median of theirs",
                self.samples_disturbed
            )?;
        }
        Ok(())
    }
}

/// The largest unit in which a time is at least 1: its length, ns, and its name.
pub(crate) fn unit(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "us"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// A time in the largest unit in which it is at least 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ns(pub(crate) f64);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns.abs() < 1e3 => write!(f, "{ns:.1} ns"),
            ns => {
                let (unit_ns, unit) = unit(ns);
                write!(f, "{:.2} {unit}", ns / unit_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::Ends;
    use crate::pairs::slice::{Preempted, Slice};
    use crate::pairs::spin::Spins;

    const SCALE: Scale = Scale { ns_per_tick: 0.5, cost_ticks: 40.0, resolution_ticks: 2 };

    fn found(blocks: &[(u64, usize, Preempted)]) -> Collected<Distribution> {
        let (mut found, mut slice) = (Collected::default(), Slice::new());
        for (ticks, pairs, preempted) in blocks {
            let pair = Ends { start_ticks: 0, end_ticks: *ticks, cpus: None };
            slice.block(&mut vec![[pair]; *pairs], *preempted);
        }
        found.add(&slice.end(None, &Spins::default()), Counting::Undisturbed);
        found
    }

    #[test]
    fn times_are_of_one_iteration_without_the_pairs_cost() {
        let found = found(&[(440, 999, Preempted::No), (840, 1, Preempted::No), (9_999, 10, Preempted::Yes)]);
        for (iterations, each_ns) in [(1, 200.0), (4, 50.0)] {
            let outcome = Outcome::new(&found, Counting::Undisturbed, SCALE, iterations).expect("pairs");
            assert!((outcome.quantiles_ns[0] - each_ns).abs() < 0.3, "{outcome:?}");
            assert_eq!(outcome.max_ns, 2.0 * each_ns);
            let json = outcome.json("group/name");
            assert_eq!(json["pairs"], 1_010);
            assert_eq!(json["pairs_counted"], 1_000);
            assert_eq!(json["disturbed"]["preempted"], 10);
            assert_eq!(json["disturbed_are"], "excluded");
            assert_eq!(json["pair_cost_taken_off_ns"], 20.0);
            assert_eq!(json["histogram_ns"][0][1], 999);
            assert_eq!(json["benchmark"], "group/name");
        }
    }

    #[test]
    fn the_text_names_what_was_excluded() {
        let found = found(&[(440, 999, Preempted::No), (9_999, 10, Preempted::Yes)]);
        let outcome = Outcome::new(&found, Counting::Undisturbed, SCALE, 1).expect("pairs");
        let text = outcome.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert!(
            lines[0].starts_with("pairs:  p50 200.0 ns  p90 200.") && lines[0].ends_with("max 200.0 ns"),
            "{text}"
        );
        assert_eq!(lines[1], "1009 pairs, 10 disturbed and excluded: preempted 10");
        assert_eq!(lines.len(), 2);
        let outcome = Outcome::new(&found, Counting::All, SCALE, 8).expect("pairs");
        assert!(
            outcome.to_string().contains("pairs of 8 iterations, 10 disturbed and included"),
            "{outcome}"
        );
    }

    #[test]
    fn where_all_pairs_are_disturbed_they_are_shown_as_included() {
        let found = found(&[(440, 5, Preempted::Yes)]);
        let outcome = Outcome::new(&found, Counting::Undisturbed, SCALE, 1).expect("pairs");
        assert!(outcome.to_string().contains("5 disturbed and included"), "{outcome}");
        assert!(Outcome::new(&Collected::default(), Counting::Undisturbed, SCALE, 1).is_none());
    }

    #[test]
    fn times_have_their_unit() {
        for (ns, text) in [
            (0.04, "0.0 ns"),
            (-3.21, "-3.2 ns"),
            (999.94, "999.9 ns"),
            (1_500.0, "1.50 us"),
            (2e6, "2.00 ms"),
            (3e9, "3.00 s"),
        ] {
            assert_eq!(Ns(ns).to_string(), text);
        }
    }
}
