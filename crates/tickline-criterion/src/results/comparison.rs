//! The result of a comparison: of two routines, or of two builds.

use std::error::Error;
use std::fmt;

use serde_json::{Value, json};

use crate::backend::settings::Counting;
use crate::number::{as_f64, count};
use crate::pairs::collector::Collector;
use crate::pairs::disturbance::Disturbances;
use crate::results::files;
use crate::results::plot::{self, Series};
use crate::results::text::{INDENT, Ns, unit};
use crate::statistics::couples::{Couple, MIN_COUPLES, analyse};
use crate::statistics::distribution::Distribution;
use crate::statistics::signed_rank::MIN_ROUNDS;

/// The two times of a couple may differ by this, ns, even if both routines are the same. The
/// difference is some cycles, and depends on the addresses of code and data (the example
/// `known_delays`). The interval is extended by this at both ends.
const PLACEMENT_NS: f64 = 1.0;

/// The smallest difference, in % of A's median, by which routines count as different. Two copies of
/// the same code can differ by as much, depending on the addresses that the linker gives them.
const MIN_PERCENT: f64 = 0.5;

/// The result of [`compare`](crate::compare). Times are ns of an iteration.
///
/// Its text is printed below criterion's line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The median of A, ns: the first routine, or the other build.
    pub median_a_ns: f64,
    /// The median of B, ns: the second routine, or this build.
    pub median_b_ns: f64,
    /// How much longer B takes than A, ns: the estimate of Hodges and Lehmann over the rounds.
    pub difference_ns: f64,
    /// The lower end of the interval that contains the difference with 95 % confidence, ns. The
    /// interval allows for 1 ns a pair, because the routines' code is at different addresses.
    pub low_ns: f64,
    /// The upper end of the interval, ns.
    pub high_ns: f64,
    /// The number of couples that count. A couple is a time of A and the time of B next to it. If
    /// all pairs are included, disturbed couples count.
    pub couples_counted: u64,
    /// The number of disturbed couples. They are excluded, unless all pairs are included.
    pub couples_disturbed: u64,
    /// The number of iterations of each routine in a couple.
    pub iterations_per_pair: u64,
    rounds_ns: Vec<f64>,
    disturbances: Disturbances,
    counting: Counting,
    subject: &'static str,
}

impl Comparison {
    /// The difference in % of A's median.
    #[must_use]
    pub fn difference_percent(&self) -> f64 {
        self.difference_ns / self.median_a_ns * 100.0
    }

    /// The text of the estimate, in the unit of the medians. The estimate may differ from the
    /// difference of the medians, which are over all rounds together.
    fn estimate(&self) -> String {
        let (unit_ns, unit) = unit(self.median_a_ns.max(self.median_b_ns));
        let [estimate, low, high] =
            [self.difference_ns, self.low_ns, self.high_ns].map(|ns| ns / unit_ns);
        format!(
            "estimate over {} rounds: {estimate:+.3} {unit} ({:+.2} %), 95 % in [{low:+.3}, {high:+.3}] {unit}",
            self.rounds_ns.len(),
            self.difference_percent()
        )
    }

    fn json(&self) -> Value {
        json!({
            "iterations_per_pair": self.iterations_per_pair,
            "couples_counted": self.couples_counted,
            "disturbed_are": self.counting.name(),
            "disturbed": self.disturbances.json(),
            "median_a_ns": self.median_a_ns,
            "median_b_ns": self.median_b_ns,
            "difference_ns": self.difference_ns,
            "low_ns": self.low_ns,
            "high_ns": self.high_ns,
            "rounds_ns": self.rounds_ns,
            "confidence": 0.95,
            "is_different": self.is_different(),
        })
    }

    /// Whether the routines differ: the interval excludes 0, and the difference is at least 0.5 %.
    /// A smaller difference can come from the addresses of code and data.
    #[must_use]
    pub fn is_different(&self) -> bool {
        let excludes_zero = self.low_ns > 0.0 || self.high_ns < 0.0;
        excludes_zero && self.difference_percent().abs() >= MIN_PERCENT
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            couples_counted,
            couples_disturbed,
            iterations_per_pair,
            ..
        } = self;
        let verdict = match (self.is_different(), self.difference_ns < 0.0) {
            (true, true) => format!("{} is faster", self.subject),
            (true, false) => format!("{} is slower", self.subject),
            _ => "no difference found".to_owned(),
        };
        let treatment = self.counting.name();
        let more = if self.counting == Counting::All {
            ""
        } else {
            "more "
        };
        write!(
            f,
            "{INDENT}medians: {} and {}; {}: {verdict}\n{INDENT}{couples_counted} couples of \
             {iterations_per_pair} iterations each, {couples_disturbed} {more}disturbed and {treatment}",
            Ns(self.median_a_ns),
            Ns(self.median_b_ns),
            self.estimate(),
        )?;
        if self.disturbances.total() == 0 {
            Ok(())
        } else {
            write!(f, ": {}", self.disturbances)
        }
    }
}

/// The couples that count, and the data for their report.
pub(crate) struct MeasuredCouples<'a, const N: usize> {
    pub(crate) collector: &'a Collector<N>,
    pub(crate) couples: &'a [Couple],
    /// The indices of couples at which slices end, if whole slices were interleaved.
    pub(crate) slice_ends: Option<&'a [usize]>,
    /// The disturbances of other couples.
    pub(crate) disturbances: Disturbances,
    /// The names of A and B. The verdict is about B.
    pub(crate) names: [&'static str; 2],
}

