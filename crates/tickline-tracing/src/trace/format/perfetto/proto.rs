//! The wire format of Protocol Buffers, as far as a trace needs it, and the numbers of the fields.
//!
//! Rejected: `prost` with generated types. It builds a tree of messages with allocated names and
//! lists for each event, and determines the length of each message before it writes it, where this
//! format needs about eight small numbers. The writer's thread should take less time for an event
//! than the program's thread. A test decodes the traces by Perfetto's own schema.

/// The bytes of a message, to which fields are added.
#[derive(Debug, Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

/// A message that was begun: the index of its length.
#[must_use]
pub(super) struct Begun(usize);

// The wire types.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH_AND_BYTES: u64 = 2;

/// The limit of a length that takes one byte.
const SHORT: u8 = 0x80;

/// The largest length of a number.
const MAX_VARINT: usize = 10;

/// Writes a number to the first bytes of `to`, and returns its length.
///
/// The bytes of a larger number are made at once: the lengths of times change from event to event,
/// so the CPU would mispredict the end of a loop over the bytes.
#[inline]
fn write_varint(to: &mut [u8], value: u64) -> usize {
    let to: &mut [u8; MAX_VARINT] = to.first_chunk_mut().expect("room for any number");
    if value < u64::from(SHORT) {
        to[0] = (value & 0x7F) as u8;
        return 1;
    }
    // BOUND: 8 bytes have 8 * 7 bits.
    if value >= 1 << 56 {
        return write_longest_varint(to, value);
    }
    // Moves each group of 7 bits to a byte of its own: halves of 28 bits to 4 bytes each, then
    // their halves of 14 bits, then the groups.
    let halves = value & 0x0FFF_FFFF | (value & 0x00FF_FFFF_F000_0000) << 4;
    let pairs = halves & 0x0000_3FFF_0000_3FFF | (halves & 0x0FFF_C000_0FFF_C000) << 2;
    let bytes = pairs & 0x007F_007F_007F_007F | (pairs & 0x3F80_3F80_3F80_3F80) << 1;
    let len = value.ilog2() / 7 + 1;
    // The mark in each byte but the last that more follow.
    let more = 0x8080_8080_8080_8080 & ((1 << (8 * (len - 1))) - 1);
    to[..8].copy_from_slice(&(bytes | more).to_le_bytes());
    len as usize
}

/// A number of 9 or 10 bytes.
#[cold]
fn write_longest_varint(to: &mut [u8; MAX_VARINT], mut value: u64) -> usize {
    let mut len = 0;
    // BOUND: ten times seven bits are more than 64.
    while value >= u64::from(SHORT) && len < MAX_VARINT - 1 {
        // The low seven bits, and the mark that more follow.
        to[len] = (value & 0x7F) as u8 | SHORT;
        value >>= 7;
        len += 1;
    }
    to[len] = (value & 0x7F) as u8;
    len + 1
}

/// The part of a packet that is the same in all packets of a sequence. It follows the time.
#[derive(Debug)]
pub(super) struct SequenceHead(Head<16>);

impl SequenceHead {
    pub(super) fn new(sequence: u64) -> Self {
        let mut bytes = Bytes::default();
        bytes.number(packet::SEQUENCE_ID, sequence);
        bytes.number(packet::SEQUENCE_FLAGS, packet::NEEDS_STATE);
        Self(Head::new(&bytes))
    }
}

/// The beginning of an event: the fields that all events of one type and callsite have.
#[derive(Debug)]
pub(super) struct EventHead(Head<32>);

impl EventHead {
    /// An event without a callsite.
    pub(super) const fn of_type(kind: u64) -> Self {
        let mut bytes = [0; 32];
        [bytes[0], bytes[2], bytes[3]] = [TAG_OF_EVENT, TAG_OF_TYPE, (kind & 0x7F) as u8];
        Self(Head { bytes, len: 4 })
    }

    /// The fields are numbers. Those that may take more than a byte count callsites.
    pub(super) fn new(fields: &[(u32, u64)]) -> Self {
        let mut bytes = Bytes::default();
        // The length follows later.
        _ = bytes.begin(packet::TRACK_EVENT);
        for (field, value) in fields {
            bytes.number(*field, *value);
        }
        Self(Head::new(&bytes))
    }
}

/// At most `N` bytes, which are copied together with the rest, because this takes one instruction.
#[derive(Debug)]
struct Head<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Head<N> {
    fn new(of: &Bytes) -> Self {
        let (mut bytes, len) = ([0; N], of.0.len());
        bytes[..len].copy_from_slice(&of.0);
        Self { bytes, len }
    }

    /// Writes the bytes to `to`, and returns their number.
    #[inline]
    fn write(&self, to: &mut [u8]) -> usize {
        to[..N].copy_from_slice(&self.bytes);
        self.len
    }
}

