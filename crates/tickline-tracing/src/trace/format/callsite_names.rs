//! The names of a callsite and of its fields, and what a field is by its name.

use crate::trace::rings::encoding::{Value, counter};

/// The names of a callsite, one by one.
#[derive(Debug)]
pub(super) struct CallsiteNames<'a> {
    pub(super) name: &'a str,
    pub(super) target: &'a str,
    /// Such as `src/main.rs:7`; empty if the trace has no source locations.
    pub(super) location: &'a str,
    pub(super) fields: Vec<&'a str>,
}

impl<'a> CallsiteNames<'a> {
    /// Takes apart an entry of [`Callsites`](crate::trace::readout::snapshot::Callsites); `None` is
    /// a callsite whose names are unknown.
    pub(super) fn of(entry: Option<&'a str>) -> Self {
        let mut names = entry.unwrap_or("?\0?").split('\0');
        let [name, target, location] = [(); 3].map(|()| names.next().unwrap_or_default());
        Self {
            name,
            target,
            location,
            fields: names.collect(),
        }
    }
}

/// What a field of an event of `tracing` is by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its value is the name of the event.
    Message,
    /// A counter, if its value is a number.
    Counter,
    Argument,
}

impl Role {
    pub(super) fn of(name: &str) -> Self {
        if name == "message" {
            Self::Message
        } else if counter(name, Value::U64(0)).is_some() {
            Self::Counter
        } else {
            Self::Argument
        }
    }
}
