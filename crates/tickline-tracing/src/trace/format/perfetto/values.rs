//! The values of fields and counters in packets.

use std::borrow::Cow;

use super::names::{FieldNumbers, Seen};
use super::proto::{Bytes, annotation, event};
use super::track_event::{NamedField, TrackEvent};
use crate::trace::format::callsite_names::Role;
use crate::trace::rings::encoding::{CUT_MARK, Value, counter};

/// The fields of an event, after they were added to its packet. Counters are not: they get packets
/// of their own.
#[derive(Default)]
pub(super) struct PushedFields<'a> {
    pub(super) has_message: bool,
    has_arguments: bool,
    pub(super) cut_values: u64,
    pub(super) counters: Vec<(&'a str, Value<'a>)>,
    /// The names that the sequence did not have yet.
    pub(super) new_names: Vec<(u64, Cow<'a, str>)>,
}

impl<'a> PushedFields<'a> {
    /// Adds the fields of `event` to its packet. `names` numbers those that are not the callsite's.
    pub(super) fn push(
        event: &TrackEvent<'a>,
        bytes: &mut Bytes,
        names: &mut FieldNumbers,
        known: &mut Seen,
    ) -> Self {
        let mut pushed = Self::default();
        let is_instant = event.kind == event::INSTANT;
        for field in event.fields.clone() {
            let NamedField { name, number, role } = event.named(&field);
            if is_instant
                && role == Role::Counter
                && let Cow::Borrowed(name) = name
                && let Some(name) = counter(name, field.value)
            {
                pushed.counters.push((name, field.value));
                continue;
            }
            pushed.cut_values += u64::from(field.value.is_cut());
            if is_instant && role == Role::Message {
                push_event_name(bytes, field.value);
                pushed.has_message = true;
                continue;
            }
            pushed.has_arguments = true;
            let number = number.unwrap_or_else(|| names.number(&name));
            if known.add(number) {
                pushed.new_names.push((number, name));
            }
            push_annotation(bytes, number, field.value);
        }
        pushed
    }

    /// Whether the event has counters, and nothing else.
    pub(super) fn are_counters(&self) -> bool {
        !self.counters.is_empty() && !self.has_message && !self.has_arguments
    }
}

/// Adds an event's name: the value of its message.
fn push_event_name(bytes: &mut Bytes, message: Value<'_>) {
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