/// A length below [`SHORT`] as a byte.
const fn low_bits(len: usize) -> u8 {
    (len as u64 & 0x7F) as u8
}

/// The tag of a message, and its length, which follows later.
const MESSAGE_HEAD: usize = 2;

/// The index of a packet's time, after its tag.
const TIME: usize = MESSAGE_HEAD + 1;

/// The room for a packet with an event that has no fields but the ones in its head and its track.
const EVENT_ROOM: usize = TIME + MAX_VARINT + 16 + 32 + 1 + MAX_VARINT;

impl Bytes {
    /// Begins a packet with an event, `since_ns` after the packet before. The event is on the
    /// default track of the sequence, or on `track`.
    #[inline]
    pub(super) fn begin_event(
        &mut self,
        since_ns: u64,
        sequence: &SequenceHead,
        event: &EventHead,
        track: Option<u64>,
    ) -> [Begun; 2] {
        let start = self.0.len();
        // All is written to its place at once: an addition to a `Vec` changes its length each time.
        self.0.extend_from_slice(&[0; EVENT_ROOM]);
        let room = &mut self.0[start..];
        room[0] = TAG_OF_PACKET;
        room[MESSAGE_HEAD] = TAG_OF_TIMESTAMP;
        let mut len = TIME + write_varint(&mut room[TIME..], since_ns);
        len += sequence.0.write(&mut room[len..]);
        let begun = [Begun(start + 1), Begun(start + len + 1)];
        len += event.0.write(&mut room[len..]);
        if let Some(track) = track {
            room[len] = TAG_OF_TRACK;
            len += 1 + write_varint(&mut room[len + 1..], track);
        }
        self.0.truncate(start + len);
        begun
    }

    /// Adds a packet with an event that has no fields but the ones in its head and its track.
    #[inline]
    pub(super) fn event(
        &mut self,
        since_ns: u64,
        sequence: &SequenceHead,
        event: &EventHead,
        track: Option<u64>,
    ) {
        let [packet, event] = self.begin_event(since_ns, sequence, event, track);
        self.end(event);
        self.end(packet);
    }

    /// Begins the packet of a track below another, and its description.
    #[inline]
    pub(super) fn begin_track(&mut self, uuid: u64, above: u64) -> [Begun; 2] {
        const HEAD: [u8; 7] = [
            TAG_OF_PACKET,
            0,
            TAG_OF_SEQUENCE,
            1,
            TAG_OF_DESCRIPTOR[0],
            TAG_OF_DESCRIPTOR[1],
            0,
        ];
        let start = self.0.len();
        self.0.extend_from_slice(&HEAD);
        self.0.extend_from_slice(&[0; 2 * (1 + MAX_VARINT)]);
        let room = &mut self.0[start + HEAD.len()..];
        room[0] = TAG_OF_UUID;
        let mut len = 1 + write_varint(&mut room[1..], uuid);
        room[len] = TAG_OF_PARENT;
        len += 1 + write_varint(&mut room[len + 1..], above);
        let begun = [Begun(start + 1), Begun(start + HEAD.len() - 1)];
        self.0.truncate(start + HEAD.len() + len);
        begun
    }