impl<const N: usize> MeasuredCouples<'_, N> {
    /// Prints and stores the comparison. Prints a line if too few couples count.
    pub(crate) fn report(&self) -> Option<Comparison> {
        let messages = self.collector.time.settings().messages;
        let Some(comparison) = self.comparison() else {
            let (have, unit, least) = match self.slice_ends {
                Some(ends) => (count(ends.len()), "slices", count(MIN_ROUNDS)),
                None => (count(self.couples.len()), "couples", MIN_COUPLES),
            };
            messages.print(&format_args!(
                "not compared: {have} {unit} count, {least} are needed; measure longer"
            ));
            return None;
        };
        messages.beside_criterion(&comparison);
        let files = files::Files {
            stem: "comparison",
            heading: &format!("In turns: {}", self.names.join(" and ")),
            json: comparison.json(),
            svg: &|name, _| self.draw(name, &comparison),
        };
        files::store(self.collector, files);
        Some(comparison)
    }

    fn comparison(&self) -> Option<Comparison> {
        let (scale, iterations_per_pair) =
            (self.collector.scale(), self.collector.iterations_per_pair());
        let analysis = analyse(
            self.couples,
            self.slice_ends,
            as_f64(scale.resolution_ticks),
        )?;
        let iterations = as_f64(iterations_per_pair);
        let [median_a_ns, median_b_ns] = analysis
            .medians
            .map(|ticks| scale.net_ns(ticks) / iterations);
        // Both medians contain the cost of a pair, so their difference does not contain it.
        let ns = |ticks: f64| ticks * scale.ns_per_tick / iterations;
        let placement_ns = PLACEMENT_NS / iterations;
        Some(Comparison {
            median_a_ns,
            median_b_ns,
            difference_ns: ns(analysis.difference.estimate),
            low_ns: ns(analysis.difference.low) - placement_ns,
            high_ns: ns(analysis.difference.high) + placement_ns,
            couples_counted: count(self.couples.len()),
            couples_disturbed: self.disturbances.total(),
            iterations_per_pair,
            rounds_ns: analysis.rounds.into_iter().map(ns).collect(),
            disturbances: self.disturbances,
            counting: self.collector.time.settings().counting,
            subject: self.names[1],
        })
    }

    fn draw(&self, name: &str, comparison: &Comparison) -> Result<String, Box<dyn Error>> {
        let [a, b] = [0, 1].map(|side| {
            let mut distribution = Distribution::default();
            distribution.extend(self.couples.iter().map(|two| two[side]));
            distribution.histogram_ns(&self.collector.scale(), comparison.iterations_per_pair)
        });
        let marks = [
            [("p50", 0.5, comparison.median_a_ns)],
            [("p50", 0.5, comparison.median_b_ns)],
        ];
        let series = [
            Series {
                name: self.names[0],
                histogram: &a,
                marks: &marks[0],
            },
            Series {
                name: self.names[1],
                histogram: &b,
                marks: &marks[1],
            },
        ];
        plot::draw(name, &comparison.estimate(), &series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::disturbance::Disturbance;

    /// A takes 200 ns; B takes longer by `ns`, known to 1 ns.
    fn comparison(ns: f64) -> Comparison {
        Comparison {
            median_a_ns: 200.0,
            median_b_ns: 200.0 + ns,
            difference_ns: ns,
            low_ns: ns - 1.0,
            high_ns: ns + 1.0,
            couples_counted: 3_000,
            couples_disturbed: 0,
            iterations_per_pair: 16,
            rounds_ns: vec![ns; 60],
            disturbances: Disturbances::default(),
            counting: Counting::Undisturbed,
            subject: "this build",
        }
    }

    #[test]
    fn a_difference_excludes_zero_and_is_at_least_half_a_percent() {
        for (ns, is_different) in [(0.5, false), (-0.5, false), (1.5, true), (-1.5, true)] {
            assert_eq!(comparison(ns).is_different(), is_different, "{ns}");
        }
        let small = Comparison {
            low_ns: 0.8,
            ..comparison(0.9)
        };
        assert!(!small.is_different(), "{small}");
    }

    #[test]
    fn the_text_has_the_verdict_on_the_second_side() {
        for (ns, verdict) in [
            (30.0, "this build is slower"),
            (-30.0, "this build is faster"),
            (0.0, "no difference found"),
        ] {
            let text = comparison(ns).to_string();
            assert!(text.contains(verdict), "{text}");
        }
    }

    /// The estimate is over rounds of couples: the sides took turns.
    #[test]
    fn the_text_has_the_estimate_over_rounds_with_its_interval() {
        let text = comparison(2.0).to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "medians: 200.0 ns and 202.0 ns; estimate over 60 rounds: +2.000 ns (+1.00 %), 95 % in \
                 [+1.000, +3.000] ns: this build is slower",
                "3000 couples of 16 iterations each, 0 more disturbed and excluded",
            ]
        );
    }

    /// Symptom: "32109 couples, 953 more disturbed and included", but these were among the 32,109.
    #[test]
    fn disturbed_couples_are_further_ones_only_if_they_are_excluded() {
        let mut disturbances = Disturbances::default();
        disturbances.add(Disturbance::Stolen, 7);
        for (counting, words) in [
            (
                Counting::Undisturbed,
                "7 more disturbed and excluded: stolen 7",
            ),
            (Counting::All, "7 disturbed and included: stolen 7"),
        ] {
            let text = Comparison {
                couples_disturbed: 7,
                disturbances,
                counting,
                ..comparison(2.0)
            }
            .to_string();
            assert!(text.ends_with(&format!("each, {words}")), "{text}");
        }
    }
}
