//! How far criterion is off with `WallTime` and with `TscTime`, where the truth is known: an empty routine, a chain of
//! multiplications whose time is known from a long run, and long routines that both must agree on.
//!
//! `cargo run --release -p tickline-criterion --example known_delays [-- --short]`
//!
//! Nothing else should run meanwhile, and the process should be bound to one CPU (`taskset -c 1`).
//!
//! CI runs it with: --short
//! Its output has: "WallTime", "TscTime", "long routines".
#![expect(clippy::print_stdout, reason = "a program that prints tables")]
#![expect(clippy::cast_precision_loss, reason = "counts of samples")]

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
    /// How often criterion measures each.
    repeats: usize,
    /// Pairs of readings looked at one by one.
    singles: usize,
    /// The long run behind a known delay.
    truth: Duration,
    /// Rounds of the long routines.
    rounds: usize,
}

/// Iterations in a short sample.
const BLOCK: usize = 50;

const FULL: Effort = Effort {
    samples: 100,
    warm_up: Duration::from_millis(500),
    measurement: Duration::from_secs(2),
    repeats: 3,
    singles: 100_000,
    truth: Duration::from_millis(300),
    rounds: 50,
};

const SHORT: Effort = Effort {
    samples: 10,
    warm_up: Duration::from_millis(10),
    measurement: Duration::from_millis(50),
    repeats: 1,
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

/// What one clock found, ns.
struct Found {
    /// The median of criterion's samples, less the truth by long runs before and after; of several such errors the median.
    error_ns: f64,
    /// The standard deviation of criterion's samples, each a mean of many iterations; again the median of several.
    of_samples: f64,
    /// The median error of samples of [`BLOCK`] iterations, each against the truth just before.
    short_error_ns: f64,
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
        let name = format!("empty, {}", how.name());
        rows.push(row(effort, directory, time, (name, how), |_| (), || 0.0)?);
    }
    let multiplication_ns = long(effort, || truth_ns(1_000)) / 1_000.0;
    for delay_ns in [0.0, 20.0, 50.0, 100.0, 1_000.0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand at most")]
        let count = (delay_ns / multiplication_ns).round() as u32;
        // The result goes to a black box inside of the routine, or the compiler could put the chain behind the second reading.
        let routine = |input| {
            black_box(chain(input, count));
        };
        let what = (format!("{delay_ns} ns, batched"), How::Batched);
        rows.push(row(effort, directory, time, what, routine, || truth_ns(count))?);
    }
    Ok(rows)
}

fn row(
    effort: &Effort,
    directory: &Path,
    time: &TscTime,
    (name, how): (String, How),
    routine: impl Fn(u64) + Copy,
    truth_ns: impl Fn() -> f64 + Copy,
) -> Result<Row, Box<dyn Error>> {
    let (by_wall, by_counter) = (format!("{name}, WallTime"), format!("{name}, TscTime"));
    let wall = find(effort, directory, (&by_wall, how), &|| WallTime, routine, truth_ns)?;
    let counter = find(effort, directory, (&by_counter, how), &|| time.clone(), routine, truth_ns)?;
    Ok(Row { name, truth_ns: long(effort, truth_ns), wall, counter })
}

/// Twice what it is told, so often.
macro_rules! doubled {
    ($step:stmt;) => { $step };
    ($step:stmt; $_one:tt $($rest:tt)*) => {
        doubled!($step; $($rest)*);
        doubled!($step; $($rest)*);
    };
}

/// So many multiplications, below 4,096, each of which needs the one before. Squares, because a product with a constant would be
/// folded; in straight lines of each power of two, because the end of a loop may be guessed wrong, which takes 5 ns.
#[inline(never)]
fn chain(mut value: u64, count: u32) -> u64 {
    macro_rules! bit {
        ($bit:literal, $($doublings:tt)*) => {
            if count & (1 << $bit) != 0 {
                doubled!(value = value.wrapping_mul(value); $($doublings)*);
            }
        };
    }
    bit!(0,);
    bit!(1, x);
    bit!(2, x x);
    bit!(3, x x x);
    bit!(4, x x x x);
    bit!(5, x x x x x);
    bit!(6, x x x x x x);
    bit!(7, x x x x x x x);
    bit!(8, x x x x x x x x);
    bit!(9, x x x x x x x x x);
    bit!(10, x x x x x x x x x x);
    bit!(11, x x x x x x x x x x x);
    value
}

