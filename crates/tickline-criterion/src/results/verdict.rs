//! The verdicts of a program's comparisons, and its exit code: `--max-regression`, `--max-noise`.
//! [`run`](crate::run()) lists the exit codes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arguments::Options;
use crate::arguments::criterion::CriterionArguments;
use crate::measurement::measured_by::MeasuredBy;
use crate::reason::VerdictReason;
use crate::statistics::interval::Interval;

pub(crate) mod findings;
mod judge;

use judge::mean_and_median;
pub(crate) use judge::{Difference, Judgement, MeanDifference};

/// The version of [`Verdicts`].
const VERSION: u32 = 1;

/// The exit codes of [`run`](crate::run).
pub(crate) const PASSES: u8 = 0;
const SLOWER: u8 = 1;
pub(crate) const ERROR: u8 = 2;
const UNDECIDED: u8 = 3;

/// What a benchmark is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ComparedWith {
    /// The other build of `--against`, in turns.
    OtherBuild,
    /// A stored run, `--baseline`.
    Baseline,
    /// Something that only a newer version of this crate knows, in its file.
    #[serde(other)]
    Unknown,
}

/// The conclusion about a benchmark. [The file of
/// verdicts](crate::comparisons#the-file-of-verdicts) lists the texts in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Conclusion {
    /// The benchmark is not slower than allowed: it takes as long, or is faster. Its mean is not
    /// certainly slower.
    Passes,
    /// The median or the mean is slower by more than `--max-regression`.
    Slower,
    /// The measurement does not decide: the reason says what hides the result.
    Undecided,
    /// There is nothing to compare the benchmark with: the other build has no such benchmark of
    /// `bench_pairs`, or the baseline has none.
    New,
    /// A conclusion that only a newer version of this crate knows, in its file.
    #[serde(other)]
    Unknown,
}

/// The verdict on a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BenchmarkVerdict {
    /// criterion's name of the benchmark.
    pub benchmark: String,
    /// What it is compared with.
    pub compared_with: ComparedWith,
    /// The clock that measured this run; `None` in a file that does not say so.
    #[serde(default)]
    pub measured_by: Option<MeasuredBy>,
    /// How much longer this run takes, in % of the time of the other build or of the baseline: the
    /// ratio of both times, less 1. For a benchmark of [`compare`](crate::compare()), which only a
    /// baseline judges: how much the difference between A and B has grown, in % of A's time in the
    /// baseline. With the other build, the interval is one of 95 %. With a baseline, it is what the
    /// scatter of both runs allows: from the fastest now against the slowest then, to the slowest
    /// now against the fastest then. `None` without a comparison, or with a time of 0.
    pub difference_percent: Option<Interval>,
    /// Whether there is a difference, of any size, that the measurement distinguishes from zero.
    pub is_different: bool,
    /// How much longer this run takes in the mean, in % as
    /// [`difference_percent`](Self::difference_percent), which is about the medians then. `None` of
    /// a benchmark of [`BenchPairs`](crate::BenchPairs) with a baseline: its parts are means.
    #[serde(default)]
    pub mean_difference_percent: Option<Interval>,
    /// Whether there is a difference of the means that the measurement distinguishes from zero.
    #[serde(default)]
    pub is_mean_different: bool,
    /// The conclusion.
    pub conclusion: Conclusion,
    /// The reason for the conclusion; `None` if the benchmark passes.
    pub reason: Option<VerdictReason>,
}

/// A benchmark that a run leaves out: it has no verdict, or keeps its baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// criterion's name of the benchmark.
    pub benchmark: String,
    /// Why the run leaves it out.
    pub reason: VerdictReason,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunState {
    /// The run goes on or was killed, a benchmark has panicked, or criterion has ended the run, say
    /// because of a wrong argument. [`Verdicts::benchmarks`] has those that were done by then.
    Unfinished,
    /// An error has ended the run with exit code 2, or it has compared nothing.
    Failed {
        /// The error, as printed.
        error: String,
    },
    /// All benchmarks are judged.
    Finished {
        /// The program's exit code: 0, 1 or 3. [`run`](crate::run()) lists their meanings.
        exit_code: u8,
    },
    /// A state that only a newer version of this crate knows, in its file.
    #[serde(other)]
    Unknown,
}

impl RunState {
    /// The program's exit code; `None` of a run that is not at its end, or in an unknown state.
    #[must_use]
    pub const fn exit_code(&self) -> Option<u8> {
        match *self {
            Self::Unfinished | Self::Unknown => None,
            Self::Failed { .. } => Some(ERROR),
            Self::Finished { exit_code } => Some(exit_code),
        }
    }
}

