//! The resolution of a counter: the number of ticks by which it moves at once.
//!
//! Two successive reads differ by a multiple of the resolution. A single difference says little,
//! but many differences lie on a grid, and neighbours on this grid are one resolution apart. A
//! hypervisor scales counters, so a resolution need not be whole: multiples of 25.48 ticks are
//! rounded up or down.
//!
//! 1. Differences that were seen only once are dropped. The others are grouped into *runs*: values
//!    next to each other, such as 25 and 26, or 51 alone. Runs of few differences are dropped too.
//! 2. The resolution is the least distance between two runs, or of the first run from 0. A distance
//!    goes from the smallest value of the lower run to the largest value of the upper one.
//! 3. Rounding explains at most four adjacent values, and fewer if the values are small. A longer
//!    run means that the resolution is 1 tick.
//!
//! An overestimated resolution widens bounds; an underestimated one breaks them. The reads do not
//! show the resolution if all of them take the same time, or if no two differences are equal. The
//! result is then the time of a read, which is at least the resolution. A fractional one below 4
//! ticks may be taken for 1 tick. Bounds are then too narrow by up to 3 ticks, 1 ns at 3 GHz. For
//! 2 % of the simulated counters that are scaled up and show early ticks, the result is too small.
//!
//! Successive reads take nearly the same time. Waits of changing length keep their rhythm apart from
//! the counter's.

use core::hint::black_box;

use super::Counter;

/// The measurement ends after this many reads, if it has found enough differences.
const READS: u32 = 1_024;

/// The least number of differences: a counter of 15 kHz stands still for thousands of reads.
const MIN_DIFFERENCES: usize = 8;

/// A counter with fewer differences after this many reads counts as standing still.
const MAX_READS: u32 = 20_000;

/// The largest difference of two values in a run that one multiple of the resolution can cause:
/// rounding and an early tick make up to four adjacent values.
const MAX_RUN_SPAN_TICKS: u64 = 3;

/// The resolution of a counter, ticks: the largest, as far as reads can show it. 0 if the counter
/// stood still.
///
/// Reads the counter 127 times if it moves with each read, which takes some microseconds. If it
/// seldom moves, reads it 1,024 times at most, or more until it has moved 8 times. The differences
/// take 1 KiB of the stack.
#[must_use]
pub fn resolution_ticks(counter: &impl Counter) -> u64 {
    let memory = &mut [0; 127];
    let seen = observe(counter, memory);
    let differences = memory.get_mut(..seen).unwrap_or(&mut []);
    sort(differences);
    let median = differences.get(seen >> 1).copied().unwrap_or(0);
    if seen < MIN_DIFFERENCES {
        return median;
    }
    shown_resolution_ticks(differences).unwrap_or(median)
}

/// Fills `differences` with the differences of successive unequal reads. Returns their number.
fn observe(counter: &impl Counter, differences: &mut [u64]) -> usize {
    let mut seen = 0_usize;
    let mut last = counter.now_ordered();
    for reads in 0..MAX_READS {
        if reads >= READS && seen >= MIN_DIFFERENCES {
            break;
        }
        let ticks = counter.now();
        let difference = ticks.wrapping_sub(last);
        last = ticks;
        if difference != 0 {
            let Some(free) = differences.get_mut(seen) else {
                break;
            };
            *free = difference;
            seen = seen.saturating_add(1);
            // A wait of 0 to 15 turns of some cycles, without a pattern (Fibonacci hashing).
            for turn in 0..reads.wrapping_mul(0x9E37_79B9) >> 28 {
                black_box(turn);
            }
        }
    }
    seen
}

/// Sorts by insertion, which suffices for 127 values: `sort_unstable` has 4 KB of code, which every
/// program that reads the time would contain.
fn sort(values: &mut [u64]) {
    for end in 1..values.len() {
        for index in (1..=end).rev() {
            let Some([before, after]) = values.get_mut(index.saturating_sub(1)..=index) else {
                break;
            };
            if before <= after {
                break;
            }
            core::mem::swap(before, after);
        }
    }
}

/// The resolution that the sorted differences show, ticks; `None` if no two are equal.
fn shown_resolution_ticks(sorted: &mut [u64]) -> Option<u64> {
    let seen = sorted.len();
    let kept = keep_repeated(sorted);
    let near = |lower: &u64, upper: &u64| upper.abs_diff(*lower) <= 1;
    let runs = || sorted.get(..kept).unwrap_or(&[]).chunk_by(near);
    let most = runs().map(<[u64]>::len).max()?;
    // An interrupt may make two differences equal.
    let rare = (most >> 2).clamp(1, 2);
    let mut resolution_ticks = None;
    let mut before = 0;
    for run in runs() {
        let (&[first, ..], &[.., last]) = (run, run) else {
            continue;
        };
        // Zen 4 and Zen 5 under KVM, whose counters move by 26 ticks, sometimes show the first tick
        // before the other 25.
        let is_early =
            last == 1 && run.len() <= seen.div_ceil(2) || last == 2 && run.len() <= seen >> 3;
        if run.len() <= rare || is_early {
            continue;
        }
        let max_span_ticks = MAX_RUN_SPAN_TICKS.min(first.saturating_sub(1) / 3);
        if first == 1 || last.saturating_sub(first) > max_span_ticks {
            return Some(1);
        }
        let distance = last.saturating_sub(before);
        // A slightly smaller distance was rounded down.
        let rounding_ticks = |ticks: u64| (ticks >> 4).min(1).saturating_add(1);
        resolution_ticks = resolution_ticks
            .filter(|&ticks| ticks <= distance.saturating_add(rounding_ticks(ticks)))
            .or(Some(distance));
        before = first;
    }
    resolution_ticks
}

/// Moves the values that occur more than once to the front. Returns their number.
fn keep_repeated(sorted: &mut [u64]) -> usize {
    let mut kept: usize = 0;
    let mut last = None;
    for index in 0..sorted.len() {
        let value = sorted.get(index).copied();
        let next = sorted.get(index.saturating_add(1)).copied();
        if (value == last || value == next)
            && let (Some(value), Some(target)) = (value, sorted.get_mut(kept))
        {
            *target = value;
            kept = kept.saturating_add(1);
        }
        last = value;
    }
    kept
}

// There is no unsafe code above, and Miri would take minutes.
#[cfg(all(test, not(miri)))]
mod tests;
