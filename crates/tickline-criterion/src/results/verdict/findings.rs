//! What this process has found so far: verdicts, and which runs may become the baseline.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::judge::{Difference, Judgement, judge_difference};
use super::{BenchmarkVerdict, ComparedWith, LeftOut, Verdicts};
use crate::arguments::Options;
use crate::measurement::measured_by::MeasuredBy;
use crate::reason::ReasonCode;
use crate::results::verdict_file;

/// The findings of this process so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) verdicts: Vec<BenchmarkVerdict>,
    /// The benchmarks that are stored.
    pub(crate) runs: Vec<RunFolder>,
    /// Why the baseline of `--save-baseline` lacks a benchmark: the first one.
    pub(crate) not_saved: Option<String>,
}

/// A benchmark of this run, in criterion's files.
#[derive(Debug)]
pub(crate) struct RunFolder {
    /// criterion's name of the benchmark.
    pub(crate) benchmark: String,
    /// criterion's folder of the benchmark.
    pub(crate) folder: PathBuf,
    /// The number of its samples that can't be trusted.
    pub(crate) untrusted: u64,
}

/// Splits runs into the folders that may become the baseline, and those that may not: a folder
/// that is there twice needs trust both times.
pub(crate) fn trusted_runs(runs: Vec<RunFolder>) -> (BTreeSet<PathBuf>, Vec<LeftOut>) {
    let (mut folders, mut kept) = (BTreeSet::new(), BTreeMap::new());
    for RunFolder {
        benchmark,
        folder,
        untrusted,
    } in runs
    {
        if untrusted == 0 {
            folders.insert(folder);
        } else {
            let reason = format!(
                "{untrusted} of this run's samples can't be trusted, because the clock did not trust the counter \
                 meanwhile; run it again"
            );
            let reason = ReasonCode::UntrustedSamples.with(reason);
            kept.insert(folder, LeftOut { benchmark, reason });
        }
    }
    folders.retain(|folder| !kept.contains_key(folder));
    (folders, kept.into_values().collect())
}

static FINDINGS: Mutex<Findings> = Mutex::new(Findings {
    verdicts: Vec::new(),
    runs: Vec::new(),
    not_saved: None,
});

/// The findings of this process.
pub(crate) fn findings() -> MutexGuard<'static, Findings> {
    FINDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Findings {
    /// Adds a difference.
    pub(crate) fn add(
        &mut self,
        benchmark: &str,
        compared_with: ComparedWith,
        measured_by: MeasuredBy,
        difference: Difference,
    ) {
        let options = Options::of_this_process();
        let judgement = judge_difference(options, compared_with, &difference);
        let without = verdict(benchmark, compared_with, measured_by, judgement);
        self.push(BenchmarkVerdict {
            difference_percent: difference.percent.finite(),
            is_different: difference.is_different,
            mean_difference_percent: difference.mean.and_then(|mean| mean.percent.finite()),
            is_mean_different: difference.mean.is_some_and(|mean| mean.is_different),
            ..without
        });
    }

    /// Adds a benchmark that was not compared.
    pub(crate) fn add_without(
        &mut self,
        benchmark: &str,
        compared_with: ComparedWith,
        measured_by: MeasuredBy,
        judgement: Judgement,
    ) {
        self.push(verdict(benchmark, compared_with, measured_by, judgement));
    }

    /// Adds a verdict, and stores all so far: a run may be killed.
    fn push(&mut self, verdict: BenchmarkVerdict) {
        self.verdicts.push(verdict);
        let options = Options::of_this_process();
        let so_far = Verdicts::so_far(options, self.verdicts.clone());
        // The file at the end is another try, whose error counts.
        _ = verdict_file::store_so_far(&so_far, options);
    }
}

/// The verdict on a benchmark without a difference.
fn verdict(
    benchmark: &str,
    compared_with: ComparedWith,
    measured_by: MeasuredBy,
    judgement: Judgement,
) -> BenchmarkVerdict {
    BenchmarkVerdict {
        benchmark: benchmark.to_owned(),
        compared_with,
        measured_by: Some(measured_by),
        difference_percent: None,
        is_different: false,
        mean_difference_percent: None,
        is_mean_different: false,
        conclusion: judgement.conclusion,
        reason: judgement.reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(benchmark: &str, untrusted: u64) -> RunFolder {
        RunFolder {
            benchmark: benchmark.to_owned(),
            folder: benchmark.into(),
            untrusted,
        }
    }

    /// Symptom: samples that could not be trusted became the baseline of all later runs.
    #[test]
    fn a_run_with_an_untrusted_sample_becomes_no_baseline() {
        let (folders, kept) = trusted_runs(vec![run("a", 0), run("b", 3), run("c", 0)]);
        assert!(folders.iter().eq(["a", "c"].map(PathBuf::from).iter()));
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].benchmark, "b");
        assert_eq!(
            kept[0].reason.text,
            "3 of this run's samples can't be trusted, because the clock did not trust the counter meanwhile; \
             run it again"
        );
    }

    /// A benchmark with a comparison is there twice.
    #[test]
    fn a_baseline_is_kept_or_updated_once() {
        let (folders, kept) =
            trusted_runs(vec![run("a", 0), run("a", 0), run("b", 3), run("b", 3)]);
        assert_eq!((folders.len(), kept.len()), (1, 1));
    }

    /// Symptom: the baseline was updated, and a line said that it stayed as it was.
    #[test]
    fn a_benchmark_that_was_trusted_only_once_keeps_its_baseline() {
        for untrusted in [[0, 3], [3, 0]] {
            let (folders, kept) =
                trusted_runs(untrusted.map(|untrusted| run("a", untrusted)).into());
            assert_eq!((folders.len(), kept.len()), (0, 1), "{untrusted:?}");
        }
    }
}
