//! Measures tickline's offset from CLOCK_MONOTONIC and its thread's CPU time, and checks the bound.
//!
//! Each sample brackets an ordered reading with two calls of clock_gettime. A reading outside its
//! bracket is wrong, for any width of the bracket. Only narrow brackets give an offset, because the
//! middle of a wider bracket is less exact. A bracket is narrow if it exceeds the narrowest one
//! that was seen while the clock settled by at most `SPARE_NS`.
//!
//! `cargo run --release -p tickline-benches --bin accuracy [-- --secs 60 --driver thread|reader
//! --settle 10]`

use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use serde::Serialize;
use tickline::{Clock, Driver};
use tickline_benches::report;
use tickline_observe::{Bounded, Bracket, to_f64};

/// The width, ns, by which a bracket that gives an offset may exceed the narrowest bracket: the
/// counter's resolution on Zen 5, and the rounding.
const SPARE_NS: u64 = 12;

/// Measures tickline's offset from CLOCK_MONOTONIC, and checks the bound.
#[derive(Debug, Parser)]
struct Arguments {
    /// The time to watch the clock, s.
    #[arg(long, default_value_t = 60)]
    secs: u64,
    /// The time that the clock settles before, s.
    #[arg(long, default_value_t = 10)]
    settle: u64,
    /// The driver of recalibration.
    #[arg(long, value_enum, default_value = "thread")]
    driver: DriverName,
}

/// The drivers, by their names in arguments and reports.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum DriverName {
    /// A thread of the clock.
    Thread,
    /// The threads that read.
    Reader,
}

#[derive(Debug, Serialize)]
struct Report {
    /// The driver of recalibration.
    driver: DriverName,
    watched_s: u64,
    /// The time that the clock settled before, s.
    settled_s: u64,
    /// The clock's state at the end.
    state: String,
    max_drift_ppb: Option<u64>,
    /// The share of a core that tickline's thread used; `None` without a thread.
    thread_cpu_percent: Option<f64>,
    /// How often it slept and woke up again, a second; `None` without a thread.
    thread_wake_ups_per_s: Option<f64>,
    #[serde(flatten)]
    tally: Tally,
}

#[derive(Debug, Default, Serialize)]
struct Tally {
    readings: u64,
    /// The number of readings outside of their own bracket.
    outside: u64,
    /// The number of bounds that did not contain CLOCK_MONOTONIC.
    bound_violated: u64,
    /// The number of readings that the line did not serve.
    not_by_the_line: u64,
    #[serde(skip)]
    narrowest_ns: u64,
    /// The widest bracket that gives an offset.
    narrow_ns: u64,
    /// The number of readings in such brackets. If it is 0, there are no offsets.
    narrow: u64,
    least_offset_ns: Option<f64>,
    most_offset_ns: Option<f64>,
    #[serde(skip)]
    sum_ns: f64,
    mean_offset_ns: Option<f64>,
    /// The largest claimed bound before and after a reading.
    most_before_ns: u64,
    most_after_ns: u64,
}

fn main() {
    let Arguments {
        secs: watched_s,
        settle: settled_s,
        driver,
    } = Arguments::parse();
    let of_clock = match driver {
        DriverName::Thread => Driver::Thread,
        DriverName::Reader => Driver::Reader,
    };
    let clock = Clock::builder().driver(of_clock).build().expect("a clock");
    let settling = watch(&clock, settled_s, u64::MAX);
    let before = ThreadUse::so_far();
    let start = Instant::now();
    let tally = watch(
        &clock,
        watched_s,
        settling.narrowest_ns.saturating_add(SPARE_NS),
    );
    let used = before.zip(ThreadUse::so_far());
    let elapsed_s = start.elapsed().as_secs_f64();
    let status = clock.status();
    report::print(&Report {
        driver,
        watched_s,
        settled_s,
        state: status.state.to_string(),
        max_drift_ppb: status.max_drift_ppb,
        thread_cpu_percent: used
            .map(|(before, after)| (after.cpu_s - before.cpu_s) / elapsed_s * 100.0),
        thread_wake_ups_per_s: used
            .map(|(before, after)| (after.wake_ups - before.wake_ups) / elapsed_s),
        tally,
    });
}

/// Watches `clock` for this time. Brackets up to `narrow_ns` give an offset.
fn watch(clock: &Clock, seconds: u64, narrow_ns: u64) -> Tally {
    let mut tally = Tally {
        narrow_ns,
        narrowest_ns: u64::MAX,
        ..Tally::default()
    };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..1_000 {
            tally.add_sample(clock);
        }
    }
    tally.mean_offset_ns = tally
        .least_offset_ns
        .map(|_| tally.sum_ns / to_f64(tally.narrow.cast_signed()));
    tally
}

impl Tally {
    fn add_sample(&mut self, clock: &Clock) {
        let bracket = Bracket::around(|| clock.now_ordered().as_nanos());
        self.readings += 1;
        self.outside += u64::from(bracket.is_missed());
        self.narrowest_ns = self.narrowest_ns.min(bracket.width_ns());
        if bracket.width_ns() <= self.narrow_ns {
            let ns = bracket.offset_ns();
            self.narrow += 1;
            self.sum_ns += ns;
            self.least_offset_ns =
                Some(self.least_offset_ns.map_or(ns, |least_ns| least_ns.min(ns)));
            self.most_offset_ns = Some(self.most_offset_ns.map_or(ns, |most_ns| most_ns.max(ns)));
        }
        let bounded = Bounded::read(clock);
        self.bound_violated += u64::from(bounded.missed_ns() > 0);
        self.not_by_the_line += u64::from(!bounded.by_counter);
        let (before_ns, after_ns) = bounded.sides_ns();
        self.most_before_ns = self.most_before_ns.max(before_ns);
        self.most_after_ns = self.most_after_ns.max(after_ns);
    }
}

/// What the thread called tickline has used since its start.
#[derive(Debug, Clone, Copy)]
struct ThreadUse {
    /// Its CPU time, s: ns on the CPU in the scheduler's statistics (proc(5), `schedstat`).
    cpu_s: f64,
    /// How often it has slept and woken up (proc(5), `voluntary_ctxt_switches`).
    wake_ups: f64,
}

impl ThreadUse {
    /// `None` without the thread.
    fn so_far() -> Option<Self> {
        let tasks = std::fs::read_dir("/proc/self/task").ok()?;
        let task = tasks
            .filter_map(|task| Some(task.ok()?.path()))
            .find(|task| {
                std::fs::read_to_string(task.join("comm"))
                    .is_ok_and(|name| name.trim() == "tickline")
            })?;
        let number = |text: &str| Some(to_f64(text.trim().parse::<u64>().ok()?.cast_signed()));
        let statistics = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let status = std::fs::read_to_string(task.join("status")).ok()?;
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some(Self {
            cpu_s: number(statistics.split_whitespace().next()?)? / 1e9,
            wake_ups: number(switches)?,
        })
    }
}
