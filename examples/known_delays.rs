//! The errors of criterion with `WallTime` and with `CounterTime`, where the truth is known: an
//! empty routine, a chain of multiplications whose time is known from a long run, and long
//! routines on which both must agree.
//!
//! `cargo run --release --example known_delays [-- --short]`
//!
//! Two other tables take half a minute and two minutes, and never fail:
//!
//! - `-- --pairs`: quantiles by `bench_pairs`, beside criterion's mean and median by `WallTime`, and
//!   divan's by the counter;
//! - `-- --compare`: `compare`, a hundred times with a routine and itself, and a hundred times with
//!   one that takes 2 % longer.
//!
//! With `--load`, a thread on each CPU computes meanwhile; with `--json`, these two print JSON.
//!
//! Nothing else should run meanwhile, and the process should be bound to one CPU
//! (`taskset -c 1`). It takes five minutes.
//!
//! # What is claimed, and when it fails
//!
//! 1. `CounterTime`'s error is at most 2 ns or the counter's resolution, whichever is larger, in
//!    every row, by criterion and in short samples.
//! 2. Long routines that both clocks measure in the very same runs agree within 0.1 %.
//!
//! The program ends with 1 if one of them is not kept, unless one of two causes explains that.
//! Both are measured here, and the clock is not to blame for them:
//!
//! - the call: a routine between two readings begins in an empty pipeline, and the long runs
//!   behind the truth in a full one. The error of an empty function (the rows of 0 ns) is added
//!   to the limit. The rows of the empty closure have no such allowance, so they show a clock
//!   with a constant error.
//! - the core's frequency: criterion measures for seconds, and the truth is from before and
//!   after. The difference of a row's truths is added to the limit for criterion, but not for
//!   short samples, each of which has a truth of the same moment.
//!
//! Such a row says "not kept" and why. The results of both clocks by criterion in turns are
//! seconds apart, so they also depend on the frequency; the comparison with 0.1 % is for
//! information only. With `--short`, and where the OS clock measures, nothing fails.
//!
//! CI runs it with: --short
//! Its output has: "WallTime", "CounterTime", "long routines".
#![expect(clippy::print_stdout, reason = "a program that prints tables")]
#![expect(clippy::cast_precision_loss, reason = "counts of samples")]

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fs;
use std::hash::Hasher;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BatchSize, Criterion};
use tickline_criterion::CounterTime;

#[path = "known_delays/compare.rs"]
mod compare;
#[path = "known_delays/delays.rs"]
mod delays;
#[path = "known_delays/load.rs"]
mod load;
#[path = "known_delays/pairs.rs"]
mod pairs;
#[path = "known_delays/peer.rs"]
mod peer;

use delays::{chain, long, median, truth_ns};

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

/// The allowed difference for long routines, ppm: 0.1 %.
const AGREEMENT_PPM: f64 = 1_000.0;

/// How a table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Text,
    Json,
}

/// What a table says of itself.
#[derive(Debug, Clone, Copy)]
struct Setting {
    output: Output,
    is_loaded: bool,
}

impl Setting {
    fn what(self) -> &'static str {
        if self.is_loaded { "With a busy thread on each CPU" } else { "Without other load" }
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if peer::is_child() {
        peer::run_child();
        return Ok(ExitCode::SUCCESS);
    }
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    let is_short = has("--short");
    let effort = if is_short { SHORT } else { FULL };
    let directory = std::env::temp_dir().join(format!("tickline-known-delays-{}", std::process::id()));
    if has("--pairs") || has("--compare") {
        let load = has("--load").then(load::Load::start);
        let output = if has("--json") { Output::Json } else { Output::Text };
        let setting = Setting { output, is_loaded: load.is_some() };
        let result = if has("--pairs") {
            pairs::run(if is_short { &pairs::SHORT } else { &pairs::FULL }, &directory, setting)
        } else {
            compare::run(if is_short { &compare::SHORT } else { &compare::FULL }, &directory, setting)
        };
        drop(load);
        fs::remove_dir_all(&directory)?;
        return result.map(|()| ExitCode::SUCCESS);
    }
    let time = CounterTime::or_wall_time();
    let rows = rows(&effort, &directory, &time);
    let agreements = agreements(&effort, &directory, &time);
    fs::remove_dir_all(&directory)?;
    let broken = print_rows(&rows?, &time) + print_agreements(&agreements?);
    if broken == 0 || is_short || time.calibration().is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("\n{broken} limits are not kept, without a known cause");
    Ok(ExitCode::FAILURE)
}

