//! How far tickline is from CLOCK_MONOTONIC, whether its bound holds, and what its thread uses of
//! a core.
//!
//! Each sample brackets an ordered reading with two calls of clock_gettime. A reading outside its
//! bracket is wrong whatever the bracket's width. Offsets are taken from brackets that are at
//! most the counter's resolution wider than the narrowest one seen while the clock settles,
//! because the middle of a wider one is less exact.
//!
//! `cargo run --release -p tickline-benches --bin accuracy [-- --secs 60 --driver thread|reader
//! --settle 10 --interval-ms 500 --json]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use tickline::{Clock, Driver, Event};
use tickline_benches::bracket::{Bracket, SPARE_NS, to_f64};
use tickline_benches::os::monotonic_ns;
use tickline_benches::{args, report};

#[derive(Debug, Default)]
struct Tally {
    /// Brackets up to this width give an offset, ns.
    narrow_ns: u64,
    narrowest_ns: u64,
    readings: u64,
    narrow: u64,
    outside: u64,
    violated: u64,
    least_offset_ns: f64,
    most_offset_ns: f64,
    sum_ns: f64,
    most_before_ns: u64,
    most_after_ns: u64,
    most_bound_ns: u64,
    /// How many half-widths of bounds there were of each size, ns; the last place is for all that
    /// are larger.
    half_widths: Vec<u64>,
    most_off_middle_ns: u64,
    slow: u64,
}

/// Half-widths that are counted one by one, ns.
const HALF_WIDTHS: usize = 1_000;

impl Tally {
    /// Counts a half-width.
    fn half_width(&mut self, half_ns: u64) {
        let place = usize::try_from(half_ns).unwrap_or(usize::MAX).min(HALF_WIDTHS);
        if self.half_widths.is_empty() {
            self.half_widths = vec![0; HALF_WIDTHS + 1];
        }
        self.half_widths[place] += 1;
        self.most_bound_ns = self.most_bound_ns.max(half_ns);
    }

    /// The half-width that 99 of 100 readings do not exceed, ns.
    fn half_width_of_99_percent(&self) -> Option<usize> {
        let readings: u64 = self.half_widths.iter().sum();
        let mut rest = readings - readings / 100;
        self.half_widths.iter().position(|count| {
            rest = rest.saturating_sub(*count);
            rest == 0
        })
    }
}

#[derive(Debug, Serialize)]
struct Report {
    /// Who recalibrates: thread or reader.
    driver: &'static str,
    watched_s: u64,
    /// Before that.
    settled_s: u64,
    /// At the end.
    state: String,
    readings: u64,
    /// Outside of their own bracket.
    outside: u64,
    /// Bounds that did not contain CLOCK_MONOTONIC.
    bound_violated: u64,
    /// Served by something else than the line.
    not_by_the_line: u64,
    /// Widest bracket that gives an offset.
    narrow_ns: u64,
    /// Readings in such brackets; none, and there are no offsets.
    narrow: u64,
    least_offset_ns: Option<f64>,
    most_offset_ns: Option<f64>,
    mean_offset_ns: Option<f64>,
    /// The largest claimed bound before and after a reading.
    most_before_ns: u64,
    most_after_ns: u64,
    /// The largest half-width of a bound of readings by the line.
    most_bound_ns: u64,
    /// The half-width that 99 of 100 of them do not exceed.
    half_width_99_percent_ns: Option<usize>,
    /// How far the reading was from the middle of its bounds at the most.
    most_off_middle_ns: u64,
    max_drift_ppb: u64,
    /// What has happened to the clock meanwhile.
    events: BTreeMap<&'static str, u64>,
    /// What tickline's thread used of a core; none without a thread.
    thread_cpu_percent: Option<f64>,
}

