//! The records of requests that could not be written in their turn: another record, which they
//! need, has not come yet, or an end found no room in its thread's ring.

use core::ops::Range;

use super::span_tracks::Attempt;
use crate::trace::rings::record::Record;

#[derive(Default)]
pub(crate) struct HeldRecords {
    records: Vec<HeldRecord>,
    /// The payloads of all records.
    payloads: Vec<u8>,
}

struct HeldRecord {
    thread: u64,
    record: Record<'static>,
    payload: Range<usize>,
    /// How many passes have refused it at the last attempt, too.
    refused_passes: u8,
}

/// After this number of passes a refused record is dropped. A beginning comes at latest in the
/// second pass after its end was taken; if there is none then, the span has ended with its parent.
const PASSES: u8 = 3;

/// How often all refused records are tried again in a pass. Each time, the records that need those
/// written before can be written. More are refused only if as many spans, each inside the other,
/// began at one moment on as many threads. The limit is for a file whose records are damaged.
const ATTEMPTS: usize = 16;

impl HeldRecords {
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
    /// after all others, as long as it takes any. Keeps those that it also refuses at the last
    /// attempt, for at most [`PASSES`] calls.
    pub(crate) fn take<E>(
        &mut self,
        mut write: impl FnMut(u64, &Record<'_>, Attempt) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut kept = Self::default();
        let Self { records, payloads } = &mut *self;
        // Stable: the records of a thread stay in order.
        records.sort_by_key(|held| held.record.ns);
        let record_of = |held: &HeldRecord| Record {
            payload: payloads.get(held.payload.clone()).unwrap_or_default(),
            ..held.record
        };
        let mut refused: Vec<_> = records.iter().collect();
        for _ in 0..ATTEMPTS {
            let tried = refused.len();
            let mut again = Vec::new();
            for held in refused {
                if !write(held.thread, &record_of(held), Attempt::First)? {
                    again.push(held);
                }
            }
            refused = again;
            if refused.is_empty() || refused.len() == tried {
                break;
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
    fn written(held: &mut HeldRecords, refuses: impl Fn(u64, Attempt) -> bool) -> Vec<u64> {
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

    fn held(records: [(u64, u64); 3]) -> HeldRecords {
        let mut held = HeldRecords::default();
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

    /// As of three spans, each inside the other, that begin on three threads at one moment.
    #[test]
    fn records_that_need_each_other_are_written_in_that_order() {
        let mut held = held([(3, 10), (2, 10), (1, 10)]);
        let mut written = Vec::<u64>::new();
        let write = |_, record: &Record<'_>, attempt| {
            assert_eq!(attempt, Attempt::First);
            let is_next = record.id == written.last().map_or(1, |last| last + 1);
            if is_next {
                written.push(record.id);
            }
            Ok::<_, ()>(is_next)
        };
        held.take(write).unwrap();
        assert_eq!(written, [1, 2, 3]);
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
