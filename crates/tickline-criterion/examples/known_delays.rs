//! Checks whether criterion gives the right times with the counter. The program measures chains of
//! multiplications, whose true time it knows from long runs. It measures two long routines, on
//! which both clocks must agree. It also compares a routine with itself, and with a routine that
//! takes 4 cycles longer, by `compare`.
//!
//! `cargo run --release --example known_delays [-- --short]`
//!
//! Let no other program run meanwhile, and bind the process to one CPU (`taskset -c 1`). The run
//! takes a minute. The exit code is 1 if one of these limits is not kept:
//!
//! 1. The error of the median of `bench_pairs` is at most 2 ns or the counter's resolution,
//!    whichever is larger. The limit is extended by two effects that are not errors of the clock.
//!    One is the error for an empty function, because a call between two readings begins with an
//!    empty pipeline. The other is the change of the true time during the measurement, because the
//!    core may change its frequency. The empty closure has neither.
//! 2. Both clocks agree within 0.1 % on long routines, in the same runs.
//! 3. `compare` finds the longer routine slower, and finds no difference between equal ones.
//!
//! With `--short`, or if the OS clock measures, the exit code is always 0.
//!
//! CI runs it with: --short
//! Its output has: "WallTime", "pairs", "long routine", "A against B".
#![expect(clippy::print_stdout, reason = "a program that prints tables")]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use criterion::measurement::{Measurement, WallTime};
use criterion::{BatchSize, Criterion};
use serde_json::Value;
use tickline_criterion::{BenchPairs, CounterTime, compare};

/// The largest relative difference of both clocks on long routines: 0.1 %.
const AGREEMENT: f64 = 0.001;

/// The settings of a run.
struct Run {
    /// The measurement time of a benchmark.
    measurement: Duration,
    /// The time for each measurement of a true time.
    truth: Duration,
    /// The number of comparisons of each kind.
    comparisons: usize,
    time: CounterTime,
    /// The directory of criterion's files.
    directory: PathBuf,
}

/// Repeats the statement `$count` times, without a loop: for each bit of `$count` from `$bit` on, a
/// sequence as long as the bit's value. There are as many bits as tokens in brackets.
macro_rules! repeat {
    ($count:ident & $bit:expr, [] $($step:tt)*) => {};
    ($count:ident & $bit:expr, [$_bit:tt $($left:tt)*] $($step:tt)*) => {
        if $count & $bit != 0 {
            $($step)*
        }
        repeat!($count & (2 * $bit), [$($left)*] $($step)* $($step)*);
    };
}

/// Makes `count` multiplications, fewer than 1,024; each needs the result of the multiplication
/// before. They are squares, because the compiler would fold products with a constant. They are
/// straight-line code, a sequence for each power of two, because the CPU may mispredict the end of
/// a loop, which takes 5 ns.
#[inline(never)]
fn chain(mut value: u64, count: u32) -> u64 {
    repeat!(count & 1, [x x x x x x x x x x] value = value.wrapping_mul(value););
    value
}

/// A routine of `count` multiplications; with `MORE` it takes 4 cycles more. Each call needs the
/// result of the call before, so that calls do not overlap.
fn each<const MORE: bool>(count: u32) -> impl FnMut() -> u64 {
    let mut value = 3;
    move || {
        value = chain(value, black_box(count));
        if MORE {
            value = value.wrapping_mul(value).rotate_left(7); // 3 cycles and 1
        }
        value
    }
}

