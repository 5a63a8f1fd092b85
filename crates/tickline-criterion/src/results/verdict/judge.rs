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
/// the medians nor the means are found slower, nor undecided.
pub(super) fn judge_difference(
    options: &Options,
    compared_with: ComparedWith,
    difference: &Difference,
) -> Judgement {
    if !options.have_limits() {
        return Judgement::PASSES;
    }
    let by_median = judge_median(options, compared_with, difference);
    let by_mean = judge_mean(options, difference);
    match (by_median.conclusion, by_mean.conclusion) {
        (Conclusion::Passes, _) => by_mean,
        (Conclusion::Undecided, Conclusion::Slower) => by_mean,
        _ => by_median,
    }
}

/// The limit of the difference between means, %: the sum of both limits. `None` if nothing limits a
/// slowdown.
pub(super) fn max_mean_regression(
    max_regression_percent: Option<f64>,
    max_noise_percent: Option<f64>,
) -> Option<f64> {
    Some(max_regression_percent? + max_noise_percent.unwrap_or(0.0))
}

/// The figures of a mean that the median does not show.
pub(super) fn mean_and_median(mean_percent: Interval, median_percent: Interval) -> String {
    let [low, estimate, high] = mean_percent.in_order().map(signed_percent);
    let median = signed_percent(median_percent.estimate);
    format!("{estimate} %, from {low} to {high} %; the median is {median} %")
}

/// Judges the means by the sum of both limits: they have the noise of slow calls in them, which the
/// medians leave out. A wide interval alone hides nothing that the medians do not show.
fn judge_mean(options: &Options, difference: &Difference) -> Judgement {
    let mean_percent = difference.mean.and_then(|mean| mean.percent.finite());
    let limit = max_mean_regression(options.max_regression_percent, options.max_noise_percent);
    let (Some(percent), Some(limit)) = (mean_percent, limit) else {
        return Judgement::PASSES;
    };
    let figures = mean_and_median(percent, difference.percent);
    if percent.low > limit {
        let reason = format!("slower in some calls, the mean by more than {limit:.2} %: {figures}");
        Judgement::new(Conclusion::Slower, ReasonCode::MeanAboveLimit.with(reason))
    } else if percent.estimate > limit {
        let reason = format!(
            "it may be slower in some calls, the mean by more than {limit:.2} %, or not: {figures}; measure longer, or \
             leave CPUs free"
        );
        Judgement::undecided(ReasonCode::MeanAroundLimit.with(reason))
    } else {
        Judgement::PASSES
    }
}

/// Judges the medians; with a baseline, the medians of samples, which are means.
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
