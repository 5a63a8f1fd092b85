//! What one thread has counted. That thread alone writes, by plain loads and stores: a lock, or an
//! atomic addition, would cost more than all else here.

use core::array;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

/// Fine buckets of a power of two. They are 1 % wide at most.
const STEPS: usize = 1 << STEPS_LOG2;
const STEPS_LOG2: u32 = 7;

/// One chunk for the times below [`STEPS`], and one for each power of two above.
const CHUNKS: usize = (u64::BITS - STEPS_LOG2 + 1) as usize;

/// Times of spans, ns.
#[derive(Debug)]
pub(super) struct Counts {
    /// Those up to each of the chosen bounds, but above the one before; the last has the rest.
    buckets: Box<[AtomicU64]>,
    /// In cache lines of its own, as this whole structure is: each span changes it, and what another
    /// thread has counted may be next to it in memory.
    sum_ns: CachePadded<AtomicU64>,
    /// The same times in fine buckets. A chunk is made for its first time.
    fine: [OnceLock<Box<[AtomicU64; STEPS]>>; CHUNKS],
}

fn add(counter: &AtomicU64, by: u64) {
    // ORDERING: Relaxed. This thread alone writes.
    let before = counter.load(Ordering::Relaxed);
    // ORDERING: Relaxed. A reader finds what happened before; it needs no order between counters.
    counter.store(before.saturating_add(by), Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    // ORDERING: Relaxed, as in `add`. Two loads, one of which happens before the other, see a
    // counter that has not become smaller.
    counter.load(Ordering::Relaxed)
}

/// The chunk of a time, and its place there.
fn fine_place(ns: u64) -> (usize, usize) {
    // Without a branch, which would be mispredicted for times about `STEPS`.
    let chunk = u64::BITS - (ns >> STEPS_LOG2).leading_zeros();
    let step = ns >> chunk.saturating_sub(1);
    (chunk as usize, usize::try_from(step).unwrap_or(0) & (STEPS - 1))
}

/// The longest time that is counted there, ns.
fn fine_end_ns(chunk: usize, step: usize) -> u64 {
    match chunk.checked_sub(1) {
        None => step as u64,
        Some(shift) => ((STEPS + step) as u64) << shift | ((1 << shift) - 1),
    }
}

impl Counts {
    pub(super) fn new(bounds: usize) -> Self {
        Self {
            buckets: (0..=bounds).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: CachePadded::new(AtomicU64::new(0)),
            fine: [const { OnceLock::new() }; CHUNKS],
        }
    }

    /// Counts a span of the thread to which these belong.
    #[inline]
    pub(super) fn record(&self, bounds_ns: &[u64], ns: u64) {
        // From below: a search may take the longer, the longer the span took.
        let bucket = bounds_ns.iter().position(|bound_ns| ns <= *bound_ns);
        add(&self.buckets[bucket.unwrap_or(bounds_ns.len())], 1);
        add(&self.sum_ns, ns);
        let (chunk, step) = fine_place(ns);
        let chunk = self.fine[chunk].get_or_init(|| Box::new(array::from_fn(|_| AtomicU64::new(0))));
        add(&chunk[step], 1);
    }

    /// How many times are in each bucket alone.
    pub(super) fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(read)
    }

    pub(super) fn sum_ns(&self) -> u64 {
        read(&self.sum_ns)
    }

    /// The longest time of each fine bucket, ns, and how many are in it.
    pub(super) fn fine(&self) -> impl Iterator<Item = (u64, u64)> {
        let chunks = self.fine.iter().enumerate().filter_map(|(number, chunk)| Some((number, chunk.get()?)));
        let each = chunks.flat_map(|(number, chunk)| {
            chunk.iter().enumerate().map(move |(step, count)| (fine_end_ns(number, step), read(count)))
        });
        each.filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_buckets_are_one_percent_wide_and_without_gaps() {
        let powers = (0..64).map(|power| 1_u64 << power);
        let times = powers.flat_map(|ns| [ns - 1, ns, ns + ns / 3, ns + (ns - 1)]).chain([0, u64::MAX]);
        for ns in times {
            let (chunk, step) = fine_place(ns);
            let end_ns = fine_end_ns(chunk, step);
            assert!(ns <= end_ns && end_ns - ns <= ns / 100, "{ns} {end_ns}");
            assert_eq!(fine_place(end_ns), (chunk, step));
            assert!(end_ns == u64::MAX || fine_place(end_ns + 1) != (chunk, step), "{end_ns}");
        }
    }
}
