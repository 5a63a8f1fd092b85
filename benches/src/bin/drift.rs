//! Measures each clock's drift from CLOCK_MONOTONIC. All clocks are in one run, so that the state
//! of the machine is the same for all.
//!
//! Every 20 ms the program reads each clock's offset in the narrowest of 20 brackets. Offsets are
//! relative to the first one, because most clocks have zeros of their own. The drift is the slope
//! of the line of least squares through the offsets. Clocks that calibrate once have another rate
//! in every process. Coarse clocks are left out, because their offset is the age of their time.
//!
//! `cargo run --release -p tickline-benches --bin drift [-- --secs 60 --settle 10]`

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Parser;
use serde::Serialize;
use tickline_benches::clocks::subjects;
use tickline_benches::report;
use tickline_benches::subject::Group;
use tickline_observe::Bracket;

/// Time between two samples.
const PAUSE: Duration = Duration::from_millis(20);

/// The number of brackets in a sample. The narrowest counts.
const TRIES: u32 = 20;

/// Measures each clock's drift from CLOCK_MONOTONIC.
#[derive(Debug, Parser)]
struct Arguments {
    /// The time to watch the clocks, s.
    #[arg(long, default_value_t = 60)]
    secs: u64,
    /// The time that the clocks settle before, s.
    #[arg(long, default_value_t = 10)]
    settle: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    /// The time that the program watched the clocks.
    watched_s: u64,
    /// The time that the clocks settled between their set-up and the first sample.
    settled_s: u64,
    samples: usize,
    clocks: Vec<Drift>,
}

#[derive(Debug, Serialize)]
struct Drift {
    clock: &'static str,
    /// The slope against CLOCK_MONOTONIC: positive for a clock that is fast.
    drift_ppb: Option<f64>,
    /// The largest change of the offset since the first sample, to either side.
    offset_change_ns: f64,
}

fn main() {
    let Arguments {
        secs: watched_s,
        settle: settled_s,
    } = Arguments::parse();
    let guard = tickline::start().expect("the global clock's thread");
    let mut subjects = subjects();
    subjects.retain(|subject| subject.group == Group::Time);
    // The first reading sets up a clock.
    subjects.iter().for_each(|subject| _ = (subject.read)());
    sleep(Duration::from_secs(settled_s));

    let narrowest = |now_ns: fn() -> u64| {
        let brackets = (0..TRIES).map(|_| Bracket::around(now_ns));
        brackets.min_by_key(Bracket::width_ns).expect("some tries")
    };
    let sample = || -> Vec<Bracket> {
        subjects
            .iter()
            .map(|subject| narrowest(subject.read))
            .collect()
    };
    let start = Instant::now();
    let first = sample();
    // For each clock, the time since the first sample, s, and the gain, ns.
    let mut gained: Vec<Vec<(f64, f64)>> = vec![vec![(0.0, 0.0)]; subjects.len()];
    while start.elapsed() < Duration::from_secs(watched_s) {
        sleep(PAUSE);
        let at_s = start.elapsed().as_secs_f64();
        for ((gained, first), now) in gained.iter_mut().zip(&first).zip(sample()) {
            gained.push((at_s, now.gained_ns(first)));
        }
    }
    let clocks = subjects.iter().zip(&gained).map(|(subject, gained)| Drift {
        clock: subject.name,
        drift_ppb: report::slope(gained), // ns a second
        offset_change_ns: gained.iter().map(|(_, ns)| ns.abs()).fold(0.0, f64::max),
    });
    let samples = gained.first().map_or(0, Vec::len);
    report::print(&Report {
        watched_s,
        settled_s,
        samples,
        clocks: clocks.collect(),
    });
    drop(guard);
}
