//! Tests of conclusions, and of their reasons; simulated comparisons of equal builds.

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
        mean: None,
        why_hidden: None,
    };
    judge_difference(options, ComparedWith::OtherBuild, &difference)
}

/// Judges equal medians, with limits of 3 % and 2 %, and means that differ so.
fn judge_mean_of(mean_percent: Interval) -> Judgement {
    judge_both(&options(3.0, 2.0), percent(0.2, 0.1), mean_percent)
}

fn judge_both(options: &Options, median: Interval, mean: Interval) -> Judgement {
    let difference = with_mean(median, mean);
    judge_difference(options, ComparedWith::OtherBuild, &difference)
}

fn with_mean(median: Interval, mean: Interval) -> Difference {
    Difference {
        percent: median,
        is_different: median.excludes_zero(),
        mean: Some(MeanDifference {
            percent: mean,
            is_different: true,
            is_in_some_calls: mean.low > median.high,
        }),
        why_hidden: None,
    }
}

/// Symptom: a build passed of which every fourth call took 11 times as long.
#[test]
fn a_benchmark_with_equal_medians_is_slower_if_its_mean_is_above_the_limit() {
    let found = judge_mean_of(percent(250.0, 2.0));
    assert_eq!(found.conclusion, Conclusion::Slower);
    let reason = found.reason.expect("a reason");
    assert_eq!(reason.code, ReasonCode::MeanAboveLimit);
    assert_eq!(
        reason.text,
        "its mean is slower by more than 3 %, in some calls: +250.00 %, from +248.00 to +252.00 %; the median is +0.20 %"
    );
}

/// Symptom: "slower in some calls" was about a build whose typical call was as much slower, within
/// the noise.
#[test]
fn a_mean_that_is_slower_as_the_median_may_be_is_not_of_some_calls() {
    let found = judge_both(&options(3.0, 2.0), percent(3.5, 1.0), percent(4.5, 1.0));
    let expected = "its mean is slower by more than 3 %: +4.50 %, from +3.50 to +5.50 %; the median is +3.50 %";
    assert_eq!(text(found), expected);
}

/// Symptom: "the median is NaN %".
#[test]
fn a_slower_mean_is_named_without_a_median_of_no_time() {
    let nothing = percent(f64::NAN, 0.0);
    let found = judge_both(&options(3.0, 2.0), nothing, percent(250.0, 2.0));
    let expected = "its mean is slower by more than 3 %: +250.00 %, from +248.00 to +252.00 %";
    assert_eq!(text(found), expected);
}

/// Symptom: only medians had the caveat.
#[test]
fn a_slower_mean_of_one_link_order_has_its_caveat() {
    for (layouts, has_caveat) in [(1, true), (8, false)] {
        let options = options_with_layouts(layouts);
        let text = text(judge_both(&options, percent(0.2, 0.1), percent(9.0, 1.0)));
        let found = text.contains("; each build is in one link order, ");
        assert_eq!(found, has_caveat, "{text}");
    }
}

/// Symptom: equal builds, whose medians passed, were undecided by the noise of their means.
#[test]
fn a_mean_that_is_not_certainly_slower_passes() {
    for (estimate, noise, code) in [
        (5.0, 1.9, Some(ReasonCode::MeanAboveLimit)),
        (5.0, 2.1, None),
        (20.0, 21.0, None),
        (2.9, 0.1, None),
        (-60.0, 1.0, None),
        (f64::INFINITY, 1.0, None),
    ] {
        let reason = judge_mean_of(percent(estimate, noise)).reason;
        assert_eq!(reason.map(|reason| reason.code), code, "{estimate}");
    }
}

#[test]
fn of_medians_and_means_the_worse_one_decides() {
    let [passes, around, above] = [(0.0, 1.0), (3.5, 1.0), (9.0, 1.0)];
    for (median, mean, code) in [
        (passes, above, Some(ReasonCode::MeanAboveLimit)),
        (around, above, Some(ReasonCode::MeanAboveLimit)),
        (above, above, Some(ReasonCode::AboveLimit)),
        (above, passes, Some(ReasonCode::AboveLimit)),
        (around, passes, Some(ReasonCode::AroundLimit)),
        (passes, passes, None),
    ] {
        let [median, mean] = [median, mean].map(|(estimate, noise)| percent(estimate, noise));
        let reason = judge_both(&options(3.0, 2.0), median, mean).reason;
        assert_eq!(
            reason.map(|reason| reason.code),
            code,
            "{median:?} {mean:?}"
        );
    }
}