/// What one clock found, ns.
struct Found {
    /// The median of criterion's samples, less the truth by long runs before and after; of
    /// several such errors the median.
    error_ns: f64,
    /// The standard deviation of criterion's samples, each a mean of many iterations; again the
    /// median of several.
    of_samples: f64,
    /// The median error of samples of [`BLOCK`] iterations, each against the truth just before.
    short_error_ns: f64,
    /// The standard deviation of single pairs of readings, without the upper hundredth, which was
    /// interrupted.
    of_singles: f64,
    /// The least and the largest truth of those long runs.
    truths_ns: (f64, f64),
}

struct Row {
    name: String,
    what: What,
    how: How,
    truth_ns: f64,
    wall: Found,
    counter: Found,
}

impl Row {
    /// The difference of the truths from before and after criterion's measurement.
    fn apart_ns(&self) -> f64 {
        let (wall, counter) = (self.wall.truths_ns, self.counter.truths_ns);
        wall.1.max(counter.1) - wall.0.min(counter.0)
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A closure without anything in it.
    Empty,
    /// The call of a function that does nothing.
    Call,
    /// So many multiplications in that function.
    Delay,
}

fn rows(effort: &Effort, directory: &Path, time: &CounterTime) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for how in How::BOTH {
        rows.push(row(effort, directory, time, ("empty", What::Empty, how), |_| (), || 0.0)?);
    }
    let multiplication_ns = long(effort.truth, || truth_ns(1_000)) / 1_000.0;
    for delay_ns in [0.0, 20.0, 50.0, 100.0, 1_000.0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand at most")]
        let count = (delay_ns / multiplication_ns).round() as u32;
        // The result goes to a black box inside of the routine, or the compiler could put the
        // chain behind the second reading.
        let routine = |input| {
            black_box(chain(input, count));
        };
        let what = if count == 0 { What::Call } else { What::Delay };
        for how in How::BOTH {
            let name = format!("{delay_ns} ns");
            rows.push(row(effort, directory, time, (&name, what, how), routine, || truth_ns(count))?);
        }
    }
    Ok(rows)
}

fn row(
    effort: &Effort,
    directory: &Path,
    time: &CounterTime,
    (name, what, how): (&str, What, How),
    routine: impl Fn(u64) + Copy,
    truth_ns: impl Fn() -> f64 + Copy,
) -> Result<Row, Box<dyn Error>> {
    let name = format!("{name}, {}", how.name());
    let (by_wall, by_counter) = (format!("{name}, WallTime"), format!("{name}, CounterTime"));
    let wall = find(effort, directory, (&by_wall, how), &|| WallTime, routine, truth_ns)?;
    let counter = find(effort, directory, (&by_counter, how), &|| time.clone(), routine, truth_ns)?;
    Ok(Row { name, what, how, truth_ns: long(effort.truth, truth_ns), wall, counter })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// `iter_batched(PerIteration)`.
    Batched,
    /// `iter_custom`.
    Custom,
}

