//! Values of chosen fields, kept with a span until it is closed.

use core::fmt;

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

/// Keeps the values of the fields `names`, which `record` passes to its visitor.
pub(crate) fn keep(span: &Span<'_>, names: &[&'static str], record: impl FnOnce(&mut dyn Visit)) {
    if !names.iter().any(|name| span.metadata.fields().field(name).is_some()) {
        return;
    }
    // The extensions are not locked while values are formatted: a value's `Debug` may use them.
    let mut texts = Texts { names, found: Vec::new() };
    record(&mut texts);
    let mut found = texts.found;
    span.found.with(|span| {
        let mut extensions = span.extensions();
        let KeptFields(mut kept) = extensions.remove().unwrap_or_default();
        kept.retain(|(known, _)| found.iter().all(|(name, _)| name != known));
        kept.append(&mut found);
        extensions.insert(KeptFields(kept));
    });
}

/// Takes the texts of the fields with these names.
struct Texts<'a> {
    names: &'a [&'static str],
    found: Vec<(&'static str, String)>,
}

impl Visit for Texts<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.names.contains(&field.name()) {
            self.found.push((field.name(), format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.names.contains(&field.name()) {
            self.found.push((field.name(), value.to_owned()));
        }
    }
}
