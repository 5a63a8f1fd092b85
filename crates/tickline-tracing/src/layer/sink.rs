//! [`Sink`], by which the layer passes its spans on; and the lookup of spans and their extensions.

use core::fmt;
use std::sync::Arc;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{ExtensionsMut, LookupSpan, SpanRef};

use crate::layer::open_spans::OpenSpans;
use crate::layer::timing::{SpanTimes, StaticMetadata};

/// A receiver of the spans of a [`SpanTimingLayer`](crate::SpanTimingLayer). Only this crate
/// implements the trait: for [`Callback`](crate::Callback), [`CloseEvents`](crate::CloseEvents),
/// and the sinks of the modules `trace_file`, `flight`, `histogram` and `cpu_time`. The layer holds
/// no lock of its own while it calls a sink.
///
/// A reload loses the open spans: see
/// [`SpanTimingLayer`](crate::SpanTimingLayer#changes-while-spans-are-open).
///
/// A layer that can be [reloaded] is behind a read-write lock. Each call of a sink holds the read
/// lock. If the sink sends an event or creates a span, its thread takes the read lock again. If
/// another thread has begun a reload in between, both threads wait for each other for ever. To
/// avoid this deadlock, reload a filter around the layer, which holds no lock, or use callbacks
/// that neither send events nor create spans.
///
/// [reloaded]: https://docs.rs/tracing-subscriber/0.3/tracing_subscriber/reload/index.html
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a sink",
    label = "not a sink of this crate",
    note = "the sinks are `Callback`, `CloseEvents`, `CpuTimer`, `FlightRecorder`, `Histograms` and \
            `TraceFile`",
    note = "`TraceFileBuilder::create` returns a sink and its guard: `let (sink, guard) = ...`",
    note = "`with_callback` takes a closure"
)]
pub trait Sink: sealed::SpanSink {}

impl<S: SpanSink> Sink for S {}

/// Seals [`Sink`]: other crates can't name [`SpanSink`](sealed::SpanSink), so they can't implement
/// it.
pub(crate) mod sealed {
    use super::*;

    /// The calls of a sink. Times are ns of `CLOCK_MONOTONIC`.
    pub trait SpanSink: fmt::Debug + Send + Sync + 'static {
        /// The sink became one of a layer that keeps its open spans in this table.
        fn added_to_layer(&mut self, _open_spans: &Arc<OpenSpans>) {}

        /// Whether the layer must call [`entered`](Self::entered) and [`exited`](Self::exited).
        fn wants_enters(&self) -> bool {
            false
        }

        /// Whether the layer must call [`event`](Self::event), which costs a reading of the clock.
        fn wants_events(&self) -> bool {
            false
        }

        /// Whether the sink uses the times of a span's creation and end. They may be 0 otherwise.
        fn wants_times(&self) -> bool {
            true
        }

        /// Whether the sink uses the busy time and the enters of a closed span. They may be 0
        /// otherwise.
        fn wants_busy(&self) -> bool {
            true
        }

        /// The layer became part of a subscriber.
        fn layer_registered(&self, _dispatch: &Dispatch) {}

        /// A span was created.
        fn created(
            &self,
            _span: &Span<'_>,
            _attributes: &Attributes<'_>,
            _lookup: &dyn Lookup,
            _ns: u64,
        ) {
        }

        /// Values of a span's fields were recorded after its creation.
        fn recorded(&self, _span: &Span<'_>, _values: &Record<'_>) {}