impl How {
    const BOTH: [Self; 2] = [Self::Batched, Self::Custom];

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
    let (mut by_criterion_ns, mut deviations, mut truths_ns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.repeats {
        // On both sides, in case the processor's frequency changes.
        let before_ns = long(effort.truth, truth_ns);
        criterion(effort, directory, measurement()).bench_function(id, |bencher| match how {
            How::Batched => bencher.iter_batched(|| 3, routine, BatchSize::PerIteration),
            How::Custom => bencher.iter_custom(|iterations| {
                (0..iterations).fold(time.zero(), |sum, _| time.add(&sum, &one(&time, routine)))
            }),
        });
        let after_ns = long(effort.truth, truth_ns);
        let (median_ns, of_samples) = estimates(directory, id)?;
        by_criterion_ns.push(median_ns - f64::midpoint(before_ns, after_ns));
        deviations.push(of_samples);
        truths_ns.extend([before_ns, after_ns]);
    }
    // Short samples, each against the truth of the same moment. An interrupt affects few of them,
    // and a change of frequency affects sample and truth alike.
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
        truths_ns: truths_ns.iter().fold((f64::MAX, 0.0), |(least, most), ns| (ns.min(least), ns.max(most))),
    })
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

/// How an error stands to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Kept,
    /// Not kept, because of the call, or of the core's frequency.
    Explained,
    Broken,
}

impl Verdict {
    /// `call_ns` is the error of an empty function, and `apart_ns` the difference of the truths.
    fn of(error_ns: f64, limit_ns: f64, call_ns: f64, apart_ns: f64) -> Self {
        let rest_ns = error_ns - call_ns.clamp(0.0, error_ns.max(0.0));
        if error_ns.abs() <= limit_ns {
            Self::Kept
        } else if rest_ns.abs() <= limit_ns + apart_ns {
            Self::Explained
        } else {
            Self::Broken
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Explained => "not kept: call or frequency",
            Self::Broken => "NOT KEPT",
        }
    }
}

/// By criterion, and in short samples.
fn verdicts(row: &Row, rows: &[Row], limit_ns: f64) -> [Verdict; 2] {
    let call =
        rows.iter().find(|other| other.what == What::Call && other.how == row.how).map(|row| &row.counter);
    let call = call.filter(|_| row.what != What::Empty);
    let (call_ns, short_call_ns) = call.map_or((0.0, 0.0), |call| (call.error_ns, call.short_error_ns));
    [
        Verdict::of(row.counter.error_ns, limit_ns, call_ns, row.apart_ns()),
        Verdict::of(row.counter.short_error_ns, limit_ns, short_call_ns, 0.0),
    ]
}

/// How many limits are broken.
fn print_rows(rows: &[Row], time: &CounterTime) -> usize {
    println!(
        "\nns. By criterion: error: median of its samples minus the truth; sd: their standard deviation. By samples of\n\
         {BLOCK} iterations, each timed by itself: short: median error against the truth of the same moment; sd 1:\n\
         standard deviation of single iterations. truth: by long runs; apart: how far those were while criterion\n\
         measured. empty: a closure without anything in it; 0 ns: the call and return of the delay, without a\n\
         multiplication."
    );
    println!("{:<16} {:>8} {:>6} | {:^35} | {:^35} |", "", "", "", "WallTime", "CounterTime");
    print!("{:<16} {:>8} {:>6}", "", "truth", "apart");
    for _ in 0..2 {
        print!(" | {:>8} {:>8} {:>8} {:>8}", "error", "sd", "short", "sd 1");
    }
    println!(" | CounterTime's limit");
    // 2 ns or one step of the counter, whichever is larger.
    let limit_ns = time.calibration().map(|calibration| calibration.resolution_ns.max(2.0));
    let mut broken = 0;
    for row in rows {
        print!("{:<16} {:>8.2} {:>6.2}", row.name, row.truth_ns, row.apart_ns());
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
        let verdicts = verdicts(row, rows, limit_ns);
        println!(" | {limit_ns:.1}: {}, short {}", verdicts[0].name(), verdicts[1].name());
        broken += verdicts.iter().filter(|verdict| **verdict == Verdict::Broken).count();
    }
    match time.calibration() {
        Some(calibration) => println!("{calibration}"),
        None => println!("CounterTime measured with WallTime here: the table says nothing about the counter"),
    }
    broken
}

