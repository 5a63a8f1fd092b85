//! A span's fields as the members of a JSON object.

use core::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use tracing_core::field::{Field, Visit};
use tracing_core::span::Attributes;

/// The extension that keeps them with the span until its events are written.
#[derive(Debug)]
pub(super) struct Fields {
    trace: u64,
    json: Arc<str>,
}

impl Fields {
    /// `None` if there are none.
    pub(super) fn of(trace: u64, attributes: &Attributes<'_>) -> Option<Self> {
        let mut members = Members(Map::new());
        attributes.record(&mut members);
        if members.0.is_empty() {
            return None;
        }
        Some(Self { trace, json: Value::Object(members.0).to_string().into() })
    }

    /// The object, if `trace` is the one that wrote it.
    pub(super) fn of_trace(&self, trace: u64) -> Option<Arc<str>> {
        (self.trace == trace).then(|| Arc::clone(&self.json))
    }
}

struct Members(Map<String, Value>);

impl Members {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinities: these become null.
        self.add(field, value);
    }
}
