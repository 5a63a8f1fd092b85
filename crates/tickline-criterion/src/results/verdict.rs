//! The verdicts of a program's comparisons, and its exit code: `--max-regression`, `--max-noise`.
//! [`run`](crate::run()) lists the exit codes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arguments::{self, Options};
use crate::measurement::measured_by::MeasuredBy;
use crate::reason::VerdictReason;
use crate::statistics::interval::Interval;

pub(crate) mod findings;
mod judge;

pub(crate) use judge::Difference;

/// The version of [`Verdicts`].
const VERSION: u32 = 1;

/// The exit codes of [`run`](crate::run).
pub(crate) const PASSES: u8 = 0;
const SLOWER: u8 = 1;
pub(crate) const ERROR: u8 = 2;
const CANNOT_TELL: u8 = 3;

/// What a benchmark is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ComparedWith {
    /// The other build of `--against`, in turns.
    OtherBuild,
    /// A stored run, `--baseline`.
    Baseline,
}

/// The conclusion about a benchmark. [The file of
/// verdicts](crate::comparisons#the-file-of-verdicts) lists the texts in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Conclusion {
    /// It is not slower than allowed: it takes as long, or is faster.
    Passes,
    /// It is slower by more than `--max-regression`.
    Slower,
    /// The measurement can't tell.
    CannotTell,
    /// There is nothing to compare it with: the other build has no such benchmark of `bench_pairs`,
    /// or the baseline has none.
    New,
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
    /// The run goes on, or was killed, or criterion has ended it, say because of a wrong argument.
    /// [`Verdicts::benchmarks`] has those that were done by then.
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
}