/// The time of a call, ns, if each call needs the result of the call before: the median of many
/// runs of about 30 us.
fn truth_ns(during: Duration, mut call: impl FnMut(u64) -> u64) -> f64 {
    const CALLS: u32 = 500;
    let (begin, mut runs_ns) = (Instant::now(), Vec::new());
    while runs_ns.is_empty() || begin.elapsed() < during {
        let start = Instant::now();
        black_box((0..CALLS).fold(black_box(3), |value, _| call(value)));
        runs_ns.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    runs_ns.sort_unstable_by(f64::total_cmp);
    runs_ns[runs_ns.len() / 2]
}

impl Run {
    /// The number of multiplications that take this time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few hundred at most"
    )]
    fn count(&self, delay_ns: f64) -> u32 {
        let thousand_ns = truth_ns(self.truth, |value| chain(value, black_box(1_000)));
        (delay_ns / thousand_ns * 1_000.0).round() as u32
    }

    fn criterion<M: Measurement>(&self, measurement: M) -> Criterion<M> {
        Criterion::default()
            .with_measurement(measurement)
            .without_plots()
            .output_directory(&self.directory)
            .sample_size(10)
            .warm_up_time(self.measurement / 4)
            .measurement_time(self.measurement)
    }

    /// A figure from a file of criterion or tickline-criterion.
    fn stored(&self, file: &str, pointer: &str) -> Result<f64, Box<dyn Error>> {
        let stored: Value = serde_json::from_slice(&fs::read(self.directory.join(file))?)?;
        let figure = stored.pointer(pointer).and_then(Value::as_f64);
        figure.ok_or_else(|| format!("no {pointer} in {file}").into())
    }

    /// Measures a routine of a known time. Returns this time, its change during the measurement,
    /// and the errors of `WallTime`'s mean, of the pairs' mean, and of the pairs' median.
    fn row(
        &self,
        name: &str,
        routine: impl Fn(u64) + Copy,
        truth_ns: impl Fn() -> f64,
    ) -> Result<[f64; 5], Box<dyn Error>> {
        let before_ns = truth_ns();
        self.criterion(WallTime)
            .bench_function(&format!("{name} by WallTime"), |bencher| {
                bencher.iter_batched(|| 3, routine, BatchSize::PerIteration);
            });
        self.criterion(self.time.clone())
            .bench_pairs(format!("{name} by pairs"), |bencher| {
                bencher.iter_batched(|| 3, routine, BatchSize::PerIteration);
            });
        let after_ns = truth_ns();
        let truth_ns = f64::midpoint(before_ns, after_ns);
        let mean = |by: &str| {
            self.stored(
                &format!("{name} by {by}/new/estimates.json"),
                "/mean/point_estimate",
            )
        };
        let p50_ns = self.stored(
            &format!("{name} by pairs/new/pairs.json"),
            "/quantiles_ns/p50",
        )?;
        let [wall_ns, mean_ns, p50_ns] =
            [mean("WallTime")?, mean("pairs")?, p50_ns].map(|ns| ns - truth_ns);
        Ok([
            truth_ns,
            (after_ns - before_ns).abs(),
            wall_ns,
            mean_ns,
            p50_ns,
        ])
    }

    /// Measures known delays. Returns the number of broken limits.
    fn delays(&self) -> Result<usize, Box<dyn Error>> {
        let limit_ns = self
            .time
            .calibration()
            .map_or(f64::INFINITY, |known| known.resolution_ns.max(2.0));
        let mut rows = vec![("empty closure", self.row("empty", |_| (), || 0.0)?)];
        for (name, delay_ns) in [
            ("empty function", 0.0),
            ("20 ns", 20.0),
            ("50 ns", 50.0),
            ("100 ns", 100.0),
            ("500 ns", 500.0),
        ] {
            let count = self.count(delay_ns);
            // The routine gives its result to a `black_box`. Otherwise the compiler could move the
            // chain past the second reading.
            let routine = |input| _ = black_box(chain(input, count));
            let truth = || truth_ns(self.truth, |value| chain(value, black_box(count)));
            rows.push((name, self.row(name, routine, truth)?));
        }
        println!("\nerrors in ns; less the call: without the error of the empty function");
        println!(
            "                    truth  apart  WallTime mean  pairs: mean       p50  less the call"
        );
        let (call_ns, mut broken) = (rows[1].1[4], 0);
        for (index, (name, [truth_ns, apart_ns, wall_ns, mean_ns, p50_ns])) in
            rows.into_iter().enumerate()
        {
            // The empty closure, in row 0, has no call.
            let less_call_ns = p50_ns - if index == 0 { 0.0 } else { call_ns };
            let is_kept = less_call_ns.abs().min(p50_ns.abs()) <= limit_ns + apart_ns;
            broken += usize::from(!is_kept);
            let verdict = if is_kept { "kept" } else { "NOT KEPT" };
            println!(
                "{name:<16} {truth_ns:>8.2} {apart_ns:>6.2} {wall_ns:>+14.2} {mean_ns:>+12.2} {p50_ns:>+9.2} \
                 {less_call_ns:>+14.2}, limit {limit_ns:.1}: {verdict}"
            );
        }
        Ok(broken)
    }

    /// Compares a routine with itself, and with a routine that takes 4 cycles longer. Returns the
    /// number of wrong verdicts.
    fn comparisons(&self) -> Result<usize, Box<dyn Error>> {
        let count = self.count(50.0);
        let mut criterion = self
            .criterion(self.time.clone())
            .measurement_time(Duration::from_millis(400));
        let mut misjudged = 0;
        for _ in 0..self.comparisons {
            let same = compare(
                &mut criterion,
                "A against A",
                each::<false>(count),
                each::<false>(count),
            )
            .ok_or("nothing was compared")?;
            let longer = compare(
                &mut criterion,
                "A against B",
                each::<false>(count),
                each::<true>(count),
            )
            .ok_or("nothing was compared")?;
            misjudged += usize::from(same.is_different());
            misjudged +=
                usize::from(!longer.is_different() || longer.difference_percent.estimate < 0.0);
        }
        println!(
            "A against A, and A against B: {misjudged} of {} misjudged",
            2 * self.comparisons
        );
        Ok(misjudged)
    }
}

