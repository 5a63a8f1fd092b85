//! Callbacks for closed spans, which may ask for the values of some fields.

use core::fmt;
use std::sync::Arc;

use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};

use crate::layer::sink::{Lookup, Span, SpanSink};
use crate::layer::timing::SpanTimes;
use crate::layer::user_value;

/// A closed span: the argument of a callback.
#[derive(Debug)]
pub struct ClosedSpan<'a> {
    span: &'a Span<'a>,
    times: &'a SpanTimes,
    fields: Option<Texts>,
}

impl ClosedSpan<'_> {
    /// The span's name.
    pub fn name(&self) -> &'static str {
        self.span.metadata.name()
    }

    /// The span's name, target, level and source location.
    pub fn metadata(&self) -> &'static Metadata<'static> {
        self.span.metadata
    }

    /// The span's number. A later span may get the same number.
    pub fn id(&self) -> Id {
        self.span.id.clone()
    }

    /// The text of the last value that was recorded for a field; a string has no quotation marks.
    /// `None` if the span has no such field, or if [`Callback::keep_fields`] does not name it.
    pub fn field(&self, name: &str) -> Option<&str> {
        // A callsite may have a field twice.
        let mut fields = self.fields.as_ref()?.0.iter();
        let (_, text) = fields.rfind(|(known, _)| *known == name)?;
        Some(text)
    }

    /// The span's times.
    pub fn times(&self) -> &SpanTimes {
        self.times
    }

    /// The span's CPU time; `None` if no [`CpuTimer`](crate::cpu_time::CpuTimer) is among the
    /// earlier sinks, if the span was never exited, or in a forked child, if a thread was in the
    /// span at the fork.
    #[cfg(all(unix, feature = "cpu-time"))]
    pub fn cpu_time(&self) -> Option<core::time::Duration> {
        crate::layer::cpu_time::get(self.span)
    }
}

/// A [`Sink`](crate::Sink) that calls a closure.
#[must_use]
pub struct Callback {
    call: Box<dyn Fn(&ClosedSpan<'_>) + Send + Sync>,
    fields: Box<[String]>,
}

impl Callback {
    /// Calls `call` for each span that is closed, on the thread that closes it.
    ///
    /// The call is in the drop that closes the span. A panic of `call` goes on in the program's
    /// thread. If that thread is unwinding from another panic, the process aborts.
    pub fn new(call: impl Fn(&ClosedSpan<'_>) + Send + Sync + 'static) -> Self {
        Self {
            call: Box::new(call),
            fields: Box::default(),
        }
    }

    /// Keeps the fields with these names for [`ClosedSpan::field`]. The names may come from a
    /// configuration, as a `Vec<String>`. At its creation, a span with any of these fields costs a
    /// lookup in the registry and some text. Other spans cost nothing more. A text of more than
    /// 16 KiB is cut, and ends with `… (cut)`.
    ///
    /// ```
    /// use tickline_tracing::{Callback, SpanTimingLayer};
    /// use tracing_subscriber::layer::SubscriberExt;
    ///
    /// let callback = Callback::new(|span| {
    ///     if let Some(route) = span.field("route") {
    ///         println!("{route}: {:?}, status {:?}", span.times().total(), span.field("status"));
    ///     }
    /// });
    /// let layer =
    ///     SpanTimingLayer::new().with_sink(callback.keep_fields(["route", "status"]));
    /// let subscriber = tracing_subscriber::registry().with(layer);
    /// # use tracing::{info_span, subscriber::with_default};
    /// # with_default(subscriber, || drop(info_span!("get", route = "/")));
    /// ```
    pub fn keep_fields(mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let fields = fields.into_iter().map(|field| field.as_ref().to_owned());
        self.fields = fields.collect();
        self
    }

    fn has_fields(&self, span: &Span<'_>) -> bool {
        self.fields
            .iter()
            .any(|name| span.metadata.fields().field(name.as_str()).is_some())
    }

    /// Keeps the values of the chosen fields. `record` passes all values to its visitor.
    fn keep(&self, span: &Span<'_>, record: impl FnOnce(&mut dyn Visit)) {
        if !self.has_fields(span) {
            return;
        }
        // Values are formatted before the extensions are locked: a `Debug` may use them.
        let mut chosen = Chosen {
            names: &self.fields,
            texts: Vec::new(),
        };
        record(&mut chosen);
        span.extension(|Texts(kept)| {
            let kept = Arc::make_mut(kept);
            kept.retain(|(known, _)| chosen.texts.iter().all(|(name, _)| name != known));
            kept.append(&mut chosen.texts);
        });
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback")
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

impl SpanSink for Callback {
    fn created(&self, span: &Span<'_>, attributes: &Attributes<'_>, _: &dyn Lookup, _: u64) {
        self.keep(span, |visit| attributes.record(visit));
    }

    fn recorded(&self, span: &Span<'_>, values: &Record<'_>) {
        self.keep(span, |visit| values.record(visit));
    }

    fn closed(&self, span: &Span<'_>, times: &SpanTimes) {
        // The fields are copied, because the callback may lock the extensions.
        let kept = || span.extension(|texts: &mut Texts| texts.clone());
        let fields = if self.has_fields(span) { kept() } else { None };
        (self.call)(&ClosedSpan {
            span,
            times,
            fields,
        });
    }
}

/// A span's extension: name and text of each field that a callback has chosen.
#[derive(Debug, Clone, Default)]
struct Texts(Arc<Vec<(&'static str, String)>>);

/// A visitor that keeps the texts of the fields with these names.
struct Chosen<'a> {
    names: &'a [String],
    texts: Vec<(&'static str, String)>,
}

impl Chosen<'_> {
    fn has(&self, field: &Field) -> bool {
        self.names.iter().any(|name| name == field.name())
    }
}

impl Visit for Chosen<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.has(field) {
            self.texts.push((field.name(), user_value::text(value)));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.has(field) {
            let text = user_value::within_limit(value);
            self.texts.push((field.name(), text));
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn core::error::Error + 'static)) {
        self.record_debug(field, &user_value::ErrorValue::new(field, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_in_a_log_names_its_fields() {
        let callback = Callback::new(|_| {}).keep_fields(["route"]);
        assert_eq!(
            format!("{callback:?}"),
            r#"Callback { fields: ["route"], .. }"#
        );
    }
}
