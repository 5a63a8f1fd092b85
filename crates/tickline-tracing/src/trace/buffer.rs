//! The records of one thread, between that thread and who reads them.
//!
//! Each thread has a buffer of its own, behind a lock. It takes the lock for each record. A reader
//! takes it only to exchange the records for an empty list, so the thread waits for nanoseconds at
//! most, and for no other thread. A reader that only copies ([`Buffer::snapshot`]) keeps what it took
//! in a second list, which the thread never touches.
//!
//! When there is no room, a record is refused, or the oldest one is overwritten. Of the records that
//! are overwritten, the beginnings of the spans that the thread is still in are kept.
//!
//! The rejected option is a ring of atomic words without a lock, as a seqlock: it saved 15 to 35 ns a
//! record, and took four orderings, blocks with records that repeat others, and a search for what was
//! overwritten while it was copied.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use spin::mutex::{SpinMutex, SpinMutexGuard};
use tracing_core::Metadata;

use crate::brief_lock::lock_briefly;

/// The longest text of a record, bytes.
pub(crate) const MAX_TEXT: usize = 16_384;

/// The least memory of a buffer, bytes: several of the longest records.
const LEAST_BYTES: usize = 8 * MAX_TEXT;

/// The memory of a record without its text, bytes.
pub(crate) const RECORD_BYTES: usize = size_of::<Record>();

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The thread entered a span.
    Begin,
    /// It exited the span that it entered last.
    End,
    /// An event.
    Instant,
    /// A span was created that belongs to the request `id`.
    Open,
    /// It was closed.
    Close,
}

#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// `CLOCK_MONOTONIC`, ns.
    pub(crate) ns: u64,
    /// The callsite; an `End` needs none.
    pub(crate) metadata: Option<&'static Metadata<'static>>,
    /// The number of the request; 0 for none.
    pub(crate) id: u64,
    /// Members of a JSON object.
    pub(crate) text: Option<Arc<str>>,
}

impl Record {
    pub(crate) const fn new(kind: Kind, ns: u64, metadata: Option<&'static Metadata<'static>>) -> Self {
        Self { kind, ns, metadata, id: 0, text: None }
    }

    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    fn bytes(&self) -> usize {
        RECORD_BYTES + self.text().len()
    }
}

/// Records in order, and what is left of those that were overwritten.
#[derive(Debug, Default, Clone)]
pub(crate) struct Records {
    /// The beginnings of the spans that the thread was in before the first of `list`.
    pub(crate) around: Vec<Record>,
    pub(crate) list: VecDeque<Record>,
    bytes: usize,
    pub(crate) overwritten: u64,
    /// Ends among the overwritten records whose beginnings are older than this list.
    ends: usize,
}

impl Records {
    fn push(&mut self, record: Record) {
        self.bytes += record.bytes();
        self.list.push_back(record);
    }

    fn overwrite_down_to(&mut self, most_bytes: usize) {
        while self.bytes > most_bytes
            && let Some(oldest) = self.list.pop_front()
        {
            self.bytes -= oldest.bytes();
            self.overwritten += 1;
            match oldest.kind {
                Kind::Begin => self.around.push(oldest),
                Kind::End if self.around.pop().is_none() => self.ends += 1,
                _ => {}
            }
        }
    }

    /// Adds what came later.
    fn append(&mut self, later: Self, most_bytes: usize) {
        if later.overwritten == 0 {
            later.list.into_iter().for_each(|record| self.push(record));
            self.overwrite_down_to(most_bytes);
            return;
        }
        // All of these are older than those that are gone.
        self.overwrite_down_to(0);
        self.around.truncate(self.around.len().saturating_sub(later.ends));
        self.around.extend(later.around);
        self.overwritten += later.overwritten;
        (self.list, self.bytes) = (later.list, later.bytes);
    }
}

/// What a buffer counts.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Records so far, the overwritten ones included.
    pub(crate) records: u64,
    /// Records that found no room.
    pub(crate) dropped: u64,
    /// Whether the thread has ended.
    pub(crate) has_ended: bool,
}

#[derive(Debug, Default)]
struct State {
    fresh: Records,
    counts: Counts,
}

#[derive(Debug)]
pub(crate) struct Buffer {
    most_bytes: usize,
    state: SpinMutex<State>,
    /// What snapshots took, and was not overwritten since.
    taken: Mutex<Records>,
}

/// A record was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    Plainly,
    /// With it, a quarter of the buffer is full.
    ReaderIsDue,
}

