//! How far tickline is from CLOCK_MONOTONIC, whether its bound holds, and what its thread uses of a core.
//!
//! Each look brackets an ordered reading with two calls of clock_gettime. A reading outside its bracket is wrong whatever
//! the bracket's width. Offsets are taken from brackets that are at most one counter step (12 ns) wider than the narrowest
//! one seen while the clock settles: the middle of a wider one says less.
//!
//! `cargo run --release -p tickline-benches --bin accuracy [-- --secs 60 --driver thread|reader --settle 10 --interval-ms 500]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::time::{Duration, Instant};

use tickline::{Clock, Driver, Event};
use tickline_benches::args;
use tickline_benches::clocks::monotonic_ns;

/// Brackets wider than the narrowest by more than this tell no offset, ns: a step of the counter on Zen 5, and the rounding.
const SPARE_NS: u64 = 12;

#[derive(Debug, Default)]
struct Tally {
    /// Brackets up to this width tell an offset, ns.
    narrow_ns: u64,
    narrowest_ns: u64,
    looks: u64,
    narrow: u64,
    outside: u64,
    violated: u64,
    least_offset_ns: f64,
    most_offset_ns: f64,
    sum_ns: f64,
    most_before_ns: u64,
    most_after_ns: u64,
    slow: u64,
}

fn main() {
    let seconds = args::number("secs", 60);
    let settle = args::number("settle", 10);
    let driver = match args::text("driver").as_deref() {
        None | Some("thread") => Driver::Thread,
        Some("reader") => Driver::Reader,
        Some(other) => panic!("--driver {other} is neither thread nor reader"),
    };
    let interval = Duration::from_millis(args::number("interval-ms", 500));
    let clock = Clock::builder().driver(driver).interval(interval).start().expect("a clock");
    let settling = look(&clock, Duration::from_secs(settle), u64::MAX);
    let narrow_ns = settling.narrowest_ns + SPARE_NS;
    let (before, cpu_before) = (clock.status(), thread_cpu_s());
    let start = Instant::now();
    let tally = look(&clock, Duration::from_secs(seconds), narrow_ns);
    let wall_s = start.elapsed().as_secs_f64();
    let (after, cpu_after) = (clock.status(), thread_cpu_s());

    println!("driver {driver:?}, {seconds} s after {settle} s: {}", after.state);
    println!("readings {}, in brackets of at most {narrow_ns} ns {}", tally.looks, tally.narrow);
    println!(
        "outside their bracket {}, bound violated {}, not by the line {}",
        tally.outside, tally.violated, tally.slow
    );
    println!(
        "offset from the middle of the bracket: {:+.1} to {:+.1} ns, mean {:+.2}",
        tally.least_offset_ns,
        tally.most_offset_ns,
        tally.sum_ns / to_f64(tally.narrow)
    );
    println!(
        "bound: at most {} ns before and {} ns after the reading, rho {} ppb",
        tally.most_before_ns, tally.most_after_ns, after.rho_ppb
    );
    for event in Event::ALL {
        let count = after.events.get(event) - before.events.get(event);
        if count > 0 {
            println!("{}: {count}", event.name());
        }
    }
    if let (Some(before), Some(after)) = (cpu_before, cpu_after) {
        println!("the thread used {:.4} % of a core", (after - before) / wall_s * 100.0);
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and differences far below 2^53")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

/// Looks at `clock` for `time`.
fn look(clock: &Clock, time: Duration, narrow_ns: u64) -> Tally {
    let mut tally = Tally {
        narrow_ns,
        narrowest_ns: u64::MAX,
        least_offset_ns: f64::INFINITY,
        most_offset_ns: f64::NEG_INFINITY,
        ..Tally::default()
    };
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..1_000 {
            one(clock, &mut tally);
        }
    }
    tally
}

fn one(clock: &Clock, tally: &mut Tally) {
    let before = monotonic_ns();
    let now = clock.now_ordered_ns();
    let after = monotonic_ns();
    tally.looks += 1;
    tally.outside += u64::from(!(before..=after).contains(&now));
    let width = after - before;
    tally.narrowest_ns = tally.narrowest_ns.min(width);
    if width <= tally.narrow_ns {
        let offset_ns = to_f64(now.wrapping_sub(before)) - to_f64(width) / 2.0;
        tally.narrow += 1;
        tally.sum_ns += offset_ns;
        tally.least_offset_ns = tally.least_offset_ns.min(offset_ns);
        tally.most_offset_ns = tally.most_offset_ns.max(offset_ns);
    }
    let before = monotonic_ns();
    let reading = clock.reading();
    let after = monotonic_ns();
    tally.violated += u64::from(reading.earliest_ns > after || reading.latest_ns < before);
    tally.slow += u64::from(reading.status != tickline::State::Fast);
    tally.most_before_ns = tally.most_before_ns.max(reading.ns - reading.earliest_ns);
    tally.most_after_ns = tally.most_after_ns.max(reading.latest_ns - reading.ns);
}

/// CPU time of the thread called tickline, s, from the scheduler's statistics (proc(5), `schedstat`: ns on the CPU).
fn thread_cpu_s() -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let task = tasks.filter_map(|task| Some(task.ok()?.path())).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "tickline")
    })?;
    let statistics = std::fs::read_to_string(task.join("schedstat")).ok()?;
    statistics.split_whitespace().next()?.parse::<u64>().ok().map(|ns| to_f64(ns) / 1e9)
}
