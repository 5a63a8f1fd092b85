//! The result of a comparison: of two routines, or of two builds.

use std::error::Error;
use std::fmt;

use serde_json::{Value, json};

use crate::arguments::MIN_BUILDS_PERCENT;
use crate::measurement::settings::Counting;
use crate::number::{as_f64, count};
use crate::pairs::collector::Collector;
use crate::pairs::disturbance::Disturbances;
use crate::reason::ReasonCode;
use crate::results::cost_share::CostShare;
use crate::results::files;
use crate::results::plot::{self, Mark, Series};
use crate::results::stored_run::{Parts, Rounds, StoredRun};
use crate::results::text::{INDENT, Ns, iterations, signed, signed_percent, unit};
use crate::statistics::couples::{Couple, MIN_COUPLES, Replicate, analyse, median_of};
use crate::statistics::distribution::Distribution;
use crate::statistics::interval::Interval;
use crate::statistics::signed_rank::MIN_REPLICATES;

/// The two times of a couple may differ by this, ns, even if both routines are the same: some
/// cycles, of the readings and of the loop around them. The interval is extended by this at both
/// ends.
const PAIR_ERROR_NS: f64 = 1.0;

/// The median, ns, below which the text says what a pair adds: 5 to 14 ns on machines with an AMD
/// EPYC. In turns many iterations share them; in the line above about this build alone, a pair is
/// one iteration, and the two times seem to contradict each other.
const SHORT_NS: f64 = 100.0;

/// The compared sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sides {
    /// Two routines in one process.
    Routines,
    /// The other build and this one.
    Builds,
    /// The same, each in several layouts.
    BuildsInLayouts,
}

impl Sides {
    /// The names of A and B. The finding is about B.
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Routines => ["A", "B"],
            Self::Builds | Self::BuildsInLayouts => ["the other build", "this build"],
        }
    }

    /// What a replicate is.
    const fn replicates(self) -> &'static str {
        match self {
            Self::Routines => "copies of the code",
            Self::Builds => "processes of each build",
            Self::BuildsInLayouts => "layouts",
        }
    }

    /// What the confidence is about, if it is less than it seems.
    const fn confidence_is_of(self) -> &'static str {
        match self {
            Self::Builds => " (of this link order)",
            Self::Routines | Self::BuildsInLayouts => "",
        }
    }

    /// The smallest difference, in % of A's median, by which the sides count as different. A
    /// smaller one can come from what [`unseen`](Self::unseen) names.
    const fn min_percent(self) -> f64 {
        match self {
            Self::Routines => 1.0,
            Self::Builds | Self::BuildsInLayouts => MIN_BUILDS_PERCENT,
        }
    }

    /// What the interval does not have in it.
    const fn unseen(self) -> &'static str {
        match self {
            Self::Routines => "the places of functions that only one side calls",
            Self::Builds => "where each build's linker has placed the code",
            Self::BuildsInLayouts => "the code's places in a layout that none of the programs has",
        }
    }
}

/// The result of [`compare`](crate::compare). Times are ns of an iteration.
///
/// Its text is printed below criterion's line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The time of A, ns: the first routine, or the other build. It comes from medians of the same
    /// rounds as the difference, by the same estimate over the replicates.
    pub median_a_ns: f64,
    /// The time of B, ns: the second routine, or this build.
    pub median_b_ns: f64,
    /// How much longer B takes than A, ns: the estimate of Hodges and Lehmann over the
    /// [`replicates`](Self::replicates), with the interval that contains the difference with 95 %
    /// confidence. The interval allows for 1 ns a pair.
    pub difference_ns: Interval,
    /// How much longer B takes than A, %: the ratio of their times, less 1, estimated in the same
    /// way. The estimate may differ a little from the difference in ns divided by the time of A.
    /// Not finite if A takes no time.
    pub difference_percent: Interval,
    /// The mean time of A, ns, from the same couples as the medians: where some calls are slow, it
    /// is above the median. It is estimated over the replicates, as the median is.
    pub mean_a_ns: f64,
    /// The mean time of B, ns.
    pub mean_b_ns: f64,
    /// How much longer B takes than A in the mean, %, with an interval of 95 % confidence: the
    /// ratio of both means, less 1. Not finite if A takes no time.
    pub mean_difference_percent: Interval,
    /// The number of couples that count. A couple is a time of A and the time of B next to it. If
    /// all pairs are included, disturbed couples count.
    pub couples_counted: u64,
    /// The number of disturbed couples. They are excluded, unless all pairs are included.
    pub couples_disturbed: u64,
    /// The number of iterations of each routine in a couple.
    pub iterations_per_pair: u64,
    replicates_ns: Vec<f64>,
    rounds_ns: Vec<f64>,
    mean_rounds_ns: Vec<f64>,
    disturbances: Disturbances,
    counting: Counting,
    sides: Sides,
    /// Of the shorter build; `None` of routines, whose pairs always have enough iterations.
    cost_share: Option<CostShare>,
    /// Whether `latency()` made pairs have one iteration.
    is_of_latency: bool,
}

