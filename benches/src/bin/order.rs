//! Backward steps between threads by ordered readings, while the line is replaced every millisecond by one whose slope
//! differs by up to 100 ppm to either side; see the library's module `handover` for what the threads do.
//!
//! `cargo run --release -p tickline-benches --bin order [-- --secs 60 --ppm 100]`
//!
//! Ends with 1 if there was one, or if the control shows that it would not have been seen; says SKIPPED where tickline would
//! not use the counter.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

use std::process::ExitCode;
use std::time::Duration;

use tickline_benches::args;
use tickline_benches::handover::{self, Count, MAX_PPM};

fn main() -> ExitCode {
    let seconds = args::number("secs", 60);
    let ppm = args::number("ppm", 100);
    if seconds == 0 || ppm > MAX_PPM {
        eprintln!("--secs must be at least 1, --ppm at most {MAX_PPM}");
        return ExitCode::from(2);
    }
    let counter = match handover::usable_counter() {
        Ok(counter) => counter,
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let report = handover::ordered(counter, Duration::from_secs(seconds), ppm);
    show(&format!("ordered, {seconds} s"), &report.count, "ns");
    println!("  {} of them served by the reference", report.count.by_reference);
    println!(
        "  {} rounds of the publisher, slopes from {:+} to {:+} ppm",
        report.rounds, report.slopes_ppm.0, report.slopes_ppm.1
    );
    for (event, times) in report.events.iter().filter(|(_, times)| *times > 0) {
        println!("  {}: {times}", event.name());
    }
    show("bare counter without a fence, 2 s", &handover::plain(counter, Duration::from_secs(2)), "ticks");
    let apart = handover::set_apart(counter, Duration::from_secs(1));
    show("control: counters set apart on purpose, 1 s", &apart, "ticks");
    if apart.backward == 0 {
        println!("FAILED: backward steps are not seen here");
        return ExitCode::FAILURE;
    }
    if report.count.backward > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn show(what: &str, count: &Count, unit: &str) {
    println!(
        "{what}: {} threads, {} handovers, {} backward (largest {} {unit})",
        count.threads, count.handovers, count.backward, count.largest
    );
}
