//! The layer's table of open spans.
//!
//! The registry's extensions could hold the times of open spans, but their lookup at each enter,
//! exit and close costs more than the whole layer (the bench `spans` has both as rows). The layer
//! therefore has a table of its own, and computes the slot of a span from the span's number
//! ([`Slots`]). If the slot is taken when a span is created, or if there is none, the span goes to
//! a map, behind a lock, and stays there.
//!
//! A forked child gives up the locks that threads of its parent held at the fork: see
//! [`ProcessMutex`]. It does the same with the lock of a slot.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::MutexGuard;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use tickline::process_token;

use crate::layer::process_mutex::{ProcessMutex, TRIES_OF_CHILD, lock_with_retries, spin};
use crate::layer::slots::Slots;
use crate::layer::timing::OpenSpan;

#[cfg(feature = "trace-file")]
mod all;

/// The `span` of a free slot. No number of the registry is 0.
const FREE: u64 = 0;

/// How often a thread tries to lock a slot, 50 us apart: at least 2 s in all. A thread that has it
/// may have been preempted. Later the thread counts as killed, by a seccomp filter for example,
/// which may kill it for a system call of a clock's reading.
const TRIES: u32 = 40_000;

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
    fn lock_for(&self, span: u64, process: u64) -> Option<SpinMutexGuard<'_, Option<T>>> {
        if self.span() != span {
            return None;
        }
        let guard = self.open_span.try_lock();
        guard.or_else(|| self.wait_for_lock(span, process))
    }

    /// Waits for the lock. The thread that has it may have been killed. In a forked child, it may
    /// be a thread of the parent. Then `None`, and the span is in no slot any more, so that no
    /// thread waits for it again. The layer and its sinks miss this change of the span, and all
    /// later ones.
    #[cold]
    fn wait_for_lock(&self, span: u64, process: u64) -> Option<SpinMutexGuard<'_, Option<T>>> {
        let tries = if process_token() == process {
            TRIES
        } else {
            TRIES_OF_CHILD
        };
        let guard = lock_with_retries(tries, || spin(&self.open_span));
        if guard.is_none() {
            // ORDERING: Relaxed for both: see `span`. The lock is not needed: `insert` uses a free
            // slot only with the lock, which a thread that was killed does not release. A thread
            // that goes on after all changes the slot under the lock, and releases it.
            _ = self
                .span
                .compare_exchange(span, FREE, Ordering::Relaxed, Ordering::Relaxed);
        }
        guard
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
    /// The process that made the table.
    process: u64,
    /// Open spans without a slot. A forked child uses the second map if it has lost the first. The
    /// spans that were there are then unknown.
    overflow: [ProcessMutex<HashMap<u64, T>>; 2],
}

impl<T> Default for SpanTable<T> {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            process: process_token(),
            overflow: Default::default(),
        }
    }
}

impl<T> SpanTable<T> {
    /// `None` only in a child of a forked child, if both maps are lost.
    #[cold]
    fn overflow(&self) -> Option<MutexGuard<'_, HashMap<u64, T>>> {
        self.overflow.iter().find_map(ProcessMutex::lock)
    }

    /// Keeps `open_span` for `span`: in the span's slot if that is free, otherwise in the map. A
    /// slot also counts as free if it holds an earlier span of the same number, whose end the layer
    /// has missed. (The registry uses a number again when its count of uses wraps.) A free slot
    /// that another thread has locked counts as taken.
    #[inline]
    pub(crate) fn insert(&self, span: u64, open_span: T) {
        let slot = self.slots.get_or_make(span);
        let locked = slot.and_then(|slot| match slot.span() {
            FREE => {
                let locked = slot.open_span.try_lock()?;
                (slot.span() == FREE).then_some(locked)
            }
            _ => slot.lock_for(span, self.process),
        });
        let Some((slot, mut locked)) = slot.zip(locked) else {
            let mut overflow = self.overflow();
            let before = overflow
                .as_mut()
                .and_then(|overflow| overflow.insert(span, open_span));
            drop(overflow);
            drop(before);
            return;
        };
        let before = locked.replace(open_span);
        // ORDERING: Relaxed: see `Slot::span`. This thread has the lock.
        slot.span.store(span, Ordering::Relaxed);
        // No memory is freed under a lock, because the allocator may create spans.
        drop(locked);
        drop(before);
    }

    /// Calls `change` for `span`, if the span is open.
    #[inline]
    pub(crate) fn change<R>(&self, span: u64, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let slot = self.slots.get(span);
        match slot.and_then(|slot| slot.lock_for(span, self.process)) {
            Some(mut locked) => locked.as_mut().map(change),
            None => self.overflow()?.get_mut(&span).map(change),
        }
    }

    /// Removes `span`, and returns the result of `end`, if the span was open. `end` gets a
    /// reference: a copy would load in one piece what the last exit has just stored in several, and
    /// would wait until these stores are in the cache.
    #[inline]
    pub(crate) fn remove<R>(&self, span: u64, end: impl FnOnce(&mut T) -> R) -> Option<R> {
        let slot = self.slots.get(span);
        let locked = slot.and_then(|slot| slot.lock_for(span, self.process));
        let Some((slot, mut locked)) = slot.zip(locked) else {
            let mut other = self.overflow()?.remove(&span);
            return other.as_mut().map(end);
        };
        // ORDERING: Relaxed: see `Slot::span`. This thread has the lock.
        slot.span.store(FREE, Ordering::Relaxed);
        locked.as_mut().map(end)
    }
}

