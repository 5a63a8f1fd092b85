//! [`BenchPairs`]: the distribution of a routine's times.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion};

use crate::arguments::{self, Role};
use crate::criterion_folder;
use crate::measurement::readings::Elapsed;
use crate::measurement::time::CounterTime;
use crate::pairs::bencher::PairBencher;
use crate::pairs::builds::{Benchmark, Turns, listing};
use crate::pairs::collector::Collector;
use crate::pairs::placement;
use crate::pairs::serving::Serving;
use crate::reason::{ReasonCode, VerdictReason};
use crate::results::comparison::{MeasuredCouples, Sides};
use crate::results::files;
use crate::results::outcome::{Outcome, QUANTILES};
use crate::results::plot::{self, Mark, Series};
use crate::results::stored_run::{Parts, StoredRun};
use crate::results::text::INDENT;
use crate::results::verdict::findings::findings;
use crate::results::verdict::{ComparedWith, Conclusion, Difference, Judgement, MeanDifference};

/// Benchmarks whose iterations are timed individually. criterion's `Criterion` and `BenchmarkGroup`
/// have these methods with the measurement [`CounterTime`].
///
/// A *pair* is the two clock readings around one timed run: of one iteration, unless
/// [`PairBencher::cost_share`] or `--against` puts more of them into it.
///
/// In an existing benchmark, `bench_function` becomes `bench_pairs`, and `bench_with_input` becomes
/// `bench_pairs_with_input`. A closure that calls one of four methods stays as it is:
/// [`PairBencher`] names these, and what to do for the others.
///
/// ```
/// use std::hint::black_box;
///
/// use criterion::{BatchSize, Criterion};
/// use tickline_criterion::{BenchPairs, CounterTime};
///
/// let mut criterion = Criterion::default().with_measurement(CounterTime::new_or_wall_time());
/// # let name = format!("tickline-criterion-pairs-{}", std::process::id());
/// # let directory = std::env::temp_dir().join(name);
/// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
/// #     .warm_up_time(std::time::Duration::from_millis(5)).nresamples(1_000)
/// #     .measurement_time(std::time::Duration::from_millis(20));
/// criterion.bench_pairs("parse", |bencher| bencher.iter(|| black_box("1234567").parse::<u64>()));
///
/// let mut group = criterion.benchmark_group("sort");
/// group.bench_pairs_with_input("reversed", &[3_u32, 2, 1], |bencher, input| {
///     bencher.iter_batched(|| input.to_vec(), |mut vec| vec.sort(), BatchSize::SmallInput);
/// });
/// group.finish();
/// # std::fs::remove_dir_all(directory).ok();
/// ```
///
/// This crate prints two lines below criterion's, and a third if the cost of the readings is more
/// than a tenth of a pair. (In a run that is saved as a baseline, or compared with one, a longer
/// line about the baseline takes the third one's place. A comparison in turns has a line of its
/// own.) The output of `cargo bench -p tickline-criterion --bench distributions -- --quick hash/64`
/// on an AMD EPYC, family 26, model 2:
///
/// ```text
/// hash/64                 time:   [21.033 ns 21.155 ns 21.185 ns]
///                         pairs:  p50 22.0 ns  p90 27.0 ns  p99 28.2 ns  p99.9 28.3 ns  max 153.5 ns
///                         529696 pairs of 1 iteration, 5408 disturbed and excluded: preempted 5398 (up to 668.74 us), interrupted 10 (up to 27.14 us)
///                         43 % of a pair is the cost of its readings, and a pair adds some ns to each time; let an iteration do more
/// ```
///
/// `report/pairs.svg` is a plot of the histogram, at the end of criterion's report of the
/// benchmark. `new/pairs.json` next to criterion's files has these keys. Times are ns of an
/// iteration; where a pair has several, the mean over them:
///
/// | key | value |
/// |---|---|
/// | `quantiles_ns` | the times `p50`, `p90`, `p99`, `p99_9` and `max` |
/// | `mean_ns` | the mean of the pairs that count |
/// | `histogram_ns` | the pairs that count: lists of a time and its number of pairs, in rising order |
/// | `sample_times_ns` | the time in each of criterion's samples |
/// | `pairs`, `pairs_counted` | the number of pairs, and of those that count |
/// | `iterations_per_pair` | the number of iterations in a pair |
/// | `disturbed_are` | `excluded` or `included` |
/// | `disturbed`, `disturbed_max_ns` | by [disturbance](crate#distributions), the number of pairs, and the longest time (`null`: none) |
/// | `clock_codes` | the codes of the disturbance `clock` |
/// | `long_pairs_kept` | the number of long pairs that count as the routine's own |
/// | `samples_disturbed` | the number of criterion's samples without an undisturbed pair |
/// | `samples_untrusted` | the number of criterion's samples during which the clock did not trust the counter |
/// | `pair_cost_subtracted_ns` | the cost of a pair's readings that is subtracted, ns; 0 with the OS clock |
/// | `pair_cost_share` | the share of the readings' cost in the median pair, from 0 to 1; with the OS clock, too |
/// | `resolution_ns` | the clock's resolution, ns |
/// | `measured_by` | the [clock](crate::comparisons#the-file-of-verdicts): `counter` or `os_clock` |
/// | `benchmark`, `version` | criterion's name of the benchmark, and the version of this format: 1 |
/// | `baseline` | with `--baseline`, the comparison with that run: `name`, `then_ns`, `now_ns`, `percent`, `is_different` and more. The key is absent if the comparison failed |
///
/// criterion gets the mean of the pairs that count, so its own lines and plots are about these
/// pairs. The crate takes further pairs in place of disturbed ones, up to twice as many as
/// criterion requested.
pub trait BenchPairs: sealed::ByCounter {
    /// Benchmarks a function, as `bench_function` does.
    ///
    /// # Panics
    ///
    /// If `benchmark` calls no method that times something.
    /// With `--against` also if criterion did not get the program's arguments
    /// (`configure_from_args`).
    fn bench_pairs(
        &mut self,
        id: impl Into<PairId>,
        mut benchmark: impl FnMut(&mut PairBencher<'_>),
    ) -> &mut Self {
        self.bench_pairs_with_input(id, &(), |bencher, ()| benchmark(bencher))
    }

    /// Benchmarks a function with an input, as `bench_with_input` does.
    ///
    /// # Panics
    ///
    /// If `benchmark` calls no method that times something.
    /// With `--against` also if criterion did not get the program's arguments
    /// (`configure_from_args`).
    fn bench_pairs_with_input<I: ?Sized>(
        &mut self,
        id: impl Into<PairId>,
        input: &I,
        mut benchmark: impl FnMut(&mut PairBencher<'_>, &I),
    ) -> &mut Self {
        let mut collector = None;
        let against = Benchmark::next();
        listing::mark_benchmark();
        self.run(id.into(), &mut |iterations| {
            assert!(
                arguments::role() != Role::List,
                "the program does not pass --list to criterion: it must call configure_from_args()"
            );
            let collector =
                collector.get_or_insert_with(|| Collector::new(Serving::of_this_process()));
            let mut returned = Elapsed::default();
            while let Some(iterations) = collector.begin_call(iterations) {
                let mut call = |iterations| {
                    let mut bencher = PairBencher::new(collector, iterations);
                    benchmark(&mut bencher, input);
                    bencher.returned.expect(
                        "the benchmark must call iter, or another method that times something",
                    )
                };
                if arguments::role() == Role::Serve {
                    returned = placement::on_shifted_stack(&mut || call(iterations));
                } else {
                    return call(iterations);
                }
            }
            returned
        });
        listing::mark_benchmark();
        if let Some(collector) = collector.filter(Collector::has_measured) {
            report(&collector, against);
        }
        self
    }
}

impl<C: sealed::ByCounter> BenchPairs for C {}

/// The name of a benchmark, from a text (`&str`, `String`, `&String`, `Cow<str>`, `Box<str>`), a
/// `char`, or criterion's `BenchmarkId`.
pub struct PairId(Name);

enum Name {
    Text(String),
    Criterion(BenchmarkId),
}

/// The name; `PairId(..)` of criterion's `BenchmarkId`, whose parts are private.
impl fmt::Debug for PairId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut id = f.debug_tuple("PairId");
        match &self.0 {
            Name::Text(name) => id.field(name).finish(),
            Name::Criterion(_) => id.finish_non_exhaustive(),
        }
    }
}

