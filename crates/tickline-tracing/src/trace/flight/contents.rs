//! The records of a snapshot that a trace gets.

use std::collections::HashMap;

use tickline::Instant;

use crate::trace::format::summary::TraceSummary;
use crate::trace::readout::snapshot::{OpenRequests, Snapshot, ThreadSnapshot};
use crate::trace::rings::encoding;
use crate::trace::rings::record::{Kind, Record, Records};

/// A record, and the index of its thread in the snapshot.
pub(crate) struct TraceRecord<'a> {
    pub(crate) thread: usize,
    pub(crate) record: Record<'a>,
    pub(crate) is_wanted: bool,
}

/// The records that a thread's ring lost.
pub(crate) struct Lost {
    /// The index of the thread in the snapshot.
    pub(crate) thread: usize,
    /// The time of the first record that is left, or of the copy.
    pub(crate) before_ns: u64,
    pub(crate) records: u64,
}

/// The records of a snapshot, in order of time, and whether the trace gets them.
#[derive(Default)]
pub(crate) struct TraceContents<'a> {
    pub(crate) records: Vec<TraceRecord<'a>>,
    /// What each ring lost, if it lost records.
    pub(crate) lost: Vec<Lost>,
    pub(crate) summary: TraceSummary,
    /// The time of the copy, or of the last record in the file of another process. (A torn record
    /// may have any time, so it does not count.)
    pub(crate) end_ns: u64,
}

impl<'a> TraceContents<'a> {
    pub(crate) fn from_snapshot(snapshot: &'a Snapshot) -> Self {
        let mut contents = Self::default();
        contents.summary.dropped_records = snapshot.dropped_records;
        contents.summary.overwritten_records = snapshot.removed_records;
        contents.summary.missing_rings = snapshot.missing_rings;
        contents.summary.threads_without_ring = snapshot.threads_without_ring;
        for (index, thread) in snapshot.threads.iter().enumerate() {
            contents.add(index, thread);
        }
        // A request may run on several threads, so all records are sorted by time. The sort is
        // stable: the records of a thread stay in order.
        contents
            .records
            .sort_by_key(|item| (item.record.ns, item.record.kind == Kind::AsyncEnd));
        contents.end_ns = contents
            .records
            .last()
            .map_or(0, |item| item.record.ns)
            .max(snapshot.end_ns);
        // If no record of a thread is left, its records are missing up to the end.
        for lost in &mut contents.lost {
            lost.before_ns = contents.end_ns.min(lost.before_ns);
        }
        let since_ns = contents.lost.iter().map(|lost| lost.before_ns).max();
        contents.summary.complete_since = since_ns.map(Instant::from_nanos);
        contents
    }

    /// Adds the records of a thread's ring.
    fn add(&mut self, thread: usize, snapshot: &'a ThreadSnapshot) {
        let mut records = Records::new(&snapshot.words, 0);
        // The thread may have overwritten all words while they were copied.
        let mut lost = if snapshot.words.is_empty() {
            snapshot.written
        } else {
            0
        };
        let (mut blocks, mut first_ns) = (0, u64::MAX);
        for mut record in &mut records {
            if !encoding::are_valid(record.payload) {
                self.summary.damaged_records += 1;
                continue;
            }
            match record.kind {
                Kind::Rest | Kind::Name => continue,
                Kind::Block => {
                    if blocks == 0 {
                        lost = record.ns;
                    }
                    blocks += 1;
                    continue;
                }
                // Only the first block needs its repetitions: those spans began in blocks that are
                // gone. Later blocks repeat beginnings that are already in the list.
                Kind::RepeatedBegin | Kind::Unrepeated if blocks > 1 => continue,
                Kind::RepeatedBegin => record.kind = Kind::Begin,
                _ => first_ns = record.ns.min(first_ns),
            }
            self.records.push(TraceRecord {
                thread,
                record,
                is_wanted: record.kind != Kind::Unrepeated,
            });
        }
        self.summary.damaged_records += records.damaged;
        self.summary.overwritten_records = self.summary.overwritten_records.saturating_add(lost);
        if lost > 0 {
            self.lost.push(Lost {
                thread,
                before_ns: first_ns,
                records: lost,
            });
        }
    }

    /// Marks three kinds of records as unwanted: those of spans and events before `since_ns`; ends
    /// without a beginning; and beginnings of requests whose end is lost.
    pub(crate) fn leave_out_before(&mut self, since_ns: u64, snapshot: &Snapshot) {
        let still_open = snapshot.open_requests.clone().unwrap_or_default();
        let without_end = self.pair_ends_with_beginnings(since_ns, still_open);
        if snapshot.open_requests.is_some() {
            // All open requests are known, and these are not among them: their ends are lost.
            for begin in without_end {
                self.records[begin].is_wanted = false;
            }
            return;
        }
        // These are open, unless an end is lost.
        let complete_since_ns = self.summary.complete_since.map_or(0, Instant::as_nanos);
        let ends_lost_before_ns = snapshot.ends_lost_before_ns.max(complete_since_ns);
        for begin in without_end {
            let begin = &mut self.records[begin];
            if begin.record.ns < ends_lost_before_ns {
                begin.is_wanted = false;
                self.summary.undecided_spans += 1;
            }
        }
    }

