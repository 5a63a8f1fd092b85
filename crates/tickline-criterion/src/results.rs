//! What benchmarks have found: the [`Comparison`] of two routines, and the [`Verdicts`] of a run,
//! which scripts read from the file of `--verdicts`.

// Results: printed below criterion's lines, stored next to its files, drawn in its report.
//
// | file | has the result of |
// |---|---|
// | `outcome.rs` | one routine: its distribution |
// | `comparison.rs` | two routines, or two builds, that took turns |
// | `baseline.rs` | this run and a stored run, which took no turns |
// | `cost_share.rs` | a pair's cost: which percentages it makes too small |
// | `verdict.rs` | all comparisons of the program: verdicts, exit code |
// | `verdict/judge.rs` | the limits for a comparison: conclusion, text of the reason |
// | `verdict_file.rs` | the file of the verdicts, after each comparison |
//
// `files.rs` stores them and reads a baseline, `stored_run.rs` has what is compared with it,
// `baseline_update.rs` makes a run the baseline, `replace.rs` replaces a file, `plot.rs` draws
// them, and `text.rs` has the form of times.

pub(crate) mod baseline;
pub(crate) mod baseline_update;
pub(crate) mod comparison;
pub(crate) mod cost_share;
pub(crate) mod files;
pub(crate) mod outcome;
pub(crate) mod plot;
pub(crate) mod replace;
pub(crate) mod stored_run;
pub(crate) mod text;
pub(crate) mod verdict;
pub(crate) mod verdict_file;

pub use comparison::Comparison;
pub use verdict::{BenchmarkVerdict, ComparedWith, Conclusion, LeftOut, RunState, Verdicts};

pub use crate::reason::{ReasonCode, VerdictReason};
pub use crate::statistics::interval::Interval;
