//! The resolution of a counter: how far it moves at once.
//!
//! Two reads in a row differ by what the counter moved meanwhile: by a multiple of its step, which
//! also depends on the time of a read. So a single difference says little, but many differences
//! show what divides them:
//!
//! 1. **A coarse step**, 8 ticks or more: a step `s`, not always whole (a hypervisor scales
//!    counters: 25.48 ticks), of which nearly all differences are multiples, rounded up or down.
//!    The result is the largest such `s`. If all reads take the same time, the result is therefore
//!    that time, because no reads can tell it from the step.
//! 2. **A fine step**, 2 to 7 ticks: the largest one that divides nearly all differences; or one
//!    of 4 to 7 that is not whole, as above. Otherwise the step is 1 tick.
//! 3. **When in doubt, a larger value**: the median difference, which is at least the step. This
//!    is the case where no fine step divides every difference, and a coarse step explains many of
//!    them but not nearly all, or differences are too long to tell.
//!
//! A step that is taken too large widens bounds; one that is too small breaks them. A step below
//! 4 ticks that is not whole shows every difference, and is taken for 1 tick: bounds are then too
//! narrow by 3 ticks at most, 1 ns at 3 GHz.
//!
//! Reads take nearly the same time, so waits of changing length between them keep them from
//! falling into step with the counter.

use core::hint::black_box;

use super::Counter;

/// How many differences are examined. Up to one in 16 of them may be an outlier. If 3 % of all
/// differences are outliers, more than one in 16 of 127 hardly ever is.
const DIFFERENCES: usize = 127;

/// After this many reads, the differences found so far must be enough.
const READS: u32 = 1_024;

/// Fewer differences than this are never enough: a counter of 15 kHz stands still for thousands of
/// reads.
const MIN_DIFFERENCES: usize = 8;

/// After this many reads with fewer differences, the counter counts as one that stands still.
const MAX_READS: u32 = 20_000;

/// The smallest step for which being near its multiples counts as evidence, ticks. A random
/// difference is near one with a chance of 3 in 8 for this step, and of a quarter for 12.
const COARSE: u64 = 8;

/// The same for a step of which every difference must be a multiple, rounded; the chance is a
/// half there.
const SCALED: u64 = 4;

/// The most steps in the most common difference. Where half of the reads last longer than 32
/// steps of 8 ticks, reads are traps, or are interrupted.
const MAX_STEPS: u64 = 32;

/// Parts of a tick in which steps that are not whole are tried.
const PARTS: u64 = 16;

/// The resolution of a counter, ticks: the largest difference of two reads between which it moved
/// once, as far as reads can show. 0 if it stood still.
///
/// Reads the counter 127 times if it moves with each read, which takes some microseconds. Reads
/// it 1,024 times at most where it seldom moves, or until it has moved 8 times if that takes
/// longer.
///
/// It works in `scratch`, not on the stack, which may be a signal handler's.
#[must_use]
#[inline(never)]
pub fn resolution_ticks(counter: &impl Counter, scratch: &mut Scratch) -> u64 {
    let Scratch { differences, moves, runs } = scratch;
    let seen = observe(counter, differences);
    let differences = differences.get_mut(..seen).unwrap_or(&mut []);
    let moves = Moves::of(differences, moves, runs);
    sort(differences);
    let median = differences.get(seen >> 1).copied().unwrap_or(0);
    if seen < MIN_DIFFERENCES {
        return median;
    }
    match moves.coarse_step() {
        Coarse::Step(step) => step,
        Coarse::Unsure => fine_step(differences, 0).unwrap_or(median),
        Coarse::None => {
            let fine = fine_step(differences, seen >> 4);
            fine.or_else(|| moves.scaled_step()).unwrap_or(1)
        }
    }
}

