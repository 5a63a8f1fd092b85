//! The values of fields and counters in packets.

use super::proto::{Bytes, annotation, event};
use crate::trace::rings::encoding::{CUT_MARK, Value};

/// Adds an event's name: the value of its message.
pub(super) fn push_event_name(bytes: &mut Bytes, message: Value<'_>) {
    match message {
        Value::Text(text) => bytes.text(event::NAME, &[text]),
        Value::CutText(text) => bytes.text(event::NAME, &[text, CUT_MARK]),
        Value::Bool(value) => bytes.text(event::NAME, &[&value.to_string()]),
        Value::I64(value) => bytes.text(event::NAME, &[&value.to_string()]),
        Value::U64(value) => bytes.text(event::NAME, &[&value.to_string()]),
        Value::F64(value) => bytes.text(event::NAME, &[&value.to_string()]),
    }
}

/// The nearest number that the format has for a counter above `i64::MAX`.
#[expect(clippy::cast_precision_loss, reason = "it is the nearest")]
pub(super) const fn nearest(value: u64) -> f64 {
    value as f64
}

/// Adds an annotation.
#[inline]
pub(super) fn push_annotation(bytes: &mut Bytes, name: u64, value: Value<'_>) {
    match value {
        Value::Bool(value) => return bytes.annotation(name, annotation::BOOL, value.into()),
        Value::I64(value) => return bytes.annotation(name, annotation::INT, value.cast_unsigned()),
        Value::U64(value) => return bytes.annotation(name, annotation::UINT, value),
        Value::F64(_) | Value::Text(_) | Value::CutText(_) => {}
    }
    let begun = bytes.begin(event::DEBUG_ANNOTATIONS);
    bytes.number(annotation::NAME_IID, name);
    match value {
        Value::F64(value) => bytes.double(annotation::DOUBLE, value),
        Value::Text(text) => bytes.text(annotation::STRING, &[text]),
        Value::CutText(text) => bytes.text(annotation::STRING, &[text, CUT_MARK]),
        Value::Bool(_) | Value::I64(_) | Value::U64(_) => {}
    }
    bytes.end(begun);
}
