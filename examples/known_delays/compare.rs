//! `-- --compare`: how often `compare` finds a difference where there is none, and where there is
//! one of 2 %.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::Criterion;
use tickline_criterion::{Comparison, CounterTime, compare};

use crate::delays::{chain, long, median, truth_ns};

/// Of the first routine.
const DELAY_NS: f64 = 50.0;

/// How often each is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) runs: usize,
    pub(crate) measurement: Duration,
}

pub(crate) const FULL: Effort = Effort { runs: 100, measurement: Duration::from_millis(400) };
pub(crate) const SHORT: Effort = Effort { runs: 2, measurement: Duration::from_millis(60) };

pub(crate) fn run(effort: &Effort, directory: &Path, what: &str) -> Result<(), Box<dyn Error>> {
    let truth = Duration::from_millis(100);
    let call_ns = long(truth, || truth_ns(0));
    let multiplication_ns = (long(truth, || truth_ns(1_000)) - call_ns) / 1_000.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some fifty")]
    let count = ((DELAY_NS - call_ns) / multiplication_ns).round() as u32;
    let time = CounterTime::builder().quiet().output_directory(directory).start_or_wall_time();
    let mut criterion = Criterion::default()
        .with_measurement(time)
        .without_plots()
        .output_directory(directory)
        .sample_size(10)
        .nresamples(1_000)
        .warm_up_time(Duration::from_millis(20))
        .measurement_time(effort.measurement);
    let (mut same, mut longer, mut truths) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.runs {
        let name = "A against A";
        let found = compare(&mut criterion, name, each::<0>(count), each::<0>(count));
        same.push(found.ok_or("nothing measured")?);
        let name = "A against B";
        let found = compare(&mut criterion, name, each::<0>(count), each::<1>(count));
        longer.push(found.ok_or("nothing measured")?);
        let short = Duration::from_millis(2);
        let (a_ns, b_ns) =
            (long(short, || run_ns(each::<0>(count))), long(short, || run_ns(each::<1>(count))));
        truths.push((b_ns / a_ns - 1.0) * 100.0);
    }
    println!(
        "\n{what}. {} runs each, of {:?}; the truth by long runs is {:+.2} %",
        effort.runs,
        effort.measurement,
        median(&mut truths)
    );
    println!(
        "{:<22} {:>9} {:>12} | {:^26} | {:>9} {:>9}",
        "", "different", "95 % excl. 0", "difference, %", "couples", "disturbed"
    );
    println!("{:<45} | {:>8} {:>8} {:>8} |", "", "least", "median", "most");
    print("A against A", &same);
    print("A against B", &longer);
    Ok(())
}

/// A chain of so many multiplications, and 4 cycles more, `MORE` times. Each call needs the one
/// before, so that calls do not overlap.
fn each<const MORE: u32>(count: u32) -> impl FnMut() -> u64 {
    let mut value = 3;
    move || {
        value = chain(value, black_box(count));
        for _ in 0..MORE {
            value = value.wrapping_mul(value).rotate_left(7); // 3 cycles and 1
        }
        value
    }
}

/// What a call of `routine` takes, ns: by a run of some 50 us.
fn run_ns(mut routine: impl FnMut() -> u64) -> f64 {
    const CALLS: u32 = 1_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(routine());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn print(name: &str, found: &[Comparison]) {
    let mut percents: Vec<f64> = found.iter().map(Comparison::percent).collect();
    let middle = median(&mut percents);
    let count = |of: fn(&Comparison) -> bool| found.iter().filter(|one| of(one)).count();
    println!(
        "{name:<22} {:>9} {:>12} | {:>+8.3} {middle:>+8.3} {:>+8.3} | {:>9} {:>9}",
        count(Comparison::is_different),
        count(Comparison::excludes_zero),
        percents[0],
        percents[percents.len() - 1],
        found.iter().map(|one| one.couples).sum::<u64>(),
        found.iter().map(|one| one.disturbed).sum::<u64>(),
    );
}
