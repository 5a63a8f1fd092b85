//! `tickline-sim`: runs random scenarios, replays one, or plots the named ones.
//!
//! Exit codes: 0 without a violation, 1 with one, 2 for bad arguments or files.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::{Parser, Subcommand};
use tickline_sim::{Counts, Outcome, Scenario, Violation, named, plot, run};

/// Attacks tickline-core with simulated machines.
#[derive(Debug, Parser)]
#[command(name = "tickline-sim")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs random scenarios, one after another, until they have taken enough steps; at least
    /// one.
    Run {
        /// Steps, of all scenarios together.
        #[arg(long, default_value_t = 10_000_000)]
        steps: u64,
        /// The seed of the first scenario; the next one has the next number.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Runs one scenario, written down as JSON.
    Replay {
        /// The file.
        file: PathBuf,
    },
    /// Prints the scenario of a seed as JSON.
    Show {
        /// The seed.
        seed: u64,
    },
    /// Runs a scenario in which the same states come again and again, with many seeds.
    Repeat {
        /// How many.
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        /// What if the tag had no count.
        #[arg(long)]
        uncounted: bool,
    },
    /// Plots offset and bound over time for five scenarios.
    Plot {
        /// The SVG file.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    // A violation is a panic, and is reported with its scenario below.
    std::panic::set_hook(Box::new(|_| {}));
    match args.command {
        Command::Run { steps, seed } => run_many(seed, steps),
        Command::Replay { file } => replay(&file),
        Command::Show { seed } => {
            println!("{}", json(&Scenario::random(seed)));
            ExitCode::SUCCESS
        }
        Command::Repeat { seeds, uncounted } => {
            let (mut counts, mut violations) = (Counts::default(), 0);
            for seed in 0..seeds {
                let mut scenario = named::repeating(seed);
                scenario.clock.uncounted = uncounted;
                match run(&scenario) {
                    Ok(outcome) => counts.add(&outcome.counts),
                    Err(violation) => {
                        violations += 1;
                        println!("seed {seed}: {violation}");
                    }
                }
            }
            print_counts(&counts);
            println!("{violations} violations");
            ExitCode::SUCCESS
        }
        Command::Plot { file } => match plot::write(&file, &named::plotted()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => bad(&format!("{}: {error}", file.display())),
        },
    }
}

fn bad(why: &str) -> ExitCode {
    eprintln!("tickline-sim: {why}");
    ExitCode::from(2)
}

fn json(scenario: &Scenario) -> String {
    serde_json::to_string(scenario).expect("a scenario has no maps and no floats")
}

fn replay(file: &std::path::Path) -> ExitCode {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return bad(&format!("{}: {error}", file.display())),
    };
    let scenario: Scenario = match serde_json::from_str(&text) {
        Ok(scenario) => scenario,
        Err(error) => return bad(&format!("{}: {error}", file.display())),
    };
    if let Err(why) = scenario.check() {
        return bad(&format!("{}: {why}", file.display()));
    }
    match run(&scenario) {
        Ok(outcome) => {
            print_counts(&outcome.counts);
            for (event, count) in outcome.events {
                println!("{event:>24}  {count}");
            }
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("VIOLATION {violation}");
            ExitCode::FAILURE
        }
    }
}

/// What all threads add to.
#[derive(Debug, Default)]
struct Total {
    next_seed: AtomicU64,
    steps: AtomicU64,
    stop: AtomicBool,
    runs: Mutex<Runs>,
}

#[derive(Debug, Default)]
struct Runs {
    scenarios: u64,
    counts: Counts,
    violation: Option<(Scenario, Violation)>,
}

fn run_many(first_seed: u64, steps: u64) -> ExitCode {
    let start = Instant::now();
    let total = Total { next_seed: AtomicU64::new(first_seed), ..Total::default() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&total, steps));
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let last_seed = total.next_seed.into_inner().wrapping_sub(1);
    let runs = total.runs.into_inner().expect("no worker panics");
    println!("{} random scenarios, seeds {first_seed} to {last_seed}, {threads} threads", runs.scenarios);
    print_counts(&runs.counts);
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = runs.counts.steps as f64 / seconds * 60.0 / 1e6;
    println!("{:>24}  {seconds:.1} s, {rate:.0} million a minute", "took");
    match runs.violation {
        None => {
            println!("no violation");
            ExitCode::SUCCESS
        }
        Some((scenario, violation)) => {
            println!("VIOLATION with seed {}: {violation}", scenario.seed);
            println!("scenario: {}", json(&scenario));
            println!("replay:   cargo xtask sim --seed {} --steps 1", scenario.seed);
            ExitCode::FAILURE
        }
    }
}

fn work(total: &Total, steps: u64) {
    // ORDERING: Relaxed for all: counts and a flag that order nothing; the lock orders the results.
    while !total.stop.load(Ordering::Relaxed) {
        // ORDERING: as above.
        let scenario = Scenario::random(total.next_seed.fetch_add(1, Ordering::Relaxed));
        let end = run(&scenario);
        let mut runs = total.runs.lock().expect("no worker panics");
        runs.scenarios += 1;
        match end {
            Ok(Outcome { counts, .. }) => {
                // ORDERING: as above.
                let done = total.steps.fetch_add(counts.steps, Ordering::Relaxed) + counts.steps;
                // ORDERING: as above.
                total.stop.fetch_or(done >= steps, Ordering::Relaxed);
                runs.counts.add(&counts);
            }
            Err(violation) => {
                // ORDERING: as above.
                total.stop.store(true, Ordering::Relaxed);
                runs.violation.get_or_insert((scenario, violation));
            }
        }
    }
}

fn print_counts(counts: &Counts) {
    for (name, value) in counts.list() {
        println!("{name:>24}  {value}");
    }
}
