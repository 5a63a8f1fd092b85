//! Reads a trace in Perfetto's format as its viewer does: by types that were generated from
//! Perfetto's own schema, sequence by sequence, track by track.

#![allow(
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "a test fails by it; each test uses a part"
)]

#[allow(clippy::all, clippy::pedantic, missing_docs, reason = "it is generated")]
#[rustfmt::skip]
mod schema;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use prost::Message;
pub use schema::counter_descriptor::Unit;
use schema::trace_packet::{Data, OptionalTrustedPacketSequenceId};
use schema::track_descriptor::StaticOrDynamicName;
use schema::track_event::{CounterValueField, NameField, SourceLocationField, Type};
use schema::{ClockSnapshot, DebugAnnotation, InternedData, Trace, TracePacket, TrackDescriptor};
use schema::{TrackEvent, debug_annotation};
use serde_json::{Map, Value, json};

/// The clock of a sequence, whose times are differences.
const OF_SEQUENCE: u32 = 64;
const MONOTONIC: u32 = 3;

const CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

/// What a viewer shows.
#[derive(Debug, Default)]
pub struct View {
    pub slices: Vec<Slice>,
    /// Slices that did not end.
    pub open: Vec<Slice>,
    pub instants: Vec<Slice>,
    /// Track, time and value.
    pub counters: Vec<(u64, u64, f64)>,
    pub tracks: BTreeMap<u64, Track>,
    /// For each snapshot: the times of its clocks, ns, by number.
    pub clocks: Vec<BTreeMap<u32, u64>>,
    pub primary_clock: Option<i32>,
    pub packets: usize,
    pub compressed_packets: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    pub name: String,
    pub category: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub args: Value,
    pub source: Option<String>,
    pub track: u64,
    pub flows: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track {
    pub name: String,
    pub parent: Option<u64>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub is_counter: bool,
    /// The unit of a counter.
    pub unit: Option<Unit>,
}

#[derive(Default)]
struct Sequence {
    is_valid: bool,
    default_clock: u32,
    default_track: u64,
    last_ns: u64,
    names: HashMap<u64, String>,
    categories: HashMap<u64, String>,
    annotation_names: HashMap<u64, String>,
    locations: HashMap<u64, String>,
}

impl View {
    /// The content of a trace. Asserts that the schema knows all of it.
    pub fn of(bytes: &[u8]) -> Self {
        let trace = Trace::decode(bytes).expect("a trace");
        assert_eq!(
            trace.encoded_len(),
            bytes.len(),
            "the schema knows all fields"
        );
        Self::of_trace(trace)
    }

    /// The content of a trace that may lack its end.
    pub fn of_truncated(bytes: &[u8]) -> Self {
        Self::of(&bytes[..whole(bytes)])
    }

    fn of_trace(trace: Trace) -> Self {
        let mut view = Self::default();
        let mut sequences = HashMap::new();
        // Events by time; those of the same time stay in order.
        let mut events = Vec::new();
        view.take(trace, &mut sequences, &mut events);
        events.sort_by_key(|event: &Event| event.ns);
        let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
        for event in events {
            let stack = open.entry(event.slice.track).or_default();
            match event.kind {
                Type::SliceBegin => stack.push(event.slice),
                Type::SliceEnd => {
                    let mut slice = stack.pop().expect("an end has a beginning");
                    slice.end_ns = event.ns;
                    let args = event.slice.args.as_object().unwrap().clone();
                    slice.args.as_object_mut().unwrap().extend(args);
                    slice.flows.extend(event.slice.flows);
                    view.slices.push(slice);
                }
                Type::Instant => view.instants.push(event.slice),
                Type::Counter => view
                    .counters
                    .push((event.slice.track, event.ns, event.value)),
                Type::Unspecified => panic!("an event has a type"),
            }
        }
        view.open = open.into_values().flatten().collect();
        for (uuid, track) in &view.tracks {
            let parent = track.parent.map(|parent| view.tracks.contains_key(&parent));
            assert_ne!(parent, Some(false), "the parent of {uuid} is in the trace");
        }
        view
    }

