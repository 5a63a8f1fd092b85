//! `tickline-sim`: runs random scenarios, replays one, or tracks the named ones.
//!
//! Exit codes: 0 without a violation, 1 with one, 2 for bad arguments or files.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use clap::{Parser, Subcommand};
use tickline_sim::named::{Named, all, named};
use tickline_sim::{Counts, Mark, Scenario, Violation, run, run_tracked};

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
    /// Prints offset and bound over time for five scenarios, as gnuplot reads them (`docs/offsets.gp`).
    Track,
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
        Command::Track => track(),
    }
}

/// A line for each point: time (s), offset and bounds of monotonic time and offset of Unix time (ns), and whether
/// a line served. An empty line is a gap, in which nobody ran; two end a scenario.
fn track() -> ExitCode {
    const EVERY_NS: u64 = 50_000_000;
    for Named { name, plot, .. } in all() {
        let Some(title) = plot else { continue };
        let outcome = match run_tracked(&named(&name, 1), EVERY_NS) {
            Ok(outcome) => outcome,
            Err(violation) => return bad(&format!("{title}: {violation}")),
        };
        println!("# {title}");
        let mut last_ns = 0;
        for Mark { at_ns, offset_ns, earliest_ns, latest_ns, unix_offset_ns, fast, .. } in outcome.track {
            if at_ns > last_ns + 2 * EVERY_NS {
                println!();
            }
            last_ns = at_ns;
            let (ms, fast) = (at_ns / 1_000_000, u8::from(fast));
            println!("{ms}e-3 {offset_ns} {earliest_ns} {latest_ns} {unix_offset_ns} {fast}");
        }
        println!("\n");
    }
    ExitCode::SUCCESS
}

fn bad(why: &str) -> ExitCode {
    eprintln!("tickline-sim: {why}");
    ExitCode::from(2)
}

fn json(scenario: &Scenario) -> String {
    serde_json::to_string(scenario).expect("a scenario has no maps and no floats")
}

fn replay(file: &std::path::Path) -> ExitCode {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let read = |text: String| serde_json::from_str::<Scenario>(&text).map_err(|error| error.to_string());
    let scenario = text.and_then(read).and_then(|scenario| scenario.check().map(|()| scenario));
    let scenario = match scenario {
        Ok(scenario) => scenario,
        Err(why) => return bad(&format!("{}: {why}", file.display())),
    };
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

/// What all threads take their scenarios from, and add to.
#[derive(Debug, Default)]
struct Runs {
    next_seed: u64,
    scenarios: u64,
    counts: Counts,
    violation: Option<(Scenario, Violation)>,
}

fn run_many(first_seed: u64, steps: u64) -> ExitCode {
    let start = Instant::now();
    let runs = Mutex::new(Runs { next_seed: first_seed, ..Runs::default() });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&runs, steps));
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let runs = runs.into_inner().expect("no worker panics");
    let last_seed = runs.next_seed.wrapping_sub(1);
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

/// Runs scenarios until all threads together have taken enough steps, or met a violation; at least one.
fn work(runs: &Mutex<Runs>, steps: u64) {
    loop {
        let mut all = runs.lock().expect("no worker panics");
        if all.counts.steps >= steps.max(1) || all.violation.is_some() {
            return;
        }
        let scenario = Scenario::random(all.next_seed);
        all.next_seed = all.next_seed.wrapping_add(1);
        drop(all);
        let end = run(&scenario);
        let mut all = runs.lock().expect("no worker panics");
        all.scenarios += 1;
        match end {
            Ok(outcome) => all.counts.add(&outcome.counts),
            Err(violation) => {
                all.violation.get_or_insert((scenario, violation));
            }
        }
    }
}

fn print_counts(counts: &Counts) {
    for (name, value) in counts.list() {
        println!("{name:>24}  {value}");
    }
}
