//! Encodes records as packets.

use core::mem;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::clocks::ClockReadings;
use super::names::{Callsite, FieldNumbers, Seen, push_name};
use super::proto::{
    Begun, Bytes, EventHead, SequenceHead, annotation, clocks as clock, defaults, event, interned,
    packet, trace, track,
};
use super::track_event::{COUNTER, INSTANT, TrackEvent};
use super::values::{PushedFields, nearest};
use crate::trace::format::mark::Mark;
use crate::trace::keyed_hash::KeyedState;
use crate::trace::readout::cpu_times::{CPU_TIME, ThreadCpuTime};
use crate::trace::readout::span_tracks::{AboveTrack, Attempt, BegunSpan, EndedSpan, SpanTracks};
use crate::trace::rings::encoding::{Fields, Value};
use crate::trace::rings::record::{Kind, Record};

/// The fields with the bounds of UTC.
const UTC_LEAST: &str = "utc_minus_monotonic_least_ns";
const UTC_MOST: &str = "utc_minus_monotonic_most_ns";

/// The sequence of the threads' CPU times. They are read after the records were taken, so in the
/// sequence of a thread they would be ahead of its next records. No thread has this number.
const OF_CPU_TIMES: u64 = u64::MAX;

/// The time at which the clock of a sequence begins. By the readings of the clocks, the zero of
/// `CLOCK_MONOTONIC` may be some us before the zero of the time since the boot, and Perfetto's
/// viewer fails at a time below zero. Earlier records have a time of another clock.
const FIRST_NS: u64 = 1_000_000_000;

/// Encodes records as packets.
pub(super) struct Encoder {
    pub(super) bytes: Bytes,
    process: u32,
    /// A number by which the tracks of this process differ from other processes' tracks in merged
    /// traces.
    salt: u64,
    sequences: Vec<Sequence>,
    /// The indices of the sequences, by the number of the thread, or [`OF_CPU_TIMES`]. The first
    /// sequence belongs to requests and the process, and has the number 0.
    indices: HashMap<u64, usize, KeyedState>,
    /// The sequence that was asked for last.
    last: ThreadSequence,
    pub(super) names: FieldNumbers,
    /// The number of values so far that were cut.
    pub(super) cut_values: u64,
    /// The numbers of counters' tracks, by name.
    counters: HashMap<Box<str>, u64>,
    /// The numbers of the tracks of the threads' CPU times, by the number of the thread.
    cpu_times: HashMap<u64, u64, KeyedState>,
    tracks: SpanTracks,
    flows: u64,
}

/// The kinds of tracks, which are part of a track's number.
#[derive(Clone, Copy)]
enum TrackKind {
    Process,
    Thread,
    Span,
    Counter,
}

/// The index of a thread's sequence.
#[derive(Default)]
struct ThreadSequence {
    thread: u64,
    index: usize,
}

/// The packets of a thread, or of requests.
struct Sequence {
    head: SequenceHead,
    /// The time of the last packet.
    last_ns: u64,
    /// The callsites and the names of fields that the sequence has.
    callsites: Seen,
    names: Seen,
}

impl Sequence {
    /// Begins a packet with an event, on the default track of the sequence, or on `track`. Returns
    /// the packet and the event.
    #[inline]
    fn begin_event(
        &mut self,
        bytes: &mut Bytes,
        ns: u64,
        event: &EventHead,
        track: Option<u64>,
    ) -> [Begun; 2] {
        match ns.checked_sub(self.last_ns) {
            Some(since_ns) => {
                self.last_ns = ns;
                bytes.begin_event(since_ns, &self.head, event, track)
            }
            None => bytes.begin_earlier_event(ns, &self.head, event, track),
        }
    }
}

