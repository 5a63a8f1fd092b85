//! The counts of a series. Each thread has counts of its own. It changes them by plain loads and
//! stores, because a lock or an atomic addition would cost more than the rest of the counting. The
//! list of the threads' counts has a lock, which a thread takes for its first span of the series.
//!
//! The same counts serve quantiles and Prometheus' buckets. The times in a fine bucket differ by at
//! most 1 %. A bound that the program has chosen splits the fine bucket that it lies in. The number
//! of a time's bucket is therefore the number of its fine bucket, plus the number of bounds that
//! the time exceeds. Both only grow with the time, so no two buckets have the same number.

use core::array;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use crate::layer::process_mutex::ProcessMutex;

/// The number of fine buckets in a power of two. Each time below `STEPS` ns has a fine bucket of
/// its own.
const STEPS: usize = 1 << STEPS_LOG2;
const STEPS_LOG2: u32 = 7;

const FINE_BUCKETS: usize = STEPS * (u64::BITS - STEPS_LOG2 + 1) as usize;

/// The counts of `STEPS` consecutive buckets, allocated for the first time in any of them. They are
/// in cache lines of their own, because another thread's counts may be next to them in memory.
type Chunk = CachePadded<[AtomicU64; STEPS]>;

/// The number of spans in each bucket, by the bucket's longest time, ns.
pub(super) type Times = BTreeMap<u64, u64>;

/// The times of a series.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) times: Times,
    /// The exact sum of the times. It may lack one that a thread is just recording.
    pub(super) sum_ns: u64,
}

/// The values of the labels, and the counts of the spans that have these values.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// The values of the labels, in the order of the labels.
    pub(super) values: Vec<String>,
    /// The counts of all threads, including threads that have ended.
    counts: ProcessMutex<Vec<Arc<Counts>>>,
    /// The times before the last reset.
    before_reset: ProcessMutex<Recorded>,
}

/// The counts of one thread, which the thread shares only with the series. When the thread has
/// ended, another thread takes them over.
#[derive(Debug)]
pub(super) struct Counts {
    /// The chosen bounds, ascending.
    bounds_ns: Arc<[u64]>,
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    sums: CachePadded<Sums>,
}

/// What the buckets don't say exactly.
#[derive(Debug, Default)]
struct Sums {
    sum_ns: AtomicU64,
    /// The longest time since the last reset.
    max_ns: AtomicU64,
}

