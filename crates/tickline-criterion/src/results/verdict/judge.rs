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
    /// Why the percentage may be larger, and what to do, if the measurement hides a part of it.
    /// What is faster stays faster.
    pub(crate) why_hidden: Option<String>,
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

/// Judges a difference by the limits of `--max-regression` and `--max-noise`.
pub(super) fn judge_difference(
    options: &Options,
    compared_with: ComparedWith,
    difference: &Difference,
) -> Judgement {
    if !options.have_limits() {
        return Judgement::PASSES;
    }
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
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::number::{as_f64, count};
    use crate::results::verdict::tests::{options, percent};
    use crate::statistics::signed_rank::interval;
    use crate::statistics::signed_rank::tests::{heavy_tails, two_modes, uniform};

    /// Judges a difference that the measurement distinguishes from zero.
    fn judge(options: &Options, percent: Interval) -> Judgement {
        let difference = Difference {
            percent,
            is_different: true,
            why_hidden: None,
        };
        judge_difference(options, ComparedWith::OtherBuild, &difference)
    }

    /// The text of a finding's reason.
    fn text(judgement: Judgement) -> String {
        judgement.reason.expect("a reason").text
    }

    /// Both limits, with `layouts` layouts of each build.
    fn options_with_layouts(layouts: usize) -> Options {
        Options {
            against: vec![PathBuf::from("main"); layouts],
            ..options(3.0, 2.0)
        }
    }

    #[test]
    fn a_benchmark_is_slower_if_its_whole_interval_is_above_the_limit() {
        for (estimate, noise, conclusion) in [
            (4.5, 1.0, Conclusion::Slower),
            (3.5, 1.0, Conclusion::Undecided),
            (2.9, 1.0, Conclusion::Passes),
            (-9.0, 1.0, Conclusion::Passes),
        ] {
            let found = judge(&options(3.0, 2.0), percent(estimate, noise)).conclusion;
            assert_eq!(found, conclusion, "{estimate}");
        }
    }

    /// Symptom: a script could tell noise from a failed comparison only by the words of the text.
    #[test]
    fn each_reason_has_its_code() {
        for (estimate, noise, code) in [
            (4.5, 1.0, Some(ReasonCode::AboveLimit)),
            (3.5, 1.0, Some(ReasonCode::AroundLimit)),
            (2.0, 2.5, Some(ReasonCode::Noise)),
            (f64::INFINITY, 1.0, Some(ReasonCode::NoTime)),
            (2.0, 1.0, None),
        ] {
            let reason = judge(&options(3.0, 2.0), percent(estimate, noise)).reason;
            assert_eq!(reason.map(|reason| reason.code), code, "{estimate}");
        }
    }

    /// Symptom: a build that took half of the time was undecided.
    #[test]
    fn noise_counts_only_if_the_interval_reaches_above_the_limit() {
        let without_regression = Options {
            max_regression_percent: None,
            ..options(3.0, 2.0)
        };
        for (options, estimate, noise, conclusion) in [
            (options(3.0, 2.0), -54.6, 2.9, Conclusion::Passes),
            (options(3.0, 2.0), 0.0, 2.9, Conclusion::Passes),
            (options(3.0, 2.0), 0.5, 2.9, Conclusion::Undecided),
            (without_regression.clone(), -3.0, 2.9, Conclusion::Passes),
            (without_regression, -2.5, 2.9, Conclusion::Undecided),
        ] {
            let found = judge(&options, percent(estimate, noise)).conclusion;
            assert_eq!(found, conclusion, "{estimate}");
        }
    }

    /// Symptom: an empty routine passed whatever it took later, and `Verdicts` could not be read.
    #[test]
    fn a_percentage_of_no_time_is_undecided() {
        let (nothing, all) = (f64::NAN, f64::INFINITY);
        for (estimate, low, high) in [(nothing, nothing, nothing), (all, nothing, all)] {
            let difference = Interval {
                estimate,
                low,
                high,
            };
            let found = judge(&options(3.0, 2.0), difference).conclusion;
            assert_eq!(found, Conclusion::Undecided, "{difference:?}");
        }
    }

    /// Symptom: a slowdown of 25 % passed with a limit of 3 %, because it read as 2 %.
    #[test]
    fn a_difference_of_which_a_part_is_hidden_does_not_pass_a_limit() {
        let of_percent = |options: &Options, estimate| {
            let difference = Difference {
                percent: percent(estimate, 1.0),
                is_different: true,
                why_hidden: Some("why".to_owned()),
            };
            judge_difference(options, ComparedWith::Baseline, &difference)
        };
        let hidden = Judgement::undecided(ReasonCode::TooShort.with("why"));
        assert_eq!(of_percent(&options(3.0, 2.0), 1.0), hidden);
        assert_eq!(of_percent(&options(3.0, 2.0), 3.5), hidden);
        assert_eq!(
            of_percent(&options(3.0, 2.0), 9.0).conclusion,
            Conclusion::Slower
        );
        assert_eq!(
            of_percent(&Options::default(), 9.0).conclusion,
            Conclusion::Passes
        );
    }

    /// Symptom: a benchmark that took half of the time was undecided.
    #[test]
    fn a_difference_of_which_a_part_is_hidden_passes_if_it_is_certainly_faster() {
        for (estimate, conclusion) in [(-50.0, Conclusion::Passes), (-0.5, Conclusion::Undecided)] {
            let difference = Difference {
                percent: percent(estimate, 1.0),
                is_different: true,
                why_hidden: Some("why".to_owned()),
            };
            let found = judge_difference(&options(3.0, 2.0), ComparedWith::Baseline, &difference)
                .conclusion;
            assert_eq!(found, conclusion, "{estimate}");
        }
    }

    #[test]
    fn a_wide_interval_around_the_limit_is_undecided() {
        let found = judge(&options(3.0, 2.0), percent(2.0, 2.5));
        assert_eq!(found.conclusion, Conclusion::Undecided);
        let reason = text(found);
        assert!(
            reason.starts_with("the noise of 2.50 % is above 2 %"),
            "{reason}"
        );
        let slower = judge(&options(3.0, 2.0), percent(30.0, 2.5)).conclusion;
        assert_eq!(slower, Conclusion::Slower, "noise does not hide it");
    }

    /// Symptom: "this build is slower" was above a verdict that seemed to say that this was
    /// unknown.
    #[test]
    fn noise_hides_how_much_slower_a_benchmark_is_and_not_that_it_is() {
        let without_regression = Options {
            max_regression_percent: None,
            ..options(3.0, 2.0)
        };
        let found = judge(&without_regression, percent(5.0, 4.75));
        assert_eq!(found.conclusion, Conclusion::Undecided);
        let reason = text(found);
        assert!(
            reason.starts_with("slower, by an undecided amount: the noise of 4.75 %"),
            "{reason}"
        );
    }

    /// Symptom: "slower, by an undecided amount" was below "no difference found".
    #[test]
    fn a_benchmark_that_does_not_differ_is_not_called_slower() {
        let without_regression = Options {
            max_regression_percent: None,
            ..options(3.0, 2.0)
        };
        let difference = Difference {
            percent: percent(5.0, 4.75),
            is_different: false,
            why_hidden: None,
        };
        let found = judge_difference(&without_regression, ComparedWith::OtherBuild, &difference);
        let reason = text(found);
        assert!(reason.starts_with("the noise of 4.75 %"), "{reason}");
    }

    /// Symptom: the advice was a longer time, and four times the time left the noise of 16 layouts
    /// above the limit.
    #[test]
    fn the_advice_about_noise_is_more_layouts_if_there_are_several() {
        let reason = text(judge(&options_with_layouts(16), percent(0.0, 4.25)));
        assert!(
            reason.contains("more layouts") && !reason.contains("measure longer"),
            "{reason}"
        );
    }

    #[test]
    fn the_advice_about_noise_in_one_link_order_is_a_longer_time() {
        let reason = text(judge(&options_with_layouts(1), percent(2.0, 2.5)));
        assert!(
            reason.ends_with("; measure longer, or leave CPUs free"),
            "{reason}"
        );
    }

    /// Symptom: one of the two reasons did not say what to do.
    #[test]
    fn an_interval_that_contains_the_limit_has_the_same_advice_as_noise() {
        for layouts in [1, 16] {
            let options = options_with_layouts(layouts);
            let [noise, limit] =
                [0.0, 3.5].map(|estimate| text(judge(&options, percent(estimate, 4.25))));
            assert!(limit.starts_with("it may be slower by more than 3 % or not: "));
            let of_noise = noise.split_once("; ").map(|(_, advice)| advice);
            let of_limit = limit.split_once("; ").map(|(_, advice)| advice);
            assert!(
                of_noise.is_some() && of_noise == of_limit,
                "{noise}\n{limit}"
            );
        }
    }

    /// A stored run has no layouts: its noise is the scatter of the parts of both runs.
    #[test]
    fn the_advice_about_a_baseline_does_not_depend_on_the_layouts() {
        let difference = Difference {
            percent: percent(0.0, 4.25),
            is_different: false,
            why_hidden: None,
        };
        let options = options_with_layouts(16);
        let reason = text(judge_difference(
            &options,
            ComparedWith::Baseline,
            &difference,
        ));
        assert!(reason.contains("measure longer"), "{reason}");
    }

    /// Symptom: an unrelated function made a benchmark slower by 14 %, and the verdict was firm.
    #[test]
    fn only_builds_in_one_link_order_have_its_caveat() {
        for (programs, compared_with, has_caveat) in [
            (1, ComparedWith::OtherBuild, true),
            (6, ComparedWith::OtherBuild, false),
            (1, ComparedWith::Baseline, false),
        ] {
            let options = Options {
                against: vec![PathBuf::from("main"); programs],
                ..Options::default()
            };
            let found = caveat(&options, compared_with).contains("one link order");
            assert_eq!(found, has_caveat, "{programs} {compared_with:?}");
        }
    }

    #[test]
    fn without_limits_all_pass() {
        let found = judge(&Options::default(), percent(50.0, 9.0));
        assert_eq!(found, Judgement::PASSES);
    }

    /// The shares, %, of simulated comparisons of equal builds that are judged slower, and that
    /// are undecided. Each comparison has `processes` processes of each build.
    fn slower_and_undecided(
        options: &Options,
        processes: usize,
        time: impl Fn(&mut dyn FnMut() -> f64) -> f64,
    ) -> [f64; 2] {
        const RUNS: usize = 4_000;
        let mut uniform = uniform(3);
        let conclusions: Vec<Conclusion> = (0..RUNS)
            .map(|_| {
                // A time is about 100, so a difference is about a percentage.
                let differences: Vec<f64> = (0..processes)
                    .map(|_| time(&mut uniform) - time(&mut uniform))
                    .collect();
                let found = interval(&differences).expect("enough");
                judge(options, found).conclusion
            })
            .collect();
        [Conclusion::Slower, Conclusion::Undecided].map(|one| {
            let has_it = conclusions.iter().filter(|found| **found == one).count();
            100.0 * as_f64(count(has_it)) / as_f64(count(RUNS))
        })
    }

    /// The level of the interval, on one side. A limit of 0 % is the one that equal builds exceed
    /// most often.
    #[test]
    fn at_most_2_5_percent_of_equal_builds_are_slower_than_any_limit() {
        let limit_of_zero = Options {
            max_noise_percent: None,
            ..options(0.0, 0.0)
        };
        for processes in [6, 10] {
            let [modes, _] = slower_and_undecided(&limit_of_zero, processes, |mut uniform| {
                two_modes(&mut uniform)
            });
            let [tails, _] = slower_and_undecided(&limit_of_zero, processes, |mut uniform| {
                heavy_tails(&mut uniform)
            });
            for slower in [modes, tails] {
                // Of 4,000 runs, 2.5 % have a standard deviation of 0.25 %.
                assert!((0.5..=3.25).contains(&slower), "{processes}: {slower} %");
            }
        }
    }

    /// The page has these figures.
    #[test]
    fn noise_above_its_limit_is_what_leaves_equal_builds_undecided() {
        let without_noise = Options {
            max_noise_percent: None,
            ..options(3.0, 2.0)
        };
        for (processes, expected) in [(6, 64.0), (8, 13.0), (10, 6.0), (16, 0.1)] {
            let [slower, undecided] =
                slower_and_undecided(&options(3.0, 2.0), processes, |mut uniform| {
                    two_modes(&mut uniform)
                });
            assert!(slower < 0.1, "{processes}: {slower} %");
            // The standard deviation is at most 0.8 %.
            assert!(
                (undecided - expected).abs() < 2.4,
                "{processes}: {undecided} %"
            );
        }
        let [slower, undecided] =
            slower_and_undecided(&without_noise, 6, |mut uniform| two_modes(&mut uniform));
        assert!(slower < 0.1 && undecided < 0.1, "{slower} %, {undecided} %");
    }
}