/// Measures a long routine by both clocks at once. Returns 1 if they disagree, else 0.
fn agreement(name: &str, time: &CounterTime, mut routine: impl FnMut()) -> usize {
    let (wall_start, start) = (WallTime.start(), time.start());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(200) {
        routine();
    }
    let (counter, wall) = (time.end(start), WallTime.end(wall_start));
    let apart = time.to_f64(&counter) / WallTime.to_f64(&wall) - 1.0;
    let is_kept = apart.abs() <= AGREEMENT;
    println!(
        "long routine, {name}: {:+.1} ppm: {}",
        apart * 1e6,
        if is_kept { "kept" } else { "NOT KEPT" }
    );
    usize::from(!is_kept)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let is_short = std::env::args().any(|argument| argument == "--short");
    let directory =
        std::env::temp_dir().join(format!("tickline-known-delays-{}", std::process::id()));
    let time = CounterTime::builder()
        .output_directory(&directory)
        .build_or_wall_time();
    let (measurement_ms, truth_ms, comparisons) = if is_short {
        (60, 20, 1)
    } else {
        (2_000, 300, 20)
    };
    let run = Run {
        measurement: Duration::from_millis(measurement_ms),
        truth: Duration::from_millis(truth_ms),
        comparisons,
        time,
        directory,
    };
    // `WallTime` counts the time that other programs took.
    let alike = CounterTime::builder()
        .quiet()
        .include_disturbed()
        .build_or_wall_time();
    let broken = run.delays()?
        + agreement("multiplications", &alike, || {
            _ = black_box(chain(black_box(3), 1_000))
        })
        + agreement("a sort", &alike, || {
            black_box(vec![7_u32; 100_000]).sort_unstable()
        })
        + run.comparisons()?;
    fs::remove_dir_all(&run.directory)?;
    if broken == 0 || is_short || run.time.calibration().is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{broken} limits are not kept");
    Ok(ExitCode::FAILURE)
}
