//! What the layer knows of open spans, and where.
//!
//! The registry's extensions are made for this, but finding a span there takes some 33 ns, at each enter, exit and close:
//! together as much as a dozen counter readings. So most open spans are in a table of the layer's own, in a slot that is
//! computed from the span's number; a span whose slot is taken when it is created goes to the extensions, and stays there.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::timing::Running;

/// Slots, one cache line each, 16 KB in all: a third of a first-level cache. The open spans of a program are few at a time:
/// the depth to which they are nested, times the threads, and those of waiting tasks.
const SLOTS_LOG2: u32 = 8;

/// Slots of one thread's spans, before they go elsewhere: deeper than spans are nested.
const OF_A_THREAD_LOG2: u32 = 4;

/// Where the registry's numbers name the thread that made the span, and in how many bits (sharded-slab 0.1.7, `cfg.rs`: 38 or 22
/// bits of address come first, a count of uses last). It is no matter of what is right, only of what it costs.
const THREAD: (u32, u32) = if cfg!(target_pointer_width = "64") { (38, 13) } else { (22, 8) };

/// 2^64 by the golden ratio: a multiple's uppermost bits depend on all bits (Fibonacci hashing).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number of no span: the registry's are not 0.
const FREE: u64 = 0;

/// In a cache line of its own, so that threads with different spans do not wait for each other.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    /// Whose `running` is. Changes under the lock, and from a span's number only when that one ends: so a span can be told from
    /// this alone that it is not here.
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
        // ORDERING: Relaxed. Whoever has a span's number has it from its creation, which stored it here, so no older value can
        // be seen; and what belongs to it is behind the lock.
        self.span.load(Ordering::Relaxed)
    }

    /// What is kept for `span`, if it is here. Waits only for a thread that is at the same span: a forked child has none of its
    /// parent's other threads, and must not wait for what they had locked.
    #[inline]
    fn get(&self, span: u64) -> Option<SpinMutexGuard<'_, Running>> {
        (self.span() == span).then(|| self.running.try_lock().unwrap_or_else(|| self.wait()))
    }

    /// Somebody else is at it, who needs some ns, unless he was preempted there: then he gets the CPU, whatever the
    /// priorities are.
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

    /// The slots that a span may be in. The first is one of a few that are its thread's, in turn, as the registry counts places up:
    /// lines that stay in that CPU's cache, where those of one table for all would wander from one to the other. The second
    /// may be any.
    #[inline]
    fn places(span: u64) -> [usize; 2] {
        let hash = |number: u64, bits: u32| number.wrapping_mul(GOLDEN) >> (u64::BITS - bits);
        let (shift, bits) = THREAD;
        let thread = hash(span >> shift & ((1 << bits) - 1), SLOTS_LOG2 - OF_A_THREAD_LOG2);
        let first = thread << OF_A_THREAD_LOG2 | span & ((1 << OF_A_THREAD_LOG2) - 1);
        // BOUND: the mask takes nothing off, by the shifts.
        [first, hash(span, SLOTS_LOG2)].map(|place| (place & ((1 << SLOTS_LOG2) - 1)) as usize)
    }

    #[inline]
    fn slots(&self, span: u64) -> [&Slot; 2] {
        Self::places(span).map(|place| &self.slots[place])
    }

    /// What is kept for `span`, and where, if it is in a slot.
    #[inline]
    fn get(&self, span: u64) -> Option<(&Slot, SpinMutexGuard<'_, Running>)> {
        self.slots(span).into_iter().find_map(|slot| Some((slot, slot.get(span)?)))
    }

    /// Keeps `running` for `span`, if one of its slots is free, or has what was kept for an earlier span of that number, of whose
    /// end the layer was not told: the registry uses numbers again after some thousand spans. A free slot that another
    /// thread has locked counts as taken.
    #[inline]
    pub(crate) fn insert(&self, span: u64, running: Running) -> bool {
        let kept = self.slots(span).into_iter().find_map(|slot| {
            let kept = match slot.span() {
                FREE => slot.running.try_lock().filter(|_| slot.span() == FREE),
                _ => slot.get(span),
            };
            Some((slot, kept?))
        });
        let Some((slot, mut kept)) = kept else { return false };
        *kept = running;
        // ORDERING: Relaxed, under the lock; see `Slot::span`.
        slot.span.store(span, Ordering::Relaxed);
        true
    }

    /// Changes what is kept for `span`, if it is in a slot.
    #[inline]
    pub(crate) fn change(&self, span: u64, change: impl FnOnce(&mut Running)) -> bool {
        self.get(span).map(|(_, mut running)| change(&mut running)).is_some()
    }

    /// What `end` makes of what is kept for `span`, if it is in a slot, which is free then.
    #[inline]
    pub(crate) fn remove<R>(&self, span: u64, end: impl FnOnce(&Running) -> R) -> Option<R> {
        let (slot, kept) = self.get(span)?;
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

    use super::*;

    /// Three spans with the same two slots.
    fn rivals() -> [u64; 3] {
        let mut rivals = (1..).filter(|span| OpenSpans::places(*span) == OpenSpans::places(1));
        core::array::from_fn(|_| rivals.next().unwrap())
    }

    #[test]
    fn a_slot_is_taken_until_its_span_ends() {
        let spans = OpenSpans::new();
        let [first, second, third] = rivals();
        assert!(spans.insert(first, Running::new(10)) && spans.insert(second, Running::new(20)));
        assert!(!spans.insert(third, Running::new(30)), "all have the same slots");
        assert!(!spans.change(third, |_| unreachable!()));
        for span in [first, second] {
            assert!(spans.change(span, |running| running.exit(&crate::Nanos, 0)));
        }
        assert!(spans.remove(third, |_| ()).is_none() && spans.remove(first, |_| ()).is_some());
        assert!(spans.remove(first, |_| ()).is_none(), "once");
        assert!(spans.insert(third, Running::new(30)) && spans.remove(third, |_| ()).is_some());
        assert!(spans.remove(second, |_| ()).is_some());
    }

    /// Symptom: a span cost 1.2 times as much while another thread made spans, too.
    #[test]
    fn threads_have_slots_of_their_own() {
        let (shift, _) = THREAD;
        let of_a_thread = |thread: u64| -> BTreeSet<usize> {
            (1..1_000).map(|place| OpenSpans::places(thread << shift | place)[0]).collect()
        };
        for thread in 0..8 {
            let slots = of_a_thread(thread);
            assert_eq!(slots.len(), 1 << OF_A_THREAD_LOG2);
            assert!((0..thread).all(|other| of_a_thread(other).is_disjoint(&slots)), "{thread}");
        }
    }

    /// The registry's numbers are what they are taken for.
    #[test]
    fn the_spans_of_a_thread_are_in_a_few_slots() {
        let places: BTreeSet<usize> =
            tracing::subscriber::with_default(tracing_subscriber::registry(), || {
                let place =
                    |span: tracing::Span| OpenSpans::places(span.id().expect("enabled").into_u64())[0];
                (0..1_000).map(|_| place(tracing::info_span!("span"))).collect()
            });
        assert_eq!(places.len(), 1 << OF_A_THREAD_LOG2, "{places:?}");
    }

    /// The layer was away when the first one ended; its number is used again.
    #[test]
    fn what_was_left_behind_is_not_found_by_a_later_span() {
        let spans = OpenSpans::new();
        let source = crate::Nanos;
        assert!(spans.insert(7, Running::new(10)) && spans.change(7, |running| running.enter(&source)));
        assert!(spans.insert(7, Running::new(20)));
        let times = spans.remove(7, |running| running.close(&source, 30, |_| 0)).unwrap();
        assert_eq!((times.enters(), times.total().as_nanos()), (0, 10));
    }

    /// Symptom: a forked child hung at its first span with the slot at which another thread of its parent was.
    #[test]
    fn nobody_waits_for_a_thread_that_is_at_another_span() {
        let spans = OpenSpans::new();
        let [first, second, third] = rivals();
        assert!(spans.insert(first, Running::new(10)) && spans.insert(second, Running::new(20)));
        let slots = spans.slots(first);
        slots.into_iter().for_each(|slot| core::mem::forget(slot.running.lock()));
        let is_without = |span| !spans.change(span, |_| ()) && spans.remove(span, |_| ()).is_none();
        assert!(!spans.insert(third, Running::new(30)) && is_without(third), "taken, and locked");
        // ORDERING: Relaxed, one thread.
        slots.into_iter().for_each(|slot| slot.span.store(FREE, Ordering::Relaxed));
        assert!(!spans.insert(third, Running::new(30)) && is_without(third), "free, and locked");
    }

    #[test]
    fn one_waits_for_another() {
        let spans = OpenSpans::new();
        assert!(spans.insert(7, Running::new(0)));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        assert!(spans.change(7, |running| running.enter(&crate::Nanos)));
                    }
                });
            }
        });
        let enters = spans.remove(7, |running| running.close(&crate::Nanos, 0, |_| 0).enters());
        assert_eq!(enters, Some(40_000));
    }
}
