//! Measures the start-up of each clock in fresh processes:
//!
//! - the time of the first call,
//! - the time from the start of the process to the first reading,
//! - the time until the clock reads the counter,
//! - how much longer a program that only says hello takes with tickline than with std.
//!
//! The clocks take turns in each round, so that each process follows a process of another clock.
//! Caches are then as cold as after any other program.
//!
//! The children are the programs `startup_probe*`, `hello_std` and `hello_tickline`, built into the
//! same folder as this program.
//!
//! `cargo build --release -p tickline-benches && target/release/startup [--runs 101]`

mod probe_times;

use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Parser;
use serde::Serialize;
use tickline_benches::clocks::{PROBES, Probe};
use tickline_benches::report::{self, Spread};
use tickline_observe::{monotonic_ns, to_f64};

use probe_times::ProbeTimes;

#[derive(Debug, Serialize)]
struct Report {
    /// The number of fresh processes of each kind.
    runs: usize,
    clocks: Vec<Startup>,
    hello: Hello,
}

#[derive(Debug, Serialize)]
struct Startup {
    clock: &'static str,
    /// The first call, including the set-up of the clock.
    first_call_us: Option<Spread>,
    /// The time from the start of the process to the end of the first call.
    first_reading_us: Option<Spread>,
    /// The time from the start of the first call, under steady use, until the counter serves;
    /// `None` if it never does.
    counter_us: Option<Spread>,
    /// The longest call until the counter serves.
    slowest_call_us: Option<Spread>,
}

/// The times of whole processes.
#[derive(Debug, Serialize)]
struct Hello {
    with_std_us: Option<Spread>,
    /// How much longer the process takes with tickline, in pairs of runs, so that changes of the
    /// machine affect both alike.
    difference_us: Option<Spread>,
}

/// A child that has run.
#[derive(Clone, Copy)]
struct Run {
    /// `CLOCK_MONOTONIC` when the child was started.
    spawned_ns: u64,
    times: ProbeTimes,
}

/// A program in the same folder as this one.
fn sibling(name: &str) -> Command {
    let own = std::env::current_exe().expect("this program's path");
    Command::new(own.with_file_name(name))
}

fn micros(ns: u64) -> f64 {
    to_f64(ns.cast_signed()) / 1e3
}

fn run(probe: &Probe) -> Run {
    let spawned_ns = monotonic_ns();
    let output = sibling(probe.program)
        .arg(probe.argument)
        .stderr(Stdio::inherit())
        .output()
        .expect("a child");
    assert!(output.status.success(), "{probe:?}: {}", output.status);
    let times = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(&output.stdout);
        panic!("{probe:?} said: {text}: {error}")
    });
    Run { spawned_ns, times }
}

/// Measures each clock's first readings, in fresh processes.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of processes for each clock.
    #[arg(long, default_value_t = 101)]
    runs: usize,
}

fn main() {
    let Arguments { runs } = Arguments::parse();
    let rounds: Vec<Vec<Run>> = (0..runs)
        .map(|_| PROBES.iter().map(run).collect())
        .collect();
    let clocks = PROBES.iter().enumerate().map(|(index, probe)| {
        let spread = |figure: fn(Run) -> Option<u64>| {
            let figures = rounds.iter().filter_map(|round| figure(round[index]));
            Spread::new(figures.map(micros).collect())
        };
        Startup {
            clock: probe.clock,
            first_call_us: spread(|run| Some(run.times.first_ns - run.times.start_ns)),
            first_reading_us: spread(|run| Some(run.times.first_ns - run.spawned_ns)),
            counter_us: spread(|run| Some(run.times.counter_ns? - run.times.start_ns)),
            slowest_call_us: spread(|run| Some(run.times.slowest_ns)),
        }
    });
    let pairs: Vec<(f64, f64)> = (0..runs)
        .map(|_| (time_run_us("hello_std"), time_run_us("hello_tickline")))
        .collect();
    let hello = Hello {
        with_std_us: Spread::new(pairs.iter().map(|pair| pair.0).collect()),
        difference_us: Spread::new(pairs.iter().map(|pair| pair.1 - pair.0).collect()),
    };
    report::print(&Report {
        runs,
        clocks: clocks.collect(),
        hello,
    });
}

/// Runs a program. Returns the time until it has ended, us.
fn time_run_us(name: &str) -> f64 {
    let start = Instant::now();
    let status = sibling(name)
        .stdout(Stdio::null())
        .status()
        .expect("a child");
    assert!(status.success());
    start.elapsed().as_secs_f64() * 1e6
}
