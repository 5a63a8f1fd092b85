//! Comparisons, run by criterion.

use std::hint::black_box;
use std::time::Duration;

use tickline_criterion::{Comparison, CounterTime, compare};

use crate::directory::Directory;

fn work(steps: u64) -> u64 {
    (0..black_box(steps)).fold(1, |value, step| black_box(value ^ step))
}

#[test]
fn a_routine_with_half_as_much_work_again_is_slower_as_a_and_as_b() {
    let directory = Directory::new("compare");
    let mut criterion = directory
        .by_counter()
        .measurement_time(Duration::from_millis(200));
    let comparison =
        compare(&mut criterion, "longer", || work(100), || work(150)).expect("a comparison");
    check(&comparison, 1.0);
    let stored = directory.json("longer/new/comparison.json");
    assert_eq!(stored["is_different"], true);
    assert_eq!(stored["benchmark"], "longer");
    assert_eq!(
        stored["couples_counted"].as_u64(),
        Some(comparison.couples_counted)
    );
    let page = directory.text("longer/report/index.html");
    assert_eq!(page.matches("<img src=\"comparison.svg\"").count(), 1);
    let plot = directory.text("longer/report/comparison.svg");
    assert!(plot.contains("\nA\n") && plot.contains("\nB\n"), "{plot}");
    let mut criterion = directory.by(CounterTime::builder().include_disturbed());
    let mut group = criterion.benchmark_group("group");
    let comparison =
        compare(&mut group, "shorter", || work(150), || work(100)).expect("a comparison");
    check(&comparison, -1.0);
    // Symptom: "32109 couples, 953 more disturbed and included", but these were among the 32,109.
    let text = comparison.to_string();
    assert!(
        text.contains(" disturbed and included") && !text.contains(" more "),
        "{text}"
    );
}

fn check(comparison: &Comparison, sign: f64) {
    assert!(
        comparison.is_different() && comparison.difference_ns * sign > 0.0,
        "{comparison:?}"
    );
    let Comparison {
        low_ns,
        difference_ns,
        high_ns,
        ..
    } = comparison;
    assert!(
        low_ns <= difference_ns && difference_ns <= high_ns,
        "{comparison:?}"
    );
    // 50 % more, or 33 % less; the limits are wider, because a loaded machine shifts medians.
    assert!(
        (20.0..90.0).contains(&comparison.difference_percent().abs()),
        "{comparison:?}"
    );
    let text = comparison.to_string();
    assert!(
        text.contains("; estimate over ") && text.contains(" rounds: "),
        "{text}"
    );
    assert!(
        text.contains(if sign > 0.0 {
            "B is slower"
        } else {
            "B is faster"
        }),
        "{text}"
    );
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
