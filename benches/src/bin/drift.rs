//! How far each clock drifts away from CLOCK_MONOTONIC. All clocks are in one run, so that they
//! see the same machine.
//!
//! Every 20 ms each clock's offset is taken from the narrowest of 20 brackets. Offsets count from
//! the first one, since most clocks have zeros of their own; drift is the slope of the line of
//! least squares through them. Clocks that calibrate once have another rate in every process.
//! Coarse clocks are left out, because their offset is the age of the time that they return.
//!
//! `cargo run --release -p tickline-benches --bin drift [-- --secs 60 --settle 10 --json]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use tickline_benches::bracket::{Bracket, fit};
use tickline_benches::clocks::set_up_subjects_in_ns;
use tickline_benches::subject::Group;
use tickline_benches::{args, report};

/// Time between two samples.
const PAUSE: Duration = Duration::from_millis(20);

/// Brackets a sample, of which the narrowest counts.
const TRIES: u32 = 20;

#[derive(Debug, Serialize)]
struct Report {
    /// How long the clocks were watched.
    watched_s: u64,
    /// The time between setting them up and that.
    settled_s: u64,
    samples: usize,
    clocks: Vec<Drift>,
}

#[derive(Debug, Serialize)]
struct Drift {
    clock: &'static str,
    group: Group,
    /// The slope against CLOCK_MONOTONIC: positive for a clock that is fast.
    drift_ppb: Option<f64>,
    /// The largest change of the offset since the first sample, to either side.
    offset_change_ns: f64,
    /// The scatter of the offsets around the fitted line: the root of the mean square.
    scatter_rms_ns: Option<f64>,
}

fn main() {
    let (watched_s, settled_s) = (args::number("secs", 60), args::number("settle", 10));
    let guard = tickline::start().expect("the global clock's thread");
    let mut subjects = set_up_subjects_in_ns();
    subjects.retain(|(subject, _)| subject.group == Group::Time);
    sleep(Duration::from_secs(settled_s));

    let sample = || -> Vec<Bracket> {
        subjects.iter().map(|(_, now_ns)| Bracket::narrowest(TRIES, *now_ns)).collect()
    };
    let (start, first) = (Instant::now(), sample());
    // For each clock: s since the first sample, ns gained.
    let mut gained: Vec<Vec<(f64, f64)>> = vec![vec![(0.0, 0.0)]; subjects.len()];
    while start.elapsed() < Duration::from_secs(watched_s) {
        sleep(PAUSE);
        let at_s = start.elapsed().as_secs_f64();
        for ((gained, first), now) in gained.iter_mut().zip(&first).zip(sample()) {
            gained.push((at_s, now.gained_ns(first)));
        }
    }
    let clocks = subjects.iter().zip(&gained).map(|((subject, _), gained)| {
        let line = fit(gained);
        Drift {
            clock: subject.name,
            group: subject.group,
            drift_ppb: line.map(|(slope, _)| slope), // ns a second
            offset_change_ns: gained.iter().map(|(_, ns)| ns.abs()).fold(0.0, f64::max),
            scatter_rms_ns: line.map(|(_, left)| left),
        }
    });
    let report = Report {
        watched_s,
        settled_s,
        samples: gained.first().map_or(0, Vec::len),
        clocks: clocks.collect(),
    };
    drop(guard);
    report::print(&report, text);
}

fn text(report: &Report) {
    println!("{} s after {} s, {} samples", report.watched_s, report.settled_s, report.samples);
    println!("{:<32} {:>12} {:>20} {:>16}", "", "drift, ppb", "offset changed, ns", "scatter, ns rms");
    for clock in &report.clocks {
        println!(
            "{:<32} {:>12} {:>20.1} {:>16}",
            clock.clock,
            report::or_dash(clock.drift_ppb, 1),
            clock.offset_change_ns,
            report::or_dash(clock.scatter_rms_ns, 1)
        );
    }
}
