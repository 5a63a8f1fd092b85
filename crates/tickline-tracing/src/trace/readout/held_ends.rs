//! The ends of spans that could not be written in their turn: the beginning, or the end of a span
//! inside, has not come yet, or the end found no room in its thread's ring.

use core::ops::Range;

use super::span_tracks::Attempt;
use crate::trace::rings::record::Record;

#[derive(Default)]
pub(crate) struct HeldEnds {
    records: Vec<HeldRecord>,
    /// The payloads of all records.
    payloads: Vec<u8>,
}

struct HeldRecord {
    thread: u64,
    record: Record<'static>,
    payload: Range<usize>,
    /// How many passes have refused it twice.
    refused_passes: u8,
}

/// After this number of passes a refused record is dropped. A beginning comes at latest in the
/// second pass after its end was taken; if there is none then, the span has ended with its parent.
const PASSES: u8 = 3;

impl HeldEnds {
    #[cold]
    pub(crate) fn add(&mut self, thread: u64, record: &Record<'_>) {
        self.push(thread, record, 0);
    }

    fn push(&mut self, thread: u64, record: &Record<'_>, refused_passes: u8) {
        let start = self.payloads.len();
        self.payloads.extend_from_slice(record.payload);
        let payload = start..self.payloads.len();
        let record = Record {
            payload: &[],
            ..*record
        };
        self.records.push(HeldRecord {
            thread,
            record,
            payload,
            refused_passes,
        });
    }

    /// Passes the records to `write`, in order of time. Tries those that `write` refuses again
    /// after all others, and keeps those that it refuses twice, for at most [`PASSES`] calls.
    pub(crate) fn take<E>(
        &mut self,
        mut write: impl FnMut(u64, &Record<'_>, Attempt) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (mut refused, mut kept) = (Vec::new(), Self::default());
        let Self { records, payloads } = &mut *self;
        // Stable: the records of a thread stay in order.
        records.sort_by_key(|held| held.record.ns);
        let record_of = |held: &HeldRecord| Record {
            payload: payloads.get(held.payload.clone()).unwrap_or_default(),
            ..held.record
        };
        for held in &*records {
            if !write(held.thread, &record_of(held), Attempt::First)? {
                refused.push(held);
            }
        }
        for held in refused {
            let record = record_of(held);
            let passes = held.refused_passes + 1;
            if !write(held.thread, &record, Attempt::Last)? && passes < PASSES {
                kept.push(held.thread, &record, passes);
            }
        }
        *self = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::rings::record::Kind;

    /// Adds ends of spans, and returns the numbers of those that are written by `write`.
    fn written(held: &mut HeldEnds, refuses: impl Fn(u64, Attempt) -> bool) -> Vec<u64> {
        let mut written = Vec::new();
        let write = |_, record: &Record<'_>, attempt| {
            let is_written = !refuses(record.id, attempt);
            if is_written {
                written.push(record.id);
            }
            Ok::<_, ()>(is_written)
        };
        held.take(write).unwrap();
        written
    }

    fn held(records: [(u64, u64); 3]) -> HeldEnds {
        let mut held = HeldEnds::default();
        for (id, ns) in records {
            let record = Record {
                id,
                ..Record::new(Kind::AsyncEnd, ns)
            };
            held.add(7, &record);
        }
        held
    }

    #[test]
    fn records_come_once_and_in_order_of_time() {
        let mut held = held([(1, 30), (2, 10), (3, 20)]);
        assert_eq!(written(&mut held, |_, _| false), [2, 3, 1]);
        assert!(written(&mut held, |_, _| false).is_empty());
    }

    #[test]
    fn a_refused_record_is_tried_again_after_the_others() {
        let mut held = held([(1, 10), (2, 10), (3, 20)]);
        let refuses = |id, attempt| id == 1 && attempt == Attempt::First;
        assert_eq!(written(&mut held, refuses), [2, 3, 1]);
    }

    #[test]
    fn a_record_that_is_refused_twice_waits() {
        let mut held = held([(1, 10), (2, 10), (3, 20)]);
        assert_eq!(written(&mut held, |id, _| id == 1), [2, 3]);
        assert_eq!(written(&mut held, |_, _| false), [1]);
    }

    /// Symptom: the end of a span that had ended with its parent stayed for ever.
    #[test]
    fn a_record_that_is_always_refused_is_dropped() {
        let mut held = held([(1, 10), (2, 10), (3, 20)]);
        for _ in 0..PASSES {
            assert!(written(&mut held, |_, _| true).is_empty());
        }
        assert!(held.records.is_empty() && held.payloads.is_empty());
    }
}
