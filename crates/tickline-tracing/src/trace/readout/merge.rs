//! The records of all rings, in order of time as far as a trace needs it.
//!
//! The track of a thread has the records of one ring. But a span of a request may begin on one
//! thread and end on another, or have children there. The records of requests are therefore passed
//! on in order of time:
//!
//! ```text
//! ring A:   1     4       9        passed on: 1 from A, 2 and 3 from B, 4 from A, 6 from B
//! ring B:     2 3     6            9 stays in its ring
//! the pass begins:      ^
//! ```
//!
//! The next records come from the ring with the earliest one, as many as come before the records of
//! all other rings. With one ring this is a loop over its records.
//!
//! Records of requests from after the beginning of the pass stay in their rings until the next
//! pass: an earlier record may still come to a ring whose end was loaded already, and may be that
//! of their parent.
//!
//! Rejected: to copy these records of all rings to a list, and to sort it. This took 176
//! instructions for a span more, by callgrind, and the list did not fit into the CPU's cache.

use core::cmp::Reverse;
use core::ops::Range;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

use crate::trace::rings::record::{Kind, Record, Records, Word, index};
use crate::trace::rings::ring::{ControlWord, Ring};

/// One pass over the records that are in the rings.
pub(crate) struct Pass {
    sources: Vec<Source>,
    /// The time of the beginning, ns, before the ends of the rings were loaded.
    begun_ns: u64,
    /// A time after that.
    ends_known_ns: u64,
}

/// A ring in a pass.
struct Source {
    ring: Arc<Ring>,
    thread: u64,
    /// Whether the thread had ended before `end` was loaded, so that no record can follow.
    has_ended: bool,
    /// The position of the next record.
    next: u64,
    /// The position of the end of the records of this pass.
    end: u64,
    /// A copy of the words at these positions.
    words: Vec<Word>,
    copied: Range<u64>,
}

/// Whether the record is of a request, so that its order among the records of all rings counts.
#[inline]
const fn is_of_request(record: &Record<'_>) -> bool {
    record.id != 0
        && matches!(
            record.kind,
            Kind::AsyncBegin | Kind::AsyncEnd | Kind::Instant | Kind::Follows
        )
}

impl Source {
    fn new(ring: Arc<Ring>) -> Self {
        // This is loaded before the end.
        let has_ended = ring.has_ended();
        let (thread, next, end) = (ring.get(ControlWord::Number), ring.taken(), ring.end());
        Self {
            ring,
            thread,
            has_ended,
            next,
            end,
            words: Vec::new(),
            copied: next..next,
        }
    }

    /// Passes records to `write`, with the number of their thread, up to the first one of a request
    /// that is later than `until_ns`. Returns the time of that record; `None` at the end.
    fn write_until(
        &mut self,
        until_ns: u64,
        write: &mut impl FnMut(u64, &Record<'_>) -> io::Result<()>,
    ) -> io::Result<Option<u64>> {
        loop {
            let rest = &self.words[index(self.next - self.copied.start)..];
            let mut records = Records::new(rest, self.next);
            loop {
                let left = records.left();
                let Some(record) = records.next() else { break };
                if is_of_request(&record) && record.ns > until_ns {
                    self.next = self.copied.end - left;
                    return Ok(Some(record.ns));
                }
                write(self.thread, &record)?;
            }
            self.next = self.copied.end;
            self.ring.set_taken(self.next);
            if self.next == self.end {
                return Ok(None);
            }
            self.copied = self.ring.copy(self.next..self.end, &mut self.words);
        }
    }
}

impl Pass {
    /// Begins a pass at the time that `now_ns` returns. `rings` lists the rings after that: the
    /// ring of a thread that begins in between has no record from before.
    pub(crate) fn begin(rings: impl FnOnce() -> Vec<Arc<Ring>>, now_ns: impl Fn() -> u64) -> Self {
        let begun_ns = now_ns();
        let sources = rings().into_iter().map(Source::new).collect();
        Self {
            sources,
            begun_ns,
            ends_known_ns: now_ns(),
        }
    }

    /// Whether there are so many records that more have probably been recorded at the end of the
    /// pass.
    pub(crate) fn is_long(&self) -> bool {
        let is_long = |source: &Source| source.end - source.next > source.ring.capacity() / 4;
        self.sources.iter().any(is_long)
    }

    /// The rings whose first records are in this pass.
    pub(crate) fn new_rings(&self) -> impl Iterator<Item = &Ring> {
        let is_new = |source: &&Source| source.next == 0 && source.end > 0;
        self.sources
            .iter()
            .filter(is_new)
            .map(|source| &*source.ring)
    }

