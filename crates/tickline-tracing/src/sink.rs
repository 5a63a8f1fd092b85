//! Sinks for the spans' times: what the layer calls.

use core::fmt;
use std::sync::Arc;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Metadata};
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

    /// An event happened on this thread, in the span that `around` finds.
    fn event(&self, _event: &Event<'_>, _around: &Find<'_>, _ns: u64) {}

    /// A span was closed. Its extensions are still there, [`SpanTiming`](crate::SpanTiming) among
    /// them.
    fn closed(&self, _span: &Span<'_>, _times: &SpanTiming) {}
}

/// What gets a span that was found.
type Take<'a> = &'a mut dyn FnMut(&dyn Found);

/// A span in the registry, whichever that is.
pub(crate) trait Found {
    /// Its extensions, locked.
    fn extensions(&self) -> ExtensionsMut<'_>;

    /// Passes on its parent, if it has one.
    #[cfg_attr(not(feature = "chrome"), allow(dead_code, reason = "recorders alone need it"))]
    fn parent(&self, take: Take<'_>);
}

impl<R: for<'a> LookupSpan<'a>> Found for SpanRef<'_, R> {
    fn extensions(&self) -> ExtensionsMut<'_> {
        self.extensions_mut()
    }

    fn parent(&self, take: Take<'_>) {
        if let Some(parent) = SpanRef::parent(self) {
            take(&parent);
        }
    }
}

/// A way to a span in the registry. It passes the span on, if it finds one.
pub struct Find<'a> {
    pub(crate) by: &'a dyn Fn(Take<'_>),
}

impl Find<'_> {
    /// What `run` makes of the span; `None` if there is none, or a filter hides it from the layer.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&dyn Found) -> R) -> Option<R> {
        let (mut run, mut result) = (Some(run), None);
        (self.by)(&mut |found| result = run.take().map(|run| run(found)));
        result
    }
}

impl fmt::Debug for Find<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Find").finish_non_exhaustive()
    }
}

/// A span that something happens to. Its number and its metadata are at hand; the rest is in the
/// registry, which may cost a lookup.
#[derive(Debug)]
pub struct Span<'a> {
    pub(crate) id: &'a Id,
    pub(crate) metadata: &'static Metadata<'static>,
    pub(crate) found: Find<'a>,
}