/// What [`chain`] takes, ns, where each call needs the one before, so that the processor is never idle: by a run of some 30 us.
fn truth_ns(count: u32) -> f64 {
    let calls = 40_000 / (count + 20);
    let start = Instant::now();
    let value = (0..calls).fold(black_box(3), |value, _| chain(value, black_box(count)));
    black_box(value);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

/// The median of many.
fn long(effort: &Effort, truth_ns: impl Fn() -> f64) -> f64 {
    let begin = Instant::now();
    let mut runs_ns = vec![truth_ns()];
    while begin.elapsed() < effort.truth {
        runs_ns.push(truth_ns());
    }
    median(&mut runs_ns)
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

fn find<M: Measurement + 'static>(
    effort: &Effort,
    directory: &Path,
    (id, how): (&str, How),
    measurement: &dyn Fn() -> M,
    routine: impl Fn(u64) + Copy,
    truth_ns: impl Fn() -> f64 + Copy,
) -> Result<Found, Box<dyn Error>> {
    let time = measurement();
    let (mut by_criterion_ns, mut deviations) = (Vec::new(), Vec::new());
    for _ in 0..effort.repeats {
        // On both sides, in case the processor's frequency changes.
        let before_ns = long(effort, truth_ns);
        criterion(effort, directory, measurement()).bench_function(id, |bencher| match how {
            How::Batched => bencher.iter_batched(|| 3, routine, BatchSize::PerIteration),
            How::Custom => bencher.iter_custom(|iterations| {
                (0..iterations).fold(time.zero(), |sum, _| time.add(&sum, &one(&time, routine)))
            }),
        });
        let after_ns = long(effort, truth_ns);
        let (median_ns, of_samples) = estimates(directory, id)?;
        by_criterion_ns.push(median_ns - f64::midpoint(before_ns, after_ns));
        deviations.push(of_samples);
    }
    // Short samples, each against the truth of the same moment: an interrupt meets few of them, and a change of frequency both.
    let short = || (0..BLOCK).fold(time.zero(), |sum, _| time.add(&sum, &one(&time, routine)));
    let shorts: Vec<(f64, M::Value)> = (0..effort.singles / BLOCK).map(|_| (truth_ns(), short())).collect();
    let mut errors_ns: Vec<f64> =
        shorts.iter().map(|(truth_ns, short)| time.to_f64(short) / BLOCK as f64 - truth_ns).collect();
    let singles: Vec<M::Value> = (0..effort.singles).map(|_| one(&time, routine)).collect();
    let mut singles_ns: Vec<f64> = singles.iter().map(|single| time.to_f64(single)).collect();
    singles_ns.sort_unstable_by(f64::total_cmp);
    let uninterrupted_ns = &singles_ns[..effort.singles - effort.singles / 100];
    Ok(Found {
        error_ns: median(&mut by_criterion_ns),
        of_samples: median(&mut deviations),
        short_error_ns: median(&mut errors_ns),
        of_singles: deviation(uninterrupted_ns),
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn one<M: Measurement>(time: &M, routine: impl Fn(u64)) -> M::Value {
    let input = black_box(3);
    let start = time.start();
    routine(input);
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
fn estimates(directory: &Path, id: &str) -> Result<(f64, f64), Box<dyn Error>> {
    let path: PathBuf = directory.join(id).join("new").join("estimates.json");
    let stored: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
    let estimate = |name: &str| {
        stored[name]["point_estimate"].as_f64().ok_or_else(|| format!("no {name} in {}", path.display()))
    };
    Ok((estimate("median")?, estimate("std_dev")?))
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

fn print_rows(rows: &[Row], time: &TscTime) {
    println!(
        "\nns. error: median of criterion's samples minus the truth; sd: their standard deviation; short: median error\n\
         of samples of {BLOCK} iterations against the truth of the same moment; sd 1: standard deviation of single\n\
         iterations. 0 ns: the call and return of the delay, without a multiplication."
    );
    println!("{:<16} {:>8} | {:^35} | {:^35} |", "", "", "WallTime", "TscTime");
    print!("{:<16} {:>8}", "", "truth");
    for _ in 0..2 {
        print!(" | {:>8} {:>8} {:>8} {:>8}", "error", "sd", "short", "sd 1");
    }
    println!(" | TscTime's limit");
    // 2 ns or one step of the counter, whichever is larger.
    let limit_ns = time.calibration().map(|calibration| calibration.resolution_ns.max(2.0));
    for row in rows {
        print!("{:<16} {:>8.2}", row.name, row.truth_ns);
        for found in [&row.wall, &row.counter] {
            print!(
                " | {:>+8.2} {:>8.2} {:>+8.2} {:>8.2}",
                found.error_ns, found.of_samples, found.short_error_ns, found.of_singles
            );
        }
        let Some(limit_ns) = limit_ns else {
            println!(" | none");
            continue;
        };
        let kept = |error_ns: f64| if error_ns.abs() <= limit_ns { "kept" } else { "NOT KEPT" };
        let found = &row.counter;
        println!(" | {limit_ns:.1}: {}, short {}", kept(found.error_ns), kept(found.short_error_ns));
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
        black_box((0..50).fold(black_box(3), |value, _| chain(value, 4_000)));
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
    let mut ratios = Vec::new();
    for _ in 0..effort.rounds {
        let wall_start = WallTime.start();
        let start = time.start();
        for _ in 0..400 {
            routine();
        }
        let counter = time.end(start);
        let wall = WallTime.end(wall_start);
        ratios.push(time.to_f64(&counter) / WallTime.to_f64(&wall));
    }
    let (mut by_wall, mut by_counter) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (wall_id, counter_id) = (format!("{name}, WallTime"), format!("{name}, TscTime"));
        criterion(effort, directory, WallTime).bench_function(&wall_id, |bencher| bencher.iter(routine));
        by_wall.push(estimates(directory, &wall_id)?.0);
        criterion(effort, directory, time.clone())
            .bench_function(&counter_id, |bencher| bencher.iter(routine));
        by_counter.push(estimates(directory, &counter_id)?.0);
    }
    Ok(Agreement {
        name,
        same_runs_ppm: (median(&mut ratios) - 1.0) * 1e6,
        criterion_percent: (median(&mut by_counter) / median(&mut by_wall) - 1.0) * 100.0,
    })
}

fn print_agreements(agreements: &[Agreement]) {
    println!("\nlong routines: TscTime against WallTime, medians (limit 0.1 % = 1000 ppm)");
    println!("{:<26} {:>18} {:>22}", "", "in the same runs", "by criterion, in turns");
    for agreement in agreements {
        println!(
            "{:<26} {:>14.1} ppm {:>20.3} %",
            agreement.name, agreement.same_runs_ppm, agreement.criterion_percent
        );
    }
}
