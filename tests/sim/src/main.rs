//! `tickline-sim`: runs random scenarios, or tracks the named ones.
//!
//! Exit codes: 0 without a violation, 1 with a violation, 2 for bad arguments.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers"
)]

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use tickline_sim::named::plotted;
use tickline_sim::{Counts, Scenario, TrackPoint, run, run_tracked};

/// Attacks tickline-core with simulated machines. Runs random scenarios, one after another, until
/// they have taken enough steps; at least one.
#[derive(Debug, Parser)]
#[command(name = "tickline-sim", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Steps, of all scenarios together.
    #[arg(long, default_value_t = 10_000_000)]
    steps: u64,
    /// The seed of the first scenario; the next one has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What to do in place of random scenarios.
#[derive(Debug, Subcommand)]
enum Command {
    /// Prints offset and bound over time for five scenarios, as gnuplot reads them
    /// (`docs/offsets.gp`).
    Track,
}

fn main() -> ExitCode {
    let Arguments {
        command,
        steps,
        seed,
    } = Arguments::parse();
    // A violation is a panic, and is reported with its scenario below.
    std::panic::set_hook(Box::new(|_| {}));
    let done = match command {
        None => run_many(seed, steps),
        Some(Command::Track) => print_tracks(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tickline-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for each point: time (s), offset and bounds of monotonic time, offset of Unix time
/// (ns), and whether a line served. One empty line marks a gap in which no thread ran. Two empty
/// lines end a scenario.
fn print_tracks() -> Result<(), String> {
    /// The time between two points, ns: some hundreds of points over the width of a plot.
    const EVERY_NS: u64 = 50_000_000;
    for (title, scenario) in plotted() {
        println!("# {title}");
        let scenario = Scenario {
            seed: 1,
            ..scenario
        };
        let mut last_ns = 0;
        for point in run_tracked(&scenario, EVERY_NS)?.track {
            let TrackPoint {
                at_ns,
                offset_ns,
                earliest_ns,
                latest_ns,
                unix_offset_ns,
                by_line,
                ..
            } = point;
            if at_ns > last_ns + 2 * EVERY_NS {
                println!();
            }
            last_ns = at_ns;
            let ms = at_ns / 1_000_000;
            let by_line = u8::from(by_line);
            println!("{ms}e-3 {offset_ns} {earliest_ns} {latest_ns} {unix_offset_ns} {by_line}");
        }
        println!("\n");
    }
    Ok(())
}

fn run_many(first_seed: u64, steps: u64) -> Result<(), String> {
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut seed = first_seed;
    loop {
        let scenario = Scenario::random(seed);
        let report = run(&scenario).map_err(|violation| {
            format!(
                "VIOLATION with seed {seed}: {violation}\nscenario: {scenario:#?}\n\
                 replay: cargo xtask sim --seed {seed} --steps 1"
            )
        })?;
        counts.add(&report.counts);
        if counts.steps >= steps {
            break;
        }
        seed += 1;
    }
    println!("random scenarios from seed {first_seed} to {seed}");
    for (name, value) in counts.list() {
        println!("{name:>24}  {value}");
    }
    println!("no violation in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