impl Buffer {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { most_bytes: bytes.max(LEAST_BYTES), state: SpinMutex::default(), taken: Mutex::default() }
    }

    #[inline]
    fn state(&self) -> SpinMutexGuard<'_, State> {
        lock_briefly(&self.state)
    }

    /// Adds a record if `kept_bytes` are free afterwards; else gives it back. An end always has room,
    /// but for its text: the room was kept when the span began.
    pub(crate) fn add(&self, mut record: Record, kept_bytes: usize) -> Result<Added, Record> {
        let mut state = self.state();
        let before = state.fresh.bytes;
        if before + record.bytes() + kept_bytes > self.most_bytes {
            if record.kind != Kind::End {
                return Err(record);
            }
            record.text = None;
        }
        state.fresh.push(record);
        state.counts.records += 1;
        let due = self.most_bytes / 4;
        let is_due = before < due && state.fresh.bytes >= due;
        Ok(if is_due { Added::ReaderIsDue } else { Added::Plainly })
    }

    /// Adds a record, and overwrites the oldest ones if there is no room.
    pub(crate) fn overwrite(&self, record: Record) {
        let mut state = self.state();
        state.fresh.push(record);
        state.fresh.overwrite_down_to(self.most_bytes);
        state.counts.records += 1;
    }

    pub(crate) fn count_dropped(&self) {
        self.state().counts.dropped += 1;
    }

    /// Says that the thread writes nothing more.
    pub(crate) fn end_thread(&self) {
        self.state().counts.has_ended = true;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Exchanges the records for `empty`. Returns whether the thread had ended before, and whether
    /// there were so many that more may have come meanwhile.
    pub(crate) fn take(&self, empty: &mut VecDeque<Record>) -> (bool, bool) {
        let mut state = self.state();
        mem::swap(&mut state.fresh.list, empty);
        let bytes = mem::take(&mut state.fresh.bytes);
        (state.counts.has_ended, bytes > self.most_bytes / 4)
    }

    /// Copies the records. The thread may go on meanwhile.
    pub(crate) fn snapshot(&self) -> Records {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = mem::take(&mut self.state().fresh);
        taken.append(fresh, self.most_bytes);
        taken.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 2] = [Kind::Begin, Kind::End];

    fn record(kind: Kind, ns: u64) -> Record {
        Record::new(kind, ns, None)
    }

    fn times<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<u64> {
        records.into_iter().map(|record| record.ns).collect()
    }

    #[test]
    fn a_full_buffer_refuses_all_but_ends() {
        let buffer = Buffer::new(0);
        let mut added = 0;
        while buffer.add(record(Kind::Begin, 1), RECORD_BYTES).is_ok() {
            added += 1;
        }
        assert_eq!(added, LEAST_BYTES / RECORD_BYTES - 1, "one place is kept");
        let end = Record { text: Some("x".repeat(RECORD_BYTES).into()), ..record(Kind::End, 2) };
        assert!(buffer.add(end, 0).is_ok());
        let mut list = VecDeque::new();
        assert_eq!(buffer.take(&mut list), (false, true));
        assert_eq!((list.len(), list.back().map(Record::text)), (added + 1, Some("")));
        assert_eq!(buffer.add(record(Kind::Begin, 3), 0).ok(), Some(Added::Plainly), "there is room again");
    }

    /// Whenever snapshots are taken: the list is the end of all records without a gap, and `around` has
    /// the spans that were open at its beginning.
    #[test]
    fn the_oldest_are_overwritten_and_the_spans_around_stay() {
        let most = LEAST_BYTES / RECORD_BYTES;
        let all: u64 = if cfg!(miri) { 8_000 } else { 60_000 };
        for every in [u64::MAX, 977, most as u64 + 1, 3 * most as u64] {
            let buffer = Buffer::new(0);
            // A span that lasts, and one after the other in it; now and then, that lasts, too, for
            // longer than a buffer.
            let mut open = Vec::new();
            let mut opened = Vec::new();
            for ns in 0..all {
                let is_begin = open.len() < 1 + usize::from(ns / 9_000 % 2 == 1) || ns % 2 == 0;
                if is_begin {
                    open.push(ns)
                } else {
                    _ = open.pop()
                }
                opened.push(open.clone());
                buffer.overwrite(record(KINDS[usize::from(!is_begin)], ns));
                if ns % every == every - 1 || ns == all - 1 {
                    let found = buffer.snapshot();
                    let first = found.list.front().map_or(0, |record| record.ns);
                    assert_eq!(times(&found.list), (first..=ns).collect::<Vec<_>>());
                    assert_eq!(found.overwritten, first);
                    assert!(found.list.len() == most || first == 0, "{first} of {ns}");
                    let before = first.checked_sub(1).and_then(|last| usize::try_from(last).ok());
                    let around = before.map(|last| opened[last].clone()).unwrap_or_default();
                    assert_eq!(times(&found.around), around, "before {first}");
                }
            }
        }
    }

    /// Whatever a reader finds while the thread writes is in order, and without gaps.
    #[test]
    fn a_reader_finds_whole_records_at_any_time() {
        let buffer = Buffer::new(0);
        let last = if cfg!(miri) { 300 } else { 400_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..=last).for_each(|ns| buffer.overwrite(record(Kind::Instant, ns)));
                buffer.end_thread();
            });
            loop {
                let has_ended = buffer.counts().has_ended;
                let found = buffer.snapshot();
                let end = found.overwritten + found.list.len() as u64;
                assert!(times(&found.list).into_iter().eq(found.overwritten + 1..=end));
                if has_ended {
                    break assert_eq!(end, last);
                }
            }
        });
    }
}
