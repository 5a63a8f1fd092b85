//! Compares two routines that run alternately in one process, in random order.
//!
//! | file | does |
//! |---|---|
//! | `builds.rs` | interleaves the slices of another build of the benchmark with slices of this build |
//! | `baseline.rs` | compares this run with a stored run |
//! | `couples.rs` | analyses couples: the medians of their rounds |
//! | `signed_rank.rs` | computes the interval of the difference |

pub(crate) mod baseline;
pub(crate) mod builds;
pub(crate) mod couples;
pub(crate) mod signed_rank;

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use serde_json::{Value, json};

use crate::compare::couples::{Couple, MIN_COUPLES, analyse};
use crate::compare::signed_rank::MIN_ROUNDS;
use crate::number::{as_f64, count, index};
use crate::pairs::collector::Collector;
use crate::pairs::distribution::Distribution;
use crate::pairs::disturbance::Disturbances;
use crate::pairs::outcome::{INDENT, Ns, unit};
use crate::pairs::slice::Counting;
use crate::pairs::{BenchPairs, PairId, bencher, files};
use crate::plot::{self, Series};
use crate::readings::{Elapsed, PairClock, PairReads};

/// The two times of a couple may differ by this, ns, even if both routines are the same. The
/// difference is some cycles, and depends on the addresses of code and data (the example
/// `known_delays`). The interval is extended by this at both ends.
const PLACEMENT_NS: f64 = 1.0;

/// The smallest difference, in % of A's median, by which routines count as different. Two copies of
/// the same code can differ by as much, depending on the addresses that the linker gives them.
const MIN_PERCENT: f64 = 0.5;

/// The result of [`compare`]. Times are ns of an iteration.
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

/// Compares two routines, A and B. They run alternately within one process, so that a disturbance
/// affects both. For each couple a random number decides which routine comes first. The result is
/// an estimate of the difference (Hodges and Lehmann's, over 60 rounds), with a confidence interval
/// of 95 % by Wilcoxon's signed rank test. A drift of the machine moves both medians, but not the
/// estimate. The estimate may therefore differ from the difference of the medians.
///
/// criterion runs the comparison as one benchmark, and gets the mean of B's pairs that count.
/// Filters, warm-up and measurement time are criterion's. The result is printed below criterion's
/// line, stored as `new/comparison.json` next to criterion's files, and drawn in its report.
/// Returns `None` if criterion measured nothing (`--list`, `--test`, a filter), or, with a printed
/// line, if fewer than 50 couples count.
///
/// ```
/// use std::hint::black_box;
///
/// use criterion::Criterion;
/// use tickline_criterion::{CounterTime, compare};
///
/// let mut criterion = Criterion::default().with_measurement(CounterTime::or_wall_time());
/// # let directory = std::env::temp_dir().join(format!("tickline-criterion-compare-{}", std::process::id()));
/// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
/// #     .warm_up_time(std::time::Duration::from_millis(5)).nresamples(1_000)
/// #     .measurement_time(std::time::Duration::from_millis(50));
/// let text = || black_box("1234567");
/// let comparison =
///     compare(&mut criterion, "parse", || text().parse::<u32>(), || text().parse::<f64>());
/// if let Some(comparison) = comparison {
///     println!("B takes {:+.1} % longer", comparison.difference_percent());
/// }
/// # std::fs::remove_dir_all(directory).ok();
/// ```
///
/// The output with criterion's default settings, bound to a CPU on which compilers ran, on an AMD
/// EPYC, family 25, model 17:
///
/// ```text
/// parse                   time:   [10.687 ns 10.738 ns 10.796 ns]
///                         medians: 4.1 ns and 10.6 ns; estimate over 60 rounds: +6.513 ns (+159.73 %), 95 % in [+6.508, +6.517] ns: B is slower
///                         800021 couples of 256 iterations each, 10526 more disturbed and excluded: preempted 9271, interrupted 1255
/// ```
pub fn compare<C: BenchPairs, A, B>(
    criterion: &mut C,
    id: impl Into<PairId>,
    mut a: impl FnMut() -> A,
    mut b: impl FnMut() -> B,
) -> Option<Comparison> {
    let mut collector = None;
    criterion.run(id.into(), &mut |iterations| {
        let collector = collector.get_or_insert_with(|| Collector::new(None));
        let clock = collector.time.pair_clock();
        let mut routines: [&mut dyn FnMut(u64) -> PairReads; 2] =
            [&mut |calls| timed(clock, calls, &mut a), &mut |calls| {
                timed(clock, calls, &mut b)
            }];
        sample(collector, iterations, &mut routines)
    });
    let collector = collector.filter(Collector::has_measured)?;
    let (couples, disturbances) = (
        &*collector.collected.couples,
        collector.collected.disturbances,
    );
    let names = ["A", "B"];
    MeasuredCouples {
        collector: &collector,
        couples,
        slice_ends: None,
        disturbances,
        names,
    }
    .report()
}

/// Takes a pair around `calls` calls. It is not inlined, so that equal routines have equal code.
#[inline(never)]
fn timed<O>(clock: PairClock, calls: u64, routine: &mut impl FnMut() -> O) -> PairReads {
    bencher::timed(clock, calls, routine)
}

/// 0 or 1, at random: the index of the side that comes first.
pub(crate) fn random_side() -> usize {
    // Each `RandomState` has other keys.
    index(RandomState::new().hash_one(()) & 1)
}

/// Takes a sample. Both routines are called from one call site, so that they begin alike.
fn sample(
    collector: &mut Collector<2>,
    iterations: u64,
    routines: &mut [&mut dyn FnMut(u64) -> PairReads; 2],
) -> Elapsed {
    let iterations_per_pair = collector.choose_iterations_per_pair(None, |iterations| {
        let ticks = routines
            .iter_mut()
            .map(|routine| routine(iterations).ticks());
        ticks.max().unwrap_or(0)
    });
    let mut sample = collector.begin_sample(iterations);
    loop {
        let first = random_side();
        let mut group = [PairReads::default(); 2];
        for routine in [first, 1 - first] {
            group[routine] = routines[routine](iterations_per_pair);
        }
        if sample.push(group).is_break() {
            return sample.finish();
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
