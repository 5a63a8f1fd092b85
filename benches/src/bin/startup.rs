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
//! The children are the programs `startup_probe*`, `hello_std` and `hello_tickline` in the same
//! folder as this program.
//!
//! `cargo build --release -p tickline-benches && target/release/startup [--runs 101]`

use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;
use tickline_benches::args;
use tickline_benches::clocks::PROBES;
use tickline_benches::report::{self, Spread};
use tickline_observe::{monotonic_ns, to_f64};

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

/// `CLOCK_MONOTONIC` when the child was started, and the child's output (`probe.rs`).
#[derive(Clone, Copy)]
struct ProbeTimes {
    spawned_ns: u64,
    start_ns: u64,
    first_ns: u64,
    counter_ns: u64,
    slowest_ns: u64,
}

/// A program in the same folder as this one.
fn sibling(name: &str) -> Command {
    let own = std::env::current_exe().expect("this program's path");
    Command::new(own.with_file_name(name))
}

fn micros(ns: u64) -> f64 {
    to_f64(ns.cast_signed()) / 1e3
}

/// Runs a child.
fn probe(program: &str, argument: &str) -> ProbeTimes {
    let spawned_ns = monotonic_ns();
    let output = sibling(program)
        .arg(argument)
        .stderr(Stdio::inherit())
        .output()
        .expect("a child");
    assert!(
        output.status.success(),
        "{program} {argument}: {}",
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let times: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match times[..] {
        [start_ns, first_ns, counter_ns, slowest_ns] => ProbeTimes {
            spawned_ns,
            start_ns,
            first_ns,
            counter_ns,
            slowest_ns,
        },
        _ => panic!("{program} {argument} said: {text}"),
    }
}

fn main() {
    let runs = usize::try_from(args::number("runs", 101)).unwrap_or(101);
    let rounds: Vec<Vec<ProbeTimes>> = (0..runs)
        .map(|_| {
            PROBES
                .map(|(_, program, argument)| probe(program, argument))
                .to_vec()
        })
        .collect();
    let clocks = PROBES.iter().enumerate().map(|(index, (clock, ..))| {
        let spread = |figure: fn(ProbeTimes) -> Option<u64>| {
            let figures = rounds.iter().filter_map(|round| figure(round[index]));
            Spread::new(figures.map(micros).collect())
        };
        Startup {
            clock,
            first_call_us: spread(|times| Some(times.first_ns - times.start_ns)),
            first_reading_us: spread(|times| Some(times.first_ns - times.spawned_ns)),
            counter_us: spread(|times| times.counter_ns.checked_sub(times.start_ns)),
            slowest_call_us: spread(|times| Some(times.slowest_ns)),
        }
    });
    let pairs: Vec<(f64, f64)> = (0..runs)
        .map(|_| (process_us("hello_std"), process_us("hello_tickline")))
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

fn process_us(name: &str) -> f64 {
    let start = Instant::now();
    let status = sibling(name)
        .stdout(Stdio::null())
        .status()
        .expect("a child");
    assert!(status.success());
    start.elapsed().as_secs_f64() * 1e6
}
