//! Compares the pace of libc's clock with that of the system call's, which no library replaces.

use std::thread;
use std::time::Duration;

use tickline_core::units::ticks_between;

use super::calls::{kernel_ns, monotonic_ns};
use super::narrowest;
use super::stopwatch::Stopwatch;

/// The time between the two comparisons: 10,000 times the usual width of a bracket.
const BETWEEN: Duration = Duration::from_millis(10);

/// The number of brackets for one comparison, of which the narrowest counts.
const BRACKETS: u32 = 8;

/// A read of libc's clock between two reads of the system call's, ns.
type Bracket = (u64, u64, u64);

/// The least skew of libc's `CLOCK_MONOTONIC` that the reads prove, ppb; 0 if they prove none.
pub(crate) fn measure_ppb() -> i64 {
    let start = Stopwatch::start();
    let first = narrowest(BRACKETS, kernel_ns, monotonic_ns);
    // A library may shorten the sleep.
    while start.elapsed() < BETWEEN {
        thread::sleep(Duration::from_millis(1));
    }
    skew_ppb(first, narrowest(BRACKETS, kernel_ns, monotonic_ns))
}

fn skew_ppb(first: Bracket, second: Bracket) -> i64 {
    let advance_ns = i128::from(ticks_between(first.1, second.1));
    let least_ns = i128::from(ticks_between(first.2, second.0)).max(1);
    let most_ns = i128::from(ticks_between(first.0, second.2)).max(least_ns);
    let excess_ns = advance_ns - advance_ns.clamp(least_ns, most_ns);
    // BOUND: an excess has 65 bits, so the product has less than 96.
    let ppb = excess_ns * 1_000_000_000 / most_ns;
    i64::try_from(ppb).unwrap_or(if ppb < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_within_the_brackets_proves_no_skew() {
        for second_ns in [1_000_000, 1_000_050, 1_000_100] {
            let second = (1_000_000, second_ns, 1_000_100);
            assert_eq!(skew_ppb((0, 50, 100), second), 0, "{second_ns}");
        }
    }

    #[test]
    fn another_pace_is_a_skew_to_either_side() {
        let second = |libc_ns| (1_000_000, libc_ns, 1_000_000);
        for (libc_ns, ppb) in [
            (1_200_000, 200_000_000),
            (990_000, -10_000_000),
            (0, -1_000_000_000),
        ] {
            assert_eq!(skew_ppb((0, 0, 0), second(libc_ns)), ppb, "{libc_ns}");
        }
    }
}
