//! Distributions, run by criterion: text, files, page, and criterion's own estimates.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId};
use serde_json::Value;
use tickline_criterion::{BenchPairs, CounterTime};
use tickline_observe::skip;

use crate::directory::Directory;

fn quantiles(json: &Value) -> Vec<f64> {
    ["p50", "p90", "p99", "p99_9", "max"]
        .map(|key| json["quantiles_ns"][key].as_f64().expect("a number"))
        .to_vec()
}

/// The number of pairs, of pairs that count, and of pairs in the histogram.
fn counts(json: &Value) -> (u64, u64, u64) {
    let histogram = json["histogram_ns"].as_array().expect("a histogram");
    let sum = histogram
        .iter()
        .map(|bin| bin[1].as_u64().expect("a count"))
        .sum();
    (
        json["pairs"].as_u64().expect("a count"),
        json["pairs_counted"].as_u64().expect("a count"),
        sum,
    )
}

fn check(directory: &Directory, name: &str) -> Value {
    let json = directory.json(&format!("{name}/new/pairs.json"));
    assert_eq!(json["benchmark"], name);
    let (pairs, counted, in_histogram) = counts(&json);
    assert!(
        pairs > 0 && counted <= pairs && counted == in_histogram,
        "{json}"
    );
    let disturbed = json["disturbed"].as_object().expect("disturbances");
    let disturbed: u64 = disturbed
        .values()
        .map(|count| count.as_u64().expect("a count"))
        .sum();
    if json["disturbed_are"] == "excluded" {
        assert_eq!(counted + disturbed, pairs, "{json}");
    }
    let longest = json["disturbed_max_ns"].as_object().expect("lengths");
    for (name, count) in json["disturbed"].as_object().expect("disturbances") {
        // Pairs that ran backwards, or within a tick, have no length.
        assert!(*count != 0 || longest[name].is_null(), "{name}: {json}");
    }
    assert!(quantiles(&json).is_sorted(), "{json}");
    let plot = directory.text(&format!("{name}/report/pairs.svg"));
    assert!(plot.contains("p50") && plot.contains(name), "{plot}");
    let page = directory.text(&format!("{name}/report/index.html"));
    assert_eq!(page.matches("<img src=\"pairs.svg\"").count(), 1);
    json
}

