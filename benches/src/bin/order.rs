//! Searches for backward steps between threads (module `exchange` of the library).
//!
//! First the threads exchange ordered readings. Meanwhile a publisher replaces the line every
//! millisecond; the slopes differ by up to 100 ppm to either side. Then the threads exchange
//! readings of each clock as its users call it, in interleaved rounds, while tickline recalibrates
//! every millisecond.
//!
//! `cargo run --release -p tickline-benches --bin order [-- --secs 60 --clock-ms 4000]`
//!
//! The program exits with 1 if an ordered reading stepped back, or if the control run did not find
//! the steps of unsynchronised counters. On one CPU, or if tickline would not use the counter, it
//! prints SKIPPED, only compares the clocks, and exits with 77. `--clock-ms 0` omits the clocks.
#![expect(clippy::print_stderr, reason = "a program that reports failures")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde::Serialize;
use tickline::Clock;
use tickline_benches::clocks::subjects;
use tickline_benches::subject::ClockSubject;
use tickline_benches::{exchange, report};
use tickline_core::counter::Counter;
use tickline_observe::Count;

/// The exit code of a command that has skipped, and named, some of its checks.
const SOME_SKIPPED: u8 = 77;

/// The number of rounds into which each clock's time is divided.
const ROUNDS: u32 = 4;

/// Searches for backward steps between threads.
#[derive(Debug, Parser)]
struct Arguments {
    /// The time for which the threads exchange ordered readings, s.
    #[arg(long, default_value_t = 60)]
    secs: u64,
    /// The time for which they exchange each clock's readings, ms; 0 omits the clocks.
    #[arg(long, default_value_t = 4_000)]
    clock_ms: u64,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    /// The reason why the exchange of ordered readings was skipped.
    skipped: Option<String>,
    /// Ordered readings while the line changes.
    ordered: Option<exchange::Report>,
    /// The bare counter without a fence, in ticks.
    plain: Option<Count>,
    /// The control run, with counters that are unsynchronised on purpose, in ticks. It must find
    /// backward steps.
    control: Option<Count>,
    /// The time that threads exchanged each clock's readings.
    clock_ms: u64,
    clocks: Vec<Exchanged>,
}

#[derive(Debug, Serialize)]
struct Exchanged {
    clock: &'static str,
    /// The unit of the largest step.
    unit: &'static str,
    count: Count,
}

fn main() -> ExitCode {
    let Arguments { secs, clock_ms } = Arguments::parse();
    let mut report = Report {
        clock_ms,
        ..Report::default()
    };
    match exchange::usable_counter() {
        Ok(counter) => {
            let time = Duration::from_secs(secs);
            report.ordered = Some(exchange::exchange_ordered(counter, time));
            report.plain = Some(exchange::exchange(Duration::from_secs(2), |_| {
                counter.now()
            }));
            // On every second thread the counter is ahead by 2^24 ticks, some milliseconds.
            let ahead = |thread: usize| counter.now_ordered() + ((thread as u64 & 1) << 24);
            report.control = Some(exchange::exchange(Duration::from_secs(1), ahead));
        }
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            report.skipped = Some(why);
        }
    }
    if report.clock_ms > 0 {
        report.clocks = exchange_each_clock(Duration::from_millis(report.clock_ms));
    }
    report::print(&report);
    if report.control.is_some_and(|control| control.backward == 0) {
        eprintln!("FAILED: the control run found no backward step, so the others prove nothing");
        return ExitCode::FAILURE;
    }
    match report.ordered {
        Some(ordered) if ordered.count.backward > 0 => {
            let Count {
                backward,
                comparisons,
                largest,
            } = ordered.count;
            eprintln!(
                "FAILED: {backward} of {comparisons} ordered readings stepped back, by up to {largest} ns"
            );
            ExitCode::FAILURE
        }
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(SOME_SKIPPED),
    }
}

/// Exchanges each clock's readings for `time`.
fn exchange_each_clock(time: Duration) -> Vec<Exchanged> {
    let guard = Clock::builder()
        .interval(Duration::from_millis(1))
        .start_global()
        .expect("the global clock's thread");
    let subjects = subjects();
    let none = |clock: &ClockSubject| Exchanged {
        clock: clock.name,
        unit: clock.unit,
        count: Count::default(),
    };
    let mut exchanged: Vec<Exchanged> = subjects.iter().map(none).collect();
    for _ in 0..ROUNDS {
        for (subject, exchanged) in subjects.iter().zip(&mut exchanged) {
            exchanged.count.add(&(subject.exchange)(time / ROUNDS));
        }
    }
    drop(guard);
    exchanged
}