    fn take(
        &mut self,
        trace: Trace,
        sequences: &mut HashMap<u32, Sequence>,
        events: &mut Vec<Event>,
    ) {
        for packet in trace.packet {
            if let Some(Data::CompressedPackets(bytes)) = &packet.data {
                self.compressed_packets += 1;
                let mut packets = Vec::new();
                flate2::read::ZlibDecoder::new(&bytes[..])
                    .read_to_end(&mut packets)
                    .expect("zlib");
                let inside = Trace::decode(&packets[..]).expect("packets");
                assert_eq!(inside.encoded_len(), packets.len());
                self.take(inside, sequences, events);
                continue;
            }
            self.packets += 1;
            self.take_packet(packet, sequences, events);
        }
    }

    fn take_packet(
        &mut self,
        packet: TracePacket,
        sequences: &mut HashMap<u32, Sequence>,
        events: &mut Vec<Event>,
    ) {
        let id = packet.optional_trusted_packet_sequence_id.map_or(
            0,
            |OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(id)| id,
        );
        let flags = packet.sequence_flags.unwrap_or(0);
        if flags & CLEARED != 0 {
            sequences.insert(
                id,
                Sequence {
                    is_valid: true,
                    ..Sequence::default()
                },
            );
        }
        let sequence = sequences.entry(id).or_default();
        assert!(flags & NEEDS_STATE == 0 || sequence.is_valid);
        if let Some(defaults) = packet.trace_packet_defaults {
            sequence.default_clock = defaults.timestamp_clock_id.unwrap_or(0);
            let event_defaults = defaults.track_event_defaults.unwrap_or_default();
            sequence.default_track = event_defaults.track_uuid.unwrap_or(0);
        }
        if let Some(data) = packet.interned_data {
            sequence.intern(data);
        }
        match packet.data {
            Some(Data::ClockSnapshot(snapshot)) => self.take_snapshot(snapshot, sequence),
            Some(Data::TrackDescriptor(track)) => {
                self.tracks.insert(track.uuid.unwrap(), Track::from(track));
            }
            Some(Data::TrackEvent(event)) => {
                assert_eq!(flags, NEEDS_STATE, "{event:?}");
                let timestamp = packet.timestamp.expect("an event has a time");
                let ns = match packet.timestamp_clock_id.unwrap_or(sequence.default_clock) {
                    OF_SEQUENCE => {
                        sequence.last_ns += timestamp;
                        sequence.last_ns
                    }
                    MONOTONIC => timestamp,
                    other => panic!("clock {other}"),
                };
                let event = sequence.event(event, ns);
                assert!(
                    self.tracks.contains_key(&event.slice.track),
                    "the track of {:?} is known",
                    event.slice
                );
                events.push(event);
            }
            other => panic!("{other:?}"),
        }
    }

    fn take_snapshot(&mut self, snapshot: ClockSnapshot, sequence: &mut Sequence) {
        let clocks = snapshot
            .clocks
            .iter()
            .map(|clock| (clock.clock_id.unwrap(), clock.timestamp.unwrap()));
        self.primary_clock = self.primary_clock.or(snapshot.primary_trace_clock);
        for clock in &snapshot.clocks {
            let is_of_sequence = clock.clock_id == Some(OF_SEQUENCE);
            assert_eq!(clock.is_incremental.unwrap_or(false), is_of_sequence);
            if is_of_sequence {
                sequence.last_ns = clock.timestamp.unwrap();
            }
        }
        self.clocks.push(clocks.collect());
    }

    /// The slices with this name: start and end, ns, and arguments.
    pub fn named(&self, name: &str) -> Vec<(u64, u64, Value)> {
        let named = self.slices.iter().filter(|slice| slice.name == name);
        named
            .map(|slice| (slice.start_ns, slice.end_ns, slice.args.clone()))
            .collect()
    }