impl From<&str> for PairId {
    fn from(name: &str) -> Self {
        Self::from(name.to_owned())
    }
}

impl From<String> for PairId {
    fn from(name: String) -> Self {
        Self(Name::Text(name))
    }
}

impl From<&String> for PairId {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<Cow<'_, str>> for PairId {
    fn from(name: Cow<'_, str>) -> Self {
        Self::from(name.into_owned())
    }
}

impl From<Box<str>> for PairId {
    fn from(name: Box<str>) -> Self {
        Self::from(name.into_string())
    }
}

impl From<char> for PairId {
    fn from(name: char) -> Self {
        Self::from(name.to_string())
    }
}

impl From<BenchmarkId> for PairId {
    fn from(id: BenchmarkId) -> Self {
        Self(Name::Criterion(id))
    }
}

pub(crate) mod sealed {
    use super::{Elapsed, PairId};

    /// The common function of `Criterion` and `BenchmarkGroup`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` does not measure by `CounterTime`, so it has no `bench_pairs`",
        note = "give criterion the measurement, in `criterion_group!` after `config = Criterion::default()`: \
                `.with_measurement(CounterTime::new_or_wall_time())`",
        note = "and write its type in the benchmark's function: `&mut Criterion<CounterTime>`"
    )]
    pub trait ByCounter {
        /// `bench_function` with `iter_custom`.
        fn run(&mut self, id: PairId, routine: &mut dyn FnMut(u64) -> Elapsed);
    }
}

