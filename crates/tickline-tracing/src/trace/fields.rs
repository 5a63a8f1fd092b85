//! Fields as members of a JSON object, with commas between them.

use core::fmt;
use std::sync::Arc;

use serde_json::{Value, to_string};
use tracing_core::Event;
use tracing_core::field::{Field, Visit};

use super::record::{Kind, Record};

/// The extension that keeps a span's fields until it is closed, for all recorders.
#[derive(Debug, Default)]
pub(crate) struct SpanFields {
    members: Vec<Member>,
    /// All members in one text, as records store them.
    text: Arc<str>,
}

/// A field of a span.
#[derive(Debug)]
pub(crate) struct Member {
    name: &'static str,
    /// As JSON.
    value: String,
    /// Whether the value was recorded after the span was created.
    is_later: bool,
}

/// The fields that `record` passes on. They are formatted while no extensions are locked: a value's
/// `Debug` may use them.
pub(crate) fn members(is_later: bool, record: impl FnOnce(&mut dyn Visit)) -> Vec<Member> {
    let mut members = Vec::new();
    record(&mut EachField(|name, value| {
        members.push(Member { name, value, is_later });
    }));
    members
}

impl SpanFields {
    /// Adds values, or replaces those of the same fields.
    pub(crate) fn add(&mut self, members: Vec<Member>) {
        for member in members {
            match self.members.iter_mut().find(|known| known.name == member.name) {
                Some(known) => *known = member,
                None => self.members.push(member),
            }
        }
        // As much as most fields take: text that grows is copied.
        self.text = self.join(String::with_capacity(128), |_| true).into();
    }

    fn join(&self, mut text: String, is_wanted: impl Fn(&Member) -> bool) -> String {
        for member in self.members.iter().filter(|member| is_wanted(member)) {
            push_name(&mut text, member.name);
            text.push_str(&member.value);
        }
        text
    }

    /// The text of the members that were recorded after the span was created. Viewers add those of
    /// an end to those of its beginning.
    pub(crate) fn later(&self) -> String {
        self.join(String::new(), |member| member.is_later)
    }

    /// The text of all members; `None` if there are none.
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        (!self.text.is_empty()).then(|| Arc::clone(&self.text))
    }
}

/// Between the name of an event and its members. In JSON strings a new line is escaped.
pub(crate) const BEHIND_NAME: char = '\n';

/// An event: its name, and its members. The message becomes the name; without a message, the name
/// is the event's place in the source.
pub(crate) fn event_text(event: &Event<'_>) -> String {
    let (mut name, mut args) = (String::new(), String::new());
    event.record(&mut EachField(|field, value| {
        if field == "message" {
            name = value;
        } else {
            push_name(&mut args, field);
            args.push_str(&value);
        }
    }));
    if name.is_empty() {
        push_string(&mut name, event.metadata().name());
    }
    name.push(BEHIND_NAME);
    name + &args
}

/// A visitor that calls this with each field's name, and its value as JSON. JSON has no infinities
/// and no NaN: these become null.
struct EachField<F>(F);

impl<F: FnMut(&'static str, String)> Visit for EachField<F> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        (self.0)(field.name(), json(to_string(&value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        (self.0)(field.name(), json(to_string(&value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        (self.0)(field.name(), json(to_string(&value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        (self.0)(field.name(), json(to_string(&value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        (self.0)(field.name(), json(to_string(&value)));
    }
}

fn push_name(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push(',');
    }
    push_string(text, name);
    text.push(':');
}

/// A JSON string.
pub(crate) fn push_string(text: &mut String, value: &str) {
    text.push_str(&json(to_string(value)));
}

/// What serde_json makes of a string, a number or a boolean, which does not fail.
fn json(value: serde_json::Result<String>) -> String {
    value.unwrap_or_default()
}

/// Whether a record can have its text. In a file it may have any.
pub(crate) fn is_whole(record: &Record<'_>) -> bool {
    let is_event = record.kind == Kind::Instant;
    let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    let are_members = |text: &str| is_json(&format!("{{{text}}}"));
    match record.text.split_once(BEHIND_NAME) {
        Some((name, members)) if is_event => is_json(name) && are_members(members),
        None if !is_event => are_members(record.text),
        _ => false,
    }
}
