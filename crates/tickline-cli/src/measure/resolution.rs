//! The resolution of each clock: the smallest step between two readings.

use std::time::{Duration, Instant};

use super::calls::Call;
use super::costs::CostRow;

/// Time for each clock. Coarse clocks move once a timer tick of the kernel, which takes at most 10
/// ms on usual kernels (HZ=100).
const PATIENCE: Duration = Duration::from_millis(12);

/// The same for a clock that has made fewer steps than `FEW`. On a busy machine this thread may
/// have missed ticks. A step is then several ticks long.
const MAX_TIME: Duration = Duration::from_millis(60);
const FEW: u32 = 5;

/// A sufficient number of steps: the smallest one is among the first dozens.
const STEPS: u32 = 1_000;

/// Readings between two checks of the time that has passed. They take 64 us if a reading takes 1
/// us, far less than `PATIENCE`.
const READS_PER_CHECK: u32 = 64;

/// Measures every clock. The rows are those of the calls, in the same order.
pub(crate) fn measure(rows: &mut [CostRow], calls: &[Call]) {
    for (row, call) in rows.iter_mut().zip(calls) {
        row.resolution_ns = call.read_ns.as_ref().and_then(resolution_ns);
    }
}

fn resolution_ns(read_ns: impl Fn() -> u64) -> Option<u64> {
    let start = Instant::now();
    let (mut last, mut steps, mut smallest) = (read_ns(), 0, None);
    while steps < STEPS && start.elapsed() < if steps < FEW { MAX_TIME } else { PATIENCE } {
        // A check of the time between two readings would hide steps that are smaller than its
        // cost.
        for _ in 0..READS_PER_CHECK {
            let now = read_ns();
            // A backward step says nothing about the resolution: the clock was set.
            if let Some(step @ 1..) = now.checked_sub(last) {
                smallest = smallest.into_iter().chain([step]).min();
                steps += 1;
            }
            last = now;
        }
    }
    // A single step may have any length.
    smallest.filter(|_| steps > 1)
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
    fn the_smallest_forward_step_counts() {
        assert_eq!(resolution_ns(clock(&[100, 100, 130, 170, 180, 50])), Some(10));
        assert_eq!(resolution_ns(clock(&[7])), None, "a clock that stands still");
    }

    /// On a busy machine, coarse clocks had a resolution of two or three of their ticks.
    #[test]
    fn a_single_step_is_no_resolution() {
        let reads = Cell::new(0);
        let once = || {
            reads.set(reads.get() + 1);
            if reads.get() < 100 { 8_000_000 } else { 20_000_000 }
        };
        assert_eq!(resolution_ns(once), None);
    }
}