impl sealed::ByCounter for Criterion<CounterTime> {
    fn run(&mut self, id: PairId, routine: &mut dyn FnMut(u64) -> Elapsed) {
        match id.0 {
            Name::Text(name) => {
                self.bench_function(&name, |bencher| bencher.iter_custom(&mut *routine))
            }
            Name::Criterion(id) => {
                self.bench_with_input(id, &(), |bencher, ()| bencher.iter_custom(&mut *routine))
            }
        };
    }
}

impl sealed::ByCounter for BenchmarkGroup<'_, CounterTime> {
    fn run(&mut self, id: PairId, routine: &mut dyn FnMut(u64) -> Elapsed) {
        match id.0 {
            Name::Text(name) => {
                self.bench_function(name, |bencher| bencher.iter_custom(&mut *routine))
            }
            Name::Criterion(id) => {
                self.bench_function(id, |bencher| bencher.iter_custom(&mut *routine))
            }
        };
    }
}

/// Prints and stores the outcome, and the outcome of the comparison with another build.
fn report(collector: &Collector<1>, against: Option<Benchmark>) {
    // The time that the user gives to the measurement.
    let budget = collector.measured_for();
    let (scale, iterations) = (collector.scale(), collector.iterations_per_pair());
    let Collector {
        time, collected, ..
    } = collector;
    let Some(outcome) = Outcome::new(collected, time.settings().counting, scale, iterations) else {
        let reason = ReasonCode::TooFewSamples.with(
            "no pair counts: the end of each was before its start; bind the program to a CPU \
             (taskset -c 1)",
        );
        files::undecided(collector, reason.clone());
        if let Some(benchmark) = against {
            other_undecided(collector, benchmark, reason);
        }
        return;
    };
    time.settings().messages.beside_criterion(&outcome);
    let share = outcome.cost_share(collector.cost_ticks());
    let samples = Parts::Samples(outcome.samples());
    let files = files::Files {
        stem: "pairs",
        heading: "Pairs of readings",
        run: StoredRun::new(collector, Some(share), samples),
        details: outcome.json(),
        svg: &|name, base| draw(&outcome, name, base),
        reference: files::Reference::Baseline,
    };
    let stored = files::store(collector, files);
    let is_compared_in_turns = against.is_some_and(|benchmark| {
        let name = stored
            .folder
            .and_then(|folder| criterion_folder::title(&folder));
        compare_by_name(collector, benchmark, name, budget)
    });
    // A comparison in turns has a line of its own.
    if !stored.has_named_short_pairs
        && !is_compared_in_turns
        && let Some(reason) = share.why_too_long()
    {
        let line = format!("{INDENT}{reason}");
        time.settings().messages.beside_criterion(&line);
    }
}