#[cfg(test)]
use crate::layer::slots::numbers::SAME_SLOT;

#[cfg(test)]
impl OpenSpans {
    /// Two open spans with the same slot, created at 10 and 20 ns: the second one is in the map.
    fn with_one_slot_for_two() -> Self {
        let spans = Self::default();
        for (span, created_ns) in SAME_SLOT.into_iter().zip([10, 20]) {
            spans.insert(span, OpenSpan::for_test(created_ns));
        }
        spans
    }

    /// Locks the slot of `span`, and does not unlock it.
    fn lock_for_ever(&self, span: u64) {
        core::mem::forget(self.slots.get(span).unwrap().open_span.lock());
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;
    use crate::layer::slots::numbers::WITHOUT_SLOT;

    const FIRST: u64 = SAME_SLOT[0];
    const SECOND: u64 = SAME_SLOT[1];

    fn created(spans: &OpenSpans, span: u64) -> Option<u64> {
        spans.remove(span, |open_span| open_span.created_ns)
    }

    fn is_in_map(spans: &OpenSpans, span: u64) -> bool {
        spans.overflow().unwrap().contains_key(&span)
    }

    #[test]
    fn a_span_whose_slot_is_taken_goes_to_the_map() {
        let spans = OpenSpans::with_one_slot_for_two();
        assert_eq!(SAME_SLOT.map(|span| is_in_map(&spans, span)), [false, true]);
    }

    #[test]
    fn a_span_without_a_slot_goes_to_the_map() {
        let spans = OpenSpans::default();
        spans.insert(WITHOUT_SLOT, OpenSpan::for_test(10));
        assert!(is_in_map(&spans, WITHOUT_SLOT));
    }

    #[test]
    fn two_spans_with_the_same_slot_have_times_of_their_own() {
        let spans = OpenSpans::with_one_slot_for_two();
        let created = SAME_SLOT.map(|span| created(&spans, span));
        assert_eq!(created, [Some(10), Some(20)]);
    }

    #[test]
    fn a_span_in_the_map_changes_like_one_in_a_slot() {
        let spans = OpenSpans::with_one_slot_for_two();
        for span in SAME_SLOT {
            spans.change(span, |open_span| open_span.created_ns = 30);
        }
        assert_eq!(SAME_SLOT.map(|span| created(&spans, span)), [Some(30); 2]);
    }

    #[test]
    fn a_span_ends_once() {
        let spans = OpenSpans::with_one_slot_for_two();
        for span in SAME_SLOT {
            created(&spans, span);
        }
        assert_eq!(SAME_SLOT.map(|span| created(&spans, span)), [None; 2]);
    }

    #[test]
    fn a_slot_is_free_when_its_span_has_ended() {
        let spans = OpenSpans::default();
        spans.insert(FIRST, OpenSpan::for_test(10));
        created(&spans, FIRST);
        spans.insert(SECOND, OpenSpan::for_test(20));
        assert!(!is_in_map(&spans, SECOND));
    }

    /// The layer has missed the end of the first span, and the registry uses its number again.
    #[test]
    fn a_span_replaces_an_earlier_span_of_its_number() {
        let spans = OpenSpans::default();
        spans.insert(FIRST, OpenSpan::for_test(10));
        spans.insert(FIRST, OpenSpan::for_test(20));
        assert!(!is_in_map(&spans, FIRST));
        assert_eq!(created(&spans, FIRST), Some(20));
    }

    /// Symptom: a forked child hung at its first span. Cause: another thread of its parent had
    /// locked the slot of that span at the fork, and was working on the span there.
    #[test]
    fn no_thread_waits_for_a_thread_that_works_on_another_span() {
        let spans = OpenSpans::default();
        spans.insert(FIRST, OpenSpan::for_test(10));
        spans.lock_for_ever(FIRST);
        spans.insert(SECOND, OpenSpan::for_test(20));
        assert_eq!(created(&spans, SECOND), Some(20));
    }

    /// The symptom of the test above; here the other thread was about to free the slot, or had just
    /// found it free.
    #[test]
    fn no_thread_waits_for_a_free_slot_that_another_thread_has_locked() {
        let spans = OpenSpans::default();
        spans.slots.get_or_make(FIRST);
        spans.lock_for_ever(FIRST);
        spans.insert(SECOND, OpenSpan::for_test(20));
        assert_eq!(created(&spans, SECOND), Some(20));
    }

    /// Symptom: a forked child hung at a span that had found no slot.
    #[test]
    fn a_child_whose_parent_changed_the_map_does_not_know_the_spans_there() {
        let mut spans = OpenSpans::with_one_slot_for_two();
        spans.overflow[0].hold_for_ever_in_parent();
        let created = SAME_SLOT.map(|span| created(&spans, span));
        assert_eq!(created, [Some(10), None]);
    }

    #[test]
    fn a_child_times_its_own_spans_although_the_map_is_lost() {
        let mut spans = OpenSpans::with_one_slot_for_two();
        spans.overflow[0].hold_for_ever_in_parent();
        let third = SECOND + (SECOND - FIRST);
        spans.insert(third, OpenSpan::for_test(30));
        assert_eq!(created(&spans, third), Some(30));
    }

    /// Symptom: a child hung at the exit of a span that another thread of its parent was entering.
    #[test]
    fn a_child_loses_a_span_whose_slot_its_parent_had_locked() {
        let mut spans = OpenSpans::default();
        spans.insert(FIRST, OpenSpan::for_test(10));
        spans.lock_for_ever(FIRST);
        spans.process ^= 1;
        assert!(spans.change(FIRST, |open_span| open_span.exit(0)).is_none());
    }

    /// Symptom: a thread waited for ever at a span that another thread had been entering when a
    /// seccomp filter killed it.
    #[test]
    fn a_thread_gives_a_span_up_whose_slot_stays_locked() {
        let spans = Arc::new(OpenSpans::default());
        spans.insert(FIRST, OpenSpan::for_test(10));
        spans.lock_for_ever(FIRST);
        let (sender, changed) = mpsc::channel();
        thread::spawn(move || sender.send(spans.change(FIRST, |_| ())));
        assert_eq!(changed.recv_timeout(Duration::from_secs(1_200)), Ok(None));
    }

    #[test]
    fn a_child_waits_once_for_a_slot_that_its_parent_had_locked() {
        let mut spans = OpenSpans::default();
        spans.insert(FIRST, OpenSpan::for_test(10));
        spans.lock_for_ever(FIRST);
        spans.process ^= 1;
        created(&spans, FIRST);
        assert_eq!(spans.slots.get(FIRST).unwrap().span(), FREE);
    }

    #[test]
    fn a_child_whose_parent_made_a_chunk_keeps_new_spans_in_the_map() {
        let mut spans = OpenSpans::default();
        spans.slots.hold_for_ever_in_parent();
        spans.insert(FIRST, OpenSpan::for_test(10));
        assert_eq!(created(&spans, FIRST), Some(10));
    }
}
