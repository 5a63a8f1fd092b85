//! `-- --compare`: how often `compare` finds a difference where there is none, and where there is
//! one of 2 %.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use criterion::Criterion;
use serde_json::{Value, json};
use tickline_criterion::{Comparison, CounterTime, compare};

use crate::delays::{each, long, median, multiplications, run_ns};
use crate::{Output, Setting};

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

pub(crate) fn run(effort: &Effort, directory: &Path, setting: Setting) -> Result<(), Box<dyn Error>> {
    let count = multiplications(DELAY_NS);
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
    let truth_percent = median(&mut truths);
    if setting.output == Output::Json {
        let found = json!({
            "runs": effort.runs,
            "measurement_ms": effort.measurement.as_millis(),
            "truth_percent": truth_percent,
            "a_against_a": to_json(&same),
            "a_against_b": to_json(&longer),
        });
        println!("{found}");
        return Ok(());
    }
    println!(
        "\n{}. {} runs each, of {:?}; the truth by long runs is {:+.2} %",
        setting.what(),
        effort.runs,
        effort.measurement,
        truth_percent
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

fn to_json(found: &[Comparison]) -> Value {
    let Found { different, excludes_zero, percents, couples, disturbed } = Found::of(found);
    json!({
        "different": different,
        "excludes_zero": excludes_zero,
        "least_percent": percents[0],
        "median_percent": percents[1],
        "most_percent": percents[2],
        "couples": couples,
        "disturbed": disturbed,
    })
}

/// What many comparisons found.
struct Found {
    different: usize,
    excludes_zero: usize,
    /// The least, the median and the most.
    percents: [f64; 3],
    couples: u64,
    disturbed: u64,
}

impl Found {
    fn of(found: &[Comparison]) -> Self {
        let mut percents: Vec<f64> = found.iter().map(Comparison::percent).collect();
        let middle = median(&mut percents);
        let count = |of: fn(&Comparison) -> bool| found.iter().filter(|one| of(one)).count();
        Self {
            different: count(Comparison::is_different),
            excludes_zero: count(Comparison::excludes_zero),
            percents: [percents[0], middle, percents[percents.len() - 1]],
            couples: found.iter().map(|one| one.couples).sum(),
            disturbed: found.iter().map(|one| one.disturbed).sum(),
        }
    }
}

fn print(name: &str, found: &[Comparison]) {
    let Found { different, excludes_zero, percents: [least, middle, most], couples, disturbed } =
        Found::of(found);
    println!(
        "{name:<22} {different:>9} {excludes_zero:>12} | {least:>+8.3} {middle:>+8.3} {most:>+8.3} | {couples:>9} \
         {disturbed:>9}"
    );
}
