//! The control loop over this machine's own counter and clock, on any system. It publishes a line.
//! Readings by that line have bounds that contain the OS clock.
//!
//! A program of its own: `cargo xtask targets` runs it for each target, and counts it as run where
//! nothing is skipped.

mod common;

use std::io::Write;
use std::time::{Duration, Instant as StdInstant};

use common::{read_in_order, skipped_as_too_slow, wait_until_fast};
use tickline::{Clock, Driver, Event, Instant, Trust, UnixTime};

/// The number of readings by the line.
const READINGS: u32 = 1_000;

/// Monotonic time, and Unix time where the OS tells it to the nanosecond.
const TIMESCALES: usize = if cfg!(windows) { 1 } else { 2 };

/// The least number of lines.
const LINES: u64 = 10;

/// The longest time for these lines. An emulator needs some tenths of a second.
const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn the_counter_serves_and_keeps_time_with_the_os() {
    if skipped_as_too_slow() {
        return;
    }
    // If the kernel can't be asked, as on systems other than Linux, a comparison of the counters
    // decides.
    let clock = Clock::builder()
        .trust(Trust::Measured)
        .interval(Duration::from_millis(50))
        .build()
        .unwrap();
    // Readings without the counter: by the OS clock, on the same timescale.
    let os = Clock::builder().driver(Driver::Reader).build().unwrap();
    os.disable();
    let start = StdInstant::now();
    if wait_until_fast(&clock).is_none() {
        return;
    }
    let until_fast_ms = start.elapsed().as_millis();

    let mut readings = 0_u32;
    let mut by_line = 0_u32;
    let mut outside = 0_u32;
    let mut last_ns = 0;
    let start = StdInstant::now();
    let lines = || clock.status().events.get(Event::Replacement);
    while by_line < READINGS || lines() < LINES {
        assert!(
            start.elapsed() < TIMEOUT,
            "{by_line} readings by the line: {:?}",
            clock.status()
        );
        let before_ns = [os.now().as_nanos(), os.unix_now().as_nanos()];
        let reading = clock.reading();
        let unix = clock.unix_reading();
        let after_ns = [os.now().as_nanos(), os.unix_now().as_nanos()];
        by_line += u32::from(reading.is_from_counter());
        let bounds_ns = [
            [reading.earliest(), reading.time(), reading.latest()].map(Instant::as_nanos),
            [unix.earliest(), unix.time(), unix.latest()].map(UnixTime::as_nanos),
        ];
        for ((bounds_ns, before_ns), after_ns) in bounds_ns
            .into_iter()
            .zip(before_ns)
            .zip(after_ns)
            .take(TIMESCALES)
        {
            let [earliest_ns, ns, latest_ns] = bounds_ns;
            assert!(earliest_ns <= ns && ns <= latest_ns, "{bounds_ns:?}");
            readings += 1;
            outside += u32::from(earliest_ns > after_ns || latest_ns < before_ns);
        }
        read_in_order(&clock, &mut last_ns);
    }
    // The bound is void for a moment if the host pauses this machine, or if the OS clock is set.
    assert!(
        outside <= readings / 100,
        "{outside} of {readings} bounds exclude the OS clock"
    );

    let status = clock.status();
    writeln!(
        std::io::stderr(),
        "control loop: {by_line} readings by the line, {outside} of {readings} bounds exclude the OS clock; \
         {:?} Hz; fast after {until_fast_ms} ms; counters {:?}",
        status.frequency_hz,
        status.comparison,
    )
    .ok();
}
