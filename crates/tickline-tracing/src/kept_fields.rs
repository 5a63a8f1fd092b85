//! Values of chosen fields, kept with a span until it is closed.

use core::fmt;

use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};

use crate::sink::Span;

/// The extension of a span: name and text of the fields that some sink has chosen.
#[derive(Debug, Default)]
pub(crate) struct KeptFields(Vec<(&'static str, String)>);

impl KeptFields {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }
}

/// Whether spans of this callsite have one of the fields.
pub(crate) fn has_any(metadata: &Metadata<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| metadata.fields().field(name).is_some())
}

/// Keeps the values of the fields `names`, which `record` passes to its visitor.
pub(crate) fn keep(span: &Span<'_>, names: &[&'static str], record: impl FnOnce(&mut dyn Visit)) {
    // The extensions are not locked while values are formatted: a value's `Debug` may use them.
    let mut found = Vec::new();
    record(&mut Texts {
        place: |name: &'static str| names.iter().position(|known| *known == name),
        take: |place: usize, text: &str| found.push((names[place], text.to_owned())),
    });
    span.found.with(|span| {
        let mut extensions = span.extensions();
        let KeptFields(mut kept) = extensions.remove().unwrap_or_default();
        kept.retain(|(known, _)| found.iter().all(|(name, _)| name != known));
        kept.append(&mut found);
        extensions.insert(KeptFields(kept));
    });
}

/// A visitor that passes on the texts of the fields to which `place` gives a place.
pub(crate) struct Texts<P, T> {
    pub(crate) place: P,
    pub(crate) take: T,
}

impl<P: Fn(&'static str) -> Option<usize>, T: FnMut(usize, &str)> Visit for Texts<P, T> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(place) = (self.place)(field.name()) {
            (self.take)(place, &format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(place) = (self.place)(field.name()) {
            (self.take)(place, value);
        }
    }

    #[cfg(feature = "histogram")]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_str(field, itoa::Buffer::new().format(value));
    }

    #[cfg(feature = "histogram")]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_str(field, itoa::Buffer::new().format(value));
    }
}