    /// Decides on all records, except for the beginnings of requests' spans that are not
    /// `still_open` and have no end: it returns the indices of these.
    fn pair_ends_with_beginnings(
        &mut self,
        since_ns: u64,
        mut still_open: OpenRequests,
    ) -> Vec<usize> {
        // Stacks of the indices of beginnings: one for each thread, and one for each span of a
        // request.
        let (mut inside, mut open) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for index in 0..self.records.len() {
            let TraceRecord {
                thread,
                record:
                    Record {
                        kind,
                        ns,
                        callsite,
                        id,
                        ..
                    },
                ..
            } = self.records[index];
            match kind {
                Kind::Begin | Kind::Unrepeated => inside.entry(thread).or_default().push(index),
                Kind::End => self.pair(index, inside.entry(thread).or_default(), since_ns),
                Kind::AsyncBegin => match still_open.get_mut(&(ns, callsite)) {
                    // It has no end, so it gets no place on the stack.
                    Some(count) if *count > 0 => *count -= 1,
                    _ => open.entry(id).or_default().push(index),
                },
                Kind::AsyncEnd => self.pair(index, open.entry(id).or_default(), since_ns),
                _ => self.records[index].is_wanted = ns >= since_ns,
            }
        }
        open.into_values().flatten().collect()
    }

    /// Pairs an end with the last of these beginnings. Marks both as unwanted if the span ended
    /// before `since_ns`, and the end if the beginning is missing or unwanted.
    fn pair(&mut self, end: usize, begins: &mut Vec<usize>, since_ns: u64) {
        let ended_before = self.records[end].record.ns < since_ns;
        let Some(begin) = begins.pop() else {
            self.records[end].is_wanted = false;
            return;
        };
        let item = &mut self.records[begin];
        // This record stands for `left` beginnings, which the trace does not get.
        if let Record {
            kind: Kind::Unrepeated,
            id: left @ 2..,
            ..
        } = &mut item.record
        {
            *left -= 1;
            begins.push(begin);
        }
        item.is_wanted &= !ended_before;
        let is_wanted = item.is_wanted;
        self.records[end].is_wanted = is_wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::capture::trace_sink::TraceSink;
    use crate::trace::flight::FlightRecorder;
    use crate::trace::rings::ring::Ring;

    /// Symptom: a thread overwrote its whole ring while the ring was copied, and left only
    /// beginnings of blocks, or nothing. The file then claimed to be complete, or complete since
    /// the end of time.
    #[test]
    fn a_thread_of_which_nothing_is_left_is_incomplete_before_now() {
        let ring = Ring::new(1).unwrap();
        ring.push(&Record::new(Kind::End, 7));
        (0..8).for_each(|_| ring.begin_block(7, 0));
        for words in [ring.snapshot(), Vec::new()] {
            let before = Instant::now();
            let mut snapshot = FlightRecorder::builder()
                .build()
                .unwrap()
                .recorder()
                .snapshot()
                .unwrap();
            snapshot.threads.push(ThreadSnapshot {
                words,
                ..ThreadSnapshot::from_ring(&ring)
            });
            let contents = TraceContents::from_snapshot(&snapshot);
            assert_eq!(
                (contents.summary.overwritten_records, contents.records.len()),
                (1, 0)
            );
            assert!((before..=Instant::now()).contains(&contents.summary.complete_since.unwrap()));
        }
    }

    /// Symptom: it was an overwritten record, so the trace claimed to be complete.
    #[test]
    #[cfg(target_pointer_width = "64")]
    #[cfg_attr(miri, ignore = "Miri ends at such an allocation")]
    fn a_record_that_got_no_memory_for_a_ring_is_dropped() {
        use crate::trace::capture::recorder::Recorder;
        use crate::trace::settings::{Settings, WhenFull};

        let settings = Settings {
            bytes_per_thread: Some(usize::MAX / 32),
            ..Settings::new(WhenFull::Overwrite)
        };
        let recorder = Recorder::new(settings);
        assert!(recorder.add_ring().is_none());
        let summary = TraceContents::from_snapshot(&recorder.snapshot().unwrap()).summary;
        let losses = (summary.dropped_records, summary.overwritten_records);
        assert_eq!(losses, (1, 0));
    }

    /// Symptom: the trace of a running process lacked every open request, and had a mark 250 years
    /// ahead. Cause: the last words of a record were not yet written.
    #[test]
    fn a_torn_record_does_not_set_the_end() {
        let ring = Ring::new(1).unwrap();
        ring.begin_block(1, 0);
        // The second field has no value.
        for (ns, payload) in [(5, &[0, 0][..]), (u64::MAX, &[0, 0, 2, 1])] {
            ring.push(&Record {
                callsite: 7,
                payload,
                ..Record::new(Kind::Begin, ns)
            });
        }
        let snapshot = Snapshot {
            threads: vec![ThreadSnapshot::from_ring(&ring)],
            ..Snapshot::default()
        };
        assert_eq!(TraceContents::from_snapshot(&snapshot).end_ns, 5);
    }

    /// The number of undecided spans, if a request began at this time, and the ends of others
    /// before 5 ns may be lost.
    fn undecided_spans(began_ns: u64) -> u64 {
        let ring = Ring::new(1).unwrap();
        ring.begin_block(1, 0);
        ring.push(&Record {
            callsite: 7,
            ..Record::new(Kind::AsyncBegin, began_ns)
        });
        let snapshot = Snapshot {
            threads: vec![ThreadSnapshot::from_ring(&ring)],
            open_requests: None,
            ends_lost_before_ns: 5,
            ..Snapshot::default()
        };
        let mut contents = TraceContents::from_snapshot(&snapshot);
        assert_eq!(contents.records.len(), 1);
        contents.leave_out_before(0, &snapshot);
        contents.summary.undecided_spans
    }

    #[test]
    fn a_request_whose_end_may_be_lost_is_undecided() {
        assert_eq!(undecided_spans(4), 1);
    }

    #[test]
    fn a_request_that_began_when_no_end_was_lost_any_more_is_decided() {
        assert_eq!(undecided_spans(5), 0);
    }
}
