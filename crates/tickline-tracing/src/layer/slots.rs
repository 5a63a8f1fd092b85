//! A table with a slot for each open span of the registry, found by the span's number.
//!
//! A number of the registry encodes the thread that created the span, and the span's index among
//! the open spans of that thread. Each thread has chunks of 32, 64, 128 slots and so on, as in the
//! registry. A thread uses another thread's chunk only if a span has moved. Two spans that the
//! registry has open have one slot only if more than 1,024 threads create spans.

use std::sync::OnceLock;

use crate::layer::process_mutex::ProcessMutex;

/// The number of low bits that have the span's index among the open spans of its thread, in the
/// registry's number less 1 (sharded-slab 0.1.7, `cfg.rs`: half a word for the registry's chunks;
/// the first chunk has 32 slots). The bits above have the number of the thread, and a count of the
/// uses of the slot. If a registry numbers its spans in another way, the table is slower, but no
/// time is wrong.
const INDEX_BITS: u32 = usize::BITS / 2 + 6;

/// The largest number of threads with chunks of their own, a power of two. Further threads share
/// these chunks. The registry gives the number of a thread that has ended to a new thread.
const THREADS: usize = 1_024;

/// The number of slots in a thread's first chunk, as in the registry.
const FIRST_CHUNK: usize = 32;

/// The number of chunks of a thread, which have 2,097,120 slots in all.
const CHUNKS: usize = 16;

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

/// The slots of all threads. None goes away before the table.
#[derive(Debug)]
pub(crate) struct Slots<S> {
    shards: [OnceLock<Box<Shard<S>>>; THREADS],
    /// The lock of a thread that adds a shard or a chunk.
    making: ProcessMutex<()>,
}

impl<S> Default for Slots<S> {
    fn default() -> Self {
        Self {
            shards: [const { OnceLock::new() }; THREADS],
            making: ProcessMutex::default(),
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

    /// All slots that exist.
    #[cfg(feature = "trace-file")]
    pub(crate) fn all(&self) -> impl Iterator<Item = &S> {
        self.shards
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|shard| {
                let more = shard.more.iter().filter_map(OnceLock::get).flatten();
                shard.first.iter().chain(more)
            })
    }
}

#[cfg(test)]
impl<S> Slots<S> {
    /// Makes the table as a forked child finds it if a thread of its parent was making slots.
    pub(crate) fn hold_for_ever_in_parent(&mut self) {
        self.making.hold_for_ever_in_parent();
    }
}

/// Spans' numbers for tests.
#[cfg(test)]
pub(crate) mod numbers {
    use super::{CHUNKS, FIRST_CHUNK, INDEX_BITS, THREADS};

    /// Two numbers with the same slot: they differ only in the count of uses.
    pub(crate) const SAME_SLOT: [u64; 2] = [1, 1 + (1 << (INDEX_BITS + THREADS.ilog2()))];

    /// The number of the first span beyond a thread's last chunk.
    pub(crate) const WITHOUT_SLOT: u64 = of(FIRST_CHUNK as u64 * ((1 << CHUNKS) - 1), 0);

    /// The number of the span with this index on this thread.
    pub(crate) const fn of(index: u64, thread: u64) -> u64 {
        1 + index + (thread << INDEX_BITS)
    }
}

#[cfg(test)]
mod tests {
    use core::ptr;
    use core::sync::atomic::AtomicU64;
    use std::collections::HashSet;

    use super::*;

    /// Symptom: with 2,000 open spans, most spans had no slot, and a span cost 160 ns more.
    #[test]
    fn every_open_span_has_a_slot_of_its_own() {
        let slots = Slots::<AtomicU64>::default();
        let threads = [0, 1, 1_023].into_iter();
        let numbers =
            threads.flat_map(|thread| (0..5_000).map(move |index| numbers::of(index, thread)));
        let found = numbers.map(|span| ptr::from_ref(slots.get_or_make(span).unwrap()));
        assert_eq!(found.collect::<HashSet<_>>().len(), 15_000);
    }

    #[test]
    fn a_span_beyond_the_last_chunk_has_no_slot() {
        let slots = Slots::<AtomicU64>::default();
        assert!(slots.get_or_make(numbers::WITHOUT_SLOT).is_none());
    }

    /// Symptom: a child hung at its first span while another thread of its parent added a chunk.
    #[test]
    fn a_child_whose_parent_made_a_chunk_makes_none() {
        let mut slots = Slots::<AtomicU64>::default();
        slots.hold_for_ever_in_parent();
        assert!(slots.get_or_make(1).is_none());
    }

    /// Symptom: a thread that created one span after another used all slots in turn, and so evicted
    /// them from the other threads' caches.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn successive_spans_of_a_thread_reuse_one_slot() {
        use tracing_subscriber::layer::SubscriberExt;

        let index = || {
            let span = tracing::info_span!("span");
            Slots::<AtomicU64>::locate(span.id().expect("enabled").into_u64())
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
            let (shard, _) = Slots::<AtomicU64>::locate(span.id().expect("enabled").into_u64());
            (shard, span)
        };
        let (here, _open) = shard();
        let (there, _open) =
            std::thread::scope(|scope| scope.spawn(shard).join().expect("a shard"));
        assert_ne!(here, there);
    }
}