impl Comparison {
    /// The number of placements of code, heap and stack over which the interval is: copies of the
    /// code for [`compare`](crate::compare), processes of each build for `--against`, layouts with
    /// `--layout`.
    #[must_use]
    pub fn replicates(&self) -> usize {
        self.replicates_ns.len()
    }

    /// The texts of the estimate and of its interval, in the unit of the medians. The estimate may
    /// differ a little from the difference of the medians.
    fn estimate_and_interval(&self) -> [String; 2] {
        let (unit_ns, unit) = unit(self.median_a_ns.max(self.median_b_ns));
        let in_order = self.difference_ns.in_order();
        let [low, estimate, high] = in_order.map(|ns| signed(ns / unit_ns, 3));
        // There is no percentage of a time of 0.
        let [of_estimate, of_interval] = if self.difference_percent.is_finite() {
            let [low, estimate, high] = self.difference_percent.in_order().map(signed_percent);
            [format!(" ({estimate} %)"), format!(" ([{low}, {high}] %)")]
        } else {
            [String::new(), String::new()]
        };
        [
            format!("{estimate} {unit}{of_estimate}"),
            format!(
                "95 %{} in [{low}, {high}] {unit}{of_interval}, over {} {}",
                self.sides.confidence_is_of(),
                self.replicates(),
                self.sides.replicates(),
            ),
        ]
    }

    /// What later runs are compared with.
    fn rounds(&self) -> Rounds {
        Rounds {
            rounds_ns: self.rounds_ns.clone(),
            median_a_ns: self.median_a_ns,
            mean_rounds_ns: self.mean_rounds_ns.clone(),
            mean_a_ns: self.mean_a_ns,
        }
    }

    /// What only scripts read.
    fn json(&self) -> Value {
        let [a, b] = self.sides.names();
        json!({
            "a": a,
            "b": b,
            "iterations_per_pair": self.iterations_per_pair,
            "couples_counted": self.couples_counted,
            "disturbed_are": self.counting.name(),
            "disturbed": self.disturbances.json(),
            "clock_codes": self.disturbances.clock_codes(),
            "median_b_ns": self.median_b_ns,
            "difference_ns": self.difference_ns,
            "difference_percent": self.difference_percent.finite(),
            "mean_b_ns": self.mean_b_ns,
            "mean_difference_percent": self.mean_difference_percent.finite(),
            "replicates": self.sides.replicates(),
            "replicates_ns": self.replicates_ns,
            "confidence": 0.95,
            "min_difference_percent": self.sides.min_percent(),
            "is_different": self.is_different(),
            "is_mean_different": self.is_mean_different(),
        })
    }

    /// Why a slowdown may be larger than the percentage says, and what to do. `None` if it is not.
    pub(crate) fn why_hidden(&self) -> Option<String> {
        let reason = self.cost_share?.why_hidden()?;
        let or = if self.is_of_latency {
            ", or time many in a row: leave out latency()"
        } else {
            ""
        };
        Some(format!("{reason}; let an iteration do more{or}"))
    }

    /// Whether the medians differ: both intervals, in ns and in %, exclude 0, and the difference is
    /// at least 1 % for [`compare`](crate::compare), 0.5 % for `--against`. A smaller difference
    /// can come from the addresses of code that the interval does not have in it.
    ///
    /// Where a pair has one iteration, sides that differ only in some calls have equal medians:
    /// [`is_mean_different`](Self::is_mean_different) tells.
    #[must_use]
    pub fn is_different(&self) -> bool {
        let percent = self.difference_percent;
        let is_enough =
            || percent.excludes_zero() && percent.estimate.abs() >= self.sides.min_percent();
        self.difference_ns.excludes_zero() && (!percent.is_finite() || is_enough())
    }

    /// Whether the means differ: the whole interval of
    /// [`mean_difference_percent`](Self::mean_difference_percent) is beyond 1 % for
    /// [`compare`](crate::compare), 0.5 % for `--against`, in one direction.
    #[must_use]
    pub fn is_mean_different(&self) -> bool {
        let (mean, min) = (self.mean_difference_percent, self.sides.min_percent());
        mean.is_finite() && (mean.low > min || mean.high < -min)
    }

