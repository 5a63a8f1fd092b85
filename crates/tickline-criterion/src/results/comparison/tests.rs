use super::*;
use crate::pairs::disturbance::Disturbance;

/// A value that is known to 1.
fn around(estimate: f64) -> Interval {
    let (low, high) = (estimate, estimate);
    Interval {
        estimate,
        low,
        high,
    }
    .widened(1.0)
}

/// A takes 200 ns; B takes longer by `ns`, known to 1 ns.
fn comparison(ns: f64) -> Comparison {
    Comparison {
        median_a_ns: 200.0,
        median_b_ns: 200.0 + ns,
        difference_ns: around(ns),
        difference_percent: around(ns).map(|ns| ns / 2.0),
        mean_a_ns: 210.0,
        mean_b_ns: 210.0 + ns,
        mean_difference_percent: around(ns).map(|ns| ns / 2.0),
        couples_counted: 3_000,
        couples_disturbed: 0,
        iterations_per_pair: 16,
        replicates_ns: vec![ns; 10],
        rounds_ns: vec![ns; 60],
        mean_rounds_ns: vec![ns; 60],
        disturbances: Disturbances::default(),
        counting: Counting::Undisturbed,
        sides: Sides::Builds,
        cost_share: Some(CostShare(0.01)),
        is_of_latency: false,
    }
}

#[test]
fn a_difference_excludes_zero_and_is_at_least_half_a_percent() {
    for (ns, is_different) in [(0.5, false), (-0.5, false), (1.5, true), (-1.5, true)] {
        assert_eq!(comparison(ns).is_different(), is_different, "{ns}");
    }
    let small = Comparison {
        difference_ns: Interval {
            low: 0.8,
            ..around(0.9)
        },
        ..comparison(0.9)
    };
    assert!(!small.is_different(), "{small}");
}

/// A comparison of which the medians differ by 0.5 %, and the means by `percent`, known to `noise`.
fn with_means(percent: f64, noise: f64) -> Comparison {
    Comparison {
        mean_b_ns: 210.0 * (1.0 + percent / 100.0),
        mean_difference_percent: Interval {
            estimate: percent,
            low: percent - noise,
            high: percent + noise,
        },
        ..comparison(0.5)
    }
}

/// Symptom: of 3.5 times the mean, the text was "no difference found".
#[test]
fn means_differ_if_their_whole_interval_does() {
    for (percent, noise, is_different) in [
        (250.0, 2.0, true),
        (-60.0, 2.0, true),
        (250.0, 249.8, false),
        (0.6, 0.2, false),
    ] {
        let found = with_means(percent, noise);
        assert_eq!(found.is_mean_different(), is_different, "{found}");
        assert!(!found.is_different(), "{found}");
    }
}

#[test]
fn the_text_says_that_some_calls_differ() {
    for (percent, line) in [
        (
            250.0,
            "means: the other build 210.0 ns, this build 735.0 ns: +250.00 % (95 % in [+248.00, +252.00] %): slower in \
             some calls\n",
        ),
        (
            -60.0,
            "means: the other build 210.0 ns, this build 84.0 ns: -60.00 % (95 % in [-62.00, -58.00] %): faster in \
             some calls\n",
        ),
    ] {
        let text = with_means(percent, 2.0).to_string();
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains(": no difference of the medians found\n"),
            "{text}"
        );
        assert!(!text.contains("no difference found"), "{text}");
    }
}

/// The interval shows it.
#[test]
fn the_text_about_uncertain_means_has_no_finding() {
    let text = with_means(7.0, 9.0).to_string();
    let line = "this build 224.7 ns: +7.00 % (95 % in [-2.00, +16.00] %)\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn means_that_differ_as_the_medians_do_are_not_of_some_calls() {
    let slower = Comparison {
        mean_difference_percent: comparison(30.0).difference_percent,
        ..comparison(30.0)
    };
    let text = slower.to_string();
    assert_eq!(
        text.matches(": this build is slower\n").count(),
        2,
        "{text}"
    );
}

/// Symptom: "in some calls" was about all calls, some of which took longer on both sides.
#[test]
fn means_that_differ_by_less_than_the_medians_are_not_of_some_calls() {
    for (median_percent, mean_percent, finding) in [
        (30.0, 20.0, "this build is slower"),
        (-30.0, -10.0, "this build is faster"),
    ] {
        let diluted = Comparison {
            mean_difference_percent: around(mean_percent),
            ..comparison(2.0 * median_percent)
        };
        assert!(!diluted.is_in_some_calls(), "{diluted}");
        let text = diluted.to_string();
        let line = format!(" %): {finding}\n");
        assert!(text.contains(&line), "{text}");
        assert_eq!(text.matches(finding).count(), 2, "{text}");
    }
}

