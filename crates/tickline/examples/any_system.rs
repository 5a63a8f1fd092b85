//! Checks the promises that hold on every system, even without threads, without a counter, or
//! without any clock. Readings never panic and never step back, and the state says which clock
//! serves them. `cargo xtask targets` runs this program on targets where tests cannot run.
//!
//! Its output has: "100,000 readings in".

#![expect(clippy::print_stdout, reason = "a program that prints its findings")]

use std::time::Duration;

use tickline::{Clock, ClockState, Driver, Instant, Reason, UnixTime};

fn main() {
    let clock = Clock::global();
    let start = Instant::now();
    let mut last_ns = 0;
    for _ in 0..100_000 {
        let now_ns = tickline::now_ordered_ns();
        assert!(now_ns >= last_ns, "{now_ns} after {last_ns}");
        last_ns = now_ns;
    }
    let reading = clock.reading();
    assert!(
        reading.earliest() <= reading.time() && reading.time() <= reading.latest(),
        "{reading:?}"
    );
    let spent = start.elapsed();
    let unix = UnixTime::now();
    assert!(spent < Duration::from_secs(60) && tickline::recent_ns() >= last_ns);

    let manual = Clock::builder()
        .driver(Driver::Manual)
        .build()
        .expect("it needs nothing of the system");
    manual.maintain();
    manual.disable();
    let state = clock.status().state;
    let disabled = manual.status().state;
    if state == ClockState::Unavailable {
        assert_eq!(
            (last_ns, unix.as_nanos(), disabled),
            (0, 0, ClockState::Unavailable)
        );
    } else {
        assert!(
            last_ns > 0 && spent > Duration::ZERO,
            "{last_ns} ns, {spent:?}"
        );
        assert_eq!(disabled, ClockState::Fallback(Reason::DisabledByProgram));
    }
    println!("{state}; 100,000 readings in {spent:?}; {unix:?}");
}
