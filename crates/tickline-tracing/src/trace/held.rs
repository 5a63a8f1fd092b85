//! The records of requests' spans, held back until they are in order.
//!
//! The writer takes the records of one thread after another, but a span may begin on one thread and
//! end on another, or have children there. The writer therefore holds these records until it has
//! taken all rings, and then takes them in order of time. Those that were recorded while it took the
//! rings have to wait for the next time, because records that come before them may be in a ring
//! that it had taken already.

use core::ops::Range;

use super::record::{Kind, Record};

#[derive(Default)]
pub(crate) struct Held {
    records: Vec<HeldRecord>,
    /// The payloads of all records.
    payloads: Vec<u8>,
}

struct HeldRecord {
    thread: u64,
    record: Record<'static>,
    payload: Range<usize>,
}

impl Held {
    /// Whether the record must be held.
    pub(crate) const fn wants(record: &Record<'_>) -> bool {
        record.id != 0
            && matches!(
                record.kind,
                Kind::AsyncBegin | Kind::AsyncEnd | Kind::Instant | Kind::Follows
            )
    }

    pub(crate) fn add(&mut self, thread: u64, record: &Record<'_>) {
        let start = self.payloads.len();
        self.payloads.extend(record.payload);
        let payload = start..self.payloads.len();
        let record = Record {
            payload: &[],
            ..*record
        };
        self.records.push(HeldRecord {
            thread,
            record,
            payload,
        });
    }

    /// Passes the records up to the time `until_ns` to `write`, in order of time, and keeps those
    /// that `write` refuses.
    pub(crate) fn take<E>(
        &mut self,
        until_ns: u64,
        mut write: impl FnMut(u64, &Record<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut kept = Self::default();
        let Self { records, payloads } = &mut *self;
        // Stable: the records of a thread stay in order.
        records.sort_by_key(|held| held.record.ns);
        for held in &*records {
            let record = Record {
                payload: payloads.get(held.payload.clone()).unwrap_or_default(),
                ..held.record
            };
            if record.ns > until_ns || !write(held.thread, &record)? {
                kept.add(held.thread, &record);
            }
        }
        if kept.records.is_empty() {
            records.clear();
            payloads.clear();
        } else {
            *self = kept;
        }
        Ok(())
    }
}
