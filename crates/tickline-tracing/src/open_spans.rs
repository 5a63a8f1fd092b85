//! Where the layer keeps what it knows about open spans.
//!
//! The registry's extensions are made for this. But finding a span there takes some 34 ns at each
//! enter, exit and close, which is as much as ten readings of the counter in all (AMD EPYC,
//! family 26, record of the benches). So most open spans are in a table of the layer's own, in a
//! slot that is computed from the span's number. A span whose slot is taken when it is created
//! goes to the extensions, and stays there.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::timing::Running;

/// Slots, one cache line each, 16 KB in all: a third of a first-level cache. A program has few
/// open spans at a time: the depth of their nesting times the number of threads, and those of
/// waiting tasks.
const SLOTS_LOG2: u32 = 8;

/// The uppermost bits of the registry's numbers, which count how often a place in its slab was
/// used (sharded-slab 0.1.7, `cfg.rs`: 38 bits of the place and 13 of the thread are below; with
/// 32 bits the count has two bits, which are left in). A thread's spans take the places that it
/// has left last. Hashed without the count, they come to the same slots again, which stay in that
/// CPU's cache. With the count they would go through all slots, and threads would take them from
/// each other. A registry that makes its numbers in another way costs time, and nothing else.
const USES_BITS: u32 = 13;

/// The number of no span: the registry's are not 0.
const FREE: u64 = 0;

/// A slot has a cache line of its own, so that threads with different spans do not wait for each
/// other. crossbeam's `CachePadded` takes two lines, which would double the table.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    /// The span that `running` belongs to. It changes under the lock, and away from a span's
    /// number only when that span ends. This alone therefore shows that a span is not here.
    span: AtomicU64,
    running: SpinMutex<Running>,
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    fn new() -> Self {
        Self { span: AtomicU64::new(FREE), running: SpinMutex::new(Running::new(0)) }
    }

    #[inline]
    fn span(&self) -> u64 {
        // ORDERING: Relaxed. A thread has a span's number from the span's creation, which stored
        // it here, so it can see no older value. What belongs to the span is behind the lock.
        self.span.load(Ordering::Relaxed)
    }

    /// Locks what is kept for `span`, if it is here. Waits only for a thread that works on the
    /// same span, or that has just found in `insert` that it came too late. A forked child has
    /// none of its parent's other threads, and must not wait for locks that they held.
    #[inline]
    fn get(&self, span: u64) -> Option<SpinMutexGuard<'_, Running>> {
        (self.span() == span).then(|| self.running.try_lock().unwrap_or_else(|| self.wait()))
    }

    /// Another thread has the lock for some ns. If that thread was preempted, this one sleeps, so
    /// that the other gets the CPU, whatever their priorities are.
    #[cold]
    fn wait(&self) -> SpinMutexGuard<'_, Running> {
        loop {
            for _ in 0..100 {
                if let Some(running) = self.running.try_lock() {
                    return running;
                }
                spin_loop();
            }
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// The open spans of one layer.
#[derive(Debug)]
pub(crate) struct OpenSpans {
    slots: Box<[Slot; 1 << SLOTS_LOG2]>,
}

/// The extension of a span that found no slot.
struct InExtensions {
    /// The layer that keeps it, of two on one subscriber.
    layer: u64,
    running: Running,
}

impl OpenSpans {
    pub(crate) fn new() -> Self {
        Self { slots: Box::new(std::array::from_fn(|_| Slot::new())) }
    }

    /// Fibonacci hashing of the bits below the count of uses.
    #[inline]
    fn place(span: u64) -> usize {
        // BOUND: below 2^SLOTS_LOG2, by the shift.
        ((span << USES_BITS).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOTS_LOG2)) as usize
    }

    /// The slot in which `span` is, if it is in any.
    #[inline]
    fn slot(&self, span: u64) -> &Slot {
        &self.slots[Self::place(span)]
    }

    /// Keeps `running` for `span`, if its slot is free. A slot is also free if it has an earlier
    /// span of the same number, whose end the layer missed: the registry uses a number again when
    /// its count of uses wraps. A free slot that another thread has locked counts as taken.
    #[inline]
    pub(crate) fn insert(&self, span: u64, running: Running) -> bool {
        let slot = self.slot(span);
        let kept = match slot.span() {
            FREE => slot.running.try_lock().filter(|_| slot.span() == FREE),
            _ => slot.get(span),
        };
        let Some(mut kept) = kept else { return false };
        *kept = running;
        // ORDERING: Relaxed, under the lock; see `Slot::span`.
        slot.span.store(span, Ordering::Relaxed);
        true
    }

    /// Changes what is kept for `span`, if it is in its slot.
    #[inline]
    pub(crate) fn change(&self, span: u64, change: impl FnOnce(&mut Running)) -> bool {
        let kept = self.slot(span).get(span);
        kept.map(|mut running| change(&mut running)).is_some()
    }

    /// Frees the slot of `span`, if it has one, and returns what `end` makes of its content.
    #[inline]
    pub(crate) fn remove<R>(&self, span: u64, end: impl FnOnce(&Running) -> R) -> Option<R> {
        let slot = self.slot(span);
        let kept = slot.get(span)?;
        // ORDERING: as in `insert`.
        slot.span.store(FREE, Ordering::Relaxed);
        Some(end(&kept))
    }
}