        /// The span follows from another span.
        fn followed(&self, _span: &Span<'_>, _other: &Id) {}

        /// This thread entered or re-entered a span.
        fn entered(&self, _span: &Span<'_>, _ns: u64) {}

        /// This thread exited a span.
        fn exited(&self, _span: &Span<'_>, _ns: u64) {}

        /// An event happened on this thread.
        fn event(&self, _event: &Event<'_>, _lookup: &dyn Lookup, _ns: u64) {}

        /// A span was closed. Its extensions still exist.
        fn closed(&self, span: &Span<'_>, times: &SpanTimes);
    }
}

pub(crate) use sealed::SpanSink;

/// Finds the relatives of spans in a registry of any type, including spans that a filter hides from
/// the layer.
pub trait Lookup {
    /// The parent of a span that is being created, even if a filter hides the parent from the
    /// layer. A span without a parent takes no access to the registry.
    fn direct_parent(&self, attributes: &Attributes<'_>) -> Option<Id>;

    /// The nearest span above a span that no filter hides from the layer.
    fn parent(&self, id: &Id) -> Option<Id>;

    /// The span in which an event happened.
    fn around(&self, event: &Event<'_>) -> Option<Id>;
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Lookup for Context<'_, S> {
    fn direct_parent(&self, attributes: &Attributes<'_>) -> Option<Id> {
        if attributes.is_contextual() {
            self.current_span().id().cloned()
        } else {
            attributes.parent().cloned()
        }
    }

    fn parent(&self, id: &Id) -> Option<Id> {
        Some(self.span(id)?.parent()?.id())
    }

    fn around(&self, event: &Event<'_>) -> Option<Id> {
        Some(self.event_span(event)?.id())
    }
}

/// Finds the extensions of spans in a registry of any type.
pub(crate) trait Extensions {
    /// Calls `visitor` with the span's extensions, locked, if it exists.
    fn with_extensions(&self, id: &Id, visitor: &mut dyn FnMut(ExtensionsMut<'_>));
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Extensions for Context<'_, S> {
    fn with_extensions(&self, id: &Id, visitor: &mut dyn FnMut(ExtensionsMut<'_>)) {
        self.span(id)
            .iter()
            .for_each(|found| visitor(found.extensions_mut()));
    }
}

/// Finds the extensions of a closed span, which was found already.
impl<R: for<'a> LookupSpan<'a>> Extensions for SpanRef<'_, R> {
    fn with_extensions(&self, _: &Id, visitor: &mut dyn FnMut(ExtensionsMut<'_>)) {
        visitor(self.extensions_mut());
    }
}

/// The span of a call to a sink, with its number and its metadata. Its extensions are in the
/// registry; an access to them may cost a lookup.
pub struct Span<'a> {
    pub(crate) id: &'a Id,
    pub(crate) metadata: StaticMetadata,
    extensions: &'a dyn Extensions,
}

impl<'a> Span<'a> {
    #[inline]
    pub(crate) const fn new(
        id: &'a Id,
        metadata: StaticMetadata,
        extensions: &'a dyn Extensions,
    ) -> Self {
        Self {
            id,
            metadata,
            extensions,
        }
    }

    /// Calls `run` with the span's extension of this type, and returns the result; `None` if the
    /// span does not exist. A missing extension gets the default value.
    pub(crate) fn extension<T: Default + Send + Sync + 'static, R>(
        &self,
        run: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let (mut run, mut result) = (Some(run), None);
        self.extensions
            .with_extensions(self.id, &mut |mut extensions| {
                if extensions.get_mut::<T>().is_none() {
                    extensions.insert(T::default());
                }
                result = extensions
                    .get_mut()
                    .zip(run.take())
                    .map(|(extension, run)| run(extension));
            });
        result
    }
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, metadata, .. } = self;
        f.debug_struct("Span")
            .field("id", id)
            .field("metadata", metadata)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sink of closed spans only.
    #[derive(Debug)]
    struct ClosedSpans;

    impl SpanSink for ClosedSpans {
        fn closed(&self, _span: &Span<'_>, _times: &SpanTimes) {}
    }

    /// The layer would read the clock for each of them.
    #[test]
    fn a_sink_of_closed_spans_wants_no_events() {
        assert!(!ClosedSpans.wants_events());
    }

    /// The layer would pass 0 for them, if no other sink wants enters.
    #[test]
    fn a_sink_of_closed_spans_wants_busy_times() {
        assert!(ClosedSpans.wants_busy());
    }

    #[test]
    fn a_sink_of_closed_spans_wants_no_enters() {
        assert!(!ClosedSpans.wants_enters());
    }
}
