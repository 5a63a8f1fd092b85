//! Tests of exit codes, and of the text and the JSON of verdicts.

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
        mean_difference_percent: Some(percent(2.0, 1.0)),
        is_mean_different: true,
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
fn one_slower_benchmark_decides_the_exit_code_then_an_undecided_one() {
    use Conclusion::{New, Passes, Slower, Undecided};
    for (conclusions, code) in [
        (&[Passes, New][..], 0),
        (&[Passes, Undecided, New], 3),
        (&[Undecided, Slower, Passes], 1),
    ] {
        let verdicts: Vec<BenchmarkVerdict> = conclusions.iter().copied().map(verdict).collect();
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
        "SLOWER: a/b: why\n1 pass, 1 slower, 0 undecided: exit code 1"
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
        Some("0 pass, 0 slower, 0 undecided, 2 new: exit code 0")
    );
}

/// A benchmark that passes, of which the mean's estimate is this.
fn passes_with_mean(estimate: f64, noise: f64) -> BenchmarkVerdict {
    BenchmarkVerdict {
        difference_percent: Some(percent(0.2, 0.1)),
        mean_difference_percent: Some(percent(estimate, noise)),
        reason: None,
        ..verdict(Conclusion::Passes)
    }
}

/// Symptom: a build passed without a word, whose mean was 20 % longer, from -1 to 45 %.
#[test]
fn the_text_names_a_benchmark_that_passes_with_an_undecided_mean() {
    let text = finished(vec![passes_with_mean(20.0, 21.0)]).to_string();
    assert_eq!(
        text,
        "passes by its median: a/b: its mean may be slower by more than 3 % or not: +20.00 %, from -1.00 to +41.00 %; \
         the median is +0.20 %; measure longer to know\n1 pass, 0 slower, 0 undecided: exit code 0"
    );
}

/// Symptom: the line was about each second benchmark of equal builds.
#[test]
fn the_text_has_no_line_about_a_mean_whose_estimate_is_allowed() {
    let text = finished(vec![passes_with_mean(2.9, 6.0)]).to_string();
    assert_eq!(text, "1 pass, 0 slower, 0 undecided: exit code 0");
}

#[test]
fn the_line_about_a_mean_names_what_it_is_compared_with_if_there_are_two() {
    let by_baseline = BenchmarkVerdict {
        compared_with: ComparedWith::Baseline,
        ..verdict(Conclusion::Slower)
    };
    let text = finished(vec![by_baseline, passes_with_mean(20.0, 21.0)]).to_string();
    let line = "passes by its median: a/b (by the other build): its mean";
    assert!(text.contains(line), "{text}");
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
         1 pass, 0 slower, 0 undecided, 1 new, 1 not judged: exit code 0"
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
        "1 pass, 0 slower, 0 undecided, 1 new: exit code 0"
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
fn the_file_of_an_older_version_has_no_means() {
    let mut json = serde_json::to_value(verdict(Conclusion::Passes)).expect("JSON");
    let object = json.as_object_mut().expect("fields");
    for key in ["mean_difference_percent", "is_mean_different"] {
        object.remove(key).expect(key);
    }
    let read: BenchmarkVerdict = serde_json::from_value(json).expect("a verdict");
    assert_eq!(
        (read.mean_difference_percent, read.is_mean_different),
        (None, false)
    );
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

/// Symptom: one code that was added later made the whole file unreadable.
#[test]
fn the_file_of_a_newer_version_is_read_with_its_unknown_texts() {
    let verdicts = finished(vec![verdict(Conclusion::Slower)]);
    let mut json = serde_json::to_value(&verdicts).expect("JSON");
    json["state"] = json!("newer");
    let benchmark = &mut json["benchmarks"][0];
    for field in ["compared_with", "measured_by", "conclusion"] {
        benchmark[field] = json!("newer");
    }
    benchmark["reason"]["code"] = json!("newer");
    let read: Verdicts = serde_json::from_value(json).expect("verdicts");
    let expected = BenchmarkVerdict {
        compared_with: ComparedWith::Unknown,
        measured_by: Some(MeasuredBy::Unknown),
        reason: Some(ReasonCode::Unknown.with("why")),
        ..verdict(Conclusion::Unknown)
    };
    assert_eq!(read.state, RunState::Unknown);
    assert_eq!(read.benchmarks, [expected]);
}

#[test]
fn the_text_names_and_counts_the_unknown_conclusions() {
    let text = finished(vec![verdict(Conclusion::Unknown)]).to_string();
    assert_eq!(
        text,
        "UNKNOWN: a/b: why\n0 pass, 0 slower, 0 undecided, 1 unknown: exit code 0"
    );
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

/// The texts in JSON of all variants but `Unknown`, which no version writes. If one is missing
/// here, this does not compile.
macro_rules! texts {
    ($type:ident: $($variant:ident),+) => {{
        _ = |one: $type| match one {
            $($type::$variant => (),)+
            $type::Unknown => (),
        };
        vec![$(serde_json::to_value($type::$variant).expect("JSON")),+]
    }};
}

#[test]
fn the_documents_list_the_texts_of_the_json() {
    let page = include_str!("../../../docs/comparisons.md");
    let conclusions = texts!(Conclusion: Passes, Slower, Undecided, New);
    let compared_with = texts!(ComparedWith: OtherBuild, Baseline);
    let measured_by = texts!(MeasuredBy: Counter, OsClock);
    let codes = ReasonCode::ALL
        .iter()
        .filter(|code| **code != ReasonCode::Unknown)
        .map(|code| serde_json::to_value(code).expect("JSON"))
        .collect();
    let (error, exit_code) = (String::new(), 0);
    let states = [
        RunState::Unfinished,
        RunState::Failed { error },
        RunState::Finished { exit_code },
    ];
    // A new variant does not compile.
    _ = |state: RunState| match state {
        RunState::Unfinished | RunState::Failed { .. } | RunState::Finished { .. } => (),
        RunState::Unknown => (),
    };
    let states = states.map(|state| json!(state)["state"].clone()).to_vec();
    for (field, texts) in [
        ("state", states),
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
    let benchmarks = vec![verdict(Conclusion::Undecided)];
    let verdicts = finished(benchmarks);
    let text = serde_json::to_string(&verdicts).expect("JSON");
    assert!(text.contains(r#""compared_with":"other_build""#), "{text}");
    assert!(text.contains(r#""conclusion":"undecided""#), "{text}");
    let mean = r#""mean_difference_percent":{"estimate":2.0,"low":1.0,"high":3.0},"is_mean_different":true"#;
    assert!(text.contains(mean), "{text}");
    let reason = r#""reason":{"code":"noise","text":"why"}"#;
    assert!(text.contains(reason), "{text}");
    assert_eq!(
        serde_json::from_str::<Verdicts>(&text).expect("JSON"),
        verdicts
    );
}
