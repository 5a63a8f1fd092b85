//! Measures how long single readings take. A loop reads a clock, and a histogram counts the time
//! from each reading to the next, by that clock. The cost in a tight loop is one figure, but the
//! quantiles of the histogram also show the slow readings. A reading is slow if a writer replaces
//! the line meanwhile, or if the thread loses the CPU.

use std::hint::black_box;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::calls::{MONOTONIC, NOW_NS, monotonic_ns};
use super::stopwatch::Stopwatch;

/// The rounds of the clocks alternate, so a disturbance meets all clocks. A clock that takes 20 ns
/// is read 50 million times in its second, which includes some recalibrations.
const ROUNDS: u32 = 50;
const ROUND: Duration = Duration::from_millis(20);

/// The number of readings between two checks of the time, which makes a check's cost negligible.
const BATCH: u32 = 256;

/// The longest recorded time, ns: a second without the CPU.
const MAX_NS: u64 = 1_000_000_000;

/// The histogram's significant digits: the clocks differ by more than 1 %.
const DIGITS: u8 = 2;

/// The times from each reading of a clock to the next, by that clock, in a tight loop.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LatencyRow {
    /// The clock.
    pub(crate) clock: &'static str,
    /// Number of times.
    pub(crate) readings: u64,
    /// The shortest time, ns. All times have a resolution of 1 %. A time of more than a second
    /// counts as a second.
    pub(crate) min_ns: u64,
    /// Half of the times are not longer than this, ns.
    pub(crate) median_ns: u64,
    /// 99 % of the times are not longer than this, ns.
    pub(crate) p99_ns: u64,
    /// 99.99 % of the times are not longer than this, ns.
    pub(crate) p99_99_ns: u64,
    /// The longest time, ns.
    pub(crate) max_ns: u64,
}

impl LatencyRow {
    fn from_histogram(clock: &'static str, times: &Histogram<u64>) -> Self {
        Self {
            clock,
            readings: times.len(),
            min_ns: times.min(),
            median_ns: times.value_at_quantile(0.5),
            p99_ns: times.value_at_quantile(0.99),
            p99_99_ns: times.value_at_quantile(0.9999),
            max_ns: times.max(),
        }
    }
}

/// A function that measures one clock for a round.
type Round = fn(&mut Histogram<u64>);

/// Measures tickline's clock and the OS clock. `progress` receives the finished share.
pub(crate) fn measure(mut progress: impl FnMut(f64)) -> Vec<LatencyRow> {
    const CLOCKS: [(&str, Round); 2] = [
        (NOW_NS, |times| round(tickline::now_ns, times)),
        (MONOTONIC, |times| round(monotonic_ns, times)),
    ];
    let Ok(empty) = Histogram::new_with_bounds(1, MAX_NS, DIGITS) else {
        return Vec::new();
    };
    let mut times = CLOCKS.map(|_| empty.clone());
    for number in 1..=ROUNDS {
        for ((_, round), times) in CLOCKS.iter().zip(&mut times) {
            round(times);
        }
        progress(f64::from(number) / f64::from(ROUNDS));
    }
    CLOCKS
        .iter()
        .zip(&times)
        .map(|((clock, _), times)| LatencyRow::from_histogram(clock, times))
        .collect()
}

/// Reads a clock for a round. An array keeps the readings of a batch, and the histogram counts them
/// after the batch, outside of the measured time.
fn round(now_ns: impl Fn() -> u64, times: &mut Histogram<u64>) {
    let mut readings = [0; BATCH as usize + 1];
    let start = Stopwatch::start();
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
        let mut times = Histogram::new_with_bounds(1, MAX_NS, DIGITS).unwrap();
        let ns = std::cell::Cell::new(0);
        let by_seven = || {
            ns.set(ns.get() + 7);
            ns.get()
        };
        round(by_seven, &mut times);
        assert!(
            !times.is_empty() && times.len() % u64::from(BATCH) == 0,
            "{}",
            times.len()
        );
        assert_eq!((times.min(), times.max()), (7, 7));
    }
}