    /// Adds an annotation with a number.
    #[inline]
    pub(super) fn annotation(&mut self, name: u64, field: u32, value: u64) {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 4 + 2 * MAX_VARINT]);
        let room = &mut self.0[start..];
        room[0] = TAG_OF_ANNOTATION;
        room[2] = TAG_OF_NAME;
        let mut len = 3 + write_varint(&mut room[3..], name);
        // BOUND: an annotation's fields have small numbers.
        room[len] = short_tag(field, VARINT);
        len += 1 + write_varint(&mut room[len + 1..], value);
        // BOUND: `MESSAGE_HEAD` + 2 * (1 + `MAX_VARINT`) < `SHORT`.
        room[1] = low_bits(len - MESSAGE_HEAD);
        self.0.truncate(start + len);
    }

    /// Begins a packet with an event at `ns`, before the packet before. The clock of a sequence has
    /// no negative differences. A record is rarely from before the last one: a mark, or a span that
    /// another layer has closed.
    #[cold]
    pub(super) fn begin_earlier_event(
        &mut self,
        ns: u64,
        sequence: &SequenceHead,
        event: &EventHead,
        track: Option<u64>,
    ) -> [Begun; 2] {
        let packet = self.begin(trace::PACKET);
        self.number(packet::TIMESTAMP, ns);
        self.number(packet::TIMESTAMP_CLOCK_ID, clocks::MONOTONIC);
        self.0
            .extend_from_slice(&sequence.0.bytes[..sequence.0.len]);
        let begun = Begun(self.0.len() + 1);
        self.0.extend_from_slice(&event.0.bytes[..event.0.len]);
        if let Some(track) = track {
            self.number(event::TRACK_UUID, track);
        }
        [packet, begun]
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        match u8::try_from(value) {
            Ok(value) if value < SHORT => self.0.push(value),
            _ => self.long_varint(value),
        }
    }

    fn long_varint(&mut self, value: u64) {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; MAX_VARINT]);
        let len = write_varint(&mut self.0[start..], value);
        self.0.truncate(start + len);
    }

    #[inline]
    fn tag(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    /// A field of type `uint32`, `uint64`, `bool` or an enumeration.
    #[inline]
    pub(super) fn number(&mut self, field: u32, value: u64) {
        // Most take two bytes, which are added at once.
        match (u8::try_from(field << 3), u8::try_from(value)) {
            (Ok(tag), Ok(value)) if tag < SHORT && value < SHORT => {
                self.0.extend_from_slice(&[tag, value]);
            }
            _ => {
                self.tag(field, VARINT);
                self.varint(value);
            }
        }
    }

    /// A field of type `int64`.
    pub(super) fn signed(&mut self, field: u32, value: i64) {
        self.number(field, value.cast_unsigned());
    }

    /// A field of type `fixed64`.
    pub(super) fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, EIGHT_BYTES);
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// A field of type `string` or `bytes`, in parts.
    #[inline]
    pub(super) fn text(&mut self, field: u32, parts: &[&str]) {
        self.tag(field, LENGTH_AND_BYTES);
        self.varint(parts.iter().map(|part| part.len() as u64).sum());
        for part in parts {
            self.0.extend_from_slice(part.as_bytes());
        }
    }

    #[cfg(feature = "compression")]
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH_AND_BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Begins a message in this message. The fields that are added until [`end`](Self::end) belong
    /// to it.
    #[inline]
    pub(super) fn begin(&mut self, field: u32) -> Begun {
        self.tag(field, LENGTH_AND_BYTES);
        self.0.push(0);
        Begun(self.0.len() - 1)
    }

    /// Ends the message, and puts its length before it. Most messages are short; the bytes of a
    /// long one are moved.
    #[inline]
    pub(super) fn end(&mut self, begun: Begun) {
        let len = self.0.len() - begun.0 - 1;
        match u8::try_from(len) {
            Ok(short) if short < SHORT => self.0[begun.0] = short,
            _ => self.end_long(begun, len as u64),
        }
    }

    #[cold]
    fn end_long(&mut self, begun: Begun, len: u64) {
        let mut length = Self::default();
        length.varint(len);
        self.0.splice(begun.0..=begun.0, length.0);
    }
}

/// A tag that takes one byte.
const fn short_tag(field: u32, wire_type: u64) -> u8 {
    let tag = (field as u64) << 3 | wire_type;
    assert!(tag < SHORT as u64);
    (tag & 0x7F) as u8
}

const TAG_OF_PACKET: u8 = short_tag(trace::PACKET, LENGTH_AND_BYTES);
const TAG_OF_TIMESTAMP: u8 = short_tag(packet::TIMESTAMP, VARINT);
const TAG_OF_EVENT: u8 = short_tag(packet::TRACK_EVENT, LENGTH_AND_BYTES);
const TAG_OF_TYPE: u8 = short_tag(event::TYPE, VARINT);
const TAG_OF_TRACK: u8 = short_tag(event::TRACK_UUID, VARINT);
const TAG_OF_SEQUENCE: u8 = short_tag(packet::SEQUENCE_ID, VARINT);
const TAG_OF_ANNOTATION: u8 = short_tag(event::DEBUG_ANNOTATIONS, LENGTH_AND_BYTES);
const TAG_OF_NAME: u8 = short_tag(annotation::NAME_IID, VARINT);
/// The tag of [`packet::TRACK_DESCRIPTOR`], which takes two bytes.
const TAG_OF_DESCRIPTOR: [u8; 2] = {
    let tag = (packet::TRACK_DESCRIPTOR as u64) << 3 | LENGTH_AND_BYTES;
    [(tag & 0x7F) as u8 | SHORT, (tag >> 7 & 0x7F) as u8]
};
const TAG_OF_UUID: u8 = short_tag(track::UUID, VARINT);
const TAG_OF_PARENT: u8 = short_tag(track::PARENT_UUID, VARINT);

pub(super) mod trace {
    pub(crate) const PACKET: u32 = 1;
}

pub(super) mod packet {
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE_ID: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED_DATA: u32 = 12;
    pub(crate) const SEQUENCE_FLAGS: u32 = 13;
    #[cfg(feature = "compression")]
    pub(crate) const COMPRESSED_PACKETS: u32 = 50;
    pub(crate) const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub(crate) const DEFAULTS: u32 = 59;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    pub(crate) const FIRST_PACKET_ON_SEQUENCE: u32 = 87;