#[test]
fn a_limit_of_noise_alone_judges_no_mean() {
    let options = Options {
        max_regression_percent: None,
        ..options(3.0, 2.0)
    };
    for noise in [1.0, 200.0] {
        let found = judge_both(&options, percent(0.2, 0.1), percent(250.0, noise));
        assert_eq!(found, Judgement::PASSES);
    }
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

/// Symptom: exit code 1, below "no difference found": one of ten processes ran on a slow core, and
/// the interval in ns contained 0.
#[test]
fn a_benchmark_that_does_not_differ_is_undecided_above_the_limit() {
    let difference = Difference {
        percent: percent(4.5, 1.0),
        is_different: false,
        mean: None,
        why_hidden: None,
    };
    let found = judge_difference(&options(3.0, 2.0), ComparedWith::OtherBuild, &difference);
    assert_eq!(found.conclusion, Conclusion::Undecided);
    let reason = found.reason.expect("a reason");
    assert_eq!(reason.code, ReasonCode::AroundLimit);
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
            mean: None,
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
            mean: None,
            why_hidden: Some("why".to_owned()),
        };
        let found =
            judge_difference(&options(3.0, 2.0), ComparedWith::Baseline, &difference).conclusion;
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
        mean: None,
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
        mean: None,
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
/// are undecided, by the interval. Each comparison has `processes` processes of each build.
fn slower_and_undecided(
    judge: impl Fn(Interval) -> Judgement,
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
            judge(found).conclusion
        })
        .collect();
    [Conclusion::Slower, Conclusion::Undecided].map(|one| {
        let has_it = conclusions.iter().filter(|found| **found == one).count();
        100.0 * as_f64(count(has_it)) / as_f64(count(RUNS))
    })
}

/// The level of the interval, on one side. A limit of 0 %, which the options refuse, is the one
/// that equal builds exceed most often.
#[test]
fn at_most_2_5_percent_of_equal_builds_are_slower_than_any_limit() {
    let limit_of_zero = Options {
        max_noise_percent: None,
        ..options(0.0, 0.0)
    };
    let of_zero = |found| judge(&limit_of_zero, found);
    for processes in [6, 10] {
        let [modes, _] =
            slower_and_undecided(of_zero, processes, |mut uniform| two_modes(&mut uniform));
        let [tails, _] =
            slower_and_undecided(of_zero, processes, |mut uniform| heavy_tails(&mut uniform));
        for slower in [modes, tails] {
            // Of 4,000 runs, 2.5 % have a standard deviation of 0.25 %.
            assert!((0.5..=3.25).contains(&slower), "{processes}: {slower} %");
        }
    }
}

/// The mean time of a process. In one of five, something that nothing has noticed makes it longer
/// by up to 20 %; the median does not show it.
fn disturbed_mean(uniform: &mut dyn FnMut() -> f64) -> f64 {
    let is_disturbed = uniform() < -0.3;
    let more = if is_disturbed {
        20.0 * (uniform() + 0.5)
    } else {
        0.0
    };
    100.0 + uniform() + more
}

/// The medians of these builds pass. The page has the figure.
#[test]
fn disturbed_means_of_equal_builds_fail_seldom() {
    let by_mean = |max_regression| {
        let options = options(max_regression, 2.0);
        move |mean| judge_both(&options, percent(0.0, 0.1), mean)
    };
    for processes in [6, 8, 10, 16] {
        let [slower, undecided] = slower_and_undecided(by_mean(3.0), processes, disturbed_mean);
        assert!(slower < 0.2, "{processes}: {slower} %");
        assert!(undecided == 0.0, "{processes}: {undecided} %");
        // The level of the interval.
        let [slower, _] = slower_and_undecided(by_mean(0.0), processes, disturbed_mean);
        assert!((0.5..=3.25).contains(&slower), "{processes}: {slower} %");
    }
}

/// The page has these figures.
#[test]
fn noise_above_its_limit_is_what_leaves_equal_builds_undecided() {
    let without_noise = Options {
        max_noise_percent: None,
        ..options(3.0, 2.0)
    };
    let both = |found| judge(&options(3.0, 2.0), found);
    for (processes, expected) in [(6, 64.0), (8, 13.0), (10, 6.0), (16, 0.1)] {
        let [slower, undecided] =
            slower_and_undecided(both, processes, |mut uniform| two_modes(&mut uniform));
        assert!(slower < 0.1, "{processes}: {slower} %");
        // The standard deviation is at most 0.8 %.
        assert!(
            (undecided - expected).abs() < 2.4,
            "{processes}: {undecided} %"
        );
    }
    let [slower, undecided] = slower_and_undecided(
        |found| judge(&without_noise, found),
        6,
        |mut uniform| two_modes(&mut uniform),
    );
    assert!(slower < 0.1 && undecided < 0.1, "{slower} %, {undecided} %");
}
