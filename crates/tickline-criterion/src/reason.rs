//! The reasons in the file of `--verdicts`: a code for scripts, and a text for people.

use std::fmt;

use serde::{Deserialize, Serialize};

tickline_core::named! {
    /// Why a benchmark has its conclusion, or has none. The code is the text in [the file of
    /// verdicts](crate::comparisons#the-file-of-verdicts), and stays the same.
    ///
    /// ```
    /// use tickline_criterion::results::ReasonCode;
    ///
    /// assert_eq!(ReasonCode::AboveLimit.code(), "above_limit");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ReasonCode {
        /// The benchmark is slower by more than `--max-regression`.
        AboveLimit => "above_limit",
        /// The benchmark may be slower by more than `--max-regression` or not: the interval
        /// contains the limit, or no difference was found.
        AroundLimit => "around_limit",
        /// The mean is slower by more than `--max-regression`, and the median is not certainly
        /// slower by so much.
        MeanAboveLimit => "mean_above_limit",
        /// The noise is above `--max-noise`.
        Noise => "noise",
        /// The cost of the readings hides a part of a slowdown: the benchmark is too short for a
        /// percentage.
        TooShort => "too_short",
        /// The benchmark is compared with a time of 0, of which there is no percentage.
        NoTime => "no_time",
        /// Too few couples or samples count.
        TooFewSamples => "too_few_samples",
        /// Another clock has measured the baseline.
        OtherClock => "other_clock",
        /// The comparison has failed.
        Failed => "failed",
        /// The benchmark has no baseline that can be read.
        NoBaseline => "no_baseline",
        /// Only this build has the benchmark.
        OnlyThisBuild => "only_this_build",
        /// Only the other build has the benchmark.
        OnlyOtherBuild => "only_other_build",
        /// In this build or the other, the benchmark is of `bench_function`, or, with `--against`,
        /// of [`compare`](crate::compare()).
        NotOfBenchPairs => "not_of_bench_pairs",
        /// The list of benchmarks has this one, and the run did not measure it.
        NotMeasured => "not_measured",
        /// The clock did not trust the counter during a sample.
        UntrustedSamples => "untrusted_samples",
        /// A reason of a newer version of this crate: [`VerdictReason::text`] has it.
        #[serde(other)]
        Unknown => "unknown",
    }
}

impl ReasonCode {
    pub(crate) fn with(self, text: impl Into<String>) -> VerdictReason {
        VerdictReason {
            code: self,
            text: text.into(),
        }
    }
}

/// Why a benchmark has its conclusion, or has none, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerdictReason {
    /// The reason, for programs.
    pub code: ReasonCode,
    /// The reason, for people, with the values and what to do. Its words may change.
    pub text: String,
}

/// The text.
impl fmt::Display for VerdictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