    /// Values of `SEQUENCE_FLAGS`.
    pub(crate) const STATE_CLEARED: u64 = 1;
    pub(crate) const NEEDS_STATE: u64 = 2;
}

pub(super) mod defaults {
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const TIMESTAMP_CLOCK_ID: u32 = 58;
}

pub(super) mod clocks {
    pub(crate) const CLOCKS: u32 = 1;
    pub(crate) const PRIMARY: u32 = 2;
    pub(crate) const ID: u32 = 1;
    pub(crate) const TIMESTAMP: u32 = 2;
    pub(crate) const IS_INCREMENTAL: u32 = 3;

    pub(crate) const REALTIME: u64 = 1;
    pub(crate) const MONOTONIC: u64 = 3;
    pub(crate) const BOOTTIME: u64 = 6;
    /// The clock of a sequence, whose times are differences. Each sequence has its own.
    pub(crate) const OF_SEQUENCE: u64 = 64;
    /// A clock of the whole trace that the schema does not name.
    pub(crate) const UTC: u64 = 128;
}

pub(super) mod track {
    pub(crate) const UUID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const PROCESS: u32 = 3;
    pub(crate) const THREAD: u32 = 4;
    pub(crate) const PARENT_UUID: u32 = 5;
    pub(crate) const COUNTER: u32 = 8;

    /// In `PROCESS` and in `THREAD`.
    pub(crate) const PID: u32 = 1;
    pub(crate) const PROCESS_NAME: u32 = 6;
    pub(crate) const TID: u32 = 2;
    pub(crate) const THREAD_NAME: u32 = 5;

    /// In `COUNTER`, and its values.
    pub(crate) const UNIT: u32 = 3;
    pub(crate) const NO_UNIT: u64 = 0;
    pub(crate) const NANOSECONDS: u64 = 1;
}

pub(super) mod event {
    pub(crate) const CATEGORY_IIDS: u32 = 3;
    pub(crate) const DEBUG_ANNOTATIONS: u32 = 4;
    pub(crate) const TYPE: u32 = 9;
    pub(crate) const NAME_IID: u32 = 10;
    pub(crate) const TRACK_UUID: u32 = 11;
    pub(crate) const NAME: u32 = 23;
    pub(crate) const COUNTER_VALUE: u32 = 30;
    pub(crate) const SOURCE_LOCATION_IID: u32 = 34;
    pub(crate) const DOUBLE_COUNTER_VALUE: u32 = 44;
    pub(crate) const FLOW_IDS: u32 = 47;
    pub(crate) const TERMINATING_FLOW_IDS: u32 = 48;

    /// Values of `TYPE`.
    pub(crate) const SLICE_BEGIN: u64 = 1;
    pub(crate) const SLICE_END: u64 = 2;
    pub(crate) const INSTANT: u64 = 3;
    pub(crate) const COUNTER: u64 = 4;
}

pub(super) mod annotation {
    pub(crate) const NAME_IID: u32 = 1;
    pub(crate) const BOOL: u32 = 2;
    pub(crate) const UINT: u32 = 3;
    pub(crate) const INT: u32 = 4;
    pub(crate) const DOUBLE: u32 = 5;
    pub(crate) const STRING: u32 = 6;
    pub(crate) const NAME: u32 = 10;
}

pub(super) mod interned {
    pub(crate) const CATEGORIES: u32 = 1;
    pub(crate) const EVENT_NAMES: u32 = 2;
    pub(crate) const ANNOTATION_NAMES: u32 = 3;
    pub(crate) const SOURCE_LOCATIONS: u32 = 4;

    /// In each of these.
    pub(crate) const IID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    /// In a source location, whose `NAME` is the file.
    pub(crate) const LINE: u32 = 4;
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn a_number_of_any_length_is_written_as_by_the_loop(value: u64, bits in 0..64_u32) {
            let value = value >> bits;
            let [mut bytes, mut expected] = [[0; MAX_VARINT]; 2];
            let len = write_varint(&mut bytes, value);
            prop_assert_eq!(len, write_longest_varint(&mut expected, value));
            prop_assert_eq!(&bytes[..len], &expected[..len]);
        }
    }

    #[test]
    fn a_number_takes_a_byte_more_from_each_power_of_128() {
        for len in 1..=9_u32 {
            let first = 1_u64 << (7 * len);
            let mut bytes = [0; MAX_VARINT];
            assert_eq!(write_varint(&mut bytes, first - 1), len as usize);
            assert_eq!(write_varint(&mut bytes, first), len as usize + 1);
        }
    }
}
