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

impl Bytes {
    fn varint(&mut self, mut value: u64) {
        while value >= u64::from(SHORT) {
            // The low seven bits, and the mark that more follow.
            self.0.push((value & 0x7F) as u8 | SHORT);
            value >>= 7;
        }
        self.0.push((value & 0x7F) as u8);
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    /// A field of type `uint32`, `uint64`, `bool` or an enumeration.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
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
    pub(super) fn text(&mut self, field: u32, parts: &[&str]) {
        self.tag(field, LENGTH_AND_BYTES);
        self.varint(parts.iter().map(|part| part.len() as u64).sum());
        parts.iter().for_each(|part| self.0.extend(part.as_bytes()));
    }

    #[cfg(feature = "compression")]
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH_AND_BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Begins a message in this message. The fields that are added until [`end`](Self::end) belong
    /// to it.
    pub(super) fn begin(&mut self, field: u32) -> Begun {
        self.tag(field, LENGTH_AND_BYTES);
        self.0.push(0);
        Begun(self.0.len() - 1)
    }

    /// Ends the message, and puts its length before it. Most messages are short; the bytes of a long
    /// one are moved.
    pub(super) fn end(&mut self, begun: Begun) {
        let len = self.0.len() - begun.0 - 1;
        match u8::try_from(len) {
            Ok(len) if len < SHORT => self.0[begun.0] = len,
            _ => {
                let mut length = Self::default();
                length.varint(len as u64);
                self.0.splice(begun.0..=begun.0, length.0);
            }
        }
    }
}

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