#[test]
fn means_that_differ_in_the_other_direction_than_the_medians_are_of_some_calls() {
    for (median_percent, mean_percent, finding) in [
        (30.0, -20.0, ": faster in some calls\n"),
        (-30.0, 10.0, ": slower in some calls\n"),
    ] {
        let text = Comparison {
            mean_difference_percent: around(mean_percent),
            ..comparison(2.0 * median_percent)
        }
        .to_string();
        assert!(text.contains(finding), "{text}");
    }
}

#[test]
fn the_json_has_the_means() {
    let comparison = with_means(250.0, 2.0);
    let (json, rounds) = (comparison.json(), comparison.rounds());
    let expected = json!({ "estimate": 250.0, "low": 248.0, "high": 252.0 });
    assert_eq!(json["mean_difference_percent"], expected);
    assert_eq!(rounds.mean_a_ns, 210.0);
    assert_eq!(json["mean_b_ns"], 735.0);
    assert_eq!(rounds.mean_rounds_ns.len(), 60);
    assert_eq!(json["is_mean_different"], true);
    assert_eq!(json["is_different"], false);
}

/// Symptom: "this build is slower" was above an interval in % with 0 in it.
#[test]
fn an_interval_with_zero_in_it_is_no_difference() {
    let unsure = Comparison {
        difference_percent: Interval {
            low: -0.1,
            ..comparison(3.0).difference_percent
        },
        ..comparison(3.0)
    };
    assert!(!unsure.is_different(), "{unsure}");
}

/// Symptom: 18 of 96 comparisons of closures with equal text reported a difference. Cause: the
/// linker's choice of places for their code.
#[test]
fn a_difference_of_two_routines_is_at_least_one_percent() {
    for (ns, is_different) in [(1.9, false), (-1.9, false), (2.1, true), (-2.1, true)] {
        let routines = Comparison {
            sides: Sides::Routines,
            ..comparison(ns)
        };
        assert_eq!(routines.is_different(), is_different, "{ns}");
    }
}

#[test]
fn the_text_has_the_finding_about_the_second_side() {
    for (sides, ns, finding) in [
        (Sides::Builds, 30.0, "this build is slower"),
        (Sides::Builds, -30.0, "this build is faster"),
        (Sides::Builds, 0.0, "no difference found"),
        (Sides::Routines, 30.0, "B is slower"),
    ] {
        let text = Comparison {
            sides,
            ..comparison(ns)
        }
        .to_string();
        assert!(text.contains(finding), "{text}");
    }
}

#[test]
fn the_text_has_the_estimate_with_its_interval_and_what_it_does_not_see() {
    let text = comparison(2.0).to_string();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "medians per iteration (of 16 in a row; one alone, as in `pairs:`, may take longer): the other build \
             200.0 ns, this build 202.0 ns",
            "this build less the other build: +2.000 ns (+1.00 %): this build is slower",
            "95 % (of this link order) in [+1.000, +3.000] ns ([+0.50, +1.50] %), over 10 processes of each build",
            "means: the other build 210.0 ns, this build 212.0 ns: +1.00 % (95 % in [+0.50, +1.50] %)",
            "3000 couples of 16 iterations each, 0 more disturbed and excluded",
            "not seen: where each build's linker has placed the code, and what a call takes alone, because the \
             iterations of a pair may overlap (latency() before iter compares it); a difference below 0.5 % never counts",
        ]
    );
}

/// Symptom: a routine of three short chains passed, whose slowest chain had become half as long
/// again: its iterations overlapped.
#[test]
fn iterations_overlap_only_where_a_pair_has_several() {
    for (iterations_per_pair, may_overlap) in [(1, false), (2, true)] {
        let text = Comparison {
            iterations_per_pair,
            ..comparison(2.0)
        }
        .to_string();
        assert_eq!(text.contains("may overlap"), may_overlap, "{text}");
    }
}

/// Symptom: a slowdown of a future of a few ns passed a limit, because it read as a small one.
#[test]
fn a_comparison_of_short_pairs_hides_a_part_of_a_slowdown() {
    for (share, is_hidden) in [(0.09, false), (0.4, true)] {
        let comparison = Comparison {
            cost_share: Some(CostShare(share)),
            ..comparison(2.0)
        };
        assert_eq!(comparison.why_hidden().is_some(), is_hidden);
        let text = comparison.to_string();
        assert_eq!(
            text.contains("40 % of a pair is the cost"),
            is_hidden,
            "{text}"
        );
    }
}

