//! The resolution of a counter: how far it moves at once.
//!
//! Two reads in a row differ by what the counter moved meanwhile: by a multiple of its step. So a
//! single difference says little, but many differences lie on a grid, and neighbours on this grid
//! are one step apart. A hypervisor scales counters, so a step need not be whole: multiples of
//! 25.48 ticks are rounded up or down.
//!
//! 1. Differences that were seen only once are dropped. The others are grouped into *runs*: values
//!    next to each other, such as 25 and 26, or 51 alone. Runs of few differences are dropped too.
//! 2. The step is the least distance between two runs, or of the first run from 0. A distance goes
//!    from the smallest value of the lower run to the largest value of the upper one.
//! 3. Five values in a row are no rounding, and fewer are none if they are small: the step is 1
//!    tick.
//!
//! A step that is taken too large widens bounds; one that is too small breaks them. Reads show too
//! little if all of them take the same time, or if no two are alike. The result is then the larger
//! one: the time of a read, which is at least the step. A step below 4 ticks that is not whole may
//! be taken for 1 tick. Bounds are then too narrow by up to 3 ticks, 1 ns at 3 GHz. Of simulated
//! counters that are scaled up and show early ticks, 2% are taken too small.
//!
//! Reads take nearly the same time, so waits of changing length between them keep them from
//! falling into step with the counter.

use core::hint::black_box;

use super::Counter;

/// After this many reads, the differences found so far must be enough.
const READS: u32 = 1_024;

/// Fewer differences than this are never enough: a counter of 15 kHz stands still for thousands of
/// reads.
const MIN_DIFFERENCES: usize = 8;

/// After this many reads with fewer differences, the counter counts as one that stands still.
const MAX_READS: u32 = 20_000;

/// Rounding and an early tick make up to four values next to each other out of one multiple.
const MAX_RUN_TICKS: u64 = 3;

/// The resolution of a counter, ticks: the largest difference of two reads between which it moved
/// once, as far as reads can show. 0 if it stood still.
///
/// Reads the counter 127 times if it moves with each read, which takes some microseconds. Reads
/// it 1,024 times at most where it seldom moves, or until it has moved 8 times if that takes
/// longer. The differences take 1 KiB of the stack.
#[must_use]
pub fn resolution_ticks(counter: &impl Counter) -> u64 {
    resolution_ticks_in(counter, &mut [0; 127])
}

/// The same, in `memory`, whatever that holds: the stack may be a signal handler's.
#[doc(hidden)]
#[inline(never)]
pub fn resolution_ticks_in(counter: &impl Counter, memory: &mut [u64; 127]) -> u64 {
    let seen = observe(counter, memory);
    let differences = memory.get_mut(..seen).unwrap_or(&mut []);
    sort(differences);
    let median = differences.get(seen >> 1).copied().unwrap_or(0);
    (seen >= MIN_DIFFERENCES).then(|| step(differences)).flatten().unwrap_or(median)
}

/// Gaps for as many items as there are differences (Ciura, "Best Increments for the Average Case of
/// Shellsort", 2001).
const GAPS: &[usize] = &[57, 23, 10, 4, 1];

/// Shell's sort, in place: `sort_unstable` keeps room for 32 items and more on the stack.
fn sort(items: &mut [u64]) {
    for &gap in GAPS {
        for end in gap..items.len() {
            let mut place = end;
            while let Some(before) = place.checked_sub(gap) {
                if items.get(before) <= items.get(place) {
                    break;
                }
                items.swap(before, place);
                place = before;
            }
        }
    }
}

/// Fills `differences` with those of unequal reads in a row, and returns how many there were.
fn observe(counter: &impl Counter, differences: &mut [u64]) -> usize {
    let (mut seen, mut last) = (0_usize, counter.now_ordered());
    for reads in 0..MAX_READS {
        if reads >= READS && seen >= MIN_DIFFERENCES {
            break;
        }
        let ticks = counter.now();
        let difference = ticks.wrapping_sub(last);
        last = ticks;
        if difference != 0 {
            let Some(place) = differences.get_mut(seen) else { break };
            *place = difference;
            seen = seen.saturating_add(1);
            // 0 to 15 turns of some cycles, without a pattern (Fibonacci hashing).
            for turn in 0..reads.wrapping_mul(0x9E37_79B9) >> 28 {
                black_box(turn);
            }
        }
    }
    seen
}

/// The step that the sorted differences show; `None` if no two are alike.
fn step(sorted: &mut [u64]) -> Option<u64> {
    let (seen, kept) = (sorted.len(), keep_repeated(sorted));
    let near = |lower: &u64, upper: &u64| upper.abs_diff(*lower) <= 1;
    let runs = || sorted.get(..kept).unwrap_or(&[]).chunk_by(near);
    let most = runs().map(<[u64]>::len).max()?;
    // An interrupt may make two differences alike.
    let rare = (most >> 2).clamp(1, 2);
    let (mut step, mut before) = (None, 0);
    for run in runs() {
        let (&[first, ..], &[.., last]) = (run, run) else { continue };
        // Zen 4 and Zen 5 under KVM, which move by 26 ticks, sometimes show the first one before the
        // other 25.
        let is_early = last == 1 && run.len() <= seen.div_ceil(2) || last == 2 && run.len() <= seen >> 3;
        if run.len() <= rare || is_early {
            continue;
        }
        if first == 1 || last.saturating_sub(first) > MAX_RUN_TICKS.min(first.saturating_sub(1) / 3) {
            return Some(1);
        }
        let apart = last.saturating_sub(before);
        // A distance that is slightly less was rounded down.
        let rounding = |step: u64| (step >> 4).min(1).saturating_add(1);
        step = step.filter(|&step| step <= apart.saturating_add(rounding(step))).or(Some(apart));
        before = first;
    }
    step
}

/// Moves the values that are there more than once to the front, and returns how many those are.
fn keep_repeated(sorted: &mut [u64]) -> usize {
    let mut kept: usize = 0;
    let mut last = None;
    for place in 0..sorted.len() {
        let value = sorted.get(place).copied();
        let next = sorted.get(place.saturating_add(1)).copied();
        if (value == last || value == next)
            && let (Some(value), Some(to)) = (value, sorted.get_mut(kept))
        {
            *to = value;
            kept = kept.saturating_add(1);
        }
        last = value;
    }
    kept
}

// There is no unsafe code above, and Miri would take minutes.
#[cfg(all(test, not(miri)))]
mod tests;
