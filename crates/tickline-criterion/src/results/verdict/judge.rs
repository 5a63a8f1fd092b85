//! The conclusion about a difference by the limits of `--max-regression` and `--max-noise`, and the
//! text of its reason.

use super::{ComparedWith, Conclusion};
use crate::arguments::Options;
use crate::reason::{ReasonCode, VerdictReason};
use crate::results::text::signed_percent;
use crate::statistics::interval::Interval;

/// What a measurement has found between two builds, or between a run and its baseline.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) percent: Interval,
    /// Whether the measurement distinguishes the difference from zero. This is what is printed
    /// above the verdict.
    pub(crate) is_different: bool,
    /// The difference of the means; `None` if `percent` is that of means.
    pub(crate) mean: Option<MeanDifference>,
    /// Why the percentage may be larger, and what to do, if the measurement hides a part of it.
    /// What is faster stays faster.
    pub(crate) why_hidden: Option<String>,
}

/// What a measurement has found between means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeanDifference {
    pub(crate) percent: Interval,
    /// Whether the measurement distinguishes the difference from zero.
    pub(crate) is_different: bool,
    /// Whether some calls differ so much more than the typical one, whose time is the median.
    pub(crate) is_in_some_calls: bool,
}

/// The conclusion about a benchmark, with its reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) conclusion: Conclusion,
    /// `None` if the benchmark passes.
    pub(crate) reason: Option<VerdictReason>,
}

impl Judgement {
    const PASSES: Self = Self {
        conclusion: Conclusion::Passes,
        reason: None,
    };

    pub(crate) fn new(conclusion: Conclusion, reason: VerdictReason) -> Self {
        Self {
            conclusion,
            reason: Some(reason),
        }
    }

    pub(crate) fn undecided(reason: VerdictReason) -> Self {
        Self::new(Conclusion::Undecided, reason)
    }
}

/// Judges a difference by the limits of `--max-regression` and `--max-noise`. It passes if neither
/// the medians nor the means are found slower, and the medians are not undecided.
pub(super) fn judge_difference(
    options: &Options,
    compared_with: ComparedWith,
    difference: &Difference,
) -> Judgement {
    if !options.have_limits() {
        return Judgement::PASSES;
    }
    let by_median = judge_median(options, compared_with, difference);
    if by_median.conclusion == Conclusion::Slower {
        return by_median;
    }
    slower_mean(options, compared_with, difference).unwrap_or(by_median)
}

/// The figures of a mean that the median does not show.
pub(super) fn mean_and_median(mean_percent: Interval, median_percent: Option<Interval>) -> String {
    let [low, estimate, high] = mean_percent.in_order().map(signed_percent);
    let mean = format!("{estimate} %, from {low} to {high} %");
    match median_percent {
        Some(median) => format!(
            "{mean}; the median is {} %",
            signed_percent(median.estimate)
        ),
        None => mean,
    }
}

/// The judgement of a mean that is slower than allowed. A mean that may be slower or not does not
/// fail a benchmark: it has the noise of slow calls in it, which the median leaves out, so that
/// equal builds would fail by it. [`Verdicts`](super::Verdicts) prints a line about it.
fn slower_mean(
    options: &Options,
    compared_with: ComparedWith,
    difference: &Difference,
) -> Option<Judgement> {
    let limit = options.max_regression_percent?;
    let mean = difference.mean?;
    let percent = mean.percent.finite()?;
    if percent.low <= limit {
        return None;
    }
    let in_some_calls = if mean.is_in_some_calls {
        ", in some calls"
    } else {
        ""
    };
    let figures = mean_and_median(percent, difference.percent.finite());
    let caveat = caveat(options, compared_with);
    let reason =
        format!("its mean is slower by more than {limit} %{in_some_calls}: {figures}{caveat}");
    let reason = ReasonCode::MeanAboveLimit.with(reason);
    Some(Judgement::new(Conclusion::Slower, reason))
}

/// Judges the medians; with a baseline, the medians of samples, which are means. Only a difference
/// that is found is slower than allowed: the interval in ns may contain 0 although the one in % is
/// above the limit, because they come from different values.
fn judge_median(
    options: &Options,
    compared_with: ComparedWith,
    difference: &Difference,
) -> Judgement {
    let percent = difference.percent;
    if !percent.is_finite() {
        let reason = "it is compared with a time of 0, of which there is no percentage; let it do more, or leave it out \
                      by a filter";
        return Judgement::undecided(ReasonCode::NoTime.with(reason));
    }
    let [low, estimate, high] = percent.in_order().map(signed_percent);
    let range = format!("{estimate} %, from {low} to {high} %");
    if let Some(limit) = options.max_regression_percent
        && percent.low > limit
        && difference.is_different
    {
        let caveat = caveat(options, compared_with);
        let reason = format!("slower by more than {limit} %: {range}{caveat}");
        return Judgement::new(Conclusion::Slower, ReasonCode::AboveLimit.with(reason));
    }
    if percent.high > 0.0
        && let Some(reason) = &difference.why_hidden
    {
        return Judgement::undecided(ReasonCode::TooShort.with(reason));
    }
    let advice = advice(options, compared_with);
    if let Some(limit) = options.max_regression_percent
        && percent.estimate > limit
    {
        let reason = format!("it may be slower by more than {limit} % or not: {range}{advice}");
        return Judgement::undecided(ReasonCode::AroundLimit.with(reason));
    }
    match too_much_noise(options, difference) {
        Some(reason) => Judgement::undecided(ReasonCode::Noise.with(format!("{reason}{advice}"))),
        None => Judgement::PASSES,
    }
}

/// Why the noise is too much. `None` if it is not, and if even the interval's high end is allowed:
/// it then hides no regression.
fn too_much_noise(options: &Options, difference: &Difference) -> Option<String> {
    let limit = options.max_noise_percent?;
    let (percent, noise) = (difference.percent, difference.percent.half_width());
    if noise <= limit || percent.high <= options.max_regression_percent.unwrap_or(0.0) {
        return None;
    }
    let slower = if difference.is_different && percent.low > 0.0 {
        "slower, by an undecided amount: "
    } else {
        ""
    };
    Some(format!(
        "{slower}the noise of {noise:.2} % is above {limit} %"
    ))
}

/// What narrows the interval, for the end of the reason.
fn advice(options: &Options, compared_with: ComparedWith) -> &'static str {
    // The interval is then over the layouts: a longer time gives no further link order.
    if compared_with == ComparedWith::OtherBuild && options.against.len() > 1 {
        "; give more layouts, or a larger limit: a longer time helps less"
    } else {
        "; measure longer, or leave CPUs free"
    }
}

/// What else may have made a benchmark slower, for the end of the reason.
fn caveat(options: &Options, compared_with: ComparedWith) -> &'static str {
    if compared_with == ComparedWith::OtherBuild && options.against.len() == 1 {
        "; each build is in one link order, so an unrelated change that moves code may be the cause: \
         --layout tells"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