fn main() {
    let seconds = args::number("secs", 60);
    let settle = args::number("settle", 10);
    let (driver, name) = match args::text("driver").as_deref() {
        None | Some("thread") => (Driver::Thread, "thread"),
        Some("reader") => (Driver::Reader, "reader"),
        Some(other) => panic!("--driver {other} is neither thread nor reader"),
    };
    let interval = Duration::from_millis(args::number("interval-ms", 500));
    let clock = Clock::builder().driver(driver).interval(interval).start().expect("a clock");
    let settling = watch(&clock, Duration::from_secs(settle), u64::MAX);
    let narrow_ns = settling.narrowest_ns.saturating_add(SPARE_NS);
    let (before, cpu_before) = (clock.status(), thread_cpu_s());
    let start = Instant::now();
    let tally = watch(&clock, Duration::from_secs(seconds), narrow_ns);
    let wall_s = start.elapsed().as_secs_f64();
    let (after, cpu_after) = (clock.status(), thread_cpu_s());

    let happened =
        Event::ALL.iter().map(|event| (event.name(), after.events.get(*event) - before.events.get(*event)));
    let offset = |offset_ns: f64| (tally.narrow > 0).then_some(offset_ns);
    let report = Report {
        driver: name,
        watched_s: seconds,
        settled_s: settle,
        state: after.state.to_string(),
        readings: tally.readings,
        outside: tally.outside,
        bound_violated: tally.violated,
        not_by_the_line: tally.slow,
        narrow_ns,
        narrow: tally.narrow,
        least_offset_ns: offset(tally.least_offset_ns),
        most_offset_ns: offset(tally.most_offset_ns),
        mean_offset_ns: offset(tally.sum_ns / to_f64(tally.narrow.cast_signed())),
        most_before_ns: tally.most_before_ns,
        most_after_ns: tally.most_after_ns,
        most_bound_ns: tally.most_bound_ns,
        half_width_99_percent_ns: tally.half_width_of_99_percent(),
        most_off_middle_ns: tally.most_off_middle_ns,
        max_drift_ppb: after.max_drift_ppb,
        events: happened.into_iter().filter(|(_, count)| *count > 0).collect(),
        thread_cpu_percent: cpu_before
            .zip(cpu_after)
            .map(|(before, after)| (after - before) / wall_s * 100.0),
    };
    report::print(&report, text);
}

fn text(report: &Report) {
    println!(
        "driver {}, {} s after {} s: {}",
        report.driver, report.watched_s, report.settled_s, report.state
    );
    println!(
        "readings {}, in brackets of at most {} ns {}",
        report.readings, report.narrow_ns, report.narrow
    );
    println!(
        "outside their bracket {}, bound violated {}, not by the line {}",
        report.outside, report.bound_violated, report.not_by_the_line
    );
    let [least, most, mean] = [report.least_offset_ns, report.most_offset_ns, report.mean_offset_ns]
        .map(|offset_ns| report::or_dash(offset_ns, 2));
    println!("offset from the middle of the bracket: {least} to {most} ns, mean {mean}");
    println!(
        "bound: at most {} ns before and {} ns after the reading, maximum drift {} ppb",
        report.most_before_ns, report.most_after_ns, report.max_drift_ppb
    );
    println!(
        "half-width: 99 of 100 up to {} ns, all up to {} ns; the reading up to {} ns off the middle",
        report.half_width_99_percent_ns.map_or_else(|| "-".to_owned(), |ns| ns.to_string()),
        report.most_bound_ns,
        report.most_off_middle_ns
    );
    for (event, count) in &report.events {
        println!("{event}: {count}");
    }
    if let Some(percent) = report.thread_cpu_percent {
        println!("the thread used {percent:.4} % of a core");
    }
}

/// Watches `clock` for `time`.
fn watch(clock: &Clock, time: Duration, narrow_ns: u64) -> Tally {
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
    let bracket = Bracket::around(|| clock.now_ordered_ns());
    tally.readings += 1;
    tally.outside += u64::from(!(bracket.before_ns..=bracket.after_ns).contains(&bracket.now_ns));
    tally.narrowest_ns = tally.narrowest_ns.min(bracket.width_ns());
    if bracket.width_ns() <= tally.narrow_ns {
        let offset_ns = bracket.offset_ns();
        tally.narrow += 1;
        tally.sum_ns += offset_ns;
        tally.least_offset_ns = tally.least_offset_ns.min(offset_ns);
        tally.most_offset_ns = tally.most_offset_ns.max(offset_ns);
    }
    let before = monotonic_ns();
    let reading = clock.reading();
    let after = monotonic_ns();
    tally.violated +=
        u64::from(reading.earliest().as_nanos() > after || reading.latest().as_nanos() < before);
    tally.slow += u64::from(reading.state() != tickline::State::Fast);
    let (below_ns, above_ns) = (
        reading.at().as_nanos() - reading.earliest().as_nanos(),
        reading.latest().as_nanos() - reading.at().as_nanos(),
    );
    tally.most_before_ns = tally.most_before_ns.max(below_ns);
    tally.most_after_ns = tally.most_after_ns.max(above_ns);
    if reading.state() == tickline::State::Fast {
        tally.half_width((below_ns + above_ns).div_ceil(2));
        tally.most_off_middle_ns = tally.most_off_middle_ns.max(below_ns.abs_diff(above_ns).div_ceil(2));
    }
}

/// CPU time of the thread called tickline, s, from the scheduler's statistics (proc(5),
/// `schedstat`: ns on the CPU).
fn thread_cpu_s() -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let task = tasks.filter_map(|task| Some(task.ok()?.path())).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "tickline")
    })?;
    let statistics = std::fs::read_to_string(task.join("schedstat")).ok()?;
    statistics.split_whitespace().next()?.parse::<u64>().ok().map(|ns| to_f64(ns.cast_signed()) / 1e9)
}
