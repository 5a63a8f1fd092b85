//! Fields as bytes: the format in a ring and in a black box's file.
//!
//! ```text
//! field:  type, name, value
//! type:   one byte: a `Type`, plus `NAME_FOLLOWS` if the name is a text
//! name:   one byte: the index of the field in its callsite, or the length of the text that follows
//! value:  nothing; 8 bytes; or two bytes with a length, and a text of that length
//! ```
//!
//! Numbers are little-endian. Names are indices, so that a thread copies no names. The names
//! themselves are with the callsite's names, in the file too. Some names are texts: the names in
//! the end of an interval, whose record has no callsite, and the names of values for another
//! callsite.
//!
//! Rejected: to format a value directly into the ring. A value's `Debug` may itself create spans
//! and events, whose records would then be inside of the unfinished record.

use core::str;

use crate::layer::user_value::{PANICKED, RETURNED_ERROR};

pub(crate) use crate::layer::user_value::{CUT_MARK, cut};

/// The types of values. The numbers are part of the file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Type {
    False = 0,
    True = 1,
    I64 = 2,
    U64 = 3,
    F64 = 4,
    /// A string, or the text of another value by its `Debug`.
    Text = 5,
    /// The beginning of a longer text.
    CutText = 6,
}

impl Type {
    fn from_number(number: u8) -> Option<Self> {
        use Type::{CutText, F64, False, I64, Text, True, U64};
        let types = [False, True, I64, U64, F64, Text, CutText];
        types.get(usize::from(number)).copied()
    }
}

/// Set in a field's first byte if the field's name is a text.
const NAME_FOLLOWS: u8 = 0x80;

/// The limit of a name that is a text, bytes.
pub(crate) const MAX_NAME: usize = u8::MAX as usize;

/// The limit of a value that is a text, bytes. A record's limit is lower.
pub(crate) const MAX_VALUE: usize = u16::MAX as usize;

