//! `-- --pairs`: quantiles by `bench_pairs`, and what criterion says with `WallTime`.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BatchSize, Criterion};
use serde_json::Value;
use tickline_criterion::{BenchPairs, CounterTime};

use crate::delays::{chain, long, truth_ns};

/// How long criterion measures each, and how long the truths are.
pub(crate) struct Effort {
    pub(crate) warm_up: Duration,
    pub(crate) measurement: Duration,
    pub(crate) truth: Duration,
}

pub(crate) const FULL: Effort = Effort {
    warm_up: Duration::from_millis(500),
    measurement: Duration::from_secs(2),
    truth: Duration::from_millis(300),
};

pub(crate) const SHORT: Effort = Effort {
    warm_up: Duration::from_millis(20),
    measurement: Duration::from_millis(60),
    truth: Duration::from_millis(20),
};

/// What was found for a delay.
struct Row {
    name: &'static str,
    truth_ns: f64,
    /// criterion's mean and median with `WallTime`.
    wall_ns: [f64; 2],
    /// criterion's mean with `CounterTime`, and the quantiles of the pairs.
    told_ns: f64,
    pairs: Value,
}

pub(crate) fn run(effort: &Effort, directory: &Path, what: &str) -> Result<(), Box<dyn Error>> {
    let time = CounterTime::builder().output_directory(directory).start_or_wall_time();
    let mut rows = vec![row(effort, directory, &time, ("empty", None))?];
    let multiplication_ns = long(effort.truth, || truth_ns(1_000)) / 1_000.0;
    for (name, delay_ns) in [("0 ns", 0.0), ("20 ns", 20.0), ("50 ns", 50.0), ("100 ns", 100.0)] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred at most")]
        let count = (delay_ns / multiplication_ns).round() as u32;
        rows.push(row(effort, directory, &time, (name, Some(count)))?);
    }
    print(&rows, &time, what);
    Ok(())
}

fn row(
    effort: &Effort,
    directory: &Path,
    time: &CounterTime,
    (name, count): (&'static str, Option<u32>),
) -> Result<Row, Box<dyn Error>> {
    let routine = |input: u64| {
        if let Some(count) = count {
            black_box(chain(input, count));
        }
    };
    let truth = || count.map_or(0.0, |count| long(effort.truth, || truth_ns(count)));
    let before_ns = truth();
    let wall = format!("{name}, WallTime");
    criterion(effort, directory, WallTime).bench_function(&wall, |bencher| {
        bencher.iter_batched(|| 3, routine, BatchSize::PerIteration);
    });
    let counter = format!("{name}, pairs");
    criterion(effort, directory, time.clone()).bench_pairs(counter.as_str(), |bencher| {
        bencher.iter_batched(|| 3, routine, BatchSize::PerIteration);
    });
    let estimate = |id: &str, name: &str| -> Result<f64, Box<dyn Error>> {
        let stored = json(&directory.join(id).join("new/estimates.json"))?;
        stored[name]["point_estimate"].as_f64().ok_or_else(|| format!("no {name} of {id}").into())
    };
    Ok(Row {
        name,
        truth_ns: f64::midpoint(before_ns, truth()),
        wall_ns: [estimate(&wall, "mean")?, estimate(&wall, "median")?],
        told_ns: estimate(&counter, "mean")?,
        pairs: json(&directory.join(&counter).join("new/pairs.json"))?,
    })
}

fn json(path: &Path) -> Result<Value, Box<dyn Error>> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

fn criterion<M: Measurement>(effort: &Effort, directory: &Path, measurement: M) -> Criterion<M> {
    Criterion::default()
        .with_measurement(measurement)
        .without_plots()
        .output_directory(directory)
        .warm_up_time(effort.warm_up)
        .measurement_time(effort.measurement)
}

fn print(rows: &[Row], time: &CounterTime, what: &str) {
    println!(
        "\n{what}. ns. error: against the truth, by long runs before and after; p50 less the call: that of\n\
         the row of 0 ns, an empty function in an empty pipeline, is taken off"
    );
    println!(
        "{:<8} {:>7} | {:^17} | {:^62} |",
        "", "", "WallTime, error", "pairs: CounterTime, errors, and quantiles"
    );
    println!(
        "{:<8} {:>7} | {:>8} {:>8} | {:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>7} | pairs, disturbed",
        "", "truth", "mean", "median", "mean", "p50", "less call", "p90", "p99", "p99.9", "max us"
    );
    let quantile = |row: &Row, key: &str| row.pairs["quantiles_ns"][key].as_f64().unwrap_or(f64::NAN);
    let call_ns = rows.get(1).map_or(0.0, |call| quantile(call, "p50") - call.truth_ns);
    for row in rows {
        let error_ns = quantile(row, "p50") - row.truth_ns;
        let rest_ns = if row.name == "empty" { error_ns } else { error_ns - call_ns };
        print!("{:<8} {:>7.2} |", row.name, row.truth_ns);
        for ns in row.wall_ns {
            print!(" {:>+8.2}", ns - row.truth_ns);
        }
        print!(" | {:>+8.2} {:>+8.2} {:>+9.2}", row.told_ns - row.truth_ns, error_ns, rest_ns);
        for key in ["p90", "p99", "p99_9"] {
            print!(" {:>8.2}", quantile(row, key));
        }
        print!(" {:>7.1} | {}", quantile(row, "max") / 1e3, row.pairs["pairs"]);
        for (cause, count) in row.pairs["disturbed"].as_object().into_iter().flatten() {
            if count != 0 {
                print!(", {cause} {count}");
            }
        }
        println!();
    }
    match time.calibration() {
        Some(calibration) => println!("{calibration}"),
        None => println!("CounterTime measured with WallTime here: the table says nothing about the counter"),
    }
}
