//! How many spans took how long: a histogram that one thread fills, and any thread reads.
//!
//! There is no lock, and no atomic read-modify-write operation. One thread writes, so it may add to
//! a count by a load and a store. Only a signal handler could come between the two. A span that it
//! closes, or one that it interrupts, may not be counted.
//!
//! Counts are on pages, one for each power of two, which are made when the first value comes. The
//! buckets are those of [`hdrhistogram`] for two digits: up to 255 each value has its own, and from
//! there on a power of two has 128.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Buckets of a page.
const PAGE: usize = 128;

/// Page 0 has the values below 128; page `n` those with `n + 7` bits.
const PAGES: usize = 58;

/// On cache lines of its own, so that threads do not slow each other down.
#[derive(Debug)]
#[repr(align(64))]
struct Page([AtomicU64; PAGE]);

/// On cache lines of its own, as [`Page`].
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Counts {
    /// Whether a reset has forgotten these counts.
    is_retired: AtomicBool,
    sum_ns: AtomicU64,
    pages: [OnceLock<Box<Page>>; PAGES],
}

impl Counts {
    pub(super) fn new() -> Self {
        Self {
            is_retired: AtomicBool::new(false),
            sum_ns: AtomicU64::new(0),
            pages: [const { OnceLock::new() }; PAGES],
        }
    }

    /// The page of a value, and its place there.
    #[inline]
    fn place(ns: u64) -> (usize, usize) {
        // BOUND: the logarithm is from 6 to 63.
        let page = (ns | (PAGE as u64 - 1)).ilog2() as usize - 6;
        let bucket = ns >> page.saturating_sub(1);
        (page, usize::try_from(bucket % PAGE as u64).unwrap_or(0))
    }

    /// The least value of a bucket.
    fn value(page: usize, place: usize) -> u64 {
        match page.checked_sub(1) {
            None => place as u64,
            // BOUND: below 256 << 56.
            Some(shift) => ((PAGE + place) as u64) << shift,
        }
    }

    /// Adds a span, if a page has its bucket; else nothing is counted. Allocates nothing. Only one
    /// thread at a time may do so, and what one thread did must happen before what the next one
    /// does. Otherwise spans are lost.
    #[inline]
    pub(super) fn try_record(&self, ns: u64) -> bool {
        let (page, place) = Self::place(ns);
        let Some(page) = self.pages[page].get() else { return false };
        increase(&page.0[place], 1);
        increase(&self.sum_ns, ns);
        true
    }

    /// As [`try_record`](Self::try_record), but makes the page. If the allocator closes a span
    /// meanwhile, that must not come here.
    pub(super) fn record(&self, ns: u64) {
        let (number, _) = Self::place(ns);
        if self.pages[number].get().is_none() {
            let page = Box::new(Page([const { AtomicU64::new(0) }; PAGE]));
            self.pages[number].get_or_init(|| page);
        }
        let is_counted = self.try_record(ns);
        debug_assert!(is_counted, "there is a page");
    }

    /// The counts above 0, each with the least value of its bucket.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let pages = self.pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.get()?)));
        pages
            .flat_map(|(number, page)| {
                page.0.iter().enumerate().map(move |(place, count)| {
                    // ORDERING: Relaxed. A span whose end happens before this load is counted,
                    // because a load sees no older value than one that happens before it.
                    (Self::value(number, place), count.load(Ordering::Relaxed))
                })
            })
            .filter(|(_, count)| *count > 0)
    }

    /// The sum of all times. It is read at another moment than the counts, so spans that are closed
    /// meanwhile may be in the sum and not counted, or the other way round.
    pub(super) fn sum_ns(&self) -> u64 {
        // ORDERING: as in `all`.
        self.sum_ns.load(Ordering::Relaxed)
    }

    /// Says that nobody reads these counts any more.
    pub(super) fn retire(&self) {
        // ORDERING: Relaxed. A span that is closed after the reset sees `true`, for the reason in
        // `all`. One that is closed meanwhile may count as one before.
        self.is_retired.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_retired(&self) -> bool {
        // ORDERING: Relaxed, see `retire`.
        self.is_retired.load(Ordering::Relaxed)
    }
}

/// Adds to a number that nobody else writes.
#[inline]
fn increase(number: &AtomicU64, by: u64) {
    // ORDERING: Relaxed, the thread's own last store, or that of the thread before, which happens
    // before this (`Shard::owner`).
    let sum = number.load(Ordering::Relaxed).saturating_add(by);
    // ORDERING: Relaxed, see `all`: each number is read for itself.
    number.store(sum, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;

    fn count(counts: &Counts) -> u64 {
        counts.all().map(|(_, count)| count).sum()
    }

    #[test]
    fn buckets_are_those_of_hdrhistogram() {
        let mut histogram = Histogram::<u64>::new(super::super::DIGITS).unwrap();
        histogram.record(u64::MAX).unwrap(); // so that it has all buckets
        let edges = (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power + power / 3, power + (power - 1)]
        });
        for ns in edges.chain(0..5_000) {
            let (page, place) = Counts::place(ns);
            assert_eq!(Counts::value(page, place), histogram.lowest_equivalent(ns), "{ns}");
        }
    }

    #[test]
    fn every_time_has_a_bucket_and_the_sum_stays_at_its_limit() {
        let counts = Counts::new();
        [0, 300, 301, u64::MAX, 7].into_iter().for_each(|ns| counts.record(ns));
        assert_eq!(counts.all().collect::<Vec<_>>(), [(0, 1), (7, 1), (300, 2), (255 << 56, 1)]);
        assert_eq!(counts.sum_ns(), u64::MAX);
    }

    /// A reader finds every span whose end happened before, while more are counted and pages are
    /// made.
    #[test]
    fn a_reader_finds_what_happened_before() {
        let last = if cfg!(miri) { 300 } else { 1_000_000 };
        let (counts, ended) = (Counts::new(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=last {
                    counts.record(number * number);
                    // ORDERING: Release, pairs with the load below.
                    ended.store(number, Ordering::Release);
                }
            });
            loop {
                // ORDERING: Acquire, see above.
                let before = ended.load(Ordering::Acquire);
                let found = count(&counts);
                assert!((before..=last).contains(&found), "{found} of at least {before}");
                if before == last {
                    break;
                }
            }
        });
        assert_eq!(count(&counts), last);
    }
}