/// Symptom: the advice about a future was to leave out a call that nobody had made.
#[test]
fn only_a_comparison_of_latency_can_do_without_it() {
    for is_of_latency in [false, true] {
        let comparison = Comparison {
            cost_share: Some(CostShare(0.4)),
            is_of_latency,
            ..comparison(2.0)
        };
        let reason = comparison.why_hidden().expect("short pairs");
        assert!(reason.contains("; let an iteration do more"), "{reason}");
        assert_eq!(reason.contains("latency()"), is_of_latency, "{reason}");
    }
}

/// Symptom: "pairs: p50 23.1 ns" was above "medians per iteration: ... this build 9.0 ns".
#[test]
fn the_text_about_a_short_routine_says_why_it_is_shorter_than_its_pairs() {
    let short = Comparison {
        median_a_ns: 9.0,
        median_b_ns: 11.0,
        ..comparison(2.0)
    };
    let expected = "medians per iteration (a pair adds some ns, shared by 16 of them): the other build 9.00 ns, ";
    assert!(short.to_string().contains(expected), "{short}");
}

/// Symptom: `pairs:` had 390 ns for a routine, and `compare` 359 ns.
#[test]
fn the_text_says_that_the_medians_are_of_iterations_in_a_row() {
    for (iterations_per_pair, is_said) in [(1, false), (16, true)] {
        let text = Comparison {
            iterations_per_pair,
            sides: Sides::Routines,
            ..comparison(2.0)
        }
        .to_string();
        assert_eq!(text.contains(" (of 16 in a row; "), is_said, "{text}");
    }
}

/// Symptom: "B less A: -0.000 ns".
#[test]
fn a_difference_that_rounds_to_zero_has_no_sign() {
    let text = comparison(-0.000_4).to_string();
    assert!(
        text.contains("this build less the other build: 0.000 ns (0.00 %)"),
        "{text}"
    );
}

/// A script would divide the interval in ns by the time of A, which is not the ratio's
/// interval.
#[test]
fn the_json_has_the_interval_of_the_ratio() {
    let json = comparison(2.0).json();
    let expected = json!({ "estimate": 1.0, "low": 0.5, "high": 1.5 });
    assert_eq!(json["difference_percent"], expected);
}

/// Symptom: only the documentation of `Comparison` said whose each median is.
#[test]
fn the_json_names_the_sides_of_the_medians() {
    for (sides, names) in [
        (Sides::Routines, ["A", "B"]),
        (Sides::Builds, ["the other build", "this build"]),
    ] {
        let comparison = Comparison {
            sides,
            ..comparison(2.0)
        };
        let json = comparison.json();
        let found = ["a", "b"].map(|side| json[side].as_str().expect("a name"));
        assert_eq!(found, names);
    }
}

/// Symptom: "+2.000 ns (+inf %)".
#[test]
fn of_a_time_of_zero_the_text_has_no_percentage() {
    for ns in [0.0, 2.0] {
        let text = Comparison {
            median_a_ns: 0.0,
            difference_percent: Interval {
                estimate: f64::INFINITY,
                low: f64::NAN,
                high: f64::INFINITY,
            },
            ..comparison(ns)
        }
        .estimate_and_interval()
        .join("; ");
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
        assert!(
            text.contains(" ns; 95 %") && text.contains("] ns, over"),
            "{text}"
        );
    }
}

#[test]
fn the_text_about_two_routines_names_copies_and_the_second_routine() {
    let text = Comparison {
        sides: Sides::Routines,
        ..comparison(-4.0)
    }
    .to_string();
    for words in [
        "A 200.0 ns, B 196.0 ns\n",
        "B less A: -4.000 ns (-2.00 %): B is faster\n",
        "over 10 copies of the code\n",
        "not seen: the places of functions that only one side calls, and what a call takes alone",
    ] {
        assert!(text.contains(words), "{text}");
    }
}

/// Symptom: "32109 couples, 953 more disturbed and included", but these were among the 32,109.
#[test]
fn disturbed_couples_are_further_ones_only_if_they_are_excluded() {
    let mut disturbances = Disturbances::default();
    disturbances.add(Disturbance::Stolen, 7);
    for (counting, words) in [
        (
            Counting::Undisturbed,
            "7 more disturbed and excluded: stolen 7",
        ),
        (Counting::All, "7 disturbed and included: stolen 7"),
    ] {
        let text = Comparison {
            couples_disturbed: 7,
            disturbances: disturbances.clone(),
            counting,
            ..comparison(2.0)
        }
        .to_string();
        assert!(text.contains(&format!("each, {words}\n")), "{text}");
    }
}