/// The name of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldName<'a> {
    /// The index among the fields of the record's callsite.
    Index(u8),
    Text(&'a str),
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Bool(bool),
    I64(i64),
    U64(u64),
    F64(f64),
    /// A string, or the text of another value by its `Debug`.
    Text(&'a str),
    /// The beginning of a text that was too long for the record.
    CutText(&'a str),
}

impl Value<'_> {
    pub(crate) const fn is_cut(&self) -> bool {
        matches!(self, Self::CutText(_))
    }
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Field<'a> {
    pub(crate) name: FieldName<'a>,
    pub(crate) value: Value<'a>,
}

/// The counter that a field of this name and value is: the rest of the name after `counter.`, if
/// the value is a finite number.
pub(crate) fn counter<'a>(name: &'a str, value: Value<'_>) -> Option<&'a str> {
    match value {
        Value::F64(value) if !value.is_finite() => None,
        Value::I64(_) | Value::U64(_) | Value::F64(_) => name.strip_prefix("counter."),
        Value::Bool(_) | Value::Text(_) | Value::CutText(_) => None,
    }
}

/// Whether a byte of UTF-8 begins a character.
const fn is_first_byte(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// Adds the type and the name of a field. The value must follow.
fn push_head(to: &mut Vec<u8>, kind: Type, name: FieldName<'_>) {
    match name {
        FieldName::Index(index) => to.extend([kind as u8, index]),
        FieldName::Text(name) => {
            let name = cut(name, MAX_NAME);
            let len = u8::try_from(name.len()).expect("at most `MAX_NAME`");
            to.extend([kind as u8 | NAME_FOLLOWS, len]);
            to.extend(name.as_bytes());
        }
    }
}

/// Adds a field. Cuts a text of more than [`MAX_VALUE`] bytes.
pub(crate) fn push(to: &mut Vec<u8>, field: Field<'_>) {
    let (kind, number) = match field.value {
        Value::Bool(value) => {
            let kind = if value { Type::True } else { Type::False };
            return push_head(to, kind, field.name);
        }
        Value::I64(value) => (Type::I64, value.cast_unsigned()),
        Value::U64(value) => (Type::U64, value),
        Value::F64(value) => (Type::F64, value.to_bits()),
        Value::Text(text) | Value::CutText(text) => {
            let mut writer = TextWriter::begin(to, field.name, MAX_VALUE);
            writer.push(text);
            writer.is_cut |= matches!(field.value, Value::CutText(_));
            return writer.end();
        }
    };
    push_head(to, kind, field.name);
    to.extend(number.to_le_bytes());
}

/// Adds a field whose value is the text that is written to this.
pub(crate) struct TextWriter<'a> {
    bytes: &'a mut Vec<u8>,
    /// The index of the field's first byte.
    field: usize,
    /// The index of the text's first byte.
    text: usize,
    /// The largest length of `bytes` at the end of the text.
    limit: usize,
    /// Whether the text is longer than the limit.
    is_cut: bool,
}

impl<'a> TextWriter<'a> {
    /// `limit` is the most bytes of the text, and at most [`MAX_VALUE`].
    pub(crate) fn begin(bytes: &'a mut Vec<u8>, name: FieldName<'_>, limit: usize) -> Self {
        let field = bytes.len();
        push_head(bytes, Type::Text, name);
        bytes.extend([0; 2]);
        let text = bytes.len();
        Self {
            bytes,
            field,
            text,
            limit: text + limit.min(MAX_VALUE),
            is_cut: false,
        }
    }

    /// Adds as much of `text` as the limit allows.
    pub(crate) fn push(&mut self, text: &str) {
        if self.is_cut {
            return;
        }
        let fits = cut(text, self.limit - self.bytes.len());
        self.is_cut = fits.len() < text.len();
        self.bytes.extend(fits.as_bytes());
    }

    /// Adds `text` at the end. Without room for it, it takes the place of the last bytes.
    pub(crate) fn push_at_end(&mut self, text: &str) {
        let text = cut(text, self.limit - self.text);
        let mut end = self.limit - text.len();
        if self.bytes.len() > end {
            while !is_first_byte(self.bytes[end]) {
                end -= 1;
            }
            self.bytes.truncate(end);
            self.is_cut = true;
        }
        self.bytes.extend(text.as_bytes());
    }

    /// Ends the text.
    pub(crate) fn end(self) {
        let len = u16::try_from(self.bytes.len() - self.text).expect("at most `MAX_VALUE`");
        self.bytes[self.text - 2..self.text].copy_from_slice(&len.to_le_bytes());
        if self.is_cut {
            self.bytes[self.field] ^= Type::Text as u8 ^ Type::CutText as u8;
        }
    }
}

impl core::fmt::Write for TextWriter<'_> {
    /// Never fails. An error would let a value's `Debug` stop once its text is cut; but code that
    /// unwraps the results of its writes, as works with `format!`, would panic.
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// An iterator over the fields in bytes, which may come from a file, and may be anything. It ends
/// at the first invalid field, and `bytes` is then not empty.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        let ([kind, name], mut rest) = self.bytes.split_first_chunk()?;
        let name = if kind & NAME_FOLLOWS == 0 {
            FieldName::Index(*name)
        } else {
            FieldName::Text(take_text(&mut rest, usize::from(*name))?)
        };
        let kind = Type::from_number(kind & !NAME_FOLLOWS)?;
        let value = match kind {
            Type::False => Value::Bool(false),
            Type::True => Value::Bool(true),
            Type::I64 => Value::I64(i64::from_le_bytes(take(&mut rest)?)),
            Type::U64 => Value::U64(u64::from_le_bytes(take(&mut rest)?)),
            Type::F64 => Value::F64(f64::from_le_bytes(take(&mut rest)?)),
            Type::Text | Type::CutText => {
                let len = u16::from_le_bytes(take(&mut rest)?);
                let text = take_text(&mut rest, usize::from(len))?;
                if kind == Type::CutText {
                    Value::CutText(text)
                } else {
                    Value::Text(text)
                }
            }
        };
        self.bytes = rest;
        Some(Field { name, value })
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

fn take_text<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a str> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    str::from_utf8(taken).ok()
}

/// Whether all bytes are fields, and no index occurs twice. In a file the bytes may be anything; if
/// indices could occur twice, a small file could make a huge trace.
pub(crate) fn are_valid(bytes: &[u8]) -> bool {
    let (mut fields, mut seen) = (Fields { bytes }, [false; 256]);
    for field in &mut fields {
        if let FieldName::Index(index) = field.name
            && core::mem::replace(&mut seen[usize::from(index)], true)
        {
            return false;
        }
    }
    fields.bytes.is_empty()
}