/// The same routine by both.
struct Agreement {
    name: &'static str,
    /// CounterTime against WallTime in the very same runs, ppm.
    same_runs_ppm: f64,
    /// CounterTime against WallTime as criterion's medians, measured one after the other, %.
    criterion_percent: f64,
}

fn agreements(
    effort: &Effort,
    directory: &Path,
    time: &CounterTime,
) -> Result<Vec<Agreement>, Box<dyn Error>> {
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
    time: &CounterTime,
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
        let (wall_id, counter_id) = (format!("{name}, WallTime"), format!("{name}, CounterTime"));
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

/// How many limits are broken.
fn print_agreements(agreements: &[Agreement]) -> usize {
    println!("\nlong routines: CounterTime against WallTime, medians (limit 0.1 % = {AGREEMENT_PPM} ppm)");
    println!("{:<26} {:>26} {:>28}", "", "in the same runs", "by criterion, in turns");
    let kept = |ppm: f64| if ppm.abs() <= AGREEMENT_PPM { "kept" } else { "NOT KEPT" };
    let within = |ppm: f64| if ppm.abs() <= AGREEMENT_PPM { "within" } else { "not within" };
    for Agreement { name, same_runs_ppm, criterion_percent } in agreements {
        let (by_both, in_turns) = (kept(*same_runs_ppm), within(criterion_percent * 1e4));
        println!(
            "{name:<26} {same_runs_ppm:>+12.1} ppm: {by_both:<8} {criterion_percent:>+14.3} %: {in_turns}"
        );
    }
    agreements.iter().filter(|agreement| agreement.same_runs_ppm.abs() > AGREEMENT_PPM).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_not_kept_fails_unless_the_cause_was_measured() {
        for (error_ns, call_ns, apart_ns, verdict) in [
            (1.9, 0.0, 0.0, Verdict::Kept),
            (-1.9, 4.0, 0.0, Verdict::Kept),
            (2.1, 0.0, 0.0, Verdict::Broken),
            (-2.1, 0.0, 0.0, Verdict::Broken),
            (5.0, 4.5, 0.0, Verdict::Explained),
            (7.0, 4.5, 0.0, Verdict::Broken),
            (7.0, 4.5, 1.0, Verdict::Explained),
            (-3.0, 4.5, 0.0, Verdict::Broken),
            (-3.0, 4.5, 1.5, Verdict::Explained),
            (3.0, -4.0, 0.0, Verdict::Broken),
        ] {
            assert_eq!(
                Verdict::of(error_ns, 2.0, call_ns, apart_ns),
                verdict,
                "{error_ns} {call_ns} {apart_ns}"
            );
        }
    }

    fn row(what: What, error_ns: f64, short_error_ns: f64, truths_ns: (f64, f64)) -> Row {
        let found =
            |truths_ns| Found { error_ns, of_samples: 0.1, short_error_ns, of_singles: 1.0, truths_ns };
        Row {
            name: String::new(),
            what,
            how: How::Batched,
            truth_ns: 20.0,
            wall: found((20.0, 20.0)),
            counter: found(truths_ns),
        }
    }

    #[test]
    fn nothing_is_conceded_to_an_empty_closure_and_no_frequency_to_short_samples() {
        use Verdict::{Broken, Explained, Kept};
        let rows = [
            row(What::Call, 4.0, 4.0, (20.0, 20.0)),
            row(What::Empty, 3.0, 3.0, (20.0, 20.0)),
            row(What::Delay, 1.0, 5.0, (20.0, 20.0)),
            row(What::Delay, 8.0, 8.0, (18.0, 19.0)),
        ];
        let found = rows.iter().map(|row| verdicts(row, &rows, 2.0)).collect::<Vec<_>>();
        assert_eq!(found, [[Explained, Explained], [Broken, Broken], [Kept, Explained], [Explained, Broken]]);
    }
}