    /// The finding about the medians. If only the means differ, it names the medians: a line below
    /// it says that the means differ.
    fn finding(&self) -> String {
        let [_, b] = self.sides.names();
        if self.is_different() {
            let direction = direction(self.difference_ns.estimate);
            format!("{b} is {direction}")
        } else if self.is_mean_different() {
            "no difference of the medians found".to_owned()
        } else {
            "no difference found".to_owned()
        }
    }

    /// The line about the means, after a line break. Empty if A takes no time.
    fn means(&self) -> String {
        let mean = self.mean_difference_percent;
        if !mean.is_finite() {
            return String::new();
        }
        let [a, b] = self.sides.names();
        let [low, estimate, high] = mean.in_order().map(signed_percent);
        let finding = if self.is_mean_different() {
            let direction = direction(mean.estimate);
            if self.is_in_some_calls() {
                format!(": {direction} in some calls")
            } else {
                format!(": {b} is {direction}")
            }
        } else {
            String::new()
        };
        format!(
            "\n{INDENT}means: {a} {}, {b} {}: {estimate} % (95 % in [{low}, {high}] %){finding}",
            Ns(self.mean_a_ns),
            Ns(self.mean_b_ns)
        )
    }

    /// Whether the mean is slower than the median is, or faster than the median is: then it is not
    /// the typical call that differs so much. A mean that differs by less than the median, in the
    /// same direction, has calls in it that take as long on both sides.
    pub(crate) fn is_in_some_calls(&self) -> bool {
        let (mean, min) = (self.mean_difference_percent, self.sides.min_percent());
        let median = self.difference_percent.widened(min);
        if mean.estimate > 0.0 {
            mean.low > median.high
        } else {
            mean.high < median.low
        }
    }

    /// What an overlap of iterations hides. Where a pair has one iteration, none can overlap with
    /// the next.
    fn overlap(&self) -> &'static str {
        if self.iterations_per_pair == 1 {
            return "";
        }
        match self.sides {
            Sides::Routines => {
                ", and what a call takes alone, because the iterations of a pair may overlap"
            }
            Sides::Builds | Sides::BuildsInLayouts => {
                ", and what a call takes alone, because the iterations of a pair may overlap (latency() before iter \
                 compares it)"
            }
        }
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
        let [a, b] = self.sides.names();
        let [estimate, interval] = self.estimate_and_interval();
        let (finding, means) = (self.finding(), self.means());
        let is_short = self.median_b_ns < SHORT_NS && *iterations_per_pair > 1;
        let added = if self.sides != Sides::Routines && is_short {
            format!(" (a pair adds some ns, shared by {iterations_per_pair} of them)")
        } else if *iterations_per_pair > 1 {
            format!(
                " (of {iterations_per_pair} in a row; one alone, as in `pairs:`, may take longer)"
            )
        } else {
            String::new()
        };
        let treatment = self.counting.name();
        let more = if self.counting == Counting::All {
            ""
        } else {
            "more "
        };
        write!(
            f,
            "{INDENT}medians per iteration{added}: {a} {}, {b} {}\n\
             {INDENT}{b} less {a}: {estimate}: {finding}\n\
             {INDENT}{interval}{means}\n\
             {INDENT}{couples_counted} couples of {} each, {couples_disturbed} {more}disturbed and {treatment}",
            Ns(self.median_a_ns),
            Ns(self.median_b_ns),
            iterations(*iterations_per_pair),
        )?;
        if self.disturbances.total() > 0 {
            write!(f, ": {}", self.disturbances)?;
        }
        let overlap = self.overlap();
        write!(
            f,
            "\n{INDENT}not seen: {}{overlap}; a difference below {} % never counts",
            self.sides.unseen(),
            self.sides.min_percent()
        )?;
        match self.why_hidden() {
            Some(reason) => write!(f, "\n{INDENT}{reason}"),
            None => Ok(()),
        }
    }
}

/// The word for a difference, which is not 0.
const fn direction(difference: f64) -> &'static str {
    if difference < 0.0 { "faster" } else { "slower" }
}

/// The couples that count, and the data for their report.
pub(crate) struct MeasuredCouples<'a, const N: usize> {
    pub(crate) collector: &'a Collector<N>,
    pub(crate) replicates: &'a [Replicate],
    pub(crate) iterations_per_pair: u64,
    /// The disturbances of other couples.
    pub(crate) disturbances: Disturbances,
    pub(crate) sides: Sides,
}

