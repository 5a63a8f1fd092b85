//! The layer's table of open spans.
//!
//! The registry's extensions could hold the times of open spans, but their lookup at each enter,
//! exit and close costs more than the whole layer (the bench `spans` has both as rows). The layer
//! therefore has a table of its own, and computes the slot of a span from the span's number. A
//! number of the registry encodes the thread that created the span, and the span's index among the
//! open spans of that thread. Each thread has chunks of 32, 64, 128 slots and so on, as in the
//! registry. A thread writes to another thread's chunk only if a span has moved. If the slot is
//! taken when a span is created, the span goes to a map, behind a lock, and stays there.
//!
//! A forked child gives up the locks that threads of its parent held at the fork: see
//! [`ProcessMutex`]. It does the same with the lock of a slot.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{MutexGuard, OnceLock};
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use tickline::background::process_token;

use crate::layer::process_mutex::{ProcessMutex, TRIES_OF_CHILD, lock_with_retries};
use crate::layer::timing::OpenSpan;

/// The number of bits, in the registry's number less 1, for the span's index among the open spans
/// of its thread: the lowest ones. (sharded-slab 0.1.7, `cfg.rs`: half a word for the registry's
/// chunks; the first chunk has 32 slots.) Above them are the number of the thread, and a count of
/// the uses of the slot. If a registry numbers its spans in another way, the table is slower, but
/// no time is wrong.
const INDEX_BITS: u32 = usize::BITS / 2 + 6;

/// The largest number of threads with chunks of their own, a power of two. Further threads share
/// these chunks. The registry gives the number of a thread that has ended to a new thread.
const THREADS: usize = 1_024;

/// The number of slots in a thread's first chunk, as in the registry.
const FIRST_CHUNK: usize = 32;

/// How often [`OpenSpans::all`] tries to lock a slot, 50 us apart: at least 2 s in all. A thread that
/// has it may have been preempted.
#[cfg_attr(
    not(feature = "trace-file"),
    allow(dead_code, reason = "recorders alone need it")
)]
const TRIES_FOR_ALL: u32 = 40_000;

/// The number of chunks of a thread, which have 2,097,120 slots in all.
const CHUNKS: usize = 16;

/// The `span` of a free slot. No number of the registry is 0.
const FREE: u64 = 0;

/// The slot of an open span. It fills a cache line, so that threads with different spans do not
/// wait for each other. crossbeam's `CachePadded` takes two lines, and would double the table.
#[derive(Debug)]
#[repr(align(64))]
struct Slot<T> {
    /// The number of the span in this slot, or [`FREE`]. It changes only under the lock, and not
    /// before the span ends. A thread can therefore tell without the lock that a span is not here.
    span: AtomicU64,
    /// The lock is from `spin`, because it is unlocked by a plain store; std's takes an exchange.
    open_span: SpinMutex<Option<T>>,
}

const _: () = assert!(size_of::<Slot<OpenSpan>>() == 64);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self {
            span: AtomicU64::new(FREE),
            open_span: SpinMutex::new(None),
        }
    }
}

impl<T> Slot<T> {
    #[inline]
    fn span(&self) -> u64 {
        // ORDERING: Relaxed. A thread gets a span's number from the span's creation, which stored
        // the number here first, so the thread sees no older value. The lock orders `open_span`.
        self.span.load(Ordering::Relaxed)
    }

    /// Locks the times of `span`, if the span is here. Waits only for a thread that works on the
    /// same span, or for one in `insert` that has found the slot taken and is about to unlock it.
    /// `process` made the table.
    #[inline]
    fn get(&self, span: u64, process: u64) -> Option<SpinMutexGuard<'_, Option<T>>> {
        if self.span() != span {
            return None;
        }
        let guard = self.open_span.try_lock();
        guard.or_else(|| self.wait(span, process))
    }

    /// Waits for the lock. In a forked child, a thread of the parent may have held it at the fork:
    /// then `None`, and the span is in no slot any more, so that no thread waits for it again.
    #[cold]
    fn wait(&self, span: u64, process: u64) -> Option<SpinMutexGuard<'_, Option<T>>> {
        if process_token() == process {
            return Some(wait(&self.open_span));
        }
        let guard = lock_with_retries(TRIES_OF_CHILD, || self.open_span.try_lock());
        if guard.is_none() {
            // ORDERING: Relaxed for both: see `span`. The lock is not needed, because nobody
            // releases it any more, and `insert` takes it first.
            _ = self
                .span
                .compare_exchange(span, FREE, Ordering::Relaxed, Ordering::Relaxed);
        }
        guard
    }
}