/// Compares this build with the other one, if that has the benchmark, whose `name` is in
/// criterion's files. Returns whether there is a comparison.
fn compare_by_name(
    collector: &Collector<1>,
    benchmark: Benchmark,
    name: Option<String>,
    budget: Duration,
) -> bool {
    let messages = collector.time.settings().messages;
    if let Some(name) = name.filter(|name| name != benchmark.name) {
        let error = format!(
            "it is {name}, where the list of benchmarks has {}: they must have the same order in each run",
            benchmark.name
        );
        messages.not_compared(&error);
        other_undecided(collector, benchmark, ReasonCode::Failed.with(error));
        return false;
    }
    if let Some(reason) = benchmark.why_not_comparable() {
        messages.print(&format_args!("not compared: {reason}"));
        findings().add_without(
            benchmark.name,
            ComparedWith::OtherBuild,
            collector.time.measured_by(),
            Judgement::new(Conclusion::New, reason),
        );
        return false;
    }
    match benchmark.take_turns(&collector.time, collector.pair_size, budget) {
        Ok(turns) => report_turns(collector, benchmark, turns),
        Err(error) => {
            messages.not_compared(&error);
            other_undecided(collector, benchmark, ReasonCode::Failed.with(error));
            false
        }
    }
}

/// Prints, stores and judges the comparison of both builds. Returns whether there is one.
fn report_turns(collector: &Collector<1>, benchmark: Benchmark, turns: Turns) -> bool {
    let couples = MeasuredCouples {
        collector,
        replicates: &turns.replicates,
        iterations_per_pair: turns.iterations_per_pair.unwrap_or(1),
        disturbances: turns.disturbances,
        sides: if benchmark.layouts() > 1 {
            Sides::BuildsInLayouts
        } else {
            Sides::Builds
        },
    };
    let comparison = couples.report();
    match &comparison {
        Some(comparison) => findings().add(
            benchmark.name,
            ComparedWith::OtherBuild,
            collector.time.measured_by(),
            Difference {
                percent: comparison.difference_percent,
                is_different: comparison.is_different(),
                mean: Some(MeanDifference {
                    percent: comparison.mean_difference_percent,
                    is_different: comparison.is_mean_different(),
                    is_in_some_calls: comparison.is_in_some_calls(),
                }),
                why_hidden: comparison.why_hidden(),
            },
        ),
        None => other_undecided(
            collector,
            benchmark,
            ReasonCode::TooFewSamples.with("too few couples count; measure longer"),
        ),
    }
    comparison.is_some()
}

/// Adds a benchmark that should be compared with the other build, and can't be.
fn other_undecided(collector: &Collector<1>, benchmark: Benchmark, reason: VerdictReason) {
    findings().add_without(
        benchmark.name,
        ComparedWith::OtherBuild,
        collector.time.measured_by(),
        Judgement::undecided(reason),
    );
}

/// Draws a distribution, and the baseline's if there is one.
fn draw(
    outcome: &Outcome<'_>,
    name: &str,
    base: Option<&files::Baseline>,
) -> Result<String, Box<dyn Error>> {
    let quantiles = QUANTILES.into_iter().zip(outcome.quantiles_ns);
    let marks: Vec<_> = quantiles
        .map(|((name, below), ns)| Mark { name, below, ns })
        .collect();
    let mut series = vec![Series {
        name: "this run",
        histogram: &outcome.histogram,
        marks: &marks,
    }];
    if let Some(base) = base
        && let Parts::Samples(stored) = &base.run.parts
    {
        series.push(Series {
            name: &base.name,
            histogram: &stored.histogram_ns,
            marks: &[],
        });
    }
    plot::draw(name, &outcome.caption(), &series)
}

#[cfg(test)]
mod tests {
    use criterion::measurement::Measurement;
    use tickline_observe::skip;

    use super::*;
    use crate::test_folder::Folder;

    /// criterion with short benchmarks, and its files in the folder.
    fn criterion_in(folder: &Folder, time: &CounterTime) -> Criterion<CounterTime> {
        Criterion::default()
            .with_measurement(time.clone())
            .output_directory(&folder.0)
            .without_plots()
            .sample_size(10)
            .nresamples(1_000)
            .warm_up_time(Duration::from_millis(5))
            .measurement_time(Duration::from_millis(20))
    }