    /// The names of the track and of those above it.
    pub fn path(&self, mut track: u64) -> Vec<&str> {
        let mut names = Vec::new();
        loop {
            let Track { name, parent, .. } = &self.tracks[&track];
            names.push(&**name);
            match parent {
                Some(parent) => track = *parent,
                None => return names,
            }
        }
    }
}

struct Event {
    kind: Type,
    ns: u64,
    slice: Slice,
    value: f64,
}

impl Sequence {
    fn intern(&mut self, data: InternedData) {
        let text = |text: Option<String>| text.unwrap();
        let entries = data.event_names.into_iter();
        self.names
            .extend(entries.map(|entry| (entry.iid.unwrap(), text(entry.name))));
        let entries = data.event_categories.into_iter();
        self.categories
            .extend(entries.map(|entry| (entry.iid.unwrap(), text(entry.name))));
        let entries = data.debug_annotation_names.into_iter();
        self.annotation_names
            .extend(entries.map(|entry| (entry.iid.unwrap(), text(entry.name))));
        let location = |entry: schema::SourceLocation| {
            let place = format!("{}:{}", text(entry.file_name), entry.line_number.unwrap());
            (entry.iid.unwrap(), place)
        };
        self.locations
            .extend(data.source_locations.into_iter().map(location));
    }

    fn event(&self, event: TrackEvent, ns: u64) -> Event {
        let kind = event.r#type();
        let name = match event.name_field {
            Some(NameField::NameIid(iid)) => self.names[&iid].clone(),
            Some(NameField::Name(name)) => name,
            None => String::new(),
        };
        let category = event.category_iids.first();
        let source = event
            .source_location_field
            .map(|SourceLocationField::SourceLocationIid(iid)| self.locations[&iid].clone());
        let args: Map<_, _> = event
            .debug_annotations
            .into_iter()
            .map(|annotation| self.argument(annotation))
            .collect();
        let value = match event.counter_value_field {
            Some(CounterValueField::CounterValue(value)) => value as f64,
            Some(CounterValueField::DoubleCounterValue(value)) => value,
            None => 0.0,
        };
        let slice = Slice {
            name,
            category: category.map_or_else(String::new, |iid| self.categories[iid].clone()),
            start_ns: ns,
            end_ns: ns,
            args: args.into(),
            source,
            track: event.track_uuid.unwrap_or(self.default_track),
            flows: [event.flow_ids, event.terminating_flow_ids].concat(),
        };
        Event {
            kind,
            ns,
            slice,
            value,
        }
    }

    /// The name and the value of an argument, with its type.
    fn argument(&self, annotation: DebugAnnotation) -> (String, Value) {
        use debug_annotation::Value::{BoolValue, DoubleValue, IntValue, StringValue, UintValue};
        let name = match annotation.name_field {
            Some(debug_annotation::NameField::NameIid(iid)) => self.annotation_names[&iid].clone(),
            Some(debug_annotation::NameField::Name(name)) => name,
            None => panic!("an argument has a name"),
        };
        let value = match annotation.value {
            Some(BoolValue(value)) => json!(value),
            Some(UintValue(value)) => json!(value),
            Some(IntValue(value)) => json!(value),
            Some(DoubleValue(value)) => json!(value),
            Some(StringValue(value)) => json!(value),
            None => panic!("an argument has a value"),
        };
        (name, value)
    }
}

impl From<TrackDescriptor> for Track {
    fn from(track: TrackDescriptor) -> Self {
        let name = track
            .static_or_dynamic_name
            .map(|StaticOrDynamicName::Name(name)| name);
        let process = track.process.as_ref();
        let thread = track.thread.as_ref();
        let of_process = process.and_then(|process| process.process_name.clone());
        let of_thread = thread.and_then(|thread| thread.thread_name.clone());
        Self {
            name: name.or(of_process).or(of_thread).unwrap_or_default(),
            parent: track.parent_uuid,
            pid: process
                .and_then(|process| process.pid)
                .or(thread.and_then(|thread| thread.pid)),
            tid: thread.and_then(|thread| thread.tid),
            is_counter: track.counter.is_some(),
            unit: track.counter.map(|counter| counter.unit()),
        }
    }
}

/// The length of the whole packets at the beginning.
fn whole(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        let before = bytes.len() - rest.len();
        let Ok((1, _)) = prost::encoding::decode_key(&mut rest) else {
            return before;
        };
        match prost::encoding::decode_varint(&mut rest) {
            Ok(len) => match rest.split_at_checked(usize::try_from(len).unwrap()) {
                Some((_, after)) => rest = after,
                None => return before,
            },
            Err(_) => return before,
        }
    }
}