    /// Passes the records to `write`, with the numbers of their threads. Lets the threads overwrite
    /// them.
    pub(crate) fn write(
        &mut self,
        mut write: impl FnMut(u64, &Record<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        // The times of the rings' next records, the earliest first.
        let mut heads = BinaryHeap::new();
        for (number, source) in self.sources.iter_mut().enumerate() {
            let head_ns = source.write_until(0, &mut write)?;
            heads.extend(head_ns.map(|ns| Reverse((ns, number))));
        }
        while let Some(Reverse((ns, number))) = heads.pop() {
            let other_ns = heads.peek().map_or(u64::MAX, |Reverse((ns, _))| *ns);
            let until_ns = if ns <= self.begun_ns {
                other_ns.min(self.begun_ns)
            } else if ns <= self.ends_known_ns {
                continue;
            } else {
                // The record is of a mock clock that is ahead of this one. It would wait for ever.
                other_ns
            };
            let head_ns = self.sources[number].write_until(until_ns, &mut write)?;
            heads.extend(head_ns.map(|ns| Reverse((ns, number))));
        }
        for source in &self.sources {
            source.ring.set_taken(source.next);
        }
        Ok(())
    }

    /// The rings of ended threads of which all records were passed on.
    pub(crate) fn ended_rings(&self) -> impl Iterator<Item = &Arc<Ring>> {
        let is_done = |source: &&Source| source.has_ended && source.next == source.end;
        self.sources
            .iter()
            .filter(is_done)
            .map(|source| &source.ring)
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::trace::rings::record::BLOCK;

    /// A ring of the thread `thread` with a record for each of these times.
    fn ring(thread: u64, kind: Kind, times: impl IntoIterator<Item = u64>) -> Arc<Ring> {
        let ring = Ring::new(0).unwrap();
        assert!(ring.claim(thread, ""));
        push(&ring, kind, times);
        Arc::new(ring)
    }

    fn push(ring: &Ring, kind: Kind, times: impl IntoIterator<Item = u64>) {
        for ns in times {
            let record = Record {
                id: 1,
                ..Record::new(kind, ns)
            };
            if record.words() > ring.left() {
                ring.begin_block(ns, 0);
            }
            ring.push(&record);
        }
    }

    /// The times and the threads of the records of a pass that begins at `begun_ns`.
    fn passed_on(rings: &[Arc<Ring>], begun_ns: u64) -> Vec<(u64, u64)> {
        let (mut all, now_ns) = (Vec::new(), Cell::new(begun_ns));
        // The ends of the rings are known 100 ns later.
        let mut pass = Pass::begin(|| rings.to_vec(), || now_ns.replace(begun_ns + 100));
        let result = pass.write(|thread, record| {
            if record.kind != Kind::Block {
                all.push((record.ns, thread));
            }
            Ok(())
        });
        result.unwrap();
        all
    }

    /// Symptom: a parent began in a ring that was not listed yet, and its child in one that was:
    /// the child became a request of its own.
    #[test]
    fn the_rings_are_listed_after_the_pass_has_begun() {
        let now_ns = Cell::new(40);
        let mut listed_ns = 0;
        let rings = || {
            listed_ns = now_ns.get();
            Vec::new()
        };
        let pass = Pass::begin(rings, || now_ns.replace(now_ns.get() + 1));
        assert_eq!((pass.begun_ns, listed_ns), (40, 41));
    }

    #[test]
    fn records_of_requests_come_in_order_of_time_from_all_rings() {
        let rings = [
            ring(7, Kind::AsyncBegin, [1, 4, 5]),
            ring(8, Kind::AsyncEnd, [2, 3, 6]),
        ];
        let expected = [(1, 7), (2, 8), (3, 8), (4, 7), (5, 7), (6, 8)];
        assert_eq!(passed_on(&rings, 9), expected);
    }

    /// A record of another ring that comes before them may not be there yet.
    #[test]
    fn records_of_requests_from_after_the_beginning_wait_for_the_next_pass() {
        let rings = [
            ring(7, Kind::AsyncBegin, [1, 11]),
            ring(8, Kind::AsyncBegin, [2]),
        ];
        assert_eq!(passed_on(&rings, 9), [(1, 7), (2, 8)]);
        push(&rings[1], Kind::AsyncBegin, [10]);
        assert_eq!(passed_on(&rings, 200), [(10, 8), (11, 7)]);
        assert_eq!(passed_on(&rings, 300), []);
    }

    #[test]
    fn records_of_threads_do_not_wait() {
        let rings = [ring(7, Kind::Begin, [1, 11, 12])];
        assert_eq!(passed_on(&rings, 9), [(1, 7), (11, 7), (12, 7)]);
    }

    /// Otherwise a test with a mock clock that is ahead would fill the ring, and wait for room.
    #[test]
    fn records_of_a_clock_that_is_ahead_do_not_wait() {
        let rings = [
            ring(7, Kind::AsyncBegin, [1_000, 1_001]),
            ring(8, Kind::AsyncBegin, [2, 10]),
        ];
        assert_eq!(passed_on(&rings, 9), [(2, 8), (1_000, 7), (1_001, 7)]);
        assert_eq!(passed_on(&rings, 200), [(10, 8)]);
    }

    /// A pass copies a ring in several parts.
    #[test]
    fn a_pass_has_all_records_of_full_rings() {
        // The words of a block without its head, and the words of a record.
        let each = 4 * ((BLOCK - 5) / 4);
        let rings = [0, 1].map(|odd| {
            let times = (0..each).map(|number| 1 + 2 * number + odd);
            ring(7 + odd, Kind::AsyncEnd, times)
        });
        let passed: Vec<_> = passed_on(&rings, u64::MAX - 100)
            .into_iter()
            .map(|(ns, _)| ns)
            .collect();
        assert!(passed.into_iter().eq(1..=2 * each));
        assert!(rings.iter().all(|ring| ring.taken() == ring.end()));
    }

    #[test]
    fn the_ring_of_an_ended_thread_stays_while_records_wait_in_it() {
        let rings = [ring(7, Kind::AsyncBegin, [1, 11])];
        rings[0].end_thread();
        let is_done = |begun_ns| {
            let now_ns = Cell::new(begun_ns);
            let mut pass = Pass::begin(|| rings.to_vec(), || now_ns.replace(begun_ns + 100));
            pass.write(|_, _| Ok(())).unwrap();
            pass.ended_rings().count() == 1
        };
        assert!(!is_done(9) && is_done(11));
    }
}
