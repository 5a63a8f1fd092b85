//! Compares what criterion prints for a plain `iter` on busy CPUs with what it prints on free ones,
//! for its clocks and for divan.
//!
//! For each routine and harness the program makes some runs while the CPUs are free, and as many
//! while busy processes use each CPU. The error of a run is its difference from the same harness's
//! median on free CPUs. The harnesses take turns.
//!
//! `cargo run --release -p tickline-benches --bin under_load [-- --runs 20 --measure-ms 240 --busy
//! 2 --load arithmetic]`
//!
//! Let nothing else run. With the default arguments this takes about 5 minutes. `--load memory`
//! shows what is left of the error if the other processes also empty the caches. The table is
//! printed after criterion's own lines.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod harnesses;
mod load;
mod routines;

use std::error::Error;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::harnesses::{HARNESSES, Harness, Harnesses};
use crate::load::{Load, Work};
use crate::routines::{ROUTINES, Routine};

/// Compares what criterion and divan print on busy CPUs with what they print on free ones.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of runs of each routine by each harness.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The time of a run, ms.
    #[arg(long, default_value_t = 240)]
    measure_ms: u64,
    /// The number of busy processes on each CPU.
    #[arg(long, default_value_t = 2)]
    busy: u64,
    /// What the busy processes do.
    #[arg(long, value_enum, default_value = "arithmetic")]
    load: Work,
    /// Makes this process a busy one.
    #[arg(long, hide = true)]
    keep_busy: Option<Work>,
    /// The CPU of a busy process.
    #[arg(long, hide = true, default_value_t = 0)]
    cpu: u64,
    /// Runs this routine by divan, in this process.
    #[arg(long, hide = true)]
    divan: Option<String>,
}

/// All runs of one routine by one harness.
#[derive(Debug)]
struct Row {
    routine: &'static str,
    harness: &'static str,
    free_ns: Vec<f64>,
    busy_ns: Vec<f64>,
}

#[derive(Debug)]
struct Report {
    /// The busy processes on each CPU, and what they do.
    busy: u64,
    load: &'static str,
    /// What a sample costs beside its own time, on free CPUs, for the harnesses with criterion.
    sample_cost_us: [f64; 3],
    /// What `CounterTime` subtracted, and what it could not measure, by then.
    incidents_free: String,
    incidents_all: String,
    rows: Vec<Row>,
}

/// The errors of runs against `truth_ns`, %: the middle one, and the 95th percentile of their
/// sizes.
fn errors_percent(runs_ns: &[f64], truth_ns: f64) -> (f64, f64) {
    let mut errors: Vec<f64> = runs_ns
        .iter()
        .map(|ns| (ns / truth_ns - 1.0) * 100.0)
        .collect();
    let middle = median(&mut errors);
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    // The smallest size that 95 % of the runs do not exceed.
    (middle, sizes[(sizes.len() * 95).div_ceil(100) - 1])
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// Makes `runs` runs of each routine by each harness, in turns.
fn measure(
    harnesses: &Harnesses,
    runs: u64,
    rows: &mut [Row],
    of: fn(&mut Row) -> &mut Vec<f64>,
) -> Result<(), Box<dyn Error>> {
    for _ in 0..runs {
        for (row, (routine, harness)) in rows.iter_mut().zip(subjects()) {
            of(row).push(harnesses.run(harness, routine)?);
        }
    }
    Ok(())
}

fn subjects() -> impl Iterator<Item = (Routine, Harness)> {
    ROUTINES
        .into_iter()
        .flat_map(|routine| HARNESSES.into_iter().map(move |harness| (routine, harness)))
}

fn print(report: &Report) {
    println!("\n{} busy on each CPU: {}", report.busy, report.load);
    println!(
        "\n| routine | harness | free CPUs, ns | against WallTime | 95 % of runs within | busy CPUs: median error | 95 % of runs within |"
    );
    println!("|---|---|---|---|---|---|---|");
    for routine in report.rows.chunks(HARNESSES.len()) {
        let wall = routine
            .iter()
            .find(|row| row.harness == Harness::WallTime.name());
        let wall_ns = wall.map_or(f64::NAN, |row| median(&mut row.free_ns.clone()));
        for row in routine {
            let free_ns = median(&mut row.free_ns.clone());
            let (_, free_95) = errors_percent(&row.free_ns, free_ns);
            let (busy_middle, busy_95) = errors_percent(&row.busy_ns, free_ns);
            println!(
                "| {} | {} | {free_ns:.3} | {:+.2} % | {free_95:.2} % | {busy_middle:+.2} % | {busy_95:.2} % |",
                row.routine,
                row.harness,
                (free_ns / wall_ns - 1.0) * 100.0
            );
        }
    }
    let [counter, alone, wall] = report.sample_cost_us;
    println!(
        "\na sample costs, us: CounterTime {counter:.2}, include_disturbed {alone:.2}, WallTime {wall:.2}"
    );
    println!("CounterTime, free CPUs: {}", report.incidents_free);
    println!("CounterTime, all: {}", report.incidents_all);
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments {
        runs,
        measure_ms,
        busy,
        load: work,
        keep_busy,
        cpu,
        divan,
    } = Arguments::parse();
    if let Some(work) = keep_busy {
        load::keep_busy(work, cpu);
    }
    if let Some(name) = divan {
        harnesses::run_divan_here(&name);
        return Ok(());
    }
    let begin = Instant::now();
    let harnesses = Harnesses::new(Duration::from_millis(measure_ms));
    if let Some(refusal) = harnesses.refusal() {
        return Err(refusal.into());
    }
    let mut rows: Vec<Row> = subjects()
        .map(|(routine, harness)| Row {
            routine: routine.name(),
            harness: harness.name(),
            free_ns: Vec::new(),
            busy_ns: Vec::new(),
        })
        .collect();
    let sample_cost_us = harnesses.measure_sample_costs_us();
    measure(&harnesses, runs, &mut rows, |row| &mut row.free_ns)?;
    let incidents_free = harnesses.incidents();
    let load = Load::start(busy, work)?;
    // All busy processes have begun by then. The time is a choice, not a measurement.
    std::thread::sleep(Duration::from_millis(500));
    measure(&harnesses, runs, &mut rows, |row| &mut row.busy_ns)?;
    drop(load);
    let report = Report {
        busy,
        load: work.name(),
        sample_cost_us,
        incidents_free,
        incidents_all: harnesses.incidents(),
        rows,
    };
    print(&report);
    println!("{:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}
