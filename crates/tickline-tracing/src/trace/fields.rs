//! Fields as the members of a JSON object, separated by commas.

use core::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, to_writer};
use tracing_core::Event;
use tracing_core::field::{Field, Visit};

use super::record::{Kind, Record};

/// Names and values of fields. A value replaces an earlier value of the same field. JSON has no
/// infinities and no NaN, so these become null.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    /// Collects the fields that `record` passes to its visitor. Call this before you lock a span's
    /// extensions, because a value's `Debug` may use them.
    pub(crate) fn collect(record: impl FnOnce(&mut dyn Visit)) -> Self {
        let mut fields = Self::default();
        record(&mut fields);
        fields
    }

    fn put(&mut self, name: &'static str, value: Value) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value));
    }

    /// The text of the members.
    pub(crate) fn text(&self) -> String {
        // This capacity suffices for most fields, so the text is rarely copied.
        let mut text = Vec::with_capacity(128);
        for (name, value) in &self.0 {
            if !text.is_empty() {
                text.push(b',');
            }
            // A write to a vector does not fail.
            _ = to_writer(&mut text, name);
            text.push(b':');
            _ = to_writer(&mut text, value);
        }
        String::from_utf8(text).unwrap_or_default()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }
}

/// The text of a span's fields for records.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) members: String,
    /// Set once any thread has recorded further values.
    pub(crate) is_old: OnceLock<()>,
}

/// The fields of a span.
#[derive(Debug, Default)]
pub(crate) struct SpanFields {
    all: Fields,
    /// The fields that were recorded after the span's creation. Viewers merge the members of an end
    /// with the members of its beginning.
    pub(crate) later: Fields,
    /// The text of all fields; `None` if the span has no fields.
    pub(crate) text: Option<Arc<Text>>,
}

impl SpanFields {
    pub(crate) fn new(all: Fields) -> Self {
        let text = Text {
            members: all.text(),
            ..Text::default()
        };
        Self {
            text: Some(Arc::new(text)),
            all,
            later: Fields::default(),
        }
    }

    /// Adds values that were recorded after the span was created.
    pub(crate) fn add(&mut self, values: Fields) {
        for (name, value) in values.0 {
            self.later.put(name, value.clone());
            self.all.put(name, value);
        }
        let text = Text {
            members: self.all.text(),
            ..Text::default()
        };
        if let Some(before) = self.text.replace(Arc::new(text)) {
            _ = before.is_old.set(());
        }
    }
}

/// The separator between the name of an event and its members. JSON escapes a newline in a string,
/// so neither contains the separator.
pub(crate) const AFTER_NAME: char = '\n';

/// The text of an event's record: its name and its members. The name is the message, as a string;
/// without a message, it is the event's source location.
pub(crate) fn event_text(event: &Event<'_>) -> String {
    let mut fields = Fields::collect(|visit| event.record(visit));
    let message = fields.0.iter().position(|(name, _)| *name == "message");
    let name = message.map_or_else(
        || event.metadata().name().into(),
        |index| fields.0.remove(index).1,
    );
    let name = if name.is_string() {
        name
    } else {
        name.to_string().into()
    };
    format!("{name}{AFTER_NAME}{}", fields.text())
}

/// Whether a record's text is valid for its kind. In a file the text may be anything.
pub(crate) fn is_whole(record: &Record<'_>) -> bool {
    let (name, members) = record
        .text
        .split_once(AFTER_NAME)
        .unwrap_or(("", record.text));
    let is_event = record.kind == Kind::Instant;
    let is_named = if is_event {
        serde_json::from_str::<String>(name).is_ok()
    } else {
        name.is_empty()
    };
    is_named && serde_json::from_str::<Value>(&format!("{{{members}}}")).is_ok()
}
