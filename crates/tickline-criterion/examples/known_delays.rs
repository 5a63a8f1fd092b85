//! How far criterion is off with `WallTime` and with `TscTime`, where the truth is known: an empty routine, a chain of
//! multiplications whose time is known from a long run, and long routines that both must agree on.
//!
//! `cargo run --release -p tickline-criterion --example known_delays [-- --short]`
//!
//! Nothing else should run meanwhile, and the process should be bound to one CPU (`taskset -c 1`).
#![expect(clippy::print_stdout, reason = "a program that prints tables")]

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fs;
use std::hash::Hasher;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::measurement::{Measurement, WallTime};
use criterion::{BatchSize, Criterion};
use tickline_criterion::TscTime;

/// How much is measured.
struct Effort {
    samples: usize,
    warm_up: Duration,
    measurement: Duration,
    /// Pairs of readings looked at one by one.
    singles: usize,
    /// The long run behind a known delay.
    truth: Duration,
    /// Rounds of the long routines.
    rounds: usize,
}

const FULL: Effort = Effort {
    samples: 100,
    warm_up: Duration::from_secs(1),
    measurement: Duration::from_secs(3),
    singles: 100_000,
    truth: Duration::from_millis(500),
    rounds: 50,
};

const SHORT: Effort = Effort {
    samples: 10,
    warm_up: Duration::from_millis(10),
    measurement: Duration::from_millis(50),
    singles: 1_000,
    truth: Duration::from_millis(20),
    rounds: 3,
};

fn main() -> Result<(), Box<dyn Error>> {
    let effort = if std::env::args().any(|argument| argument == "--short") { SHORT } else { FULL };
    let directory = std::env::temp_dir().join(format!("tickline-known-delays-{}", std::process::id()));
    let time = TscTime::or_wall_time();
    let rows = rows(&effort, &directory, &time);
    let agreements = agreements(&effort, &directory, &time);
    fs::remove_dir_all(&directory)?;
    print_rows(&rows?, &time);
    print_agreements(&agreements?);
    Ok(())
}

/// What one measurement found, ns.
struct Found {
    /// The median of criterion's samples.
    median: f64,
    /// The standard deviation of criterion's samples, each a mean of many iterations.
    of_samples: f64,
    /// The standard deviation of pairs of readings one by one, without the upper hundredth, which was interrupted.
    of_singles: f64,
}

struct Row {
    name: String,
    truth_ns: f64,
    wall: Found,
    counter: Found,
}

fn rows(effort: &Effort, directory: &Path, time: &TscTime) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for how in [How::Batched, How::Custom] {
        rows.push(Row {
            name: format!("empty, {}", how.name()),
            truth_ns: 0.0,
            wall: measure(effort, directory, &|| WallTime, how, |input| input)?,
            counter: measure(effort, directory, &|| time.clone(), how, |input| input)?,
        });
    }
    let multiplication_ns = truth_ns(effort, 1_000) / 1_000.0;
    for delay_ns in [20.0, 50.0, 100.0, 1_000.0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand at most")]
        let count = (delay_ns / multiplication_ns).round() as u32;
        // On both sides of the measurements, in case the processor's frequency changes.
        let before_ns = truth_ns(effort, count);
        let wall = measure(effort, directory, &|| WallTime, How::Batched, |input| chain(input, count))?;
        let between_ns = truth_ns(effort, count);
        let counter = measure(effort, directory, &|| time.clone(), How::Batched, |input| chain(input, count))?;
        let after_ns = truth_ns(effort, count);
        let truth_ns = (before_ns + 2.0 * between_ns + after_ns) / 4.0;
        rows.push(Row { name: format!("{delay_ns} ns, batched"), truth_ns, wall, counter });
    }
    Ok(rows)
}

/// So many multiplications, each of which needs the one before. Squares, because a product with a constant would be folded; in
/// rounds of 32, because the end of a longer loop is guessed wrong.
#[inline(never)]
fn chain(mut value: u64, count: u32) -> u64 {
    for _ in 0..count % 32 {
        value = value.wrapping_mul(value);
    }
    for _ in 0..count / 32 {
        for _ in 0..32 {
            value = value.wrapping_mul(value);
        }
    }
    value
}

/// What [`chain`] takes, by a long run in which each call needs the one before: the fastest of blocks of 100 us.
fn truth_ns(effort: &Effort, count: u32) -> f64 {
    let calls = 150_000 / count.max(1);
    let begin = Instant::now();
    let (mut value, mut fastest_ns) = (black_box(3), f64::INFINITY);
    while begin.elapsed() < effort.truth {
        let start = Instant::now();
        for _ in 0..calls {
            value = chain(value, black_box(count));
        }
        fastest_ns = fastest_ns.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    black_box(value);
    fastest_ns
}

#[derive(Clone, Copy)]
enum How {
    /// `iter_batched(PerIteration)`.
    Batched,
    /// `iter_custom`.
    Custom,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            Self::Batched => "batched",
            Self::Custom => "custom",
        }
    }
}

fn measure<M: Measurement + 'static>(
    effort: &Effort,
    directory: &Path,
    measurement: &dyn Fn() -> M,
    how: How,
    routine: impl Fn(u64) -> u64 + Copy,
) -> Result<Found, Box<dyn Error>> {
    let mut criterion = criterion(effort, directory, measurement());
    let time = measurement();
    criterion.bench_function("it", |bencher| match how {
        How::Batched => {
            bencher.iter_batched(
                || 3,
                |input| black_box(routine(black_box(input))),
                BatchSize::PerIteration,
            );
        }
        How::Custom => bencher.iter_custom(|iterations| {
            (0..iterations).fold(time.zero(), |sum, _| time.add(&sum, &one(&time, routine)))
        }),
    });
    let singles: Vec<M::Value> = (0..effort.singles).map(|_| one(&time, routine)).collect();
    let mut singles_ns: Vec<f64> = singles.iter().map(|single| time.to_f64(single)).collect();
    singles_ns.sort_unstable_by(f64::total_cmp);
    singles_ns.truncate(effort.singles - effort.singles / 100);
    let (median, of_samples) = estimates(directory)?;
    Ok(Found { median, of_samples, of_singles: deviation(&singles_ns) })
}

