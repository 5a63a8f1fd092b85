//! Reads a trace in Perfetto's format, by types that are generated from its `.proto` files.

use std::collections::HashMap;
use std::path::Path;

use perfetto_protos::debug_annotation::debug_annotation;
use perfetto_protos::trace_packet::{TracePacket, trace_packet};
use perfetto_protos::track_event::track_event;
use protobuf::{CodedInputStream, Message as _};

use crate::{Interval, TraceContents};

/// The id of `CLOCK_MONOTONIC` in a snapshot of the clocks.
const MONOTONIC: u32 = 3;

/// The tag of a packet in a `Trace`: field 1, with its length.
const PACKET_TAG: u32 = 1 << 3 | 2;

/// What a sequence of packets has said before.
#[derive(Default)]
struct Sequence {
    /// The clock of packets without one.
    default_clock: u32,
    default_track: u64,
    /// The sequence's own clocks: the present time, its unit in ns, and whether times are
    /// increments.
    clocks: HashMap<u32, Clock>,
    /// The names of annotations.
    annotations: HashMap<u64, String>,
}

/// A clock of a sequence, and its offset from `CLOCK_MONOTONIC`.
#[derive(Clone, Copy)]
struct Clock {
    now: u64,
    unit_ns: u64,
    is_incremental: bool,
    /// `CLOCK_MONOTONIC` minus the clock's time, ns.
    offset_ns: i64,
}

/// An open slice.
struct Open {
    span: u64,
    begin_ns: u64,
}

/// Reads the slices. On a track they are nested.
pub fn read(path: &Path) -> TraceContents {
    let bytes = std::fs::read(path).expect("the trace's file");
    let mut input = CodedInputStream::from_bytes(&bytes);
    let mut sequences: HashMap<u32, Sequence> = HashMap::new();
    let mut threads: HashMap<u64, bool> = HashMap::new();
    let mut open: HashMap<u64, Vec<Open>> = HashMap::new();
    let mut contents = TraceContents::default();
    // Packet by packet, because a whole `Trace` takes some gigabytes.
    while let Some(tag) = input.read_raw_tag_or_eof().expect("a trace") {
        assert_eq!(tag, PACKET_TAG, "a trace has packets only");
        let bytes = input.read_bytes().expect("a whole packet");
        let packet = &TracePacket::parse_from_bytes(&bytes).expect("a packet");
        let sequence = sequences
            .entry(packet.trusted_packet_sequence_id())
            .or_default();
        sequence.learn(packet);
        match &packet.data {
            Some(trace_packet::Data::TrackDescriptor(track)) => {
                threads.insert(track.uuid(), track.thread.is_some());
            }
            Some(trace_packet::Data::TrackEvent(event)) => {
                let ns = sequence.monotonic_ns(packet);
                let track = event.track_uuid.unwrap_or(sequence.default_track);
                let stack = open.entry(track).or_default();
                match event.type_() {
                    track_event::Type::TYPE_SLICE_BEGIN => {
                        let span = sequence.number(&event.debug_annotations);
                        stack.push(Open { span, begin_ns: ns });
                    }
                    track_event::Type::TYPE_SLICE_END => {
                        let Open { span, begin_ns } = stack.pop().expect("an end has a beginning");
                        let interval = Interval {
                            span,
                            begin_ns,
                            end_ns: ns,
                        };
                        if threads[&track] {
                            contents.busy.push(interval);
                        } else {
                            contents.whole.push(interval);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    contents
}

impl Sequence {
    fn learn(&mut self, packet: &TracePacket) {
        const INCREMENTAL_STATE_CLEARED: u32 = 1;

        if packet.sequence_flags() & INCREMENTAL_STATE_CLEARED != 0 {
            *self = Self::default();
        }
        if let Some(defaults) = packet.trace_packet_defaults.as_ref() {
            self.default_clock = defaults.timestamp_clock_id();
            self.default_track = defaults.track_event_defaults.track_uuid();
        }
        if let Some(interned) = packet.interned_data.as_ref() {
            for name in &interned.debug_annotation_names {
                self.annotations.insert(name.iid(), name.name().to_owned());
            }
        }
        if let Some(trace_packet::Data::ClockSnapshot(snapshot)) = &packet.data {
            let time_of = |id| snapshot.clocks.iter().find(|clock| clock.clock_id() == id);
            let Some(monotonic) = time_of(MONOTONIC) else {
                return;
            };
            for clock in &snapshot.clocks {
                let unit_ns = clock.unit_multiplier_ns.unwrap_or(1);
                let now_ns = clock.timestamp() * unit_ns;
                self.clocks.insert(
                    clock.clock_id(),
                    Clock {
                        now: clock.timestamp(),
                        unit_ns,
                        is_incremental: clock.is_incremental(),
                        offset_ns: monotonic.timestamp().cast_signed() - now_ns.cast_signed(),
                    },
                );
            }
        }
    }

    /// The packet's time, in ns of `CLOCK_MONOTONIC`.
    fn monotonic_ns(&mut self, packet: &TracePacket) -> u64 {
        let id = packet.timestamp_clock_id.unwrap_or(self.default_clock);
        let clock = self
            .clocks
            .get_mut(&id)
            .expect("a snapshot has the packet's clock");
        clock.now = if clock.is_incremental {
            clock.now + packet.timestamp()
        } else {
            packet.timestamp()
        };
        (clock.now * clock.unit_ns)
            .checked_add_signed(clock.offset_ns)
            .expect("after the boot")
    }

    /// The field `number` of a span.
    fn number(&self, annotations: &[perfetto_protos::debug_annotation::DebugAnnotation]) -> u64 {
        let mut numbers = annotations.iter().filter(|annotation| {
            let interned = self.annotations.get(&annotation.name_iid());
            interned.is_some_and(|name| name == "number") || annotation.name() == "number"
        });
        let number = numbers.next().expect("a span's number");
        match number.value {
            Some(debug_annotation::Value::UintValue(value)) => value,
            Some(debug_annotation::Value::IntValue(value)) => value.unsigned_abs(),
            _ => panic!("the number is no number: {number:?}"),
        }
    }
}
