//! All open spans at once, which the trace of a flight recorder needs.

use tickline::process_token;

use super::{FREE, SpanTable, TRIES};
use crate::layer::process_mutex::{TRIES_OF_CHILD, lock_with_retries};

impl<T: Clone> SpanTable<T> {
    /// All open spans; `None` if a lock stays locked, as it may in a forked child, and if the
    /// caller itself has it, as in the panic hook of a clock that panics.
    pub(crate) fn all(&self) -> Option<Vec<T>> {
        let tries = if process_token() == self.process {
            TRIES
        } else {
            TRIES_OF_CHILD
        };
        let mut all: Vec<_> = self.overflow[0].lock()?.values().cloned().collect();
        for slot in self.slots.all().filter(|slot| slot.span() != FREE) {
            let locked = lock_with_retries(tries, || slot.open_span.try_lock())?;
            let open_span = locked.clone();
            let is_free = slot.span() == FREE;
            // No allocation may happen under the lock, because the allocator may close this span.
            drop(locked);
            if !is_free {
                all.extend(open_span);
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::thread;

    use crate::layer::open_spans::OpenSpans;
    use crate::layer::slots::numbers::SAME_SLOT;
    use crate::layer::timing::OpenSpan;

    /// The times at which all open spans were created, ns.
    fn all_created(spans: &OpenSpans) -> Option<Vec<u64>> {
        let mut all: Vec<_> = spans
            .all()?
            .iter()
            .map(|open_span| open_span.created_ns)
            .collect();
        all.sort_unstable();
        Some(all)
    }

    #[test]
    fn all_open_spans_are_those_with_a_slot_and_those_without() {
        let spans = OpenSpans::with_one_slot_for_two();
        assert_eq!(all_created(&spans), Some(vec![10, 20]));
    }

    #[test]
    fn a_span_that_has_ended_is_not_open() {
        let spans = OpenSpans::default();
        spans.insert(1, OpenSpan::for_test(10));
        spans.remove(1, |_| ());
        assert_eq!(all_created(&spans), Some(vec![]));
    }

    /// Symptom: a flight recorder's trace lacked open requests, because a thread was preempted for
    /// long while it worked on a span.
    #[test]
    fn all_open_spans_are_known_after_a_thread_was_preempted_in_one() {
        let spans = OpenSpans::default();
        spans.insert(1, OpenSpan::for_test(10));
        thread::scope(|scope| {
            let locked = spans.slots.get(1).unwrap().open_span.lock();
            let all = scope.spawn(|| all_created(&spans));
            thread::sleep(Duration::from_millis(400));
            drop(locked);
            assert_eq!(all.join().unwrap(), Some(vec![10]));
        });
    }

    #[test]
    fn a_child_whose_parent_had_locked_a_slot_does_not_know_all_open_spans() {
        let mut spans = OpenSpans::with_one_slot_for_two();
        spans.lock_for_ever(SAME_SLOT[0]);
        spans.process ^= 1;
        assert!(spans.all().is_none());
    }

    #[test]
    fn a_child_whose_map_is_lost_does_not_know_all_open_spans() {
        let mut spans = OpenSpans::with_one_slot_for_two();
        spans.overflow[0].hold_for_ever_in_parent();
        assert!(spans.all().is_none());
    }
}
