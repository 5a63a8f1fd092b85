//! The management messages of IEEE 1588-2019, clause 15: a question, and the parts of an answer.

/// The length of a request: the header, the target, and a TLV without data.
pub(super) const REQUEST_BYTES: usize = 54;

/// The place of the TLV in a message.
pub(super) const TLV_AT: usize = 48;

/// A big-endian number of 16 bits.
pub(super) fn half(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// A big-endian number of 64 bits.
pub(super) fn long(data: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// The domain and the transport of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) domain: u8,
    pub(super) transport: u8,
}

/// A GET of this management id, whose number is the id itself: each question is asked once.
pub(super) fn request(header: Header, id: u16) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let mut put = |at: usize, field: &[u8]| {
        for (byte, value) in bytes.iter_mut().skip(at).zip(field) {
            *byte = *value;
        }
    };
    // A management message of version 2, and its length.
    put(0, &[header.transport << 4 | 0xD, 2, 0, 54, header.domain]);
    // The asking port must not be ptp4l's own; this one is no clock's.
    put(20, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
    put(30, &id.to_be_bytes());
    // The control field, and the interval, of a management message; then the target: all clocks.
    put(32, &[4, 0x7F]);
    put(34, &[0xFF; 10]);
    // No boundary hops, GET; the TLV: a management TLV whose data are the id alone.
    put(TLV_AT, &[0, 1, 0, 2]);
    put(TLV_AT + 4, &id.to_be_bytes());
    bytes
}

/// The header, the id and the data of an answer to the question with this id. `None` if it is
/// something else, or shorter than it says.
pub(super) fn parse(message: &[u8], id: u16) -> Option<(Header, u16, &[u8])> {
    /// A RESPONSE to a GET, and the type of a management TLV.
    const RESPONSE: u8 = 2;
    const MANAGEMENT_TLV: u16 = 1;
    let message = message.get(..usize::from(half(message, 2)?))?;
    let first = message.first()?;
    let version = message.get(1)?;
    let is_management = first & 0xF == 0xD && version & 0xF == 2;
    let is_answer = half(message, 30)? == id && message.get(46)? & 0xF == RESPONSE;
    let is_data = half(message, TLV_AT)? == MANAGEMENT_TLV && half(message, TLV_AT + 4)? == id;
    if !is_management || !is_answer || !is_data {
        return None;
    }
    let length = usize::from(half(message, TLV_AT + 2)?);
    let data = message.get(TLV_AT + 6..(TLV_AT + 4).checked_add(length)?)?;
    let header = Header {
        domain: *message.get(4)?,
        transport: first >> 4,
    };
    Some((header, id, data))
}