fn one<M: Measurement>(time: &M, routine: impl Fn(u64) -> u64) -> M::Value {
    let input = black_box(3);
    let start = time.start();
    black_box(routine(input));
    time.end(start)
}

fn criterion<M: Measurement>(effort: &Effort, directory: &Path, measurement: M) -> Criterion<M> {
    Criterion::default()
        .with_measurement(measurement)
        .without_plots()
        .output_directory(directory)
        .sample_size(effort.samples)
        .warm_up_time(effort.warm_up)
        .measurement_time(effort.measurement)
}

/// Median and standard deviation as criterion has stored them, ns.
fn estimates(directory: &Path) -> Result<(f64, f64), Box<dyn Error>> {
    let path: PathBuf = directory.join("it").join("new").join("estimates.json");
    let stored: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    let estimate = |name: &str| {
        stored[name]["point_estimate"].as_f64().ok_or_else(|| format!("no {name} in {}", path.display()))
    };
    Ok((estimate("median")?, estimate("std_dev")?))
}

#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

fn print_rows(rows: &[Row], time: &TscTime) {
    println!("\nerror: median of criterion's samples minus the truth; sd: standard deviation of the samples, and of single pairs; ns");
    println!("{:<16} {:>9} | {:^28} | {:^28} |", "", "", "WallTime", "TscTime");
    println!(
        "{:<16} {:>9} | {:>9} {:>8} {:>9} | {:>9} {:>8} {:>9} | TscTime's limit",
        "", "truth", "error", "sd", "sd single", "error", "sd", "sd single"
    );
    // 2 ns or one step of the counter, whichever is larger.
    let limit_ns = time.calibration().map_or(f64::NAN, |calibration| calibration.resolution_ns.max(2.0));
    for row in rows {
        print!("{:<16} {:>9.2}", row.name, row.truth_ns);
        for found in [&row.wall, &row.counter] {
            let error_ns = found.median - row.truth_ns;
            print!(" | {error_ns:>+9.2} {:>8.2} {:>9.2}", found.of_samples, found.of_singles);
        }
        let error_ns = (row.counter.median - row.truth_ns).abs();
        println!(" | {limit_ns:.1}: {}", if error_ns <= limit_ns { "kept" } else { "NOT KEPT" });
    }
    match time.calibration() {
        Some(calibration) => println!("{calibration}"),
        None => println!("TscTime measured with WallTime here: the table says nothing about the counter"),
    }
}

/// The same routine by both.
struct Agreement {
    name: &'static str,
    /// TscTime against WallTime in the very same runs, ppm.
    same_runs_ppm: f64,
    /// TscTime against WallTime as criterion's medians, measured one after the other, %.
    criterion_percent: f64,
}

fn agreements(effort: &Effort, directory: &Path, time: &TscTime) -> Result<Vec<Agreement>, Box<dyn Error>> {
    let multiplications = || {
        black_box(chain(black_box(3), 200_000));
    };
    let bytes = vec![7_u8; 1 << 20];
    let hash = || {
        let mut hasher = DefaultHasher::new();
        hasher.write(black_box(&bytes));
        black_box(hasher.finish());
    };
    Ok(vec![
        agreement("200,000 multiplications", effort, directory, time, &multiplications)?,
        agreement("SipHash of 1 MiB", effort, directory, time, &hash)?,
    ])
}

fn agreement(
    name: &'static str,
    effort: &Effort,
    directory: &Path,
    time: &TscTime,
    routine: &dyn Fn(),
) -> Result<Agreement, Box<dyn Error>> {
    let (mut wall_ns, mut counter_ns) = (0.0, 0.0);
    for _ in 0..effort.rounds {
        let wall_start = WallTime.start();
        let start = time.start();
        for _ in 0..100 {
            routine();
        }
        let counter = time.end(start);
        let wall = WallTime.end(wall_start);
        wall_ns += WallTime.to_f64(&wall);
        counter_ns += time.to_f64(&counter);
    }
    let (mut by_wall, mut by_counter) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        criterion(effort, directory, WallTime).bench_function("it", |bencher| bencher.iter(routine));
        by_wall.push(estimates(directory)?.0);
        criterion(effort, directory, time.clone()).bench_function("it", |bencher| bencher.iter(routine));
        by_counter.push(estimates(directory)?.0);
    }
    let middle = |values: &mut Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok(Agreement {
        name,
        same_runs_ppm: (counter_ns / wall_ns - 1.0) * 1e6,
        criterion_percent: (middle(&mut by_counter) / middle(&mut by_wall) - 1.0) * 100.0,
    })
}

fn print_agreements(agreements: &[Agreement]) {
    println!("\nlong routines: TscTime against WallTime (limit 0.1 %)");
    println!("{:<26} {:>18} {:>22}", "", "in the same runs", "by criterion, in turns");
    for agreement in agreements {
        println!(
            "{:<26} {:>14.1} ppm {:>20.3} %",
            agreement.name, agreement.same_runs_ppm, agreement.criterion_percent
        );
    }
}
