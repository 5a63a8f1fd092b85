//! Intervals from 1 us to 1 s, measured by each clock, against CLOCK_MONOTONIC.
//!
//! An interval is two brackets, each the narrowest of a few, with a busy wait between them; its
//! error is what the clock has gained from one to the other. Clocks measure short intervals one
//! after the other, in interleaved rounds; from 10 ms on all clocks measure the same interval.
//! Two kinds of intervals are not used: those with a bracket that is wider than the clock's
//! narrowest pair by more than the counter's resolution, because the middle of a wide bracket
//! says little; and those that became more than a tenth too long.
//!
//! `cargo run --release -p tickline-benches --bin intervals [-- --secs 10 --json]`: so long for
//! each length, and at least one interval
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::hint::spin_loop;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use tickline_benches::bracket::{Bracket, SPARE_NS};
use tickline_benches::clocks::set_up_subjects_in_ns;
use tickline_benches::os::monotonic_ns;
use tickline_benches::subject::Group;
use tickline_benches::{args, report};

const LENGTHS_NS: [u64; 7] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// From here on all clocks measure the same interval: to bracket some twenty clocks takes 6 us.
const TOGETHER_NS: u64 = 10_000_000;

/// Brackets at an end, of which the narrowest counts: the first one after a long wait finds cold
/// caches.
const TRIES: u32 = 4;

/// What the brackets at both ends may add to an interval: four of a clock that the machine
/// interrupts once.
const ENDS_NS: u64 = 5_000;

/// Intervals of a length, at most: enough for percentiles.
const MOST: u64 = 2_000;

#[derive(Debug, Serialize)]
struct Report {
    /// For each length, at the most.
    spent_s: u64,
    clocks: Vec<Measured>,
}

#[derive(Debug, Serialize)]
struct Measured {
    clock: &'static str,
    group: Group,
    intervals: Vec<Interval>,
}

/// A clock's results for intervals of one length.
#[derive(Debug, Serialize)]
struct Interval {
    length_ns: u64,
    measured: usize,
    /// Those with two narrow brackets, and not much longer than they should be.
    used: usize,
    /// The median error: positive where the clock measures too much.
    error_ns: Option<f64>,
    /// From the 5th to the 95th percentile of the error.
    spread_ns: Option<f64>,
    /// The largest error to either side.
    largest_ns: Option<f64>,
}

impl Interval {
    fn of(length_ns: u64, pairs: &[(Bracket, Bracket)]) -> Self {
        // A clock that was interrupted has measured another length.
        let longest_ns = length_ns + length_ns / 10 + ENDS_NS;
        let widest = |(first, last): &(Bracket, Bracket)| first.width_ns().max(last.width_ns());
        let narrow_ns = pairs.iter().map(widest).min().unwrap_or(0) + SPARE_NS;
        let mut errors: Vec<f64> = pairs
            .iter()
            .filter(|pair| widest(pair) <= narrow_ns && pair.1.before_ns - pair.0.after_ns <= longest_ns)
            .map(|(first, last)| last.gained_ns(first))
            .collect();
        errors.sort_by(f64::total_cmp);
        let percentile = |percent: usize| errors.get((errors.len().max(1) - 1) * percent / 100).copied();
        let spread_ns = percentile(95).zip(percentile(5)).map(|(high, low)| high - low);
        Self {
            length_ns,
            measured: pairs.len(),
            used: errors.len(),
            error_ns: percentile(50),
            spread_ns,
            largest_ns: errors.iter().map(|error| error.abs()).reduce(f64::max),
        }
    }
}

/// One interval, measured by each of the clocks.
fn measure(clocks: &[fn() -> u64], length_ns: u64) -> Vec<(Bracket, Bracket)> {
    let first: Vec<Bracket> = clocks.iter().map(|now_ns| Bracket::narrowest(TRIES, *now_ns)).collect();
    let end_ns = first.first().map_or(0, |first| first.after_ns) + length_ns;
    while monotonic_ns() < end_ns {
        spin_loop();
    }
    first.into_iter().zip(clocks).map(|(first, now_ns)| (first, Bracket::narrowest(TRIES, *now_ns))).collect()
}

fn main() {
    let spent_s = args::number("secs", 10);
    let guard = tickline::start().expect("the global clock's thread");
    let subjects = set_up_subjects_in_ns();
    let clocks: Vec<fn() -> u64> = subjects.iter().map(|(_, now_ns)| *now_ns).collect();
    sleep(Duration::from_millis(1_500)); // past the first recalibrations
    let mut all: Vec<Measured> = subjects
        .iter()
        .map(|(subject, _)| Measured { clock: subject.name, group: subject.group, intervals: Vec::new() })
        .collect();
    for length_ns in LENGTHS_NS {
        let together = if length_ns < TOGETHER_NS { 1 } else { clocks.len() };
        let round_ns = length_ns * clocks.len().div_ceil(together) as u64;
        let rounds = (spent_s * 1_000_000_000 / round_ns).clamp(1, MOST);
        let mut pairs = vec![Vec::new(); clocks.len()];
        for _ in 0..rounds {
            let measured = clocks.chunks(together).flat_map(|clocks| measure(clocks, length_ns));
            for (pairs, pair) in pairs.iter_mut().zip(measured) {
                pairs.push(pair);
            }
        }
        for (clock, pairs) in all.iter_mut().zip(&pairs) {
            clock.intervals.push(Interval::of(length_ns, pairs));
        }
    }
    drop(guard);
    report::print(&Report { spent_s, clocks: all }, text);
}

fn text(report: &Report) {
    println!("median error (5th to 95th percentile) of intervals, ns; at most {} s a length", report.spent_s);
    print!("{:<32}", "");
    for length_ns in LENGTHS_NS {
        print!(" {:>22}", format!("{:?}", Duration::from_nanos(length_ns)));
    }
    println!();
    for clock in &report.clocks {
        print!("{:<32}", clock.clock);
        for one in &clock.intervals {
            let cell =
                format!("{} ({})", report::or_dash(one.error_ns, 1), report::or_dash(one.spread_ns, 1));
            print!(" {cell:>22}");
        }
        println!();
    }
    let used = |at: usize| report.clocks.iter().filter_map(|clock| Some(clock.intervals.get(at)?.used)).min();
    println!(
        "intervals used of each length, at least: {:?}",
        (0..LENGTHS_NS.len()).filter_map(used).collect::<Vec<_>>()
    );
}
