//! Comparisons through the whole of criterion.

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use serde_json::Value;
use tickline_criterion::{Comparison, CounterTime, compare};

use crate::directory::Directory;

fn by_counter(directory: &Directory) -> Criterion<CounterTime> {
    let time = CounterTime::builder().quiet().output_directory(&directory.0).start_or_wall_time();
    directory.criterion(time).measurement_time(Duration::from_millis(200))
}

fn work(steps: u64) -> u64 {
    (0..black_box(steps)).fold(1, |value, step| black_box(value ^ step))
}

#[test]
fn a_routine_that_takes_half_as_long_again_is_slower_whoever_comes_first() {
    let directory = Directory::new("compare");
    let mut criterion = by_counter(&directory);
    let comparison = compare(&mut criterion, "longer", || work(100), || work(150)).expect("a comparison");
    check(&comparison, 1.0);
    let stored = fs::read(directory.0.join("longer/new/comparison.json")).expect("the JSON");
    let stored: Value = serde_json::from_slice(&stored).expect("JSON");
    assert_eq!(stored["is_different"], true);
    assert_eq!(stored["benchmark"], "longer");
    assert_eq!(stored["couples_counted"].as_u64(), Some(comparison.couples));
    let page = fs::read_to_string(directory.0.join("longer/report/index.html")).expect("criterion's page");
    assert_eq!(page.matches("<img src=\"comparison.svg\"").count(), 1);
    let plot = fs::read_to_string(directory.0.join("longer/report/comparison.svg")).expect("the plot");
    assert!(plot.contains("first") && plot.contains("second"), "{plot}");
    let mut group = criterion.benchmark_group("group");
    let comparison = compare(&mut group, "shorter", || work(150), || work(100)).expect("a comparison");
    check(&comparison, -1.0);
}

fn check(comparison: &Comparison, sign: f64) {
    assert!(comparison.is_different() && comparison.difference_ns * sign > 0.0, "{comparison:?}");
    let Comparison { low_ns, difference_ns, high_ns, .. } = comparison;
    assert!(low_ns <= difference_ns && difference_ns <= high_ns, "{comparison:?}");
    // Half as much again, or a third less; a loaded machine moves medians.
    assert!((20.0..90.0).contains(&comparison.percent().abs()), "{comparison:?}");
    let text = comparison.to_string();
    assert!(text.contains("; estimate over ") && text.contains(" rounds: "), "{text}");
    assert!(
        text.contains(if sign > 0.0 { "the second is slower" } else { "the second is faster" }),
        "{text}"
    );
}

/// A test measures nothing, and shows nothing.
#[test]
fn what_criterion_does_not_measure_is_not_compared() {
    let directory = Directory::new("filtered");
    let mut criterion = by_counter(&directory).with_filter("another");
    assert_eq!(compare(&mut criterion, "longer", || work(1), || work(2)), None);
    assert!(!directory.0.join("longer").exists());
}