/// The verdicts of a program: the file of `--verdicts FILE`, which is replaced after each
/// benchmark.
///
/// ```
/// let text = r#"{"version":1,"against":"/tmp/main","layouts":8,"baseline":null,
///     "max_regression_percent":3.0,"max_noise_percent":null,"state":"finished","exit_code":1,
///     "is_baseline_updated":false,"benchmarks":[
///     {"benchmark":"parse/sum","compared_with":"other_build","measured_by":"counter",
///     "is_different":true,"difference_percent":{"estimate":17.2,"low":16.4,"high":18.0},
///     "conclusion":"slower","reason":{"code":"above_limit","text":"slower by more than 3 %"}}],
///     "not_judged":[{"benchmark":"parse/old",
///     "reason":{"code":"only_other_build","text":"only the other build has it"}}]}"#;
/// use tickline_criterion::results::{Conclusion, ReasonCode, RunState, Verdicts};
///
/// let verdicts: Verdicts = serde_json::from_str(text)?;
/// assert_eq!(verdicts.state, RunState::Finished { exit_code: 1 });
/// assert_eq!(verdicts.benchmarks[0].conclusion, Conclusion::Slower);
/// assert_eq!(verdicts.not_judged[0].reason.code, ReasonCode::OnlyOtherBuild);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verdicts {
    /// The version of this format: 1. It stays if a newer version of this crate adds fields, which
    /// an older one ignores, or texts such as codes, which an older one reads as `Unknown`.
    pub version: u32,
    /// The program of `--against`, the first if there are several.
    pub against: Option<String>,
    /// The number of layouts of each build, 1 without `--layout`; `None` without `--against`. With
    /// 1, the cause of a verdict may be an unrelated change that has moved code: see
    /// [several link orders](crate::comparisons#in-several-link-orders).
    pub layouts: Option<usize>,
    /// The name of criterion's `--baseline`.
    pub baseline: Option<String>,
    /// The limit of `--max-regression`, %.
    pub max_regression_percent: Option<f64>,
    /// The limit of `--max-noise`, %. Noise counts only if the interval's high end is above
    /// `--max-regression`, or above 0 without that limit. It judges no mean.
    pub max_noise_percent: Option<f64>,
    /// How far the run has come. Its fields are those of the file: `state`, and `exit_code` or
    /// `error`.
    #[serde(flatten)]
    pub state: RunState,
    /// Whether `--update-on-pass` has replaced the baseline, except of
    /// [`kept_baselines`](Self::kept_baselines).
    pub is_baseline_updated: bool,
    /// With `--update-on-pass`, the benchmarks of a run that passes whose baseline stays as it was,
    /// because samples of this run can't be trusted
    /// ([`untrusted_samples`](crate::measurement::Incidents::untrusted_samples)).
    #[serde(default)]
    pub kept_baselines: Vec<LeftOut>,
    /// The verdict on each benchmark, in order.
    pub benchmarks: Vec<BenchmarkVerdict>,
    /// The benchmarks without a verdict. With `--against`: those of `bench_function` and
    /// [`compare`](crate::compare()), those that only the other build has, and those that were
    /// listed and not measured. With a baseline alone: those of `bench_function`, if criterion has
    /// stored them in one of its default directories. Another program that runs at the same time
    /// with the same directory adds its benchmarks. If the times of files have steps of 1 or 2 s, a
    /// benchmark of the first 1 or 2 s of the run may be missing. Empty until the run is at its
    /// end. A benchmark that is [`New`](Conclusion::New) for all its comparisons is not judged
    /// either; it is among [`benchmarks`](Self::benchmarks).
    #[serde(default)]
    pub not_judged: Vec<LeftOut>,
}

impl Verdicts {
    /// What the file says until the end of the run.
    pub(crate) fn so_far(options: &Options, benchmarks: Vec<BenchmarkVerdict>) -> Self {
        Self {
            version: VERSION,
            against: options
                .against
                .first()
                .map(|path| path.display().to_string()),
            layouts: (!options.against.is_empty()).then_some(options.against.len()),
            baseline: CriterionArguments::of_this_process().baseline(),
            max_regression_percent: options.max_regression_percent,
            max_noise_percent: options.max_noise_percent,
            state: RunState::Unfinished,
            is_baseline_updated: false,
            kept_baselines: Vec::new(),
            benchmarks,
            not_judged: Vec::new(),
        }
    }

    /// Whether a comparison judges the benchmark. With `--against` and `--baseline` there are two,
    /// and it may be new for one of them only.
    fn judges(&self, benchmark: &str) -> bool {
        self.benchmarks
            .iter()
            .any(|verdict| verdict.benchmark == benchmark && verdict.conclusion != Conclusion::New)
    }

    /// Whether the benchmark has a verdict by the other build and one by the baseline.
    fn is_compared_twice(&self, verdict: &BenchmarkVerdict) -> bool {
        self.benchmarks.iter().any(|one| {
            one.benchmark == verdict.benchmark && one.compared_with != verdict.compared_with
        })
    }

    /// The line about a benchmark that passes, of which the mean's estimate is above the limit.
    fn open_mean(&self, verdict: &BenchmarkVerdict) -> Option<String> {
        let limit = self.max_regression_percent?;
        let mean = verdict.mean_difference_percent?;
        if mean.estimate <= limit {
            return None;
        }
        Some(format!(
            "passes by its median: {}{}: its mean may be slower by more than {limit} % or not: {}; measure longer to \
             know",
            verdict.benchmark,
            self.by_which(verdict),
            mean_and_median(mean, verdict.difference_percent)
        ))
    }

