//! The comparison of this run with a stored run: criterion's `--baseline NAME`.
//!
//! The two runs took no turns. Changes of the machine between them are unknown: its
//! frequency, its temperature, other programs, the addresses of memory. Therefore no confidence
//! interval can be given. Only the scatter within each run is known: the middle nine tenths of its
//! parts. These are the times of criterion's samples; for a comparison, the differences of its
//! rounds. A difference is reported only if
//!
//! 1. these two ranges do not overlap, and
//! 2. the difference is at least [`MIN_BASELINE_PERCENT`].

use std::fmt;

use serde_json::{Value, json};

use crate::arguments::MIN_BASELINE_PERCENT;
use crate::number::middle;
use crate::pairs::collector::MoreIterations;
use crate::results::cost_share::CostShare;
use crate::results::stored_run::{Parts, StoredRun};
use crate::results::text::{INDENT, Ns, signed_percent};
use crate::statistics::interval::Interval;

/// The smallest number of parts of a run, for a range of nine tenths.
pub(crate) const MIN_PARTS: usize = 10;

/// The median of a run's parts, ns, with the ends of their middle nine tenths.
fn range_ns(parts_ns: &[f64]) -> Option<Interval> {
    let mut ns = parts_ns.to_vec();
    ns.sort_unstable_by(f64::total_cmp);
    let (last, tail) = (ns.len().checked_sub(1)?, ns.len() / 20);
    (ns.len() >= MIN_PARTS).then(|| Interval {
        estimate: middle(&ns),
        low: ns[tail],
        high: ns[last - tail],
    })
}

/// The ranges of a stored run and of this run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranges {
    then_ns: Interval,
    now_ns: Interval,
    /// The time of A then, ns, if the ranges are of differences in a comparison: a percentage is of
    /// this time. `None` if they are of times, which have a ratio.
    a_ns: Option<f64>,
}

impl Ranges {
    /// The ranges of the parts of both runs. `None` if one has too few.
    fn new(then_ns: &[f64], now_ns: &[f64], a_ns: Option<f64>) -> Option<Self> {
        Some(Self {
            then_ns: range_ns(then_ns)?,
            now_ns: range_ns(now_ns)?,
            a_ns,
        })
    }

    /// The times of both runs, their difference and the finding.
    fn text(&self, parts: &str) -> String {
        let percent = self.percent().estimate;
        let [low_then, then, high_then] = self.then_ns.in_order().map(Ns);
        let [low, now, high] = self.now_ns.in_order().map(Ns);
        let (of_a, [below, above]) = match self.a_ns {
            Some(_) => (" of A", ["less", "more"]),
            None => ("", ["faster", "slower"]),
        };
        let finding = if self.are_different() {
            let direction = if percent < 0.0 { below } else { above };
            format!("{direction} now, by more than either run scatters")
        } else {
            "no difference found".to_owned()
        };
        // There is no percentage of a time of 0.
        let percent = if percent.is_finite() {
            format!(": {} %{of_a}", signed_percent(percent))
        } else {
            String::new()
        };
        format!(
            "{parts} {then} (nine tenths {low_then} to {high_then}), now {now} ({low} to {high}){percent}: {finding}"
        )
    }

    /// The change, %, between what the ranges allow.
    pub(crate) fn percent(&self) -> Interval {
        let percent = |then: f64, now: f64| (now - then) / self.a_ns.unwrap_or(then) * 100.0;
        let Self {
            then_ns, now_ns, ..
        } = self;
        Interval {
            estimate: percent(then_ns.estimate, now_ns.estimate),
            low: percent(then_ns.high, now_ns.low),
            high: percent(then_ns.low, now_ns.high),
        }
    }

    pub(crate) fn are_different(&self) -> bool {
        let Self {
            then_ns, now_ns, ..
        } = self;
        let do_overlap = now_ns.low <= then_ns.high && now_ns.high >= then_ns.low;
        !do_overlap && self.percent().estimate.abs() >= MIN_BASELINE_PERCENT
    }
}

/// The change since a stored run. Its text is printed below criterion's line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    name: String,
    /// Of distributions the samples, each of which is a mean; of comparisons the medians of rounds.
    pub(crate) parts: Ranges,
    /// Of comparisons the means of rounds. `None` of distributions.
    pub(crate) means: Option<Ranges>,
    /// The larger of both runs' shares of the pair's cost; `None` of comparisons of routines, whose
    /// pairs have enough iterations.
    cost_share: Option<CostShare>,
    /// What gives a pair of this run's more iterations.
    more: MoreIterations,
}

