//! The cost of a pair of readings.

use crate::measurement::readings::{Elapsed, PairClock};
use crate::number::{as_f64, middle};

/// The number of blocks. It is odd, so that one of the means is the median. All blocks together
/// take 1 ms, twice a second, between samples.
const BLOCKS: usize = 51;

/// The number of pairs in a block. A block takes about 20 us, so a timer interrupt of 1 kHz hits
/// one block in 50. The standard deviation of a pair is the resolution divided by the root of 12.
/// The standard deviation of a mean of 500 pairs is this figure divided by the root of 500: 1/77 of
/// the counter's resolution.
const PAIRS: u64 = 500;

/// The present cost of a pair of readings without work between them, ticks. The cost is mostly
/// cycles of the core, so it changes with the core's frequency.
///
/// The function runs the code that measures samples, [`PairClock::start`] and
/// [`Start::end`](crate::measurement::Start), and returns the median of the means of blocks. Other
/// statistics would be wrong:
///
/// - The median of single pairs: a counter's resolution may be many ticks (26 on Zen 5 under KVM).
///   A single pair then reads as 26 or 52 ticks, and the true cost is in between.
/// - The smallest mean: it is too small by up to the resolution, and every result would be too
///   large by as much.
/// - The mean of all blocks: an interrupt makes a block longer, and never shorter.
pub(crate) fn pair_ticks(clock: PairClock) -> f64 {
    let mut means = [0.0; BLOCKS];
    for mean in &mut means {
        let sum = (0..PAIRS).fold(Elapsed::default(), |sum, _| sum + clock.start().end());
        *mean = as_f64(sum.ticks) / as_f64(PAIRS);
    }
    means.sort_unstable_by(f64::total_cmp);
    middle(&means)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_time_of_a_pair_without_work() {
        for clock in PairClock::counter().into_iter().chain([PairClock::wall()]) {
            let pairs = || (0..100).fold(Elapsed::default(), |sum, _| sum + clock.start().end());
            let mut ticks: Vec<f64> = (0..101).map(|_| as_f64(pairs().ticks) / 100.0).collect();
            ticks.sort_unstable_by(f64::total_cmp);
            let (cost, median) = (pair_ticks(clock), middle(&ticks));
            // The core's frequency may have changed in between.
            assert!(cost > 0.0 && cost > median / 3.0, "{cost}, not {median}");
            assert!(cost < median * 3.0, "{cost}, not {median}");
        }
    }
}