/// Takes a lock that threads hold for nanoseconds.
#[cfg(all(unix, feature = "trace-file"))]
#[inline]
pub(crate) fn lock_briefly<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| wait(mutex))
}

/// Waits for a lock that another thread holds for some ns. If the holder was preempted, this thread
/// sleeps, so that the holder gets the CPU even if its priority is lower.
#[cold]
fn wait<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    loop {
        for _ in 0..100 {
            if let Some(guard) = mutex.try_lock() {
                return guard;
            }
            spin_loop();
        }
        thread::sleep(Duration::from_micros(50));
    }
}

/// The slots of one thread, or of several threads that share them. No other shard is in the same
/// cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard<S> {
    first: [S; FIRST_CHUNK],
    /// Chunk `n + 1` has twice as many slots as chunk `n`.
    more: [OnceLock<Box<[S]>>; CHUNKS - 1],
}

/// The chunk of slot `index`, and the slot's index in that chunk. Chunk 0 has the first 32 slots.
#[inline]
const fn chunk(index: usize) -> (usize, usize) {
    let from_first = index + FIRST_CHUNK;
    let chunk = (from_first / FIRST_CHUNK).ilog2();
    (chunk as usize, from_first - (FIRST_CHUNK << chunk))
}

/// A table with a slot for each open span, found by the span's number.
#[derive(Debug)]
pub(crate) struct Slots<S> {
    shards: [OnceLock<Box<Shard<S>>>; THREADS],
    /// The lock of a thread that adds a shard or a chunk.
    making: ProcessMutex<()>,
    /// The process that made the table.
    process: u64,
}

impl<S> Default for Slots<S> {
    fn default() -> Self {
        Self {
            shards: [const { OnceLock::new() }; THREADS],
            making: ProcessMutex::default(),
            process: process_token(),
        }
    }
}

impl<S: Default> Slots<S> {
    /// The shard of a span, and its index there.
    #[inline]
    fn locate(span: u64) -> (usize, usize) {
        // The registry makes its numbers from a `usize`, and none is 0, so no bit is lost.
        let index = usize::try_from(span.wrapping_sub(1)).unwrap_or(0);
        (
            index >> INDEX_BITS & (THREADS - 1),
            index & ((1 << INDEX_BITS) - 1),
        )
    }

    /// The slot of `span`, if its chunk exists.
    #[inline]
    pub(crate) fn get(&self, span: u64) -> Option<&S> {
        let (shard, index) = Self::locate(span);
        let shard = self.shards.get(shard)?.get()?;
        shard.first.get(index).or_else(|| {
            let (chunk, index) = chunk(index);
            shard.more.get(chunk - 1)?.get()?.get(index)
        })
    }

    /// The slot of `span`. Makes its chunk if it does not exist yet. `None` beyond the last chunk,
    /// and in a forked child that can make no chunks.
    #[inline]
    pub(crate) fn get_or_make(&self, span: u64) -> Option<&S> {
        self.get(span).or_else(|| self.make(span))
    }

    #[cold]
    fn make(&self, span: u64) -> Option<&S> {
        let (shard, index) = Self::locate(span);
        let shard = self.shards.get(shard)?;
        if shard.get().is_none() {
            self.making.fill(shard, Box::default())?;
        }
        let (chunk, _) = chunk(index);
        if let Some(chunk_before) = chunk.checked_sub(1) {
            let chunk_of_slots = shard.get()?.more.get(chunk_before)?;
            if chunk_of_slots.get().is_none() {
                let slots = (0..FIRST_CHUNK << chunk).map(|_| S::default()).collect();
                self.making.fill(chunk_of_slots, slots)?;
            }
        }
        self.get(span)
    }