/// Memory for a measurement, 4 KiB. What it holds before does not matter.
#[derive(Debug)]
pub struct Scratch {
    differences: [u64; DIFFERENCES],
    moves: [u64; DIFFERENCES],
    runs: [Run; DIFFERENCES],
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// All zeros.
    #[must_use]
    pub const fn new() -> Self {
        let runs = [const { Run { ticks: 0, count: 0 } }; DIFFERENCES];
        Self { differences: [0; DIFFERENCES], moves: [0; DIFFERENCES], runs }
    }
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
fn observe(counter: &impl Counter, differences: &mut [u64; DIFFERENCES]) -> usize {
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

/// The largest step of a few ticks, more than one, that divides all differences but `exceptions`.
fn fine_step(differences: &[u64], exceptions: usize) -> Option<u64> {
    (2..COARSE).rev().find(|step| {
        let divided =
            differences.iter().filter(|difference| difference.checked_rem(*step) == Some(0)).count();
        differences.len().saturating_sub(divided) <= exceptions
    })
}

/// What the differences say of a coarse step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coarse {
    Step(u64),
    None,
    Unsure,
}

/// How well the multiples of a step explain the differences.
#[derive(Debug, Clone, Copy)]
struct Fit {
    /// Differences that are multiples of the step, rounded up or down.
    rounded: usize,
    /// Differences that are off by more than a tick.
    others: usize,
    /// The sum of what all differences but the others are off by, parts.
    off_parts: u64,
}

/// Differences of one length.
#[derive(Debug)]
struct Run {
    ticks: u64,
    count: usize,
}

/// The differences that steps are compared with.
struct Moves<'a> {
    /// All differences but very long ones.
    runs: &'a [Run],
    /// The number of differences in `runs`.
    total: usize,
    /// The median of all differences, ticks.
    median: u64,
    /// The most common difference, ticks.
    common: u64,
}

impl<'a> Moves<'a> {
    /// A single tick belongs to what follows: Zen 5 under KVM, which moves by 26 ticks, sometimes
    /// shows the first one before the other 25.
    fn of(differences: &[u64], moves: &mut [u64; DIFFERENCES], runs: &'a mut [Run; DIFFERENCES]) -> Self {
        let (mut used, mut carried) = (0_usize, 0);
        for &difference in differences {
            if difference == 1 && carried == 0 {
                carried = 1;
            } else if let Some(place) = moves.get_mut(used) {
                *place = difference.saturating_add(carried);
                (used, carried) = (used.saturating_add(1), 0);
            }
        }
        let moves = moves.get_mut(..used).unwrap_or(&mut []);
        sort(moves);
        // Very long differences are left out. The thread was interrupted, and a long difference is
        // of use only if the step is known more closely.
        let median = moves.get(used >> 1).copied().unwrap_or(0);
        let longest = median.saturating_mul(4);
        let (mut used, mut total, mut most, mut common) = (0_usize, 0_usize, 0, 0);
        for equal in moves.chunk_by(u64::eq) {
            let Some((run, ticks)) = runs.get_mut(used).zip(equal.first().copied()) else { break };
            if ticks > longest {
                break;
            }
            *run = Run { ticks, count: equal.len() };
            (used, total) = (used.saturating_add(1), total.saturating_add(run.count));
            if run.count > most {
                (most, common) = (run.count, ticks);
            }
        }
        Self { runs: runs.get(..used).unwrap_or(&[]), total, median, common }
    }

    /// The number of steps in a difference, rounded to the nearest, and the distance of the
    /// difference from so many steps, parts.
    fn steps_in(difference: u64, step_parts: u64) -> (u64, u64) {
        let parts = difference.saturating_mul(PARTS);
        let steps = parts.saturating_add(step_parts >> 1).checked_div(step_parts).unwrap_or(0);
        (steps, parts.abs_diff(steps.saturating_mul(step_parts)))
    }