impl Encoder {
    pub(super) fn begin(process: u32, name: &str, readings: &ClockReadings) -> Self {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let mut encoder = Self {
            bytes: Bytes::default(),
            process,
            salt: hasher.hash_one((process, name, &readings.0)) % (1 << 16),
            sequences: Vec::new(),
            indices: HashMap::default(),
            last: ThreadSequence::default(),
            names: FieldNumbers::default(),
            cut_values: 0,
            counters: HashMap::new(),
            cpu_times: HashMap::default(),
            tracks: SpanTracks::default(),
            flows: 0,
        };
        readings.push(&mut encoder.bytes);
        encoder.add_sequence(0);
        let uuid = encoder.track(TrackKind::Process, 0);
        let bytes = &mut encoder.bytes;
        let packet = bytes.begin(trace::PACKET);
        let descriptor = bytes.begin(packet::TRACK_DESCRIPTOR);
        bytes.number(track::UUID, uuid);
        let process_descriptor = bytes.begin(track::PROCESS);
        bytes.number(track::PID, process.into());
        bytes.text(track::PROCESS_NAME, &[name]);
        bytes.end(process_descriptor);
        bytes.end(descriptor);
        bytes.end(packet);
        encoder
    }

    /// The number of a track, which is unique in the trace. `number` is unique in its kind.
    fn track(&self, kind: TrackKind, number: u64) -> u64 {
        (number << 2 | kind as u64) << 16 | self.salt | u64::from(number == 0)
    }

    /// The index of this thread's sequence. Most records are of the same thread as the one before,
    /// or of requests, whose sequence is the first.
    #[inline]
    fn sequence(&mut self, thread: u64) -> usize {
        if thread == 0 {
            return 0;
        }
        if self.last.thread != thread {
            let known = self.indices.get(&thread).copied();
            let index = known.unwrap_or_else(|| self.add_sequence(thread));
            self.last = ThreadSequence { thread, index };
        }
        self.last.index
    }

    /// Adds the sequence of this thread: its clock and its default track. Returns its index.
    #[cold]
    fn add_sequence(&mut self, thread: u64) -> usize {
        let index = self.sequences.len();
        let id = index as u64 + 1;
        let default_track = self.track(TrackKind::Thread, id);
        self.indices.insert(thread, index);
        self.sequences.push(Sequence {
            head: SequenceHead::new(id),
            last_ns: FIRST_NS,
            callsites: Seen::default(),
            names: Seen::default(),
        });
        let bytes = &mut self.bytes;
        let packet = bytes.begin(trace::PACKET);
        bytes.number(packet::SEQUENCE_ID, id);
        bytes.number(packet::SEQUENCE_FLAGS, packet::STATE_CLEARED);
        bytes.number(packet::FIRST_PACKET_ON_SEQUENCE, 1);
        let defaults = bytes.begin(packet::DEFAULTS);
        bytes.number(defaults::TIMESTAMP_CLOCK_ID, clock::OF_SEQUENCE);
        if thread != 0 && thread != OF_CPU_TIMES {
            let event_defaults = bytes.begin(defaults::TRACK_EVENT);
            bytes.number(event::TRACK_UUID, default_track);
            bytes.end(event_defaults);
        }
        bytes.end(defaults);
        let snapshot = bytes.begin(packet::CLOCK_SNAPSHOT);
        for (id, is_incremental) in [(clock::OF_SEQUENCE, true), (clock::MONOTONIC, false)] {
            let reading = bytes.begin(clock::CLOCKS);
            bytes.number(clock::ID, id);
            bytes.number(clock::TIMESTAMP, FIRST_NS);
            if is_incremental {
                bytes.number(clock::IS_INCREMENTAL, 1);
            }
            bytes.end(reading);
        }
        bytes.end(snapshot);
        bytes.end(packet);
        index
    }

    pub(super) fn name_thread(&mut self, thread: u64, name: &str) {
        let id = self.sequence(thread) as u64 + 1;
        let uuid = self.track(TrackKind::Thread, id);
        let bytes = &mut self.bytes;
        let packet = bytes.begin(trace::PACKET);
        bytes.number(packet::SEQUENCE_ID, id);
        let descriptor = bytes.begin(packet::TRACK_DESCRIPTOR);
        bytes.number(track::UUID, uuid);
        let thread_descriptor = bytes.begin(track::THREAD);
        bytes.number(track::PID, self.process.into());
        bytes.number(track::TID, thread);
        bytes.text(track::THREAD_NAME, &[name]);
        bytes.end(thread_descriptor);
        bytes.end(descriptor);
        bytes.end(packet);
    }

