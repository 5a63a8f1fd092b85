//! Comparisons, run by criterion.

use std::hint::black_box;
use std::time::Duration;

use tickline_criterion::results::{Comparison, Interval};
use tickline_criterion::{CounterTime, compare};

use crate::directory::Directory;

fn work(steps: u64) -> u64 {
    (0..black_box(steps)).fold(1, |value, step| black_box(value ^ step))
}

/// A comparison with a B that does half as much again.
fn with_longer_b(test: &str) -> Comparison {
    let directory = Directory::new(test);
    let mut criterion = directory
        .by_counter()
        .measurement_time(Duration::from_millis(200));
    let comparison = compare(&mut criterion, "longer", || work(100), || work(150));
    comparison.expect("a comparison")
}

/// A comparison in a group with a B that does a third less. Disturbed couples count.
fn with_shorter_b(test: &str) -> Comparison {
    let directory = Directory::new(test);
    let mut criterion = directory.by(CounterTime::builder().include_disturbed());
    let mut group = criterion.benchmark_group("group");
    let comparison = compare(&mut group, "shorter", || work(150), || work(100));
    comparison.expect("a comparison")
}

#[test]
fn b_with_half_as_much_work_again_is_slower() {
    let comparison = with_longer_b("slower");
    assert!(
        comparison.is_different() && comparison.difference_ns.estimate > 0.0,
        "{comparison:?}"
    );
}

#[test]
fn an_estimate_is_in_its_interval() {
    for comparison in [with_longer_b("interval-b"), with_shorter_b("interval-a")] {
        let Interval {
            low,
            estimate,
            high,
            ..
        } = comparison.difference_ns;
        assert!(low <= estimate && estimate <= high, "{comparison:?}");
    }
}

/// 50 % more, or 33 % less. The limits are wide, because a loaded machine shifts medians.
#[test]
fn the_percentage_is_that_of_the_work() {
    for comparison in [with_longer_b("percent-b"), with_shorter_b("percent-a")] {
        let percent = comparison.difference_percent.estimate;
        assert!((20.0..90.0).contains(&percent.abs()), "{comparison:?}");
        let is_slower = comparison.difference_ns.estimate > 0.0;
        assert_eq!(percent > 0.0, is_slower, "{comparison:?}");
    }
}

#[test]
fn b_with_less_work_is_faster_also_if_disturbed_couples_count() {
    let comparison = with_shorter_b("faster");
    assert!(
        comparison.is_different() && comparison.difference_ns.estimate < 0.0,
        "{comparison:?}"
    );
}

/// Symptom: "no difference found".
#[test]
fn b_with_slow_calls_has_another_mean() {
    let directory = Directory::new("slow-calls");
    let mut criterion = directory
        .by_counter()
        .measurement_time(Duration::from_millis(200));
    let mut calls = 0_u64;
    let b = || {
        calls += 1;
        work(if calls.is_multiple_of(4) {
            55_000
        } else {
            5_000
        })
    };
    let comparison = compare(&mut criterion, "rare", || work(5_000), b).expect("a comparison");
    assert!(comparison.is_mean_different(), "{comparison:?}");
    // 250 %. A loaded machine shifts times.
    let percent = comparison.mean_difference_percent.estimate;
    assert!((100.0..500.0).contains(&percent), "{comparison}");
    assert!(
        comparison.difference_percent.estimate < 50.0,
        "{comparison}"
    );
}

/// A comparison of two routines, and its folder.
fn stored(test: &str) -> (Directory, Comparison) {
    let directory = Directory::new(test);
    let mut criterion = directory.by(CounterTime::builder().include_disturbed());
    let comparison = compare(&mut criterion, "work", || work(100), || work(300));
    (directory, comparison.expect("a comparison"))
}

#[test]
fn a_comparison_is_stored() {
    let (directory, comparison) = stored("stored");
    let json = directory.json("work/new/comparison.json");
    assert_eq!(json["benchmark"], "work");
    assert_eq!(json["is_different"], comparison.is_different());
    assert_eq!(json["couples_counted"], comparison.couples_counted);
}

/// Symptom: a run of `compare` could be called too short to be a baseline, with advice to call
/// `cost_share`, which it lacks.
#[test]
fn a_comparison_of_routines_is_not_stored_with_the_share_of_a_pairs_cost() {
    let (directory, _) = stored("share");
    let json = directory.json("work/new/comparison.json");
    assert!(json["pair_cost_share"].is_null(), "{json}");
}

#[test]
fn criterions_report_has_a_comparisons_plot_once() {
    let (directory, _) = stored("report");
    let page = directory.text("work/report/index.html");
    assert_eq!(page.matches("<img src=\"comparison.svg\"").count(), 1);
    assert!(page.contains("<h3>In turns: A and B</h3>"), "{page}");
}

#[test]
fn the_plot_of_a_comparison_names_both_routines() {
    let (directory, _) = stored("plot");
    let plot = directory.text("work/report/comparison.svg");
    assert!(plot.contains("\nA\n") && plot.contains("\nB\n"), "{plot}");
}

/// If a filter excludes the benchmark, there is no result and no file.
#[test]
fn a_benchmark_that_criterion_does_not_measure_is_not_compared() {
    let directory = Directory::new("filtered");
    let mut criterion = directory.by_counter().with_filter("another");
    assert_eq!(
        compare(&mut criterion, "longer", || work(1), || work(2)),
        None
    );
    assert!(!directory.0.join("longer").exists());
}
