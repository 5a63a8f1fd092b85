//! `-- --pairs`: quantiles by `bench_pairs`, beside what criterion says with `WallTime`, and divan
//! with the counter.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BatchSize, Criterion};
use serde_json::{Value, json};
use tickline_criterion::{BenchPairs, CounterTime};

use crate::delays::{chain, long, truth_ns};
use crate::peer;
use crate::{Output, Setting};

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
    /// divan's median and mean.
    divan_ns: [f64; 2],
    /// criterion's mean with `CounterTime`, and the quantiles of the pairs.
    told_ns: f64,
    pairs: Value,
}

pub(crate) fn run(effort: &Effort, directory: &Path, setting: Setting) -> Result<(), Box<dyn Error>> {
    let time = CounterTime::builder().output_directory(directory).start_or_wall_time();
    // A closure of its own: one that first looks whether there is a delay takes 2 ns.
    let mut rows = vec![row(effort, directory, &time, ("empty", None), |_| (), || 0.0)?];
    let multiplication_ns = long(effort.truth, || truth_ns(1_000)) / 1_000.0;
    for (name, delay_ns) in [("0 ns", 0.0), ("20 ns", 20.0), ("50 ns", 50.0), ("100 ns", 100.0)] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred at most")]
        let count = (delay_ns / multiplication_ns).round() as u32;
        let routine = move |input| {
            black_box(chain(input, count));
        };
        rows.push(row(effort, directory, &time, (name, Some(count)), routine, || {
            long(effort.truth, || truth_ns(count))
        })?);
    }
    match setting.output {
        Output::Text => print(&rows, &time, setting.what()),
        Output::Json => println!("{}", to_json(&rows, &time)),
    }
    Ok(())
}

fn row(
    effort: &Effort,
    directory: &Path,
    time: &CounterTime,
    (name, count): (&'static str, Option<u32>),
    routine: impl Fn(u64) + Copy,
    truth: impl Fn() -> f64,
) -> Result<Row, Box<dyn Error>> {
    let before_ns = truth();
    let wall = format!("{name}, WallTime");
    criterion(effort, directory, WallTime).bench_function(&wall, |bencher| {
        bencher.iter_batched(|| 3, routine, BatchSize::PerIteration);
    });
    let divan_ns = peer::median_and_mean_ns(count, effort.measurement)?;
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
        divan_ns,
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

fn quantile(row: &Row, key: &str) -> f64 {
    row.pairs["quantiles_ns"][key].as_f64().unwrap_or(f64::NAN)
}

/// The error of p50, and the same less that of the empty function, ns.
fn errors_ns(row: &Row, rows: &[Row]) -> (f64, f64) {
    let error_ns = |row: &Row| quantile(row, "p50") - row.truth_ns;
    let call_ns = rows.get(1).filter(|_| row.name != "empty").map_or(0.0, error_ns);
    (error_ns(row), error_ns(row) - call_ns)
}

fn to_json(rows: &[Row], time: &CounterTime) -> Value {
    let row = |row: &Row| {
        let error_ns = |ns: f64| ns - row.truth_ns;
        let (p50_error_ns, less_call_ns) = errors_ns(row, rows);
        json!({
            "routine": row.name,
            "truth_ns": row.truth_ns,
            "wall_time_mean_error_ns": error_ns(row.wall_ns[0]),
            "wall_time_median_error_ns": error_ns(row.wall_ns[1]),
            "divan_median_error_ns": error_ns(row.divan_ns[0]),
            "divan_mean_error_ns": error_ns(row.divan_ns[1]),
            "pairs_mean_error_ns": error_ns(row.told_ns),
            "pairs_p50_error_ns": p50_error_ns,
            "pairs_p50_error_less_call_ns": less_call_ns,
            "quantiles_ns": row.pairs["quantiles_ns"],
            "pairs": row.pairs["pairs"],
            "disturbed": row.pairs["disturbed"],
        })
    };
    json!({
        "calibration": time.calibration().map(|calibration| calibration.to_string()),
        "resolution_ns": time.calibration().map(|calibration| calibration.resolution_ns),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn print(rows: &[Row], time: &CounterTime, what: &str) {
    println!(
        "\n{what}. ns. error: against the truth, by long runs before and after; p50 less the call: that of\n\
         the row of 0 ns, an empty function in an empty pipeline, is taken off"
    );
    println!(
        "{:<8} {:>7} | {:^17} | {:^17} | {:^62} |",
        "", "", "WallTime, error", "divan, error", "pairs: CounterTime, errors, and quantiles"
    );
    println!(
        "{:<8} {:>7} | {:>8} {:>8} | {:>8} {:>8} | {:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>7} | pairs, disturbed",
        "",
        "truth",
        "mean",
        "median",
        "mean",
        "median",
        "mean",
        "p50",
        "less call",
        "p90",
        "p99",
        "p99.9",
        "max us"
    );
    for row in rows {
        let (error_ns, rest_ns) = errors_ns(row, rows);
        print!("{:<8} {:>7.2} |", row.name, row.truth_ns);
        for ns in row.wall_ns {
            print!(" {:>+8.2}", ns - row.truth_ns);
        }
        let [median_ns, mean_ns] = row.divan_ns;
        print!(" | {:>+8.2} {:>+8.2}", mean_ns - row.truth_ns, median_ns - row.truth_ns);
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