    fn all(&self) -> impl Iterator<Item = &S> {
        self.shards
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|shard| {
                let more = shard.more.iter().filter_map(OnceLock::get).flatten();
                shard.first.iter().chain(more)
            })
    }
}

/// The open spans of one layer.
pub(crate) type OpenSpans = SpanTable<OpenSpan>;

/// What a layer, or a sink of it, keeps for each open span. A layer's table takes 16 KB, and 2 KB
/// for each thread that creates spans. A thread with more than 32 open spans adds chunks of 4 KB,
/// 8 KB and so on.
#[derive(Debug)]
pub struct SpanTable<T> {
    slots: Slots<Slot<T>>,
    /// Open spans whose slot was taken. A forked child uses the second map if it has lost the
    /// first. The spans that were there are then unknown.
    others: [ProcessMutex<HashMap<u64, T>>; 2],
}

impl<T> Default for SpanTable<T> {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            others: Default::default(),
        }
    }
}

impl<T> SpanTable<T> {
    /// `None` only in a child of a forked child, if both maps are lost.
    #[cold]
    fn others(&self) -> Option<MutexGuard<'_, HashMap<u64, T>>> {
        self.others.iter().find_map(ProcessMutex::lock)
    }

    /// All open spans; `None` if a lock stays locked, as it may in a forked child, and if the caller
    /// itself has it, as in the panic hook of a clock that panics.
    #[cfg_attr(
        not(feature = "trace-file"),
        allow(dead_code, reason = "recorders alone need it")
    )]
    pub(crate) fn all(&self) -> Option<Vec<T>>
    where
        T: Clone,
    {
        let tries = if process_token() == self.slots.process {
            TRIES_FOR_ALL
        } else {
            TRIES_OF_CHILD
        };
        let mut all: Vec<_> = self.others[0].lock()?.values().cloned().collect();
        for slot in self.slots.all().filter(|slot| slot.span() != FREE) {
            let kept = lock_with_retries(tries, || slot.open_span.try_lock())?;
            let open_span = kept.clone();
            let is_free = slot.span() == FREE;
            // No allocation may happen under the lock, because the allocator may close this span.
            drop(kept);
            if !is_free {
                all.extend(open_span);
            }
        }
        Some(all)
    }

    /// Keeps `open_span` for `span`: in the span's slot if that is free, otherwise in the map. A
    /// slot also counts as free if it holds an earlier span of the same number, whose end the layer
    /// has missed. (The registry uses a number again when its count of uses wraps.) A free slot
    /// that another thread has locked counts as taken.
    #[inline]
    pub(crate) fn insert(&self, span: u64, open_span: T) {
        let slot = self.slots.get_or_make(span);
        let kept = slot.and_then(|slot| match slot.span() {
            FREE => {
                let kept = slot.open_span.try_lock()?;
                (slot.span() == FREE).then_some(kept)
            }
            _ => slot.get(span, self.slots.process),
        });
        let Some((slot, mut kept)) = slot.zip(kept) else {
            let mut others = self.others();
            let before = others
                .as_mut()
                .and_then(|others| others.insert(span, open_span));
            drop(others);
            drop(before);
            return;
        };
        let before = kept.replace(open_span);
        // ORDERING: Relaxed: see `Slot::span`. This thread has the lock.
        slot.span.store(span, Ordering::Relaxed);
        // No memory is freed under a lock, because the allocator may create spans.
        drop(kept);
        drop(before);
    }

    /// Calls `change` for `span`, if the span is open.
    #[inline]
    pub(crate) fn change<R>(&self, span: u64, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let slot = self.slots.get(span);
        match slot.and_then(|slot| slot.get(span, self.slots.process)) {
            Some(mut kept) => kept.as_mut().map(change),
            None => self.others()?.get_mut(&span).map(change),
        }
    }

    /// Removes `span`, and returns the result of `end`, if the span was open. `end` gets a reference:
    /// a copy would load in one piece what the last exit has just stored in several, and would wait
    /// until these stores are in the cache.
    #[inline]
    pub(crate) fn remove<R>(&self, span: u64, end: impl FnOnce(&mut T) -> R) -> Option<R> {
        let slot = self.slots.get(span);
        let kept = slot.and_then(|slot| slot.get(span, self.slots.process));
        let Some((slot, mut kept)) = slot.zip(kept) else {
            let mut other = self.others()?.remove(&span);
            return other.as_mut().map(end);
        };
        // ORDERING: Relaxed: see `Slot::span`. This thread has the lock.
        slot.span.store(FREE, Ordering::Relaxed);
        kept.as_mut().map(end)
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Two numbers with the same slot: they differ only in the count of uses.
    const SAME_SLOT: [u64; 2] = [1, 1 + (1 << (INDEX_BITS + THREADS.ilog2()))];

    fn created(spans: &OpenSpans, span: u64) -> Option<u64> {
        spans.remove(span, |open_span| open_span.created_ns)
    }

    fn is_elsewhere(spans: &OpenSpans, span: u64) -> bool {
        spans.others().unwrap().contains_key(&span)
    }

    #[test]
    fn a_slot_is_taken_until_its_span_ends_or_its_number_comes_again() {
        let spans = OpenSpans::default();
        let [first, second] = SAME_SLOT;
        spans.insert(first, OpenSpan::for_test(10));
        spans.insert(second, OpenSpan::for_test(20));
        assert!(
            !is_elsewhere(&spans, first) && is_elsewhere(&spans, second),
            "both have the same slot"
        );
        assert_eq!(spans.all().map(|all| all.len()), Some(2));
        assert!(
            spans
                .change(second, |open_span| open_span.exit(0))
                .is_some()
        );
        assert_eq!(
            SAME_SLOT.map(|span| created(&spans, span)),
            [Some(10), Some(20)]
        );
        assert_eq!(
            SAME_SLOT.map(|span| created(&spans, span)),
            [None; 2],
            "once"
        );
        spans.insert(second, OpenSpan::for_test(20));
        assert!(!is_elsewhere(&spans, second));
        // The layer has missed the end of that span, and the registry uses its number again.
        spans.insert(second, OpenSpan::for_test(30));
        assert_eq!(
            (is_elsewhere(&spans, second), created(&spans, second)),
            (false, Some(30))
        );
    }

    /// Symptom: a thread that created one span after another used all slots in turn, and so evicted
    /// them from the other threads' caches.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn successive_spans_of_a_thread_reuse_one_slot() {
        let index = || {
            Slots::<Slot<OpenSpan>>::locate(
                tracing::info_span!("span")
                    .id()
                    .expect("enabled")
                    .into_u64(),
            )
        };
        // Without a layer, the registry does not reuse indices.
        let subscriber = tracing_subscriber::registry().with(crate::SpanTimingLayer::new());
        let dispatch = tracing_core::Dispatch::new(subscriber);
        tracing::dispatcher::with_default(&dispatch, || {
            let first = index();
            assert!((0..1_000).all(|_| index() == first));
        });
    }

    /// Threads with slots in one shard would write to the same cache lines.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn spans_of_two_threads_are_in_two_shards() {
        let dispatch = tracing_core::Dispatch::new(tracing_subscriber::registry());
        let shard = || {
            let span = tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("span"));
            (
                Slots::<Slot<OpenSpan>>::locate(span.id().expect("enabled").into_u64()).0,
                span,
            )
        };
        let (here, _open) = shard();
        let (there, _open) = thread::scope(|scope| scope.spawn(shard).join().expect("a shard"));
        assert_ne!(here, there);
    }

    /// Symptom: with 2,000 open spans, most spans had no slot, and a span cost 160 ns more.
    #[test]
    fn every_open_span_has_a_slot() {
        let spans = OpenSpans::default();
        let number = |index: u64, thread: u64| 1 + index + (thread << INDEX_BITS);
        let all = || {
            [0, 1, 1_023]
                .into_iter()
                .flat_map(|thread| (0..5_000).map(move |index| (index, thread)))
        };
        all().for_each(|(index, thread)| {
            spans.insert(number(index, thread), OpenSpan::for_test(index))
        });
        assert!(spans.others().unwrap().is_empty());
        assert!(all().all(|(index, thread)| created(&spans, number(index, thread)) == Some(index)));
        let beyond = number(FIRST_CHUNK as u64 * ((1 << CHUNKS) - 1), 0);
        spans.insert(beyond, OpenSpan::for_test(7));
        assert!(is_elsewhere(&spans, beyond) && created(&spans, beyond) == Some(7));
    }

    /// Symptom: a forked child hung at its first span. Cause: another thread of its parent had
    /// locked the slot of that span at the fork.
    #[test]
    fn no_thread_waits_for_a_thread_that_works_on_another_span() {
        let mut spans = OpenSpans::default();
        spans.slots.process ^= 1;
        let [first, second] = SAME_SLOT;
        spans.insert(first, OpenSpan::for_test(10));
        core::mem::forget(spans.slots.get(first).unwrap().open_span.lock());
        let goes_elsewhere = || {
            spans.insert(second, OpenSpan::for_test(20));
            is_elsewhere(&spans, second) && created(&spans, second) == Some(20)
        };
        assert!(
            goes_elsewhere() && spans.all().is_none(),
            "taken, and locked"
        );
        // ORDERING: Relaxed, one thread.
        spans
            .slots
            .get(first)
            .unwrap()
            .span
            .store(FREE, Ordering::Relaxed);
        assert!(goes_elsewhere(), "free, and locked");
    }

    /// Symptom: a flight recorder's trace lacked open requests, because a thread was preempted for
    /// long while it worked on a span.
    #[test]
    fn all_open_spans_are_known_after_a_thread_was_preempted_in_one() {
        let spans = OpenSpans::default();
        spans.insert(1, OpenSpan::for_test(10));
        thread::scope(|scope| {
            let kept = spans.slots.get(1).unwrap().open_span.lock();
            let all = scope.spawn(|| spans.all().map(|all| all.len()));
            thread::sleep(Duration::from_millis(400));
            drop(kept);
            assert_eq!(all.join().unwrap(), Some(1));
        });
    }

    /// A table as a forked child finds it if another thread of its parent was changing the map.
    fn with_a_lost_map() -> OpenSpans {
        let mut spans = OpenSpans::default();
        let [first, second] = SAME_SLOT;
        spans.insert(first, OpenSpan::for_test(10));
        spans.insert(second, OpenSpan::for_test(20));
        spans.others[0].hold_for_ever_in_parent();
        spans
    }

    /// Symptom: a forked child hung at a span that had found no slot.
    #[test]
    fn a_child_whose_parent_changed_the_map_goes_on() {
        let spans = with_a_lost_map();
        let [first, second] = SAME_SLOT;
        assert!(
            spans
                .change(second, |open_span| open_span.exit(0))
                .is_none()
        );
        assert_eq!(created(&spans, first), Some(10), "in a slot");
    }

    #[test]
    fn a_child_times_its_own_spans_although_the_map_is_lost() {
        let spans = with_a_lost_map();
        let third = SAME_SLOT[1] + (SAME_SLOT[1] - SAME_SLOT[0]);
        spans.insert(third, OpenSpan::for_test(30));
        assert_eq!(created(&spans, third), Some(30));
    }

    #[test]
    fn a_child_whose_map_is_lost_does_not_know_all_open_spans() {
        assert!(with_a_lost_map().all().is_none());
    }

    /// Symptom: a child hung at the exit of a span that another thread of its parent was entering.
    #[test]
    fn a_child_loses_a_span_whose_slot_its_parent_had_locked() {
        let mut spans = OpenSpans::default();
        spans.insert(1, OpenSpan::for_test(10));
        core::mem::forget(spans.slots.get(1).unwrap().open_span.lock());
        spans.slots.process ^= 1;
        assert!(spans.change(1, |open_span| open_span.exit(0)).is_none());
        assert_eq!(
            spans.slots.get(1).unwrap().span(),
            FREE,
            "nobody waits again"
        );
    }

    /// Symptom: a child hung at its first span while another thread of its parent added a chunk.
    #[test]
    fn a_child_whose_parent_made_a_chunk_goes_on() {
        let mut spans = OpenSpans::default();
        spans.slots.making.hold_for_ever_in_parent();
        spans.insert(1, OpenSpan::for_test(10));
        assert_eq!(created(&spans, 1), Some(10));
    }
}