impl Change {
    /// `None` if one of the runs has too few parts.
    pub(crate) fn new(
        name: &str,
        then: &StoredRun,
        now: &StoredRun,
        more: MoreIterations,
    ) -> Option<Self> {
        let (parts, means) = match (&then.parts, &now.parts) {
            (Parts::Samples(then), Parts::Samples(now)) => (
                Ranges::new(&then.sample_times_ns, &now.sample_times_ns, None),
                None,
            ),
            (Parts::Rounds(then), Parts::Rounds(now)) => (
                Ranges::new(&then.rounds_ns, &now.rounds_ns, Some(then.median_a_ns)),
                Ranges::new(
                    &then.mean_rounds_ns,
                    &now.mean_rounds_ns,
                    Some(then.mean_a_ns),
                ),
            ),
            // The files of each kind have a name of their own.
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            parts: parts?,
            means,
            cost_share: [then, now]
                .into_iter()
                .filter_map(|run| run.pair_cost_share)
                .max_by(|one, other| one.0.total_cmp(&other.0)),
            more,
        })
    }

    /// Why a slowdown may be larger than the change says, and what to do.
    pub(crate) fn why_hidden(&self) -> Option<String> {
        self.cost_share?.why_hidden_by_baseline(self.more)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "in_turns": false,
            "then_ns": self.parts.then_ns,
            "now_ns": self.parts.now_ns,
            "percent": self.parts.percent().estimate,
            "is_different": self.parts.are_different(),
            "mean_then_ns": self.means.map(|means| means.then_ns),
            "mean_now_ns": self.means.map(|means| means.now_ns),
            "mean_percent": self.means.map(|means| means.percent().estimate),
            "is_mean_different": self.means.map(|means| means.are_different()),
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let parts = match self.parts.a_ns {
            Some(_) => "B less A, median of rounds,",
            None => "median of samples",
        };
        write!(f, "{INDENT}baseline {name}: {}", self.parts.text(parts))?;
        if let Some(means) = &self.means {
            let text = means.text("B less A, median of the means of rounds,");
            write!(f, "\n{INDENT}baseline {name}: {text}")?;
        }
        write!(
            f,
            "\n{INDENT}the two runs did not take turns: what else changed between them is unknown; \
             --against PROGRAM gives an interval of 95 %"
        )?;
        match self.why_hidden() {
            Some(reason) => write!(f, "\n{INDENT}{reason}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::stored_run::Rounds;
    use crate::results::stored_run::tests::{of_parts, of_samples};
    use crate::statistics::signed_rank::tests::uniform;

    /// The change of a benchmark with `iter`.
    fn change_of(then: &StoredRun, now: &StoredRun) -> Option<Change> {
        Change::new("main", then, now, MoreIterations::CostShare)
    }

    /// A run of 100 samples, scattered by 1 % around `ns`.
    fn run(ns: f64, uniform: &mut impl FnMut() -> f64) -> StoredRun {
        let samples: Vec<f64> = (0..100).map(|_| ns * (1.0 + 0.02 * uniform())).collect();
        of_samples(&samples)
    }

    #[test]
    fn a_difference_is_larger_than_the_scatter_of_both_runs() {
        let mut uniform = uniform(3);
        let then = run(200.0, &mut uniform);
        for (ns, is_different) in [(200.0, false), (203.0, false), (206.0, true), (194.0, true)] {
            let change = change_of(&then, &run(ns, &mut uniform)).expect("100 samples");
            assert_eq!(change.parts.are_different(), is_different, "{change}");
        }
    }

    /// Ten samples of the same time.
    fn exact(ns: f64) -> StoredRun {
        of_samples(&[ns; 10])
    }

    /// Runs without scatter may still differ by the core's frequency.
    #[test]
    fn a_difference_is_at_least_two_percent() {
        for (ns, is_different) in [(196.1, false), (203.9, false), (204.1, true), (195.9, true)] {
            let change = change_of(&exact(200.0), &exact(ns)).expect("ten samples");
            assert_eq!(change.parts.are_different(), is_different, "{change}");
        }
    }

    /// Symptom: -8 ns and +26 ns were both divided by the median, 109.5 ns: "-7 % to +24 %".
    #[test]
    fn the_change_is_between_what_the_ranges_allow() {
        let run = |from: u32| {
            let samples: Vec<f64> = (from..from + 20).map(f64::from).collect();
            of_samples(&samples)
        };
        let change = change_of(&run(100), &run(109)).expect("20 samples");
        // The middle nine tenths of 20 samples leave out one at each end.
        let expected = [(118.0, 110.0), (109.5, 118.5), (101.0, 127.0)]
            .map(|(then, now)| (now - then) / then * 100.0);
        for (found, expected) in change.parts.percent().in_order().into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{change:?}");
        }
    }

    #[test]
    fn the_text_says_that_the_runs_took_no_turns() {
        for (ns, percent, finding) in [
            (
                210.0,
                "+5.00 %",
                "slower now, by more than either run scatters",
            ),
            (
                190.0,
                "-5.00 %",
                "faster now, by more than either run scatters",
            ),
            (201.0, "+0.50 %", "no difference found"),
        ] {
            let change = change_of(&exact(200.0), &exact(ns)).expect("ten samples");
            let text = change.to_string();
            let lines: Vec<_> = text.lines().map(str::trim).collect();
            assert_eq!(
                lines,
                [
                    &*format!(
                        "baseline main: median of samples 200.0 ns (nine tenths 200.0 ns to 200.0 ns), now {ns:.1} ns \
                         ({ns:.1} ns to {ns:.1} ns): {percent}: {finding}"
                    ),
                    "the two runs did not take turns: what else changed between them is unknown; \
                     --against PROGRAM gives an interval of 95 %",
                ]
            );
        }
    }

    #[test]
    fn the_json_says_that_the_runs_took_no_turns() {
        let change = change_of(&exact(200.0), &exact(210.0)).expect("ten samples");
        assert_eq!(
            change.json(),
            json!({
                "name": "main",
                "in_turns": false,
                "then_ns": { "estimate": 200.0, "low": 200.0, "high": 200.0 },
                "now_ns": { "estimate": 210.0, "low": 210.0, "high": 210.0 },
                "percent": 5.0,
                "is_different": true,
                "mean_then_ns": null,
                "mean_now_ns": null,
                "mean_percent": null,
                "is_mean_different": null,
            })
        );
    }

    #[test]
    fn the_range_of_a_run_is_the_middle_nine_tenths_of_its_parts() {
        let parts: Vec<f64> = (0..100).rev().map(f64::from).collect();
        let range_ns = range_ns(&parts).map(Interval::in_order);
        assert_eq!(range_ns, Some([5.0, 49.5, 94.0]));
    }

    /// Symptom: B got slow in every fourth call, and a limit passed: rounds had medians only.
    #[test]
    fn the_change_of_a_comparison_has_the_means_of_its_rounds() {
        let comparison = |mean_ns: f64| {
            of_parts(Parts::Rounds(Rounds {
                rounds_ns: vec![1.0; 10],
                median_a_ns: 100.0,
                mean_rounds_ns: vec![mean_ns; 10],
                mean_a_ns: 200.0,
            }))
        };
        let change = change_of(&comparison(2.0), &comparison(502.0)).expect("ten rounds");
        assert!(!change.parts.are_different(), "{change}");
        let means = change.means.expect("means");
        assert!(means.are_different(), "{change}");
        assert!((means.percent().estimate - 250.0).abs() < 1e-9, "{change}");
        assert_eq!(change.json()["is_mean_different"], true);
        let text = "baseline main: B less A, median of the means of rounds, 2.00 ns (nine tenths 2.00 ns to 2.00 ns), \
                    now 502.0 ns (502.0 ns to 502.0 ns): +250.00 % of A: more now, by more than either run scatters";
        assert!(change.to_string().contains(text), "{change}");
    }

    #[test]
    fn a_change_of_the_difference_is_in_percent_of_a() {
        let comparison = |ns: f64| {
            of_parts(Parts::Rounds(Rounds {
                rounds_ns: vec![ns; 10],
                median_a_ns: 100.0,
                ..Rounds::default()
            }))
        };
        let change = change_of(&comparison(1.0), &comparison(2.5)).expect("ten rounds");
        assert!(
            (change.parts.percent().estimate - 1.5).abs() < 1e-9 && !change.parts.are_different(),
            "{change}"
        );
        let text = "baseline main: B less A, median of rounds, 1.00 ns (nine tenths 1.00 ns to 1.00 ns), now 2.50 ns \
                    (2.50 ns to 2.50 ns): +1.50 % of A: no difference found";
        assert!(change.to_string().contains(text), "{change}");
        assert!(
            change_of(&comparison(1.0), &comparison(-1.5))
                .expect("ten rounds")
                .parts
                .are_different()
        );
    }

    /// Symptom: "now 2.0 ns (2.0 ns to 2.0 ns): +inf %".
    #[test]
    fn of_a_time_of_zero_the_text_has_no_percentage() {
        for (ns, finding) in [(0.0, "no difference found"), (2.0, "slower now")] {
            let change = change_of(&exact(0.0), &exact(ns)).expect("ten samples");
            let expected = format!("now {time} ({time} to {time}): {finding}", time = Ns(ns));
            let text = change.to_string();
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[test]
    fn a_run_of_short_pairs_hides_a_part_of_a_slowdown() {
        let run = |share: f64| StoredRun {
            pair_cost_share: Some(CostShare(share)),
            ..exact(20.0)
        };
        for (then, now, is_hidden) in [(0.5, 0.01, true), (0.01, 0.5, true), (0.01, 0.09, false)] {
            let change = change_of(&run(then), &run(now)).expect("ten samples");
            assert_eq!(change.why_hidden().is_some(), is_hidden, "{change}");
            let text = change.to_string();
            assert_eq!(
                text.contains("50 % of a pair is the cost"),
                is_hidden,
                "{text}"
            );
        }
    }

    #[test]
    fn fewer_than_ten_parts_show_no_change() {
        for few in [&[1.0; 9][..], &[]] {
            assert_eq!(change_of(&of_samples(few), &exact(1.0)), None);
        }
    }
}
