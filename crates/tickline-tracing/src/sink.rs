//! What is done with the times: the trait, and callbacks.

use core::fmt;

use tracing_core::span::{Attributes, Id};
use tracing_core::{Dispatch, Metadata, Subscriber};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::timing::SpanTiming;

/// Is told by a [`SpanTimingLayer`](crate::SpanTimingLayer) what happens to spans. No lock of this crate's is held during a call.
///
/// Where the *layer* itself can be [reloaded](tracing_subscriber::reload), that one's lock is held for reading, and an event or a
/// span of a sink's own takes it once more: if another thread has begun to reload in between, both wait for each other for
/// good. Let such programs reload a filter around the layer, which is not held, or their sinks make no events.
///
/// `()` does nothing; a pair tells both. [`SpanTimingLayer::with_callback`](crate::SpanTimingLayer::with_callback) makes one
/// of a closure.
pub trait Sink<S>: Send + Sync + 'static
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    /// Whether [`entered`](Self::entered) and [`exited`](Self::exited) are wanted. They cost a conversion each, and re-entries
    /// another reading.
    const EDGES: bool = false;

    /// Whether [`opened`](Self::opened) is wanted. It costs a look into the registry.
    const OPENINGS: bool = false;

    /// The layer became part of a subscriber.
    fn attached(&self, dispatch: &Dispatch) {
        let _ = dispatch;
    }

    /// A span was created; told if [`OPENINGS`](Self::OPENINGS).
    fn opened(&self, attributes: &Attributes<'_>, span: &SpanRef<'_, S>) {
        let _ = (attributes, span);
    }

    /// A span was entered on this thread, re-entries included, at `ns` of `CLOCK_MONOTONIC`; told if [`EDGES`](Self::EDGES).
    fn entered(&self, span: &SpanRef<'_, S>, ns: u64) {
        let _ = (span, ns);
    }

    /// A span was exited on this thread, at `ns` of `CLOCK_MONOTONIC`; told if [`EDGES`](Self::EDGES).
    fn exited(&self, span: &SpanRef<'_, S>, ns: u64) {
        let _ = (span, ns);
    }

    /// A span was closed. Its extensions are still there, [`SpanTiming`](crate::SpanTiming) among them.
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming);
}

impl<S> Sink<S> for ()
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    #[inline]
    fn closed(&self, _: &SpanRef<'_, S>, _: &SpanTiming) {}
}

impl<S, A: Sink<S>, B: Sink<S>> Sink<S> for (A, B)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    const EDGES: bool = A::EDGES || B::EDGES;
    const OPENINGS: bool = A::OPENINGS || B::OPENINGS;

    fn attached(&self, dispatch: &Dispatch) {
        self.0.attached(dispatch);
        self.1.attached(dispatch);
    }

    #[inline]
    fn opened(&self, attributes: &Attributes<'_>, span: &SpanRef<'_, S>) {
        self.0.opened(attributes, span);
        self.1.opened(attributes, span);
    }

    #[inline]
    fn entered(&self, span: &SpanRef<'_, S>, ns: u64) {
        self.0.entered(span, ns);
        self.1.entered(span, ns);
    }

    #[inline]
    fn exited(&self, span: &SpanRef<'_, S>, ns: u64) {
        self.0.exited(span, ns);
        self.1.exited(span, ns);
    }

    #[inline]
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        self.0.closed(span, times);
        self.1.closed(span, times);
    }
}

/// A closed span, as a callback is told of it.
#[derive(Debug)]
pub struct ClosedSpan<'a> {
    id: Id,
    metadata: &'static Metadata<'static>,
    times: &'a SpanTiming,
}

impl ClosedSpan<'_> {
    /// The span's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.metadata.name()
    }

    /// Its name, target, level and place in the source.
    #[must_use]
    pub fn metadata(&self) -> &'static Metadata<'static> {
        self.metadata
    }

    /// Its number; used for another span later.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id.clone()
    }

    /// Its times.
    #[must_use]
    pub fn times(&self) -> &SpanTiming {
        self.times
    }
}

/// A [`Sink`] made of a closure.
pub struct Callback<F>(F);

impl<F: Fn(&ClosedSpan<'_>)> Callback<F> {
    /// Calls `call` for each span that is closed, on the thread that closes it.
    pub fn new(call: F) -> Self {
        Self(call)
    }
}

impl<F> fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

impl<S, F> Sink<S> for Callback<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(&ClosedSpan<'_>) + Send + Sync + 'static,
{
    #[inline]
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        (self.0)(&ClosedSpan { id: span.id(), metadata: span.metadata(), times });
    }
}
