//! Readings with bounds: the shortest and the longest time that an action can have taken, and
//! which of two threads was certainly first.
//!
//! `cargo run --release --example error_bounds`
//!
//! Its output has: "took between", "before", "can't be told", "Unix time is between", "readings
//! come from".
//!
//! The bounds contain `CLOCK_MONOTONIC` as long as its rate stays within `Status::max_drift_ppb`,
//! and neither clock has jumped since the last recalibration.
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tickline::{Clock, Instant, Reading, UnixTime};

/// The number of times that two threads meet and read the clock.
const MEETINGS: usize = 1_000;

/// Whether one reading was certainly before another.
fn is_before(one: &Reading<Instant>, other: &Reading<Instant>) -> bool {
    one.latest() < other.earliest()
}

fn main() -> Result<(), tickline::Error> {
    let _thread = tickline::start()?;
    let clock = Clock::global();

    // The bounds become narrow after the clock has watched the reference for a while.
    for _ in 0..3 {
        let start = clock.reading();
        thread::sleep(Duration::from_millis(100));
        let end = clock.reading();
        println!(
            "a sleep of 100 ms took between {:?} and {:?}",
            end.earliest() - start.latest(),
            end.latest() - start.earliest(),
        );
    }

    let meeting = Barrier::new(2);
    let read = |_| {
        meeting.wait();
        clock.reading()
    };
    let readings = || (0..MEETINGS).map(read).collect::<Vec<_>>();
    let (mine, theirs) = thread::scope(|scope| {
        let other = scope.spawn(readings);
        (readings(), other.join().expect("nothing panics there"))
    });
    let before = mine
        .iter()
        .zip(&theirs)
        .filter(|(mine, theirs)| is_before(mine, theirs))
        .count();
    let after = mine
        .iter()
        .zip(&theirs)
        .filter(|(mine, theirs)| is_before(theirs, mine))
        .count();
    println!(
        "at {MEETINGS} meetings this thread read {before} times before the other, {after} times after it, \
         and {} times it can't be told",
        MEETINGS - before - after
    );

    let unix = clock.unix_reading();
    let status = clock.status();
    let [earliest_ns, latest_ns] = [unix.earliest(), unix.latest()].map(UnixTime::as_nanos);
    println!("Unix time is between {earliest_ns} and {latest_ns} ns");
    if let Some(drift_ppb) = status.max_drift_ppb {
        println!("the maximum drift is {drift_ppb} ppb");
    }
    println!("{}", status.state);
    Ok(())
}