    /// How well a step explains the differences; `None` if more than an eighth of them are others.
    fn fit(&self, step_parts: u64) -> Option<Fit> {
        let mut fit = Fit { rounded: 0, others: 0, off_parts: 0 };
        for run in self.runs {
            let (_, off_parts) = Self::steps_in(run.ticks, step_parts);
            if off_parts > PARTS {
                fit.others = fit.others.saturating_add(run.count);
                if fit.others > self.total >> 3 {
                    return None;
                }
                continue;
            }
            if off_parts < PARTS {
                fit.rounded = fit.rounded.saturating_add(run.count);
            }
            let count = u64::try_from(run.count).unwrap_or(u64::MAX);
            fit.off_parts = fit.off_parts.saturating_add(off_parts.saturating_mul(count));
        }
        Some(fit)
    }

    /// The shortest and the longest step, parts, that is `steps` times in the most common
    /// difference. Neither is shorter than `least` ticks.
    fn candidates(&self, steps: u64, least: u64) -> (u64, u64) {
        let bound = |ticks: u64| ticks.saturating_mul(PARTS).checked_div(steps).unwrap_or(0);
        let from = bound(self.common.saturating_sub(1)).max(least.saturating_mul(PARTS));
        (from, bound(self.common.saturating_add(1)))
    }

    /// The largest step of `least` ticks or more whose fit `accepts`, parts. Of the steps that are
    /// equally often in the most common difference, it is the one that fits best. In loops, because
    /// a chain of iterators takes 3 KiB of stack without optimisation.
    fn largest(&self, least: u64, mut accepts: impl FnMut(&Fit) -> bool) -> Option<u64> {
        for steps in 1..=MAX_STEPS {
            let (least_parts, mut parts) = self.candidates(steps, least);
            let mut best: Option<(bool, u64, u64)> = None;
            while parts >= least_parts && parts > 0 {
                if let Some(fit) = self.fit(parts).filter(|fit| accepts(fit)) {
                    let (unsure, off_parts) = (!self.is_certain(&fit), fit.off_parts);
                    if best.is_none_or(|(least_unsure, least_off, _)| {
                        (unsure, off_parts) < (least_unsure, least_off)
                    }) {
                        best = Some((unsure, off_parts, parts));
                    }
                }
                parts = parts.saturating_sub(1);
            }
            if let Some((.., parts)) = best {
                return Some(parts);
            }
        }
        None
    }

    /// The longest single step among the differences, ticks, if a step has this length before it is
    /// rounded.
    fn longest_step(&self, step_parts: u64) -> u64 {
        let longest = self.runs.iter().filter_map(|run| {
            let (steps, off_parts) = Self::steps_in(run.ticks, step_parts);
            let step = run.ticks.saturating_add(steps.saturating_sub(1)).checked_div(steps);
            step.filter(|_| off_parts < PARTS)
        });
        longest.max().unwrap_or(0)
    }

    /// Whether a step of this length explains nearly all differences.
    fn is_certain(&self, fit: &Fit) -> bool {
        self.total.saturating_sub(fit.rounded) <= self.total >> 4
    }

    fn coarse_step(&self) -> Coarse {
        let total = self.total;
        let [most, half, eighth, sixteenth] =
            [total.saturating_sub(total >> 2), total >> 1, total >> 3, total >> 4];
        let mut unsure = self.median > MAX_STEPS.saturating_mul(COARSE);
        let found = self.largest(COARSE, |fit| {
            unsure |= fit.rounded >= half || (fit.others <= sixteenth && fit.rounded >= eighth);
            fit.others <= sixteenth && fit.rounded >= most
        });
        match found {
            Some(step_parts) => Coarse::Step(self.longest_step(step_parts)),
            None if unsure => Coarse::Unsure,
            None => Coarse::None,
        }
    }

    /// A step that is not whole, shorter than a coarse one.
    fn scaled_step(&self) -> Option<u64> {
        self.largest(SCALED, |fit| self.is_certain(fit)).map(|step_parts| self.longest_step(step_parts))
    }
}

// There is no unsafe code above, and Miri would take minutes.
#[cfg(all(test, not(miri)))]
mod tests;