    /// Which of the two comparisons the verdict is by, for a benchmark that is compared twice.
    fn by_which(&self, verdict: &BenchmarkVerdict) -> &'static str {
        if !self.is_compared_twice(verdict) {
            return "";
        }
        match verdict.compared_with {
            ComparedWith::OtherBuild => " (by the other build)",
            ComparedWith::Baseline => " (by the baseline)",
            ComparedWith::Unknown => " (by an unknown comparison)",
        }
    }

    /// What the file says at the end. `why_nothing_is_compared` has the error of a run without the
    /// comparison that an option needs.
    pub(crate) fn at_end(
        options: &Options,
        benchmarks: Vec<BenchmarkVerdict>,
        why_nothing_is_compared: impl FnOnce(&[BenchmarkVerdict]) -> String,
    ) -> Self {
        let state = match exit_code(options, &benchmarks) {
            Some(exit_code) => RunState::Finished { exit_code },
            None => RunState::Failed {
                error: why_nothing_is_compared(&benchmarks),
            },
        };
        Self {
            state,
            ..Self::so_far(options, benchmarks)
        }
    }

    /// What the file says after an error.
    pub(crate) fn after(error: &str, options: &Options, benchmarks: Vec<BenchmarkVerdict>) -> Self {
        let error = error.to_owned();
        Self {
            state: RunState::Failed { error },
            ..Self::so_far(options, benchmarks)
        }
    }
}

/// Lines for the standard error stream: the benchmarks that do not pass, those that pass with a mean
/// that may be slower, those that are not judged, and what that means.
impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in &self.benchmarks {
            let what = match verdict.conclusion {
                Conclusion::New => continue,
                Conclusion::Passes => {
                    if let Some(line) = self.open_mean(verdict) {
                        writeln!(f, "{line}")?;
                    }
                    continue;
                }
                Conclusion::Slower => "SLOWER",
                Conclusion::Undecided => "UNDECIDED",
                Conclusion::Unknown => "UNKNOWN",
            };
            let by_which = self.by_which(verdict);
            write!(f, "{what}: {}{by_which}", verdict.benchmark)?;
            if let Some(reason) = &verdict.reason {
                write!(f, ": {reason}")?;
            }
            writeln!(f)?;
        }
        for BenchmarkVerdict {
            benchmark,
            conclusion,
            reason,
            ..
        } in &self.benchmarks
        {
            if *conclusion == Conclusion::New && !self.judges(benchmark) {
                write!(f, "not judged: {benchmark} (new")?;
                if let Some(reason) = reason {
                    write!(f, ": {reason}")?;
                }
                writeln!(f, ")")?;
            }
        }
        for LeftOut { benchmark, reason } in &self.not_judged {
            writeln!(f, "not judged: {benchmark} ({reason})")?;
        }
        let count = |conclusion| {
            let has = |verdict: &&BenchmarkVerdict| verdict.conclusion == conclusion;
            self.benchmarks.iter().filter(has).count()
        };
        write!(
            f,
            "{} pass, {} slower, {} undecided",
            count(Conclusion::Passes),
            count(Conclusion::Slower),
            count(Conclusion::Undecided),
        )?;
        let new = count(Conclusion::New);
        if new > 0 {
            write!(f, ", {new} new")?;
        }
        let unknown = count(Conclusion::Unknown);
        if unknown > 0 {
            write!(f, ", {unknown} unknown")?;
        }
        if !self.not_judged.is_empty() {
            write!(f, ", {} not judged", self.not_judged.len())?;
        }
        match self.state.exit_code() {
            Some(code) => write!(f, ": exit code {code}"),
            None => Ok(()),
        }
    }
}

/// The exit code of a program with these verdicts. `None` if an option needs a comparison, and
/// there is none.
fn exit_code(options: &Options, verdicts: &[BenchmarkVerdict]) -> Option<u8> {
    let has = |conclusion| {
        verdicts
            .iter()
            .any(|verdict| verdict.conclusion == conclusion)
    };
    if has(Conclusion::Slower) {
        Some(SLOWER)
    } else if has(Conclusion::Undecided) {
        Some(UNDECIDED)
    } else if lacks_a_comparison(options, verdicts) {
        None
    } else {
        Some(PASSES)
    }
}

/// Whether nothing was compared that the options want compared.
fn lacks_a_comparison(options: &Options, verdicts: &[BenchmarkVerdict]) -> bool {
    let is_of_builds = |verdict: &BenchmarkVerdict| {
        verdict.compared_with == ComparedWith::OtherBuild && verdict.conclusion != Conclusion::New
    };
    let lacks_builds = !options.against.is_empty() && !verdicts.iter().any(is_of_builds);
    lacks_builds || options.have_limits() && verdicts.is_empty()
}

#[cfg(test)]
mod tests;