    /// Adds a record. Returns false for the end of a span that must wait for another record.
    #[inline]
    pub(super) fn record(
        &mut self,
        thread: u64,
        record: &Record<'_>,
        callsite: Option<&Callsite>,
        attempt: Attempt,
    ) -> bool {
        let mut event = TrackEvent {
            kind: event::SLICE_BEGIN,
            ns: record.ns,
            track: None,
            callsite,
            fields: record.fields(),
        };
        match record.kind {
            Kind::Rest | Kind::Block | Kind::Name | Kind::Unrepeated => {}
            Kind::Begin | Kind::RepeatedBegin => self.event(thread, &event),
            Kind::End => {
                event.kind = event::SLICE_END;
                self.event(thread, &event);
            }
            Kind::AsyncBegin => {
                event.track = Some(self.track_of_begun(record, callsite));
                self.event(0, &event);
            }
            Kind::AsyncEnd => {
                let ended = self.tracks.end(record.id, record.ns, attempt);
                let Some(EndedSpan { place, lost }) = ended else {
                    return false;
                };
                event.kind = event::SLICE_END;
                event.track = Some(self.track(TrackKind::Span, place.track));
                let fields = mem::replace(&mut event.fields, Fields { bytes: &[] });
                // A viewer ends the innermost slice of the track.
                for _ in lost {
                    self.event(0, &event);
                }
                event.fields = fields;
                self.event(0, &event);
            }
            Kind::Instant => {
                event.kind = event::INSTANT;
                let place = self.tracks.get(record.id);
                event.track = place.map(|place| self.track(TrackKind::Span, place.track));
                let sequence = if place.is_some() { 0 } else { thread };
                self.event(sequence, &event);
                if callsite.is_some_and(|callsite| callsite.is_utc_snapshot) {
                    self.utc(&event);
                }
            }
            Kind::Follows => self.flow(record.id, record.parent, record.ns),
        }
        true
    }

    /// The number of the track of a span that begins. Adds the track if it is new, with the name of
    /// the callsite.
    #[inline]
    fn track_of_begun(&mut self, begin: &Record<'_>, callsite: Option<&Callsite>) -> u64 {
        let BegunSpan {
            place,
            above_new_track,
        } = self.tracks.begin(begin);
        let uuid = self.track(TrackKind::Span, place.track);
        let above = match above_new_track {
            None => return uuid,
            Some(AboveTrack::Process) => self.track(TrackKind::Process, 0),
            Some(AboveTrack::Track(track)) => self.track(TrackKind::Span, track),
        };
        let [packet, descriptor] = self.bytes.begin_track(uuid, above);
        if let Some(callsite) = callsite {
            self.bytes.0.extend_from_slice(&callsite.track_name);
        }
        self.bytes.end(descriptor);
        self.bytes.end(packet);
        uuid
    }

    /// Adds an event.
    #[inline]
    fn event(&mut self, thread: u64, event: &TrackEvent<'_>) {
        let index = self.sequence(thread);
        let Self {
            sequences, bytes, ..
        } = self;
        let sequence = &mut sequences[index];
        // Most events are the beginning or the end of a span without fields.
        if event.kind != event::INSTANT
            && event.fields.bytes.is_empty()
            && event.has_names(&sequence.callsites)
            && let Some(since_ns) = event.ns.checked_sub(sequence.last_ns)
        {
            sequence.last_ns = event.ns;
            bytes.event(since_ns, &sequence.head, event.head(), event.track);
        } else {
            self.event_of(index, thread, event);
        }
    }

