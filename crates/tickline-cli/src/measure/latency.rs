//! How long single readings take. A loop reads a clock, and a histogram counts the time from each
//! reading to the next, by that clock. Unlike the cost in a tight loop, which is one figure, the
//! histogram also shows the clock's resolution and the slow readings. A reading is slow if it meets
//! the replacement of the line, or loses the CPU.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::calls::monotonic_ns;

/// Rounds of the clocks alternate, so that a disturbance meets all of them. A clock that takes 20
/// ns is read 50 million times in one second, which includes the recalibration of each second.
const ROUNDS: u32 = 50;
const ROUND: Duration = Duration::from_millis(20);

/// Readings between two checks of the round's end, which makes the cost of a check negligible.
const BATCH: u32 = 256;

/// Longest recorded time, ns: a second without the CPU.
const LONGEST_NS: u64 = 1_000_000_000;

/// The histogram's significant digits: the clocks differ by more than 1 %.
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

/// Measures the clocks that are compared. `progress` receives the finished share.
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

/// An array keeps the readings of a batch; the histogram counts them afterwards, outside of the
/// measured time.
fn round(now_ns: impl Fn() -> u64, times: &mut Histogram<u64>) {
    let mut readings = [0; BATCH as usize + 1];
    let start = Instant::now();
    while start.elapsed() < ROUND {
        for reading in &mut readings {
            *reading = black_box(now_ns());
        }
        for pair in readings.windows(2) {
            // Plain readings on two CPUs may be out of order, and two readings of a coarse clock
            // may be equal.
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