#[inline]
fn add(counter: &AtomicU64, by: u64) {
    // ORDERING: Relaxed. Only this thread writes the counter.
    let before = counter.load(Ordering::Relaxed);
    // ORDERING: Relaxed. A reader needs no order between counters.
    counter.store(before.wrapping_add(by), Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    // ORDERING: Relaxed. A reader needs no order between counters. If one load happens before
    // another, the later load does not see a smaller count.
    counter.load(Ordering::Relaxed)
}

#[inline]
fn fine_bucket(ns: u64) -> usize {
    // A branch would be mispredicted for times about `STEPS`. From `STEPS` on, the shifted time
    // keeps its highest bit, so the sum is past the buckets of shorter times.
    let shift = (ns | STEPS as u64).ilog2() - STEPS_LOG2;
    shift as usize * STEPS + usize::try_from(ns >> shift).unwrap_or(0)
}

/// The longest time of a fine bucket, ns.
fn fine_bucket_max_ns(fine: usize) -> u64 {
    let step = fine % STEPS;
    match (fine / STEPS).checked_sub(1) {
        None => step as u64,
        Some(shift) => ((STEPS + step) as u64) << shift | ((1 << shift) - 1),
    }
}

#[inline]
fn bucket(bounds_ns: &[u64], ns: u64) -> usize {
    // The search begins at the smallest bound, so it takes longer only for a longer span.
    let exceeded = bounds_ns
        .iter()
        .position(|bound_ns| ns <= *bound_ns)
        .unwrap_or(bounds_ns.len());
    fine_bucket(ns) + exceeded
}

/// The longest time of a bucket that contains a time, ns.
fn bucket_max_ns(bounds_ns: &[u64], number: usize) -> u64 {
    let exceeded = bounds_ns.partition_point(|bound_ns| bucket(bounds_ns, *bound_ns) < number);
    match bounds_ns.get(exceeded) {
        Some(bound_ns) if bucket(bounds_ns, *bound_ns) == number => *bound_ns,
        _ => fine_bucket_max_ns(number - exceeded),
    }
}

impl Series {
    pub(super) fn new(values: Vec<String>) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }

    /// Counts that no other thread uses: an ended thread's counts, or new ones. `None` in a
    /// forked child if a thread of the parent was claiming counts at the fork.
    pub(super) fn claim_counts(&self, bounds_ns: &Arc<[u64]>) -> Option<Arc<Counts>> {
        // `get_mut` synchronises with the drop by the thread before, so this thread sees its
        // counts.
        let is_free = |counts: &mut Arc<Counts>| Arc::get_mut(counts).is_some();
        let free = self
            .counts
            .lock()?
            .iter_mut()
            .find_map(|counts| is_free(counts).then(|| Arc::clone(counts)));
        if free.is_some() {
            return free;
        }
        let new = Arc::new(Counts::new(Arc::clone(bounds_ns)));
        self.counts.lock()?.push(Arc::clone(&new));
        Some(new)
    }

    pub(super) fn sum_ns(&self) -> u64 {
        self.counts
            .lock()
            .iter()
            .flat_map(|counts| counts.iter())
            .map(|counts| read(&counts.sums.sum_ns))
            .fold(0, u64::saturating_add)
    }

    /// The longest time since the last reset, ns. `last_bucket_max_ns` is the longest that a time
    /// in the last used bucket can be. While another thread records a time or resets the series,
    /// the result may be any time in this bucket, so it may be 1 % wrong.
    pub(super) fn max_ns(&self, last_bucket_max_ns: u64) -> u64 {
        let all = self.counts.lock();
        let in_bucket = all.iter().flat_map(|all| all.iter()).filter_map(|counts| {
            let (bounds_ns, max_ns) = (&counts.bounds_ns, read(&counts.sums.max_ns));
            let is_in_bucket =
                bucket_max_ns(bounds_ns, bucket(bounds_ns, max_ns)) == last_bucket_max_ns;
            is_in_bucket.then_some(max_ns)
        });
        in_bucket.max().unwrap_or(last_bucket_max_ns)
    }

    pub(super) fn times(&self) -> Times {
        let mut times = Times::new();
        let all = self.counts.lock();
        for counts in all.iter().flat_map(|all| all.iter()) {
            for (chunk, in_chunk) in counts.chunks.iter().enumerate() {
                let in_chunk = in_chunk.get().map(|in_chunk| in_chunk.iter().map(read));
                let counted = (chunk * STEPS..).zip(in_chunk.into_iter().flatten());
                for (number, count) in counted.filter(|(_, count)| *count > 0) {
                    *times
                        .entry(bucket_max_ns(&counts.bounds_ns, number))
                        .or_default() += count;
                }
            }
        }
        times
    }

    fn recorded(&self) -> Recorded {
        Recorded {
            sum_ns: self.sum_ns(),
            times: self.times(),
        }
    }

    pub(super) fn recorded_since_reset(&self) -> Recorded {
        let before_reset = self.before_reset.lock();
        let mut recorded = self.recorded();
        if let Some(before) = &before_reset {
            for (bucket_max_ns, count) in &before.times {
                let in_bucket = recorded.times.entry(*bucket_max_ns);
                in_bucket.and_modify(|all| *all -= count);
            }
            recorded.sum_ns = recorded.sum_ns.saturating_sub(before.sum_ns);
        }
        recorded
    }

    pub(super) fn reset(&self) {
        if let Some(mut before_reset) = self.before_reset.lock() {
            // A time that a thread records meanwhile may be removed only from the buckets, from the
            // sum or as the maximum: no order holds between them.
            for counts in self.counts.lock().iter().flat_map(|all| all.iter()) {
                // ORDERING: Relaxed. The maximum is checked with the buckets (`max_ns`).
                counts.sums.max_ns.store(0, Ordering::Relaxed);
            }
            *before_reset = self.recorded();
        }
    }
}