    /// Measures benchmarks in the folder: a trusted one, then one during which a gate closes.
    /// Returns the measurement; `None`, with a printed line, if the counter can't be used here.
    fn close_gate_in_second_benchmark(folder: &Folder) -> Option<CounterTime> {
        let time = CounterTime::builder()
            .quiet()
            .output_directory(&folder.0)
            .build_or_wall_time();
        if let Some(error) = time.fallback_error() {
            skip(error);
            return None;
        }
        let mut criterion = criterion_in(folder, &time);
        criterion.bench_pairs("trusted", |bencher| bencher.iter(|| 3));
        let mut calls = 0;
        criterion
            .benchmark_group("group")
            .bench_pairs("closed", |bencher| {
                calls += 1;
                if calls == 2 {
                    time.session()
                        .expect("the counter measures")
                        .clock()
                        .disable();
                }
                bencher.iter(|| 3);
            });
        Some(time)
    }

    /// Symptom: `bench_function(&name, ..)` of a `String` compiled, and `bench_pairs` did not (E0277).
    #[test]
    fn a_name_may_be_a_reference_to_a_string() {
        let name = String::from("parse");
        let PairId(id) = PairId::from(&name);
        assert!(matches!(id, Name::Text(text) if text == name));
    }

    /// Symptom: a group's `bench_function` of these compiled, and `bench_pairs` did not (E0277).
    #[test]
    fn a_name_may_be_whatever_becomes_a_string() {
        for (id, expected) in [
            (PairId::from(Cow::Borrowed("parse")), "parse"),
            (PairId::from(Box::<str>::from("parse")), "parse"),
            (PairId::from('p'), "p"),
        ] {
            assert!(matches!(id, PairId(Name::Text(text)) if text == expected));
        }
    }

    #[test]
    fn the_debug_text_of_an_id_has_its_name() {
        assert_eq!(format!("{:?}", PairId::from("sort")), r#"PairId("sort")"#);
    }

    #[test]
    fn the_debug_text_of_criterions_id_says_that_parts_are_left_out() {
        let id = PairId::from(BenchmarkId::new("sort", 8));
        assert_eq!(format!("{id:?}"), "PairId(..)");
    }

    /// Symptom: no line called a routine of `latency()` short whose turns had too few couples.
    #[test]
    fn turns_with_too_few_couples_are_no_comparison() {
        let time = CounterTime::builder().quiet().build_or_wall_time();
        _ = time.zero();
        let benchmark = Benchmark::without_programs("turns");
        let is_compared = report_turns(&Collector::new(None), benchmark, Turns::default());
        assert!(!is_compared);
    }

    /// Symptom: the run became the baseline, because the samples were only counted for the program.
    #[test]
    fn a_stored_run_has_the_number_of_its_own_untrusted_samples() {
        let folder = Folder::new("untrusted-run");
        if close_gate_in_second_benchmark(&folder).is_none() {
            return;
        }
        let findings = findings();
        let mut runs = findings.runs.iter();
        let untrusted = ["trusted", "group/closed"].map(|name| {
            let run = runs.find(|run| run.folder == folder.0.join(name));
            run.expect("it is stored").untrusted
        });
        assert_eq!(untrusted[0], 0);
        assert!((1..=10).contains(&untrusted[1]), "{untrusted:?}");
    }

    #[test]
    fn the_incidents_name_the_benchmark_whose_samples_are_untrusted() {
        let folder = Folder::new("untrusted-name");
        let Some(time) = close_gate_in_second_benchmark(&folder) else {
            return;
        };
        assert_eq!(time.incidents().untrusted_benchmarks, ["group/closed"]);
    }

    /// criterion tells a measurement no name, also of a benchmark of its own.
    #[test]
    fn the_incidents_name_a_benchmark_of_bench_function() {
        let folder = Folder::new("untrusted-function");
        let Some(time) = close_gate_in_second_benchmark(&folder) else {
            return;
        };
        let mut criterion = criterion_in(&folder, &time);
        criterion.bench_function("plain", |bencher| bencher.iter(|| 3));
        let names = time.incidents().untrusted_benchmarks;
        assert_eq!(names, ["group/closed", "plain"]);
    }
}