impl<const N: usize> MeasuredCouples<'_, N> {
    /// Prints and stores the comparison. Prints a line if too few couples count.
    pub(crate) fn report(&self) -> Option<Comparison> {
        let messages = self.collector.time.settings().messages;
        let Some(comparison) = self.comparison() else {
            let counted = self.replicates.iter().filter(|one| one.counts()).count();
            let error = format!(
                "{counted} {} have {MIN_COUPLES} couples that count, {MIN_REPLICATES} are needed; measure longer",
                self.sides.replicates()
            );
            messages.print(&format_args!("not compared: {error}"));
            if self.sides == Sides::Routines {
                files::undecided(self.collector, ReasonCode::TooFewSamples.with(error));
            }
            return None;
        };
        messages.beside_criterion(&comparison);
        let files = files::Files {
            stem: "comparison",
            heading: &format!("In turns: {}", self.sides.names().join(" and ")),
            run: StoredRun::new(
                self.collector,
                comparison.cost_share,
                Parts::Rounds(comparison.rounds()),
            ),
            details: comparison.json(),
            svg: &|name, _| self.draw(name, &comparison),
            reference: match self.sides {
                Sides::Routines => files::Reference::Baseline,
                Sides::Builds | Sides::BuildsInLayouts => files::Reference::OtherBuild,
            },
        };
        files::store(self.collector, files);
        Some(comparison)
    }

    fn couples(&self) -> impl Iterator<Item = &Couple> {
        self.replicates.iter().flat_map(Replicate::couples)
    }

    fn comparison(&self) -> Option<Comparison> {
        let scale = self.collector.scale();
        let resolution_ticks = as_f64(scale.resolution_ticks);
        let analysis = analyse(self.replicates, resolution_ticks, scale.cost_ticks)?;
        let iterations = as_f64(self.iterations_per_pair);
        let [a_ticks, b_ticks] = analysis.times;
        let cost_share = (self.sides != Sides::Routines)
            .then(|| CostShare::new(self.collector.cost_ticks(), a_ticks.min(b_ticks)));
        let each_ns = |ticks: f64| scale.net_ns(ticks) / iterations;
        let [median_a_ns, median_b_ns] = analysis.times.map(each_ns);
        let [mean_a_ns, mean_b_ns] = analysis.means.times.map(each_ns);
        // Both medians contain the cost of a pair, so their difference does not contain it.
        let ns = |ticks: f64| ticks * scale.rate.ns_per_tick / iterations;
        let error_ns = PAIR_ERROR_NS / iterations;
        let percent = |log_ratio: f64| log_ratio.exp_m1() * 100.0;
        let error_percent = |of_ns: f64| error_ns / of_ns * 100.0;
        Some(Comparison {
            median_a_ns,
            median_b_ns,
            difference_ns: analysis.difference.map(ns).widened(error_ns),
            difference_percent: analysis
                .log_ratio
                .map(percent)
                .widened(error_percent(median_a_ns)),
            mean_a_ns,
            mean_b_ns,
            mean_difference_percent: analysis
                .means
                .log_ratio
                .map(percent)
                .widened(error_percent(mean_a_ns)),
            couples_counted: count(self.couples().count()),
            couples_disturbed: self.disturbances.total(),
            iterations_per_pair: self.iterations_per_pair,
            replicates_ns: analysis.replicates.into_iter().map(ns).collect(),
            rounds_ns: analysis.rounds.into_iter().map(ns).collect(),
            disturbances: self.disturbances.clone(),
            counting: self.collector.time.settings().counting,
            sides: self.sides,
            mean_rounds_ns: analysis.means.rounds.into_iter().map(ns).collect(),
            cost_share,
            is_of_latency: self.collector.has_pairs_of_one(),
        })
    }

    fn draw(&self, name: &str, comparison: &Comparison) -> Result<String, Box<dyn Error>> {
        let [a, b] = [0, 1].map(|side| {
            let mut distribution = Distribution::default();
            distribution.extend(self.couples().map(|two| two[side]));
            distribution.histogram_ns(&self.collector.scale(), comparison.iterations_per_pair)
        });
        let scale = self.collector.scale();
        let all: Vec<Couple> = self.couples().copied().collect();
        let marks = [0, 1].map(|side| {
            let ticks = median_of(&all, side, as_f64(scale.resolution_ticks)).unwrap_or_default();
            let ns = scale.net_ns(ticks) / as_f64(comparison.iterations_per_pair);
            let (name, below) = ("p50", 0.5);
            [Mark { name, below, ns }]
        });
        let names = self.sides.names();
        let series = [
            Series {
                name: names[0],
                histogram: &a,
                marks: &marks[0],
            },
            Series {
                name: names[1],
                histogram: &b,
                marks: &marks[1],
            },
        ];
        let [estimate, interval] = comparison.estimate_and_interval();
        plot::draw(name, &format!("{estimate}; {interval}"), &series)
    }
}

#[cfg(test)]
mod tests;