impl Counts {
    fn new(bounds_ns: Arc<[u64]>) -> Self {
        let chunks = (FINE_BUCKETS + bounds_ns.len()).div_ceil(STEPS);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        Self {
            bounds_ns,
            chunks,
            sums: CachePadded::default(),
        }
    }

    #[inline]
    pub(super) fn record(&self, ns: u64) {
        let Self {
            bounds_ns,
            chunks,
            sums,
        } = self;
        let number = bucket(bounds_ns, ns);
        let new = || Box::new(CachePadded::new(array::from_fn(|_| AtomicU64::new(0))));
        add(&chunks[number / STEPS].get_or_init(new)[number % STEPS], 1);
        add(&sums.sum_ns, ns);
        if ns > read(&sums.max_ns) {
            // Another thread stores only 0 (`reset`), so this is the maximum also if it does so
            // between the load and the store.
            // ORDERING: Relaxed. The maximum is checked with the buckets (`max_ns`).
            sums.max_ns.store(ns, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn buckets_are_one_percent_wide_and_without_gaps_and_end_at_bounds() {
        let powers = (0..64).map(|power| 1_u64 << power);
        let times: Vec<_> = powers
            .flat_map(|ns| [ns - 1, ns, ns + ns / 3, ns + (ns - 1)])
            .chain([0, u64::MAX])
            .collect();
        let some = [
            0,
            7,
            1_000,
            1_001,
            1_023,
            1_024,
            5_000_000,
            1 << 40,
            u64::MAX,
        ];
        for bounds_ns in [&[][..], &some] {
            let next = bounds_ns.iter().map(|ns| ns.saturating_add(1));
            for ns in times.iter().chain(bounds_ns).copied().chain(next) {
                let number = bucket(bounds_ns, ns);
                let bucket_max_ns = bucket_max_ns(bounds_ns, number);
                assert!(
                    ns <= bucket_max_ns && bucket_max_ns - ns <= ns / 100,
                    "{ns} {bucket_max_ns}"
                );
                assert_eq!(bucket(bounds_ns, bucket_max_ns), number);
                assert!(
                    bucket_max_ns == u64::MAX || bucket(bounds_ns, bucket_max_ns + 1) > number,
                    "{bucket_max_ns}"
                );
                assert!(
                    !bounds_ns.contains(&ns) || ns == bucket_max_ns,
                    "{ns} {bucket_max_ns}"
                );
            }
        }
    }

    /// A thread takes over the counts of a thread that has ended, and no count is lost.
    #[test]
    fn a_thread_adds_to_the_counts_of_ended_threads() {
        let (series, bounds_ns) = (Series::default(), Arc::default());
        let count = || (0..2).for_each(|_| series.claim_counts(&bounds_ns).unwrap().record(5));
        thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(count)));
        assert_eq!(
            (series.times(), series.sum_ns()),
            (Times::from([(5, 6)]), 30)
        );
        assert!(
            series.counts.lock().unwrap().len() <= 3,
            "no more than threads that ran at once"
        );
    }

    /// A series with a span of 5 ns, reset, and a later span of 7 ns.
    fn reset_between_two_spans() -> Series {
        let series = Series::default();
        let counts = series.claim_counts(&Arc::default()).unwrap();
        counts.record(5);
        series.reset();
        counts.record(7);
        series
    }

    /// Symptom: a forked child hung at its first span of a series.
    #[test]
    fn a_child_whose_parent_claimed_counts_counts_nothing() {
        let mut series = Series::default();
        series.counts.hold_for_ever_in_parent();
        assert!(series.claim_counts(&Arc::default()).is_none());
    }

    #[test]
    fn a_child_whose_parent_read_a_series_reads_it_as_empty() {
        let mut series = reset_between_two_spans();
        series.counts.hold_for_ever_in_parent();
        assert_eq!((series.times(), series.sum_ns()), (Times::new(), 0));
    }

    #[test]
    fn a_child_whose_parent_reset_a_series_also_reads_the_times_from_before() {
        let mut series = reset_between_two_spans();
        series.before_reset.hold_for_ever_in_parent();
        let recorded = series.recorded_since_reset();
        assert_eq!(recorded.times, Times::from([(5, 1), (7, 1)]));
    }
}
