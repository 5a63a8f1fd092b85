//! The reasons in the file of `--verdicts`: a code for scripts, and a text for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a benchmark has its conclusion, or has none. [For CI](crate::comparisons#for-ci) lists the
/// texts in JSON, which stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasonCode {
    /// It is slower by more than `--max-regression`.
    AboveLimit,
    /// It may be slower by more than `--max-regression` or not: the interval contains the limit.
    AroundLimit,
    /// The noise is above `--max-noise`.
    Noise,
    /// The cost of the readings hides a part of a slowdown: it is too short for a percentage.
    TooShort,
    /// It is compared with a time of 0, of which there is no percentage.
    NoTime,
    /// Too few couples or samples count.
    TooFewSamples,
    /// Another clock has measured the baseline.
    OtherClock,
    /// The comparison has failed.
    Failed,
    /// It has no baseline that can be read.
    NoBaseline,
    /// Only this build has it.
    OnlyThisBuild,
    /// Only the other build has it.
    OnlyOtherBuild,
    /// It is of `bench_function` or [`compare`](crate::compare()), in one of the builds at least.
    NotOfBenchPairs,
    /// The list of benchmarks has it, and this run did not measure it.
    NotMeasured,
    /// The clock did not trust the counter during a sample.
    UntrustedSamples,
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