/// Keeps `running` for a span that found no slot.
#[cold]
pub(crate) fn insert_in_extensions<'a, S: LookupSpan<'a>>(
    span: &SpanRef<'a, S>,
    layer: u64,
    running: Running,
) {
    let mut extensions = span.extensions_mut();
    if extensions.get_mut::<InExtensions>().is_none() {
        extensions.insert(InExtensions { layer, running });
    }
}

/// Changes what is kept for a span that found no slot.
#[cold]
pub(crate) fn change_in_extensions<'a, S: LookupSpan<'a>>(
    span: &SpanRef<'a, S>,
    layer: u64,
    change: impl FnOnce(&mut Running),
) {
    if let Some(kept) = span.extensions_mut().get_mut::<InExtensions>() {
        if kept.layer == layer {
            change(&mut kept.running);
        }
    }
}

/// What was kept for a span that found no slot.
#[cold]
pub(crate) fn from_extensions<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>, layer: u64) -> Option<Running> {
    let extensions = span.extensions();
    let kept = extensions.get::<InExtensions>().filter(|kept| kept.layer == layer)?;
    Some(kept.running.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::source::GlobalClock;

    #[test]
    fn a_slot_is_taken_until_its_span_ends() {
        let spans = OpenSpans::new();
        let (first, second) = (1, (2..).find(|span| OpenSpans::place(*span) == OpenSpans::place(1)).unwrap());
        assert!(spans.insert(first, Running::new(10)));
        assert!(!spans.insert(second, Running::new(20)), "both have the same slot");
        assert!(!spans.change(second, |_| unreachable!()));
        assert!(spans.change(first, |running| running.exit(0)));
        assert!(spans.remove(second, |_| ()).is_none() && spans.remove(first, |_| ()).is_some());
        assert!(spans.remove(first, |_| ()).is_none(), "once");
        assert!(spans.insert(second, Running::new(20)));
    }

    /// Symptom: with one span after the other a thread went through all slots, and took them from
    /// the other threads' caches.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn the_spans_of_a_thread_come_to_the_same_slots_again() {
        const DEEP: usize = 3;
        let places = || -> BTreeSet<usize> {
            let place = |span: &tracing::Span| OpenSpans::place(span.id().expect("enabled").into_u64());
            let nested = |_| {
                let spans = [(); DEEP].map(|()| tracing::info_span!("span"));
                spans.each_ref().map(place)
            };
            (0..1_000).flat_map(nested).collect()
        };
        // The registry uses places again only if there is a layer.
        let subscriber = tracing_subscriber::registry().with(crate::SpanTimingLayer::new());
        let dispatch = tracing_core::Dispatch::new(subscriber);
        let here = tracing::dispatcher::with_default(&dispatch, places);
        assert_eq!(here.len(), DEEP, "{here:?}");
    }

    /// The layer was not there when the first span ended; its number is used again.
    #[test]
    fn what_was_left_behind_is_not_found_by_a_later_span() {
        let spans = OpenSpans::new();
        let source = GlobalClock;
        assert!(spans.insert(7, Running::new(10)) && spans.change(7, |running| running.enter(&source)));
        assert!(spans.insert(7, Running::new(20)));
        let times = spans.remove(7, |running| running.close(30, |_| 0)).unwrap();
        assert_eq!((times.enters(), times.total().as_nanos()), (0, 10));
    }

    /// Symptom: a forked child hung at its first span with the slot on which another thread of
    /// its parent worked.
    #[test]
    fn nobody_waits_for_a_thread_that_works_on_another_span() {
        let spans = OpenSpans::new();
        let (first, second) = (1, (2..).find(|span| OpenSpans::place(*span) == OpenSpans::place(1)).unwrap());
        let lock_for_good = || core::mem::forget(spans.slot(first).running.lock());
        assert!(spans.insert(first, Running::new(10)));
        lock_for_good();
        let is_without = |span| !spans.change(span, |_| ()) && spans.remove(span, |_| ()).is_none();
        assert!(!spans.insert(second, Running::new(20)) && is_without(second), "taken, and locked");
        // ORDERING: Relaxed, one thread.
        spans.slot(first).span.store(FREE, Ordering::Relaxed);
        assert!(!spans.insert(second, Running::new(20)) && is_without(second), "free, and locked");
    }

    #[test]
    fn one_waits_for_another() {
        let spans = OpenSpans::new();
        assert!(spans.insert(7, Running::new(0)));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        assert!(spans.change(7, |running| running.enter(&GlobalClock)));
                    }
                });
            }
        });
        let enters = spans.remove(7, |running| running.close(0, |_| 0).enters());
        assert_eq!(enters, Some(40_000));
    }
}