/// Copies `fields` to `to`, at most `limit` bytes. Cuts the longest texts, all to the same length,
/// and no others. If even the names and the numbers are too long, the last fields are left out.
pub(crate) fn push_within(to: &mut Vec<u8>, fields: &[u8], limit: usize) {
    if fields.len() <= limit {
        to.extend(fields);
        return;
    }
    push_cut(to, fields, longest_text_within([fields], limit), limit);
}

/// Copies `fields` to `to`, at most `limit` bytes. Cuts the texts of more than `longest` bytes, but
/// not the reason why a value's `Debug` failed. If even the names and the numbers are too long, the
/// last fields are left out.
pub(crate) fn push_cut(to: &mut Vec<u8>, fields: &[u8], longest: usize, limit: usize) {
    let start = to.len();
    for field in (Fields { bytes: fields }) {
        let end = to.len();
        match field.value {
            Value::Text(text) | Value::CutText(text) if text.len() > longest => {
                let mut writer = TextWriter::begin(to, field.name, longest);
                writer.push(text);
                if let Some(reason) = failure(text) {
                    writer.push_at_end(reason);
                }
                writer.end();
            }
            _ => push(to, field),
        }
        if to.len() - start > limit {
            return to.truncate(end);
        }
    }
}

/// The reason with which a text ends if its value's `Debug` failed.
fn failure(text: &str) -> Option<&'static str> {
    let mut reasons = [RETURNED_ERROR, PANICKED].into_iter();
    reasons.find(|reason| text.ends_with(*reason))
}

/// The length to which the longest texts of all these fields must be cut so that the fields take at
/// most `limit` bytes. It is 0 if even the names and the numbers take more.
pub(crate) fn longest_text_within<'a>(
    all: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> usize {
    let mut lengths: Vec<usize> = Vec::new();
    let mut bytes_in_all = 0;
    for bytes in all {
        bytes_in_all += bytes.len();
        lengths.extend(Fields { bytes }.map(|field| text_of(&field).len()));
    }
    let others = bytes_in_all - lengths.iter().sum::<usize>();
    lengths.sort_unstable();
    longest_text(&lengths, limit.saturating_sub(others))
}

fn text_of<'a>(field: &Field<'a>) -> &'a str {
    match field.value {
        Value::Text(text) | Value::CutText(text) => text,
        _ => "",
    }
}

