//! Fields as members of a JSON object.

use core::fmt;
use core::fmt::Write as _;
use std::sync::Arc;

use tracing_core::Event;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Record};

/// The extension that keeps a span's fields until it is closed, for all recorders.
#[derive(Debug)]
pub(crate) struct SpanFields {
    members: Vec<Member>,
    /// Whether the span is created, so that further values are those recorded later.
    is_created: bool,
    /// All members in one text, as records store them.
    text: Arc<str>,
}

#[derive(Debug)]
struct Member {
    name: &'static str,
    /// As JSON.
    value: String,
    /// Whether the value was recorded after the span was created.
    is_later: bool,
}

impl SpanFields {
    pub(crate) fn new(attributes: &Attributes<'_>) -> Self {
        let mut fields = Self { members: Vec::new(), is_created: false, text: Arc::from("") };
        attributes.record(&mut fields);
        fields.is_created = true;
        fields.text = fields.join(|_| true).into();
        fields
    }

    /// Adds values, or replaces those of the same fields.
    pub(crate) fn record(&mut self, values: &Record<'_>) {
        values.record(self);
        self.text = self.join(|_| true).into();
    }

    fn join(&self, is_wanted: impl Fn(&Member) -> bool) -> String {
        let mut text = String::new();
        for member in self.members.iter().filter(|member| is_wanted(member)) {
            if text.is_empty() {
                text.push_str("\"args\":{");
            }
            push_name(&mut text, member.name);
            text.push_str(&member.value);
        }
        if !text.is_empty() {
            text.push('}');
        }
        text
    }

    /// The text of the members that were recorded after the span was created. Viewers add those of
    /// an end to those of its beginning.
    pub(crate) fn later(&self) -> String {
        self.join(|member| member.is_later)
    }

    /// The text of all members; `None` if there are none.
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        (!self.text.is_empty()).then(|| Arc::clone(&self.text))
    }
}

impl VisitJson for SpanFields {
    fn member(&mut self, field: &Field, push: impl FnOnce(&mut String)) {
        let mut value = String::new();
        push(&mut value);
        let member = Member { name: field.name(), value, is_later: self.is_created };
        match self.members.iter_mut().find(|known| known.name == field.name()) {
            Some(known) => *known = member,
            None => self.members.push(member),
        }
    }
}

/// An event's fields. The message becomes the name; without a message, the name is the event's
/// place in the source.
#[derive(Debug, Default)]
pub(crate) struct EventFields {
    name: String,
    args: String,
}

impl EventFields {
    /// Appends `"name":...,"args":{...}` to `text`.
    pub(crate) fn write(&mut self, event: &Event<'_>, text: &mut String) {
        self.name.clear();
        self.args.clear();
        event.record(self);
        text.push_str("\"name\":");
        if self.name.is_empty() {
            push_string(text, event.metadata().name());
        } else {
            text.push_str(&self.name);
        }
        if !self.args.is_empty() {
            text.push_str(",\"args\":{");
            text.push_str(&self.args);
            text.push('}');
        }
    }
}

impl VisitJson for EventFields {
    fn member(&mut self, field: &Field, push: impl FnOnce(&mut String)) {
        if field.name() == "message" {
            push(&mut self.name);
        } else {
            push_name(&mut self.args, field.name());
            push(&mut self.args);
        }
    }
}

/// A visitor that gets each value as JSON.
trait VisitJson {
    fn member(&mut self, field: &Field, push: impl FnOnce(&mut String));
}

macro_rules! visit {
    ($visitor:ty) => {
        impl Visit for $visitor {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.member(field, |text| push_string(text, &format!("{value:?}")));
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                self.member(field, |text| push_string(text, value));
            }

            fn record_i64(&mut self, field: &Field, value: i64) {
                self.member(field, |text| text.push_str(itoa::Buffer::new().format(value)));
            }

            fn record_u64(&mut self, field: &Field, value: u64) {
                self.member(field, |text| text.push_str(itoa::Buffer::new().format(value)));
            }

            fn record_bool(&mut self, field: &Field, value: bool) {
                self.member(field, |text| text.push_str(if value { "true" } else { "false" }));
            }

            fn record_f64(&mut self, field: &Field, value: f64) {
                // JSON has no infinities and no NaN: these become null.
                self.member(field, |text| match value.is_finite() {
                    // Writing to a string does not fail.
                    true => _ = write!(text, "{value:?}"),
                    false => text.push_str("null"),
                });
            }
        }
    };
}

visit!(SpanFields);
visit!(EventFields);

fn push_name(text: &mut String, name: &str) {
    if !text.is_empty() && !text.ends_with('{') {
        text.push(',');
    }
    push_string(text, name);
    text.push(':');
}

/// A JSON string.
pub(crate) fn push_string(text: &mut String, value: &str) {
    text.push('"');
    // Text without characters to escape is copied in one piece.
    let mut rest = value;
    while let Some(place) = rest.find(|c| matches!(c, '"' | '\\' | '\0'..='\x1F')) {
        let (plain, special) = rest.split_at(place);
        text.push_str(plain);
        let mut chars = special.chars();
        match chars.next() {
            Some('\n') => text.push_str("\\n"),
            Some(c @ ('"' | '\\')) => text.extend(['\\', c]),
            // Writing to a string does not fail.
            Some(c) => _ = write!(text, "\\u{:04x}", u32::from(c)),
            None => {}
        }
        rest = chars.as_str();
    }
    text.push_str(rest);
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_json() {
        for value in ["", "plain", "a\"b\\c\n\r\t\0\u{1f}\u{7f}\u{b5}\u{1F600}", "\\", "end\n"] {
            let mut text = String::new();
            push_string(&mut text, value);
            assert_eq!(serde_json::from_str::<String>(&text).expect("a string"), value);
        }
    }
}
