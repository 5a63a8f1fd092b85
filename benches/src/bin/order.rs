//! Backward steps between threads; see the library's module `exchange` for what the threads do.
//!
//! First with ordered readings, while the line is replaced every millisecond by one whose slope
//! differs by up to 100 ppm to either side. Then with each clock as its users call it, in
//! interleaved rounds, while tickline recalibrates every millisecond.
//!
//! `cargo run --release -p tickline-benches --bin order [-- --secs 60 --ppm 100 --clock-ms 4000
//! --json]`
//!
//! Ends with 1 if an ordered reading stepped back, or if the control run shows that such a step
//! would not be seen. Says SKIPPED on one CPU, and where tickline would not use the counter; it
//! still compares the clocks there. `--clock-ms 0` leaves them out.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tickline::{Clock, Event};
use tickline_benches::clocks::subjects;
use tickline_benches::exchange::{self, Count, MAX_PPM};
use tickline_benches::subject::Group;
use tickline_benches::{args, report};

/// Each clock's time is taken in so many parts.
const ROUNDS: u32 = 4;

#[derive(Debug, Serialize)]
struct Report {
    /// Why tickline would not use the counter; then there is only the list of clocks.
    skipped: Option<String>,
    /// In ns.
    ordered: Option<Ordered>,
    /// The bare counter without a fence, in ticks.
    plain: Option<Count>,
    /// The control run, with counters that are unsynchronised on purpose, in ticks: backward
    /// steps must be seen.
    control: Option<Count>,
    /// How long threads exchanged each clock's readings.
    clock_ms: u64,
    clocks: Vec<Exchanged>,
}

/// Ordered readings while the line changes.
#[derive(Debug, Serialize)]
struct Ordered {
    lasted_s: u64,
    count: Count,
    /// New lines.
    lines: u64,
    least_slope_ppm: i64,
    most_slope_ppm: i64,
    /// What has happened to the clock.
    events: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Exchanged {
    clock: &'static str,
    group: Group,
    /// Of the largest step.
    unit: &'static str,
    count: Count,
}

fn main() -> ExitCode {
    let seconds = args::number("secs", 60);
    let ppm = args::number("ppm", 100);
    let clock_ms = args::number("clock-ms", 4_000);
    if seconds == 0 || ppm > MAX_PPM {
        eprintln!("--secs must be at least 1, --ppm at most {MAX_PPM}");
        return ExitCode::from(2);
    }
    let mut report =
        Report { skipped: None, ordered: None, plain: None, control: None, clock_ms, clocks: Vec::new() };
    if exchange::cpus().len() < 2 {
        return skip(report, "one CPU cannot be ahead of another");
    }
    match exchange::usable_counter() {
        Ok(counter) => {
            let ordered = exchange::ordered(counter, Duration::from_secs(seconds), ppm);
            let happened = ordered.events.iter().filter(|(_, times)| *times > 0);
            report.ordered = Some(Ordered {
                lasted_s: seconds,
                count: ordered.count,
                lines: ordered.iterations,
                least_slope_ppm: ordered.slopes_ppm.0,
                most_slope_ppm: ordered.slopes_ppm.1,
                events: happened.map(|(event, times)| (Event::name(*event), *times)).collect(),
            });
            report.plain = Some(exchange::plain(counter, Duration::from_secs(2)));
            report.control = Some(exchange::unsynchronised(counter, Duration::from_secs(1)));
        }
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            report.skipped = Some(why);
        }
    }
    if clock_ms > 0 {
        report.clocks = each_clock(Duration::from_millis(clock_ms));
    }
    report::print(&report, text);
    if report.control.is_some_and(|control| control.backward == 0) {
        eprintln!("FAILED: backward steps are not seen here");
        return ExitCode::FAILURE;
    }
    let stepped_back = report.ordered.is_some_and(|ordered| ordered.count.backward > 0);
    if stepped_back { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Where there is nothing to be compared.
fn skip(mut report: Report, why: &str) -> ExitCode {
    eprintln!("SKIPPED: {why}");
    report.skipped = Some(why.into());
    report::print(&report, text);
    ExitCode::SUCCESS
}

/// Exchanges each clock's readings for `time`.
fn each_clock(time: Duration) -> Vec<Exchanged> {
    let guard = Clock::builder()
        .interval(Duration::from_millis(1))
        .start_global()
        .expect("the global clock's thread");
    let clocks: Vec<_> =
        subjects().into_iter().filter_map(|subject| Some((subject, subject.exchange?))).collect();
    let mut exchanged: Vec<Exchanged> = clocks
        .iter()
        .map(|(subject, exchange)| Exchanged {
            clock: subject.name,
            group: subject.group,
            unit: exchange.unit,
            count: Count::default(),
        })
        .collect();
    for _ in 0..ROUNDS {
        for ((_, exchange), exchanged) in clocks.iter().zip(&mut exchanged) {
            exchanged.count = exchanged.count.and((exchange.run)(time / ROUNDS));
        }
    }
    drop(guard);
    exchanged
}

fn text(report: &Report) {
    if let Some(ordered) = &report.ordered {
        show(&format!("ordered, {} s", ordered.lasted_s), &ordered.count, "ns");
        println!("  {} of them served by the reference", ordered.count.by_reference);
        println!(
            "  {} iterations of the publisher, slopes from {:+} to {:+} ppm",
            ordered.lines, ordered.least_slope_ppm, ordered.most_slope_ppm
        );
        for (event, times) in &ordered.events {
            println!("  {event}: {times}");
        }
    }
    if let Some(plain) = &report.plain {
        show("bare counter without a fence, 2 s", plain, "ticks");
    }
    if let Some(control) = &report.control {
        show("control: counters unsynchronised on purpose, 1 s", control, "ticks");
    }
    if !report.clocks.is_empty() {
        println!("each clock, {} ms", report.clock_ms);
    }
    for clock in &report.clocks {
        show(&format!("  {:<32}", clock.clock), &clock.count, clock.unit);
    }
}

fn show(what: &str, count: &Count, unit: &str) {
    println!(
        "{what}: {} threads, {} exchanges, {} backward (largest {} {unit})",
        count.threads, count.exchanges, count.backward, count.largest
    );
}