impl RunState {
    /// The program's exit code; `None` of a run that is not at its end.
    #[must_use]
    pub const fn exit_code(&self) -> Option<u8> {
        match *self {
            Self::Unfinished => None,
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
/// use tickline_criterion::{Conclusion, ReasonCode, RunState, Verdicts};
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
    /// The version of this format: 1.
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
    /// `--max-regression`, or above 0 without that limit.
    pub max_noise_percent: Option<f64>,
    /// How far the run has come. Its fields are those of the file: `state`, and `exit_code` or
    /// `error`.
    #[serde(flatten)]
    pub state: RunState,
    /// Whether `--update-on-pass` has replaced the baseline, except of
    /// [`kept_baselines`](Self::kept_baselines).
    pub is_baseline_updated: bool,
    /// With `--update-on-pass`, the benchmarks of a run that passes whose baseline stays as it was,
    /// because samples of this run can't be trusted ([`Incidents::untrusted_samples`](crate::Incidents)).
    #[serde(default)]
    pub kept_baselines: Vec<LeftOut>,
    /// The verdict on each benchmark, in order.
    pub benchmarks: Vec<BenchmarkVerdict>,
    /// The benchmarks without a verdict. With `--against`: those of `bench_function` and
    /// [`compare`](crate::compare()), those that only the other build has, and those that were
    /// listed and not measured. With a baseline alone: those of `bench_function`, if criterion has
    /// stored them in one of its default directories. Empty until the run is at its end. A benchmark
    /// that is [`New`](Conclusion::New) for all its comparisons is not judged either; it is among
    /// [`benchmarks`](Self::benchmarks).
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
            baseline: arguments::criterion::baseline(),
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

/// Lines for the standard error stream: the benchmarks that do not pass, those that are not judged,
/// and what that means.
impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in &self.benchmarks {
            let what = match verdict.conclusion {
                Conclusion::Passes | Conclusion::New => continue,
                Conclusion::Slower => "SLOWER",
                Conclusion::CannotTell => "CAN'T TELL",
            };
            write!(f, "{what}: {}", verdict.benchmark)?;
            if self.is_compared_twice(verdict) {
                f.write_str(match verdict.compared_with {
                    ComparedWith::OtherBuild => " (by the other build)",
                    ComparedWith::Baseline => " (by the baseline)",
                })?;
            }
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
            "{} pass, {} slower, {} can't be told",
            count(Conclusion::Passes),
            count(Conclusion::Slower),
            count(Conclusion::CannotTell),
        )?;
        let new = count(Conclusion::New);
        if new > 0 {
            write!(f, ", {new} new")?;
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
    } else if has(Conclusion::CannotTell) {
        Some(CANNOT_TELL)
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
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::reason::ReasonCode;

    pub(super) fn options(max_regression: f64, max_noise: f64) -> Options {
        Options {
            max_regression_percent: Some(max_regression),
            max_noise_percent: Some(max_noise),
            ..Options::default()
        }
    }

    pub(super) fn percent(estimate: f64, noise: f64) -> Interval {
        Interval {
            estimate,
            low: estimate - noise,
            high: estimate + noise,
        }
    }

    fn verdict(conclusion: Conclusion) -> BenchmarkVerdict {
        BenchmarkVerdict {
            benchmark: "a/b".to_owned(),
            compared_with: ComparedWith::OtherBuild,
            measured_by: Some(MeasuredBy::Counter),
            difference_percent: Some(percent(5.0, 1.0)),
            is_different: true,
            conclusion,
            reason: Some(ReasonCode::Noise.with("why")),
        }
    }

    /// The end of a run with limits.
    fn finished(benchmarks: Vec<BenchmarkVerdict>) -> Verdicts {
        Verdicts::at_end(&options(3.0, 2.0), benchmarks, |_| {
            unreachable!("something is compared")
        })
    }

    #[test]
    fn one_slower_benchmark_decides_the_exit_code_then_one_that_cannot_be_told() {
        use Conclusion::{CannotTell, New, Passes, Slower};
        for (conclusions, code) in [
            (&[Passes, New][..], 0),
            (&[Passes, CannotTell, New], 3),
            (&[CannotTell, Slower, Passes], 1),
        ] {
            let verdicts: Vec<BenchmarkVerdict> =
                conclusions.iter().copied().map(verdict).collect();
            let found = exit_code(&options(3.0, 2.0), &verdicts);
            assert_eq!(found, Some(code), "{conclusions:?}");
        }
    }

    /// Symptom: a limit passed, although nothing was compared with it.
    #[test]
    fn without_a_verdict_only_a_run_without_limits_passes() {
        assert_eq!(exit_code(&options(3.0, 2.0), &[]), None);
        assert_eq!(exit_code(&Options::default(), &[]), Some(PASSES));
    }

    /// Symptom: the exit code was 0, and the file had no benchmark.
    #[test]
    fn with_another_build_a_run_that_compared_none_with_it_is_an_error() {
        let options = Options {
            against: vec![PathBuf::from("main")],
            ..Options::default()
        };
        let of_baseline = BenchmarkVerdict {
            compared_with: ComparedWith::Baseline,
            ..verdict(Conclusion::Passes)
        };
        for (verdicts, code) in [
            (vec![], None),
            (vec![verdict(Conclusion::New)], None),
            (vec![of_baseline], None),
            (
                vec![verdict(Conclusion::New), verdict(Conclusion::Passes)],
                Some(PASSES),
            ),
        ] {
            assert_eq!(exit_code(&options, &verdicts), code, "{verdicts:?}");
        }
    }

    #[test]
    fn the_text_names_what_does_not_pass_and_the_exit_code() {
        let benchmarks = vec![verdict(Conclusion::Passes), verdict(Conclusion::Slower)];
        let verdicts = finished(benchmarks);
        assert_eq!(
            verdicts.to_string(),
            "SLOWER: a/b: why\n1 pass, 1 slower, 0 can't be told: exit code 1"
        );
    }

    /// Symptom: two lines about a benchmark had the same beginning, and other percentages.
    #[test]
    fn the_text_names_what_a_benchmark_is_compared_with_if_there_are_two() {
        let by_baseline = BenchmarkVerdict {
            compared_with: ComparedWith::Baseline,
            ..verdict(Conclusion::Slower)
        };
        let benchmarks = vec![by_baseline, verdict(Conclusion::Slower)];
        let text = finished(benchmarks).to_string();
        assert!(
            text.starts_with(
                "SLOWER: a/b (by the baseline): why\nSLOWER: a/b (by the other build): why\n"
            ),
            "{text}"
        );
    }

    /// Symptom: after a benchmark got another name, a limit passed without a word about it.
    #[test]
    fn the_text_counts_the_new_benchmarks() {
        let benchmarks = vec![verdict(Conclusion::New), verdict(Conclusion::New)];
        let verdicts = finished(benchmarks);
        assert_eq!(
            verdicts.to_string().lines().last(),
            Some("0 pass, 0 slower, 0 can't be told, 2 new: exit code 0")
        );
    }

    /// Symptom: nothing named the benchmarks to which the limit did not apply.
    #[test]
    fn the_text_names_what_is_not_judged() {
        let added = BenchmarkVerdict {
            benchmark: "added".to_owned(),
            ..verdict(Conclusion::New)
        };
        let benchmarks = vec![verdict(Conclusion::Passes), added];
        let mut verdicts = finished(benchmarks);
        verdicts.not_judged = vec![LeftOut {
            benchmark: "old".to_owned(),
            reason: ReasonCode::OnlyOtherBuild.with("only the other build has it"),
        }];
        assert_eq!(
            verdicts.to_string(),
            "not judged: added (new: why)\nnot judged: old (only the other build has it)\n\
             1 pass, 0 slower, 0 can't be told, 1 new, 1 not judged: exit code 0"
        );
    }

    #[test]
    fn a_benchmark_that_one_of_two_comparisons_judges_is_judged() {
        let by_baseline = BenchmarkVerdict {
            compared_with: ComparedWith::Baseline,
            ..verdict(Conclusion::New)
        };
        let benchmarks = vec![verdict(Conclusion::Passes), by_baseline];
        let verdicts = finished(benchmarks);
        assert_eq!(
            verdicts.to_string(),
            "1 pass, 0 slower, 0 can't be told, 1 new: exit code 0"
        );
    }

    #[test]
    fn the_file_of_an_older_version_names_nothing_that_is_not_judged() {
        let verdicts = Verdicts::so_far(&options(3.0, 2.0), Vec::new());
        let mut json = serde_json::to_value(&verdicts).expect("JSON");
        json.as_object_mut()
            .and_then(|object| object.remove("not_judged"))
            .expect("a list");
        let read: Verdicts = serde_json::from_value(json).expect("verdicts");
        assert_eq!(read, verdicts);
    }

    #[test]
    fn the_file_of_an_older_version_names_no_clock() {
        let mut json = serde_json::to_value(verdict(Conclusion::Passes)).expect("JSON");
        json.as_object_mut()
            .and_then(|object| object.remove("measured_by"))
            .expect("a clock");
        let read: BenchmarkVerdict = serde_json::from_value(json).expect("a verdict");
        assert_eq!(read.measured_by, None);
    }

    /// Scripts read the fields.
    #[test]
    fn the_json_has_the_state_of_the_run_beside_its_other_fields() {
        let options = Options::default();
        let verdicts = [
            Verdicts::so_far(&options, Vec::new()),
            Verdicts::after("why", &options, Vec::new()),
            finished(vec![verdict(Conclusion::Slower)]),
        ];
        let found = verdicts.map(|verdicts| {
            let json = serde_json::to_value(verdicts).expect("JSON");
            ["state", "error", "exit_code"].map(|key| json[key].clone())
        });
        let expected = json!([
            ["unfinished", null, null],
            ["failed", "why", null],
            ["finished", null, SLOWER]
        ]);
        assert_eq!(json!(found), expected);
    }

    #[test]
    fn a_run_that_compares_nothing_has_failed() {
        let verdicts = Verdicts::at_end(&options(3.0, 2.0), Vec::new(), |_| "why".to_owned());
        assert_eq!(verdicts.state.exit_code(), Some(ERROR));
    }

    /// Symptom: nothing in the file told one link order from several.
    #[test]
    fn the_json_has_the_number_of_layouts_if_there_is_another_build() {
        for (programs, layouts) in [(0, None), (1, Some(1)), (6, Some(6))] {
            let options = Options {
                against: vec![PathBuf::from("main"); programs],
                ..Options::default()
            };
            assert_eq!(Verdicts::so_far(&options, Vec::new()).layouts, layouts);
        }
    }

    /// The texts of all variants in JSON. If one is missing here, this does not compile.
    macro_rules! texts {
        ($type:ident: $($variant:ident),+) => {{
            _ = |one: $type| match one {
                $($type::$variant => (),)+
            };
            vec![$(serde_json::to_value($type::$variant).expect("JSON")),+]
        }};
    }

    #[test]
    fn the_documents_list_the_texts_of_the_json() {
        let page = include_str!("../../docs/comparisons.md");
        let conclusions = texts!(Conclusion: Passes, Slower, CannotTell, New);
        let compared_with = texts!(ComparedWith: OtherBuild, Baseline);
        let measured_by = texts!(MeasuredBy: Counter, OsClock);
        let codes = ReasonCode::ALL
            .iter()
            .map(|code| serde_json::to_value(code).expect("JSON"))
            .collect();
        for (field, texts) in [
            ("conclusion", conclusions),
            ("compared_with", compared_with),
            ("measured_by", measured_by),
            ("reason.code", codes),
        ] {
            for text in texts {
                let row = format!("| `{field}` | `{}` |", text.as_str().expect("a text"));
                assert!(page.contains(&row), "{row}");
            }
        }
    }

    #[test]
    fn the_code_of_a_reason_is_its_text_in_the_json() {
        for code in ReasonCode::ALL {
            let text = serde_json::to_value(code).expect("JSON");
            assert_eq!(text, code.code(), "{code:?}");
        }
    }

    #[test]
    fn the_json_is_read_as_it_was_written() {
        let benchmarks = vec![verdict(Conclusion::CannotTell)];
        let verdicts = finished(benchmarks);
        let text = serde_json::to_string(&verdicts).expect("JSON");
        assert!(text.contains(r#""compared_with":"other_build""#), "{text}");
        assert!(text.contains(r#""conclusion":"cannot_tell""#), "{text}");
        let reason = r#""reason":{"code":"noise","text":"why"}"#;
        assert!(text.contains(reason), "{text}");
        assert_eq!(
            serde_json::from_str::<Verdicts>(&text).expect("JSON"),
            verdicts
        );
    }
}