    /// Adds an event, the names that its sequence does not have yet, and the values of the counters
    /// of an event of `tracing`. An event that has only counters is not shown itself.
    fn event_of(&mut self, index: usize, thread: u64, event: &TrackEvent<'_>) {
        let Self {
            bytes,
            sequences,
            names,
            cut_values,
            ..
        } = self;
        let sequence = &mut sequences[index];
        let (bytes_before, last_ns_before) = (bytes.0.len(), sequence.last_ns);
        let [packet, begun] = sequence.begin_event(bytes, event.ns, event.head(), event.track);
        let pushed = PushedFields::push(event, bytes, names, &mut sequence.names);
        *cut_values += pushed.cut_values;
        if pushed.are_counters() {
            sequence.last_ns = last_ns_before;
            bytes.0.truncate(bytes_before);
        } else {
            if let Some(callsite) = event.callsite
                && event.kind == event::INSTANT
                && !pushed.has_message
            {
                bytes.number(event::NAME_IID, callsite.number());
            }
            bytes.end(begun);
            // An end refers to no callsite.
            let callsite = match event.kind {
                event::SLICE_END => None,
                _ => event.callsite,
            };
            let callsite = callsite.filter(|callsite| sequence.callsites.add(callsite.number()));
            if callsite.is_some() || !pushed.new_names.is_empty() {
                push_names(bytes, callsite, &pushed.new_names);
            }
            bytes.end(packet);
        }
        for (name, value) in pushed.counters {
            self.counter(thread, event.ns, name, value);
        }
    }

    /// Adds a value of a counter, and the counter's track if it is new.
    fn counter(&mut self, sequence: u64, ns: u64, name: &str, value: Value<'_>) {
        let number = match self.counters.get(name) {
            Some(number) => *number,
            None => {
                let above = self.track(TrackKind::Process, 0);
                let number = self.add_counter(above, name, track::NO_UNIT);
                self.counters.insert(name.into(), number);
                number
            }
        };
        self.counter_value(sequence, ns, number, value);
    }

    /// Adds a value of a thread's CPU time, and the counter's track below the thread's track if it
    /// is new.
    pub(super) fn cpu_time(&mut self, thread: u64, time: ThreadCpuTime) {
        let number = match self.cpu_times.get(&thread) {
            Some(number) => *number,
            None => {
                let id = self.sequence(thread) as u64 + 1;
                let above = self.track(TrackKind::Thread, id);
                let number = self.add_counter(above, CPU_TIME, track::NANOSECONDS);
                self.cpu_times.insert(thread, number);
                number
            }
        };
        self.counter_value(OF_CPU_TIMES, time.ns, number, Value::U64(time.cpu_ns));
    }

    /// Adds the track of a new counter, and returns the counter's number.
    fn add_counter(&mut self, above: u64, name: &str, unit: u64) -> u64 {
        let number = (self.counters.len() + self.cpu_times.len()) as u64 + 1;
        let uuid = self.track(TrackKind::Counter, number);
        let bytes = &mut self.bytes;
        let [packet, descriptor] = bytes.begin_track(uuid, above);
        bytes.text(track::NAME, &[name]);
        let counter = bytes.begin(track::COUNTER);
        if unit != track::NO_UNIT {
            bytes.number(track::UNIT, unit);
        }
        bytes.end(counter);
        bytes.end(descriptor);
        bytes.end(packet);
        number
    }

    fn counter_value(&mut self, sequence: u64, ns: u64, number: u64, value: Value<'_>) {
        let track = self.track(TrackKind::Counter, number);
        let index = self.sequence(sequence);
        let sequence = &mut self.sequences[index];
        let bytes = &mut self.bytes;
        let [packet, begun] = sequence.begin_event(bytes, ns, &COUNTER, Some(track));
        match value {
            Value::I64(value) => bytes.signed(event::COUNTER_VALUE, value),
            Value::U64(value) => match i64::try_from(value) {
                Ok(value) => bytes.signed(event::COUNTER_VALUE, value),
                Err(_) => bytes.double(event::DOUBLE_COUNTER_VALUE, nearest(value)),
            },
            Value::F64(value) => bytes.double(event::DOUBLE_COUNTER_VALUE, value),
            Value::Bool(_) | Value::Text(_) | Value::CutText(_) => {}
        }
        bytes.end(begun);
        bytes.end(packet);
    }