#[test]
fn each_benchmark_has_its_distribution_beside_criterions_files() {
    let directory = Directory::new("pairs");
    let mut criterion = directory.by_counter();
    criterion.bench_pairs("alone", |bencher| bencher.iter(|| black_box(6_u64).pow(7)));
    criterion.bench_pairs_with_input(BenchmarkId::new("with", 7), &7, |bencher, input| {
        bencher.iter(|| input * 7)
    });
    let mut group = criterion.benchmark_group("group");
    group.bench_pairs("text", |bencher| {
        bencher.iter_batched(
            || vec![7_u8; 64],
            |bytes| bytes.is_sorted(),
            BatchSize::SmallInput,
        );
    });
    group.bench_pairs_with_input(BenchmarkId::new("sort", 8), &[3, 1, 2], |bencher, input| {
        bencher.iter_batched_ref(
            || *input,
            |values| values.sort_unstable(),
            BatchSize::PerIteration,
        );
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    group.bench_pairs("async", |bencher| {
        bencher.iter_async(|future| runtime.block_on(future), tokio::task::yield_now);
    });
    group.finish();
    for name in [
        "alone",
        "with/7",
        "group/text",
        "group/sort/8",
        "group/async",
    ] {
        assert_eq!(check(&directory, name)["iterations_per_pair"], 1);
    }
}

fn keys(json: &Value) -> BTreeSet<&str> {
    let object = json.as_object().expect("keys");
    object.keys().map(String::as_str).collect()
}

/// The names between backticks in a cell of a table.
fn names(cell: &str) -> BTreeSet<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Symptom: only the code named the keys, which scripts need for p99.
#[test]
fn the_documents_list_the_keys_of_the_json() {
    let directory = Directory::new("keys");
    directory.by_counter().bench_pairs("keys", |bencher| {
        bencher.iter(|| black_box(6_u64).pow(7));
    });
    let json = check(&directory, "keys");
    let mut documented = BTreeSet::new();
    for line in include_str!("../../src/bench_pairs.rs").lines() {
        if let Some(row) = line.strip_prefix("/// | ")
            && let Some((key, value)) = row.split_once(" | ")
        {
            documented.extend(names(key));
            if key == "`quantiles_ns`" {
                assert_eq!(names(value), keys(&json["quantiles_ns"]));
            }
        }
    }
    // Only a run with `--baseline` has it.
    assert!(documented.remove("baseline"), "{documented:?}");
    assert_eq!(documented, keys(&json));
}

#[test]
fn the_drop_of_a_result_is_not_timed() {
    struct SlowDrop;
    impl Drop for SlowDrop {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    let directory = Directory::new("drop");
    directory.by_counter().bench_pairs("drop", |bencher| {
        bencher.iter_with_large_drop(|| SlowDrop);
    });
    let json = check(&directory, "drop");
    assert_eq!(json["iterations_per_pair"], 1);
    let median_ns = quantiles(&json)[0];
    assert!(median_ns < 100_000.0, "{median_ns} ns");
}

/// criterion's mean is the mean of the pairs that count. If no pair is excluded, it is the mean of
/// the histogram.
#[test]
fn criterion_gets_the_mean_of_the_pairs_that_count() {
    let directory = Directory::new("mean");
    let mut criterion = directory.by(CounterTime::builder().include_disturbed());
    criterion.bench_pairs("mean", |bencher| {
        bencher.iter(|| std::thread::sleep(Duration::from_micros(50)));
    });
    let json = directory.json("mean/new/pairs.json");
    assert_eq!(json["disturbed_are"], "included");
    let (pairs, counted, _) = counts(&json);
    let backwards = json["disturbed"]["backwards"].as_u64().expect("a count");
    assert_eq!(pairs, counted + backwards, "all pairs count");
    let sample = directory.json("mean/new/sample.json");
    let numbers = |key: &str| -> Vec<f64> {
        let values = sample[key].as_array().expect("numbers");
        values
            .iter()
            .map(|value| value.as_f64().expect("a number"))
            .collect()
    };
    let (iterations, times_ns) = (numbers("iters"), numbers("times"));
    let pairs = json["pairs"].as_f64().expect("a count");
    if iterations.iter().sum::<f64>() != pairs {
        return skip("a pair was excluded");
    }
    // Each of criterion's times is a sum over the pairs of a sample.
    let mean_ns = times_ns.iter().sum::<f64>() / pairs;
    let ours_ns = json["mean_ns"].as_f64().expect("a number");
    // The cost of a pair is measured anew between samples.
    assert!(
        (ours_ns / mean_ns - 1.0).abs() < 0.01,
        "{ours_ns} and {mean_ns}"
    );
}

#[test]
fn a_batch_is_large_enough_for_its_share_and_times_are_per_iteration() {
    let directory = Directory::new("batch");
    let mut criterion = directory.by_counter();
    criterion.bench_pairs("batch", |bencher| {
        bencher.cost_share(0.01).iter(|| black_box(3_u64));
    });
    criterion.bench_pairs("inputs", |bencher| {
        bencher
            .cost_share(0.01)
            .iter_batched(|| 3_u64, |input| input * 7, BatchSize::PerIteration);
    });
    for name in ["batch", "inputs"] {
        let json = check(&directory, name);
        let iterations = json["iterations_per_pair"].as_f64().expect("a count");
        assert!(iterations > 1.0, "{json}");
    }
}

#[test]
#[should_panic(expected = "a pair's share of 2 is outside 0.0001 to 1")]
fn a_share_of_more_than_all_is_refused() {
    let directory = Directory::new("share");
    directory.by_counter().bench_pairs("share", |bencher| {
        bencher.cost_share(2.0).iter(|| ());
    });
}

#[test]
#[should_panic(expected = "the benchmark must call iter")]
fn a_benchmark_that_times_nothing_is_refused() {
    let directory = Directory::new("none");
    directory.by_counter().bench_pairs("none", |_| ());
}
