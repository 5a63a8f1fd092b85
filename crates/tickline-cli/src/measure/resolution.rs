//! The smallest step that is seen of each clock.

use std::time::{Duration, Instant};

use super::calls;

/// How long a clock is watched for a step: longer than a tick of the slowest usual kernel (10 ms at HZ=100), which is how often
/// the coarse clocks move.
const PATIENCE: Duration = Duration::from_millis(12);

/// So many steps are enough: the smallest is among the first dozens.
const STEPS: u32 = 1_000;

/// Readings between two looks at the time that has passed: 64 us with a clock of 1 us, far less than `PATIENCE`.
const BETWEEN_LOOKS: u32 = 64;

/// A clock, and its smallest step, ns.
pub(crate) type Resolution = (&'static str, u64);

/// Watches every clock that `wanted` names. Those that did not move are left out.
pub(crate) fn measure(wanted: impl Fn(&str) -> bool) -> Vec<Resolution> {
    let clocks = calls::all(false).into_iter().filter(|call| wanted(call.name));
    clocks.filter_map(|call| Some((call.name, smallest_step_ns(call.read_ns?)?))).collect()
}

fn smallest_step_ns(read_ns: impl Fn() -> u64) -> Option<u64> {
    let start = Instant::now();
    let (mut last, mut steps, mut smallest) = (read_ns(), 0, None);
    while steps < STEPS && start.elapsed() < PATIENCE {
        // The own clock is looked at now and then only: a step cannot be smaller than the time between two readings.
        for _ in 0..BETWEEN_LOOKS {
            let now = read_ns();
            // A clock that was set back has not shown its resolution.
            if let Some(step @ 1..) = now.checked_sub(last) {
                smallest = smallest.into_iter().chain([step]).min();
                steps += 1;
            }
            last = now;
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that tells these values over and over, from `from` on.
    fn told(values: &'static [u64]) -> impl Fn() -> u64 {
        let next = Cell::new(0);
        move || {
            let index = next.get();
            next.set((index + 1) % values.len());
            values[index]
        }
    }

    #[test]
    fn the_smallest_step_that_is_one_counts() {
        assert_eq!(smallest_step_ns(told(&[100, 100, 130, 170, 180, 50])), Some(10));
        assert_eq!(smallest_step_ns(told(&[7])), None, "a clock that stands still");
    }
}
