//! The first program: a duration, a Unix time, a reading with bounds, and the clock's state.
//!
//! `cargo run --release --example quickstart`
//!
//! Its output has: "sorting took", "Unix time", "CLOCK_MONOTONIC is between", "readings come from".
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::time::SystemTime;

use tickline::{Clock, Instant, UnixTime};

fn main() -> Result<(), tickline::Error> {
    // The thread that calibrates the clock is optional. Without it, about two calls a second
    // calibrate, which takes them microseconds.
    let _thread = tickline::start()?;

    let start = Instant::now(); // replaces std::time::Instant
    let mut numbers: Vec<u64> = (0..1_000_000)
        .map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    numbers.sort_unstable();
    println!("sorting took {:?}", start.elapsed());

    let wall = UnixTime::now();
    println!("Unix time {wall:?} is {:?}", SystemTime::from(wall));

    let reading = Clock::global().reading();
    println!(
        "CLOCK_MONOTONIC is between {} and {} ns, {:?} apart",
        reading.earliest().as_nanos(),
        reading.latest().as_nanos(),
        reading.width()
    );

    // The clock that readings come from. If it is the OS clock: why.
    println!("{}", Clock::global().status().state);
    Ok(())
}
