//! Measures the cost of a reading of every clock, as a ratio to the bare counter in the same run.
//! The clocks take turns in each round, and the fastest round counts. The clock's thread
//! recalibrates every millisecond.
//!
//! `cargo run --release -p tickline-benches --bin ratios [-- --rounds 200]`

use std::time::{Duration, Instant};

use clap::Parser;
use serde::Serialize;
use tickline::{Clock, Event};
use tickline_benches::clocks::subjects;
use tickline_benches::report;
use tickline_benches::subject::{ClockSubject, Group};

/// The number of calls in a round, which takes 20 to 60 us: much less than a time slice, so that
/// most rounds are not interrupted.
const CALLS: u32 = 2_000;

#[derive(Debug, Serialize)]
struct Report {
    /// The number of rounds. The fastest counts.
    rounds: u32,
    calls_a_round: u32,
    /// The state of tickline's clock before the first round.
    state: String,
    clocks: Vec<Cost>,
}

#[derive(Debug, Serialize)]
struct Cost {
    clock: &'static str,
    group: Group,
    /// The cost of a call in a tight loop.
    tight_ns: f64,
    /// The cost of a call in a loop that waits for each result.
    awaited_ns: f64,
    /// The ratios to the bare counter in the same kind of loop and the same run.
    tight_ratio: f64,
    awaited_ratio: f64,
}

/// Measures what a call of each clock costs.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of rounds; the fastest counts.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
}

fn main() {
    let Arguments { rounds } = Arguments::parse();
    #[cfg(target_os = "linux")]
    tickline_benches::utc::enter_namespace();
    let guard = Clock::builder()
        .interval(Duration::from_millis(1))
        .start_global()
        .expect("the global clock's thread");
    std::thread::sleep(Duration::from_millis(1_500));
    let status = Clock::global().status();
    let state = format!(
        "{}; {} recalibrations so far",
        status.state,
        status.events.get(Event::Replacement)
    );

    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_mut, reason = "there is no segment")
    )]
    let mut subjects = subjects();
    #[cfg(target_os = "linux")]
    subjects.extend(tickline_benches::utc::subjects());
    let mut fastest_ns = vec![[f64::INFINITY; 2]; subjects.len()];
    for _ in 0..rounds {
        for (subject, fastest_ns) in subjects.iter().zip(&mut fastest_ns) {
            for (run, fastest_ns) in [subject.tight, subject.awaited].into_iter().zip(fastest_ns) {
                *fastest_ns = fastest_ns.min(time_call_ns(run));
            }
        }
    }
    let [bare_tight_ns, bare_awaited_ns] = fastest_ns[0];
    let cost = |(subject, [tight_ns, awaited_ns]): (&ClockSubject, [f64; 2])| Cost {
        clock: subject.name,
        group: subject.group,
        tight_ns,
        awaited_ns,
        tight_ratio: tight_ns / bare_tight_ns,
        awaited_ratio: awaited_ns / bare_awaited_ns,
    };
    let clocks = subjects.iter().zip(fastest_ns).map(cost).collect();
    report::print(&Report {
        rounds,
        calls_a_round: CALLS,
        state,
        clocks,
    });
    drop(guard);
}

fn time_call_ns(run: fn(u32)) -> f64 {
    let start = Instant::now();
    run(CALLS);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}