/// The length to which the longest texts must be cut so that all take `room` bytes. `lengths` are
/// ascending.
fn longest_text(lengths: &[usize], mut room: usize) -> usize {
    for (index, length) in lengths.iter().enumerate() {
        let share = room / (lengths.len() - index);
        if *length > share {
            return share;
        }
        room -= length;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use core::fmt::Write as _;

    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any};
    use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    /// A field that owns its texts.
    #[derive(Debug, Clone)]
    struct Owned {
        name: Result<u8, String>,
        value: OwnedValue,
    }

    #[derive(Debug, Clone)]
    enum OwnedValue {
        Number(Value<'static>),
        Text(String),
        CutText(String),
    }

    impl Owned {
        fn field(&self) -> Field<'_> {
            Field {
                name: match &self.name {
                    Ok(index) => FieldName::Index(*index),
                    Err(name) => FieldName::Text(name),
                },
                value: match &self.value {
                    OwnedValue::Number(number) => *number,
                    OwnedValue::Text(text) => Value::Text(text),
                    OwnedValue::CutText(text) => Value::CutText(text),
                },
            }
        }
    }

    fn fields() -> impl Strategy<Value = Vec<Owned>> {
        let name = prop_oneof![any::<u8>().prop_map(Ok), "[a-zü]{0,9}".prop_map(Err)];
        let number = prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::I64),
            any::<u64>().prop_map(Value::U64),
            Just(Value::F64(-0.5)),
        ];
        let value = prop_oneof![
            number.prop_map(OwnedValue::Number),
            "[a-zü]{0,300}".prop_map(OwnedValue::Text),
            "[a-zü]{0,300}".prop_map(OwnedValue::CutText),
        ];
        let owned = |(name, value)| Owned { name, value };
        vec((name, value).prop_map(owned), 0..8)
    }

    fn encoded(fields: &[Owned]) -> Vec<u8> {
        let mut bytes = Vec::new();
        fields
            .iter()
            .for_each(|field| push(&mut bytes, field.field()));
        bytes
    }

    proptest! {
        #[test]
        fn fields_are_decoded_as_they_were_encoded(fields in fields()) {
            let bytes = encoded(&fields);
            let mut decoded = Fields { bytes: &bytes };
            prop_assert!((&mut decoded).eq(fields.iter().map(Owned::field)));
            prop_assert!(decoded.bytes.is_empty());
        }

        /// Fields within a limit: in order, none but texts changed, and texts only if they are
        /// longer than all others afterwards.
        #[test]
        fn only_the_longest_texts_are_cut(fields in fields(), limit in 200..1_000_usize) {
            let (bytes, mut within) = (encoded(&fields), Vec::new());
            push_within(&mut within, &bytes, limit);
            prop_assert!(within.len() <= limit);
            let after: Vec<_> = Fields { bytes: &within }.collect();
            prop_assert_eq!(after.len(), fields.len());
            let is_cut = |(field, after): &(Field<'_>, &Field<'_>)| text_of(field) != text_of(after);
            let pairs = || fields.iter().map(Owned::field).zip(&after);
            let longest = after.iter().map(|field| text_of(field).len()).max().unwrap_or(0);
            for (field, after) in pairs().filter(is_cut) {
                prop_assert!(text_of(&field).starts_with(text_of(after)));
                prop_assert!(matches!(after.value, Value::CutText(_)));
                // A character has at most two bytes here.
                prop_assert!(text_of(after).len() + 1 >= longest);
            }
            prop_assert!(bytes.len() > limit || within == bytes);
        }

        #[test]
        fn damaged_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..40)) {
            let decoded = Fields { bytes: &bytes }.count();
            prop_assert!(decoded <= bytes.len() / 2);
        }
    }

    /// Symptom: a `Debug` that unwraps the results of its writes, which `format!` never fails,
    /// panicked if its text was cut.
    #[test]
    fn a_write_does_not_fail_if_its_text_is_cut() {
        let mut bytes = Vec::new();
        let mut writer = TextWriter::begin(&mut bytes, FieldName::Index(0), 4);
        assert_eq!(write!(writer, "{}{}", "12345", 6), Ok(()));
        writer.end();
        let value = Fields { bytes: &bytes }.next().map(|field| field.value);
        assert_eq!(value, Some(Value::CutText("1234")));
    }

    #[test]
    fn the_last_text_takes_the_place_of_the_bytes_before_if_there_is_no_room() {
        let cases = [
            ("123", Value::Text("123ab")),
            ("1234", Value::CutText("123ab")),
            ("12ü", Value::CutText("12ab")),
        ];
        for (before, expected) in cases {
            let mut bytes = Vec::new();
            let mut writer = TextWriter::begin(&mut bytes, FieldName::Index(0), 5);
            writer.push(before);
            writer.push_at_end("ab");
            writer.end();
            let value = Fields { bytes: &bytes }.next().map(|field| field.value);
            assert_eq!(value, Some(expected));
        }
    }

    #[test]
    fn bytes_with_an_index_twice_are_not_valid() {
        let field = |index| Field {
            name: FieldName::Index(index),
            value: Value::Bool(true),
        };
        let bytes = |second| {
            let mut bytes = Vec::new();
            push(&mut bytes, field(1));
            push(&mut bytes, field(second));
            bytes
        };
        assert!(are_valid(&bytes(2)) && !are_valid(&bytes(1)));
    }

    #[test]
    fn bytes_that_end_inside_a_field_are_not_valid() {
        let mut bytes = Vec::new();
        let value = Value::Text("text");
        let name = FieldName::Index(0);
        push(&mut bytes, Field { name, value });
        assert!(are_valid(&bytes));
        assert!((1..bytes.len()).all(|len| !are_valid(&bytes[..len])));
    }

    #[test]
    fn fields_without_texts_that_are_too_long_lose_the_last_ones() {
        let (mut bytes, mut within) = (Vec::new(), Vec::new());
        for index in 0..4 {
            let (name, value) = (FieldName::Index(index), Value::U64(7));
            push(&mut bytes, Field { name, value });
        }
        push_within(&mut within, &bytes, 25);
        assert_eq!(within, bytes[..20]);
    }
}
