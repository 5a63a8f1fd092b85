//! Sinks for the spans' times: what the layer calls.

use core::fmt;
use std::sync::Arc;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{ExtensionsMut, LookupSpan, SpanRef};

use crate::open_spans::OpenSpans;
use crate::timing::SpanTiming;

/// What a [`SpanTimingLayer`](crate::SpanTimingLayer) can pass its spans to. This crate implements
/// it: for [`Callback`](crate::Callback), [`CloseEvents`](crate::CloseEvents), and what is in the
/// modules `chrome`, `flight`, `histogram` and `running`. The layer holds no lock of its own while
/// it calls a sink.
///
/// A layer that can itself be [reloaded](tracing_subscriber::reload) is behind a read-write lock.
/// Each call of the sink holds its read side. If the sink makes an event or a span, that takes the
/// read side again. If another thread has begun to reload in between, both wait for each other for
/// ever. To avoid that, reload a filter around the layer, which holds no lock, or use callbacks
/// that make neither events nor spans.
pub trait Sink {
    /// What a layer calls, which keeps its open spans in this table.
    #[doc(hidden)]
    fn hooks(self, open_spans: &Arc<OpenSpans>) -> Box<dyn Hooks>;
}

impl<H: Hooks> Sink for H {
    fn hooks(self, _: &Arc<OpenSpans>) -> Box<dyn Hooks> {
        Box::new(self)
    }
}

/// What the layer calls when something happens to a span. All times are ns of `CLOCK_MONOTONIC`.
pub trait Hooks: fmt::Debug + Send + Sync + 'static {
    /// Whether [`entered`](Self::entered) and [`exited`](Self::exited) are wanted.
    fn wants_enters(&self) -> bool {
        false
    }

    /// Whether [`event`](Self::event) is wanted. Each event then costs a reading of the clock.
    fn wants_events(&self) -> bool {
        false
    }

    /// The layer became part of a subscriber.
    fn attached(&self, _dispatch: &Dispatch) {}

    /// A span was created.
    fn created(&self, _span: &Span<'_>, _attributes: &Attributes<'_>, _ns: u64) {}

    /// Values of a span's fields were recorded after its creation.
    fn recorded(&self, _span: &Span<'_>, _values: &Record<'_>) {}

    /// A span was entered on this thread, re-entries included.
    fn entered(&self, _span: &Span<'_>, _ns: u64) {}

    /// A span was exited on this thread.
    fn exited(&self, _span: &Span<'_>, _ns: u64) {}

    /// An event happened on this thread.
    fn event(&self, _event: &Event<'_>, _lookup: &dyn Lookup, _ns: u64) {}

    /// A span was closed. Its extensions are still there, [`SpanTiming`](crate::SpanTiming) among
    /// them.
    fn closed(&self, _span: &Span<'_>, _times: &SpanTiming) {}
}

/// Which span is meant.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// The span of this number.
    This(&'a Id),
    /// Its parent.
    ParentOf(&'a Id),
    /// The one in which this event happened.
    Around(&'a Event<'a>),
}

/// Finds spans in the registry, whichever that is. A filter may hide spans there from the layer.
pub trait Lookup {
    /// Lends the extensions of a span, locked, if it finds the span.
    fn lend(&self, which: Which<'_>, take: &mut dyn FnMut(ExtensionsMut<'_>));
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Lookup for Context<'_, S> {
    fn lend(&self, which: Which<'_>, take: &mut dyn FnMut(ExtensionsMut<'_>)) {
        let found = match which {
            Which::This(id) => self.span(id),
            Which::ParentOf(id) => self.span(id).and_then(|span| span.parent()),
            Which::Around(event) => self.event_span(event),
        };
        if let Some(found) = found {
            take(found.extensions_mut());
        }
    }
}

/// A span that was found already. It alone is meant.
impl<R: for<'a> LookupSpan<'a>> Lookup for SpanRef<'_, R> {
    fn lend(&self, _: Which<'_>, take: &mut dyn FnMut(ExtensionsMut<'_>)) {
        take(self.extensions_mut());
    }
}

impl dyn Lookup + '_ {
    /// What `run` makes of a span's extension of this type; `None` if there is none.
    pub(crate) fn extension<T: Send + Sync + 'static, R>(
        &self,
        which: Which<'_>,
        run: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let (mut run, mut result) = (Some(run), None);
        self.lend(which, &mut |mut extensions| {
            result = extensions.get_mut().zip(run.take()).map(|(extension, run)| run(extension));
        });
        result
    }
}

/// A span that something happens to. Its number and its metadata are at hand. Its extensions are in
/// the registry, which may cost a lookup.
pub struct Span<'a> {
    pub(crate) id: &'a Id,
    pub(crate) metadata: &'static Metadata<'static>,
    pub(crate) lookup: &'a dyn Lookup,
}

impl Span<'_> {
    /// What `run` makes of the span's extension of this type; `None` if there is none.
    pub(crate) fn extension<T: Send + Sync + 'static, R>(&self, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lookup.extension(Which::This(self.id), run)
    }

    /// Changes the span's extension of this type. The default is added if there is none.
    pub(crate) fn change<T: Default + Send + Sync + 'static>(&self, change: impl FnOnce(&mut T)) {
        let mut change = Some(change);
        self.lookup.lend(Which::This(self.id), &mut |mut extensions| {
            if extensions.get_mut::<T>().is_none() {
                extensions.insert(T::default());
            }
            _ = extensions.get_mut().zip(change.take()).map(|(extension, change)| change(extension));
        });
    }
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, metadata, .. } = self;
        f.debug_struct("Span").field("id", id).field("metadata", metadata).finish_non_exhaustive()
    }
}