    /// Adds a reading of UTC, the middle of its bounds, as one of the trace's clocks.
    fn utc(&mut self, event: &TrackEvent<'_>) {
        let offset_ns = |name: &str| {
            let mut fields = event.fields.clone();
            match fields.find(|field| event.named(field).name == name)?.value {
                Value::I64(ns) => Some(ns),
                Value::U64(ns) => i64::try_from(ns).ok(),
                _ => None,
            }
        };
        let Some((least, most)) = offset_ns(UTC_LEAST).zip(offset_ns(UTC_MOST)) else {
            return;
        };
        let utc_ns = event.ns.saturating_add_signed(least.midpoint(most));
        let bytes = &mut self.bytes;
        let packet = bytes.begin(trace::PACKET);
        let snapshot = bytes.begin(packet::CLOCK_SNAPSHOT);
        for (id, ns) in [(clock::MONOTONIC, event.ns), (clock::UTC, utc_ns)] {
            let reading = bytes.begin(clock::CLOCKS);
            bytes.number(clock::ID, id);
            bytes.number(clock::TIMESTAMP, ns);
            bytes.end(reading);
        }
        bytes.end(snapshot);
        bytes.end(packet);
    }

    /// Adds an arrow from a span to the span that follows from it. It connects two marks, because
    /// both spans have begun before.
    fn flow(&mut self, span: u64, follows_from: u64, ns: u64) {
        let places = self.tracks.get(follows_from).zip(self.tracks.get(span));
        let Some((from, to)) = places else { return };
        let index = self.sequence(0);
        self.flows += 1;
        let flow = self.flows << 16 | self.salt;
        let ends = [
            (from.track, event::FLOW_IDS, "is followed"),
            (to.track, event::TERMINATING_FLOW_IDS, "follows"),
        ];
        for (place, field, name) in ends {
            let uuid = self.track(TrackKind::Span, place);
            let sequence = &mut self.sequences[index];
            let bytes = &mut self.bytes;
            let [packet, begun] = sequence.begin_event(bytes, ns, &INSTANT, Some(uuid));
            bytes.text(event::NAME, &[name]);
            bytes.fixed(field, flow);
            bytes.end(begun);
            bytes.end(packet);
        }
    }

    /// Adds a mark, to the track of its thread or of the process.
    pub(super) fn mark(&mut self, mark: Mark) {
        let Mark {
            thread,
            ns,
            count,
            label,
            argument,
        } = mark;
        let index = self.sequence(thread);
        let track = (thread == 0).then(|| self.track(TrackKind::Process, 0));
        let sequence = &mut self.sequences[index];
        let bytes = &mut self.bytes;
        let [packet, begun] = sequence.begin_event(bytes, ns, &INSTANT, track);
        bytes.text(event::NAME, &[&count.to_string(), " ", label]);
        let annotation = bytes.begin(event::DEBUG_ANNOTATIONS);
        bytes.text(annotation::NAME, &[argument]);
        bytes.number(annotation::UINT, count);
        bytes.end(annotation);
        bytes.end(begun);
        bytes.end(packet);
    }
}

/// Adds the names that a sequence does not have yet.
#[cold]
fn push_names(bytes: &mut Bytes, callsite: Option<&Callsite>, fields: &[(u64, Cow<'_, str>)]) {
    let data = bytes.begin(packet::INTERNED_DATA);
    if let Some(callsite) = callsite {
        callsite.push(bytes);
    }
    for (number, name) in fields {
        push_name(bytes, interned::ANNOTATION_NAMES, *number, name);
    }
    bytes.end(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Viewers end the innermost slice of a track.
    #[test]
    fn an_end_comes_once_for_the_span_and_once_for_each_span_inside_whose_end_was_lost() {
        let mut encoder = Encoder::begin(1, "", &ClockReadings::unknown());
        let mut packets = |kind, id, parent| {
            let record = Record {
                id,
                parent,
                ..Record::new(kind, 1)
            };
            encoder.bytes.0.clear();
            assert!(encoder.record(1, &record, None, Attempt::Last));
            encoder.bytes.0.clone()
        };
        packets(Kind::AsyncBegin, 1, 0);
        packets(Kind::AsyncBegin, 2, 1);
        packets(Kind::AsyncBegin, 3, 2);
        let ends = packets(Kind::AsyncEnd, 1, 0);
        let mut end = Bytes::default();
        end.number(event::TYPE, event::SLICE_END);
        assert_eq!(ends.windows(2).filter(|bytes| *bytes == end.0).count(), 3);
    }
}
