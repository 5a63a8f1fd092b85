//! How long single readings take: a clock is read again and again, and the time from one reading to the next, by the same
//! clock, is counted in a histogram. The cost of a tight loop is one figure; this shows the resolution, and the readings that
//! took longer, because the line was being replaced or somebody else had the CPU.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::calls::monotonic_ns;

/// Time for one clock, in rounds that alternate with those of the others, so that a disturbance meets all of them. A clock
/// that takes 20 ns is read 50 million times, so that what happens once a second, a recalibration, is among them.
const ROUNDS: u32 = 50;
const ROUND: Duration = Duration::from_millis(20);

/// Readings between two looks at the end of a round: rare against the cost of that look.
const BATCH: u32 = 256;

/// Longer ones count as this, ns: a second without the CPU.
const LONGEST_NS: u64 = 1_000_000_000;

/// Two digits: 1 % of a time is less than the clocks differ by.
const DIGITS: u8 = 2;

/// The times from one reading of a clock to the next.
#[derive(Debug, Clone)]
pub(crate) struct Latency {
    pub(crate) clock: &'static str,
    /// ns.
    pub(crate) times: Histogram<u64>,
}

/// A round of one clock.
type Round = fn(&mut Histogram<u64>);

/// Measures the clocks that are compared. `progress` is told the share that is done.
pub(crate) fn measure(mut progress: impl FnMut(f64)) -> Vec<Latency> {
    const CLOCKS: [(&str, Round); 2] = [
        ("tickline::now_ns", |times| round(tickline::now_ns, times)),
        ("clock_gettime MONOTONIC", |times| round(monotonic_ns, times)),
    ];
    let empty = |(clock, round): (&'static str, Round)| {
        let times = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).ok()?;
        Some((Latency { clock, times }, round))
    };
    let mut clocks: Vec<(Latency, Round)> = CLOCKS.into_iter().filter_map(empty).collect();
    for number in 1..=ROUNDS {
        for (latency, round) in &mut clocks {
            round(&mut latency.times);
        }
        progress(f64::from(number) / f64::from(ROUNDS));
    }
    clocks.into_iter().map(|(latency, _)| latency).collect()
}

/// The times are kept in an array and counted after each batch, so that the counting is not part of them.
fn round(now_ns: impl Fn() -> u64, times: &mut Histogram<u64>) {
    let mut readings = [0; BATCH as usize + 1];
    let start = Instant::now();
    while start.elapsed() < ROUND {
        for reading in &mut readings {
            *reading = black_box(now_ns());
        }
        for pair in readings.windows(2) {
            // Plain readings on two CPUs may be out of order, and one step of a coarse clock is 0.
            times.saturating_record(pair[1].saturating_sub(pair[0]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reading_is_counted_once() {
        let mut times = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).unwrap();
        let ns = std::cell::Cell::new(0);
        let by_seven = || {
            ns.set(ns.get() + 7);
            ns.get()
        };
        round(by_seven, &mut times);
        assert!(!times.is_empty() && times.len() % u64::from(BATCH) == 0, "{}", times.len());
        assert_eq!((times.min(), times.max()), (7, 7));
    }

    #[test]
    fn both_clocks_are_measured() {
        let mut last = 0.0;
        let latencies = measure(|done| last = done);
        assert!((last - 1.0_f64).abs() < f64::EPSILON);
        assert_eq!(latencies.len(), 2);
        assert!(latencies.iter().all(|latency| !latency.times.is_empty() && latency.times.max() > 0));
    }
}
