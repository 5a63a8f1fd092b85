//! Measures the resolution of each clock: the smallest step between two readings.

use std::time::Duration;

use super::calls::Call;
use super::costs::CostRow;
use super::stopwatch::Stopwatch;

/// The time for each clock. A coarse clock moves at each timer tick of the kernel, at least every
/// 10 ms on usual kernels (HZ=100).
const PATIENCE: Duration = Duration::from_millis(12);

/// The longest time for a clock that has made fewer steps than `FEW`. On a busy machine this thread
/// may have missed timer ticks, and a step is then several timer ticks long.
const MAX_TIME: Duration = Duration::from_millis(60);
const FEW: u32 = 5;

/// A sufficient number of steps: the smallest step is among the first dozens.
const STEPS: u32 = 1_000;

/// The number of readings between two checks of the elapsed time. If a reading takes 1 us, these
/// readings take 64 us, far less than `PATIENCE`.
const READS_PER_CHECK: u32 = 64;

/// Measures every clock. `rows` must have the rows of `calls`, in the same order.
pub(crate) fn measure(rows: &mut [CostRow], calls: &[Call]) {
    for (row, call) in rows.iter_mut().zip(calls) {
        row.resolution_ns = call.read_ns.as_ref().and_then(resolution_ns);
    }
}

fn resolution_ns(read_ns: impl Fn() -> u64) -> Option<u64> {
    let start = Stopwatch::start();
    let mut last = read_ns();
    let mut steps = 0;
    let mut smallest = None;
    while steps < STEPS && start.elapsed() < if steps < FEW { MAX_TIME } else { PATIENCE } {
        // A check of the elapsed time between two readings would hide steps that are smaller than
        // the cost of the check.
        for _ in 0..READS_PER_CHECK {
            let now = read_ns();
            // At a backward step the clock was set, which says nothing about its resolution.
            if let Some(step @ 1..) = now.checked_sub(last) {
                smallest = smallest.into_iter().chain([step]).min();
                steps += 1;
            }
            last = now;
        }
    }
    // One step alone may be longer than the resolution, such as after an interruption.
    if steps > 1 { smallest } else { None }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that returns these values over and over.
    fn clock(values: &'static [u64]) -> impl Fn() -> u64 {
        let next = Cell::new(0);
        move || {
            let index = next.get();
            next.set((index + 1) % values.len());
            values[index]
        }
    }

    #[test]
    fn the_resolution_is_the_smallest_forward_step() {
        assert_eq!(
            resolution_ns(clock(&[100, 100, 130, 170, 180, 50])),
            Some(10)
        );
        assert_eq!(
            resolution_ns(clock(&[7])),
            None,
            "a clock that stands still"
        );
    }

    /// On a busy machine, coarse clocks had a resolution of two or three of their ticks.
    #[test]
    fn a_single_step_is_no_resolution() {
        let reads = Cell::new(0);
        let once = || {
            reads.set(reads.get() + 1);
            if reads.get() < 100 {
                8_000_000
            } else {
                20_000_000
            }
        };
        assert_eq!(resolution_ns(once), None);
    }
}
