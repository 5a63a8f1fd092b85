//! Sinks for the spans' times: what the layer calls, and callbacks.

use core::fmt;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::kept_fields::{self, KeptFields};
use crate::timing::SpanTiming;

/// What a [`SpanTimingLayer`](crate::SpanTimingLayer) can pass its spans to. This crate implements it:
/// for [`Callback`], [`CloseEvents`](crate::CloseEvents), and what is in the modules `chrome`,
/// `flight`, `histogram` and `running`. The layer holds no lock of its own while it calls a sink.
///
/// A layer that can itself be [reloaded](tracing_subscriber::reload) is behind a read-write lock.
/// Each call of the sink holds its read side. If the sink makes an event or a span, that takes the
/// read side again. If another thread has begun to reload in between, both wait for each other for
/// ever. To avoid that, reload a filter around the layer, which holds no lock, or use callbacks that
/// make neither events nor spans.
pub trait Sink {
    /// What the layer calls.
    #[doc(hidden)]
    type Hooks;

    #[doc(hidden)]
    fn hooks(self) -> Self::Hooks;
}

/// What the layer calls when something happens to a span. `()` does nothing; a pair calls both.
pub trait Hooks<S>: Send + Sync + 'static
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    /// Whether [`entered`](Self::entered) and [`exited`](Self::exited) are wanted.
    const ENTER_AND_EXIT: bool = false;

    /// Whether [`event`](Self::event) is wanted. Each event then costs a reading of the clock.
    const EVENTS: bool = false;

    /// Whether [`created`](Self::created) and [`recorded`](Self::recorded) are wanted for the spans
    /// of this callsite. Each call costs a lookup in the registry.
    fn wants_fields(&self, metadata: &'static Metadata<'static>) -> bool {
        let _ = metadata;
        false
    }

    /// The layer became part of a subscriber.
    fn attached(&self, dispatch: &Dispatch) {
        let _ = dispatch;
    }

    /// A span was created at `ns` of `CLOCK_MONOTONIC`; called if
    /// [`wants_fields`](Self::wants_fields).
    fn created(&self, attributes: &Attributes<'_>, span: &SpanRef<'_, S>, ns: u64) {
        let _ = (attributes, span, ns);
    }

    /// Values of a span's fields were recorded after its creation; called if
    /// [`wants_fields`](Self::wants_fields).
    fn recorded(&self, values: &Record<'_>, span: &SpanRef<'_, S>) {
        let _ = (values, span);
    }

    /// A span was entered on this thread, re-entries included, at `ns` of `CLOCK_MONOTONIC`;
    /// called if [`ENTER_AND_EXIT`](Self::ENTER_AND_EXIT).
    fn entered(&self, span: &OpenSpan<'_, S>, ns: u64) {
        let _ = (span, ns);
    }

    /// A span was exited on this thread, at `ns` of `CLOCK_MONOTONIC`; called if
    /// [`ENTER_AND_EXIT`](Self::ENTER_AND_EXIT).
    fn exited(&self, span: &OpenSpan<'_, S>, ns: u64) {
        let _ = (span, ns);
    }

    /// An event happened on this thread, at `ns` of `CLOCK_MONOTONIC`; called if
    /// [`EVENTS`](Self::EVENTS).
    fn event(&self, event: &Event<'_>, ctx: &Context<'_, S>, ns: u64) {
        let _ = (event, ctx, ns);
    }

    /// A span was closed. Its extensions are still there, [`SpanTiming`](crate::SpanTiming) among
    /// them.
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming);
}

impl<S> Hooks<S> for ()
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    #[inline]
    fn closed(&self, _: &SpanRef<'_, S>, _: &SpanTiming) {}
}

impl<S, A: Hooks<S>, B: Hooks<S>> Hooks<S> for (A, B)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    const ENTER_AND_EXIT: bool = A::ENTER_AND_EXIT || B::ENTER_AND_EXIT;
    const EVENTS: bool = A::EVENTS || B::EVENTS;

    #[inline]
    fn wants_fields(&self, metadata: &'static Metadata<'static>) -> bool {
        self.0.wants_fields(metadata) || self.1.wants_fields(metadata)
    }

    fn attached(&self, dispatch: &Dispatch) {
        self.0.attached(dispatch);
        self.1.attached(dispatch);
    }

    fn created(&self, attributes: &Attributes<'_>, span: &SpanRef<'_, S>, ns: u64) {
        if self.0.wants_fields(span.metadata()) {
            self.0.created(attributes, span, ns);
        }
        if self.1.wants_fields(span.metadata()) {
            self.1.created(attributes, span, ns);
        }
    }

    fn recorded(&self, values: &Record<'_>, span: &SpanRef<'_, S>) {
        if self.0.wants_fields(span.metadata()) {
            self.0.recorded(values, span);
        }
        if self.1.wants_fields(span.metadata()) {
            self.1.recorded(values, span);
        }
    }

    #[inline]
    fn entered(&self, span: &OpenSpan<'_, S>, ns: u64) {
        if A::ENTER_AND_EXIT {
            self.0.entered(span, ns);
        }
        if B::ENTER_AND_EXIT {
            self.1.entered(span, ns);
        }
    }

    #[inline]
    fn exited(&self, span: &OpenSpan<'_, S>, ns: u64) {
        if A::ENTER_AND_EXIT {
            self.0.exited(span, ns);
        }
        if B::ENTER_AND_EXIT {
            self.1.exited(span, ns);
        }
    }

    #[inline]
    fn event(&self, event: &Event<'_>, ctx: &Context<'_, S>, ns: u64) {
        if A::EVENTS {
            self.0.event(event, ctx, ns);
        }
        if B::EVENTS {
            self.1.event(event, ctx, ns);
        }
    }

    #[inline]
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        self.0.closed(span, times);
        self.1.closed(span, times);
    }
}

/// A span that a thread enters or exits. Its number and its metadata are at
/// hand; the rest costs a lookup in the registry.
#[cfg_attr(not(feature = "chrome"), allow(dead_code, reason = "the sinks that need all of it are features"))]
pub struct OpenSpan<'a, S> {
    id: &'a Id,
    metadata: &'static Metadata<'static>,
    ctx: &'a Context<'a, S>,
}

#[cfg_attr(not(feature = "chrome"), allow(dead_code, reason = "the sinks that need all of it are features"))]
impl<'a, S> OpenSpan<'a, S>
where
    S: Subscriber + for<'b> LookupSpan<'b>,
{
    pub(crate) const fn new(
        id: &'a Id,
        metadata: &'static Metadata<'static>,
        ctx: &'a Context<'a, S>,
    ) -> Self {
        Self { id, metadata, ctx }
    }

    pub(crate) const fn id(&self) -> &'a Id {
        self.id
    }

    pub(crate) const fn metadata(&self) -> &'static Metadata<'static> {
        self.metadata
    }

    /// The span in the registry, with its extensions; `None` if a filter hides it from the layer.
    pub(crate) fn find(&self) -> Option<SpanRef<'_, S>> {
        self.ctx.span(self.id)
    }
}

impl<S> fmt::Debug for OpenSpan<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSpan").field("id", self.id).finish_non_exhaustive()
    }
}

/// A closed span, as a callback gets it.
pub struct ClosedSpan<'a> {
    id: Id,
    metadata: &'static Metadata<'static>,
    times: &'a SpanTiming,
    fields: Option<&'a KeptFields>,
    /// Looks the CPU time up, which few callbacks want.
    #[cfg(all(unix, feature = "running"))]
    running: &'a dyn Fn() -> Option<core::time::Duration>,
}

impl fmt::Debug for ClosedSpan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedSpan")
            .field("id", &self.id)
            .field("name", &self.name())
            .field("times", self.times)
            .finish_non_exhaustive()
    }
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

    /// Its number, which another span may have later.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id.clone()
    }

    /// The text of a field, as it was recorded last, without quotation marks if it is a string.
    /// `None` if the span has no such field, or if [`Callback::with_fields`] does not name it.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields?.get(name)
    }

    /// Its times.
    #[must_use]
    pub fn times(&self) -> &SpanTiming {
        self.times
    }

    /// Its CPU time; `None` without a [`RunningTime`](crate::running::RunningTime) among the sinks
    /// before, or if the span was never exited.
    #[cfg(all(unix, feature = "running"))]
    #[must_use]
    pub fn running(&self) -> Option<core::time::Duration> {
        (self.running)()
    }
}

/// A [`Sink`] made of a closure.
pub struct Callback<F> {
    call: F,
    fields: &'static [&'static str],
}

impl<F: Fn(&ClosedSpan<'_>)> Callback<F> {
    /// Calls `call` for each span that is closed, on the thread that closes it.
    pub fn new(call: F) -> Self {
        Self { call, fields: &[] }
    }

    /// Also keeps these fields of the spans, for [`ClosedSpan::field`]. A span that has any of them
    /// costs a lookup in the registry and some text when it is created. Other spans cost nothing
    /// more.
    ///
    /// ```
    /// use tickline_tracing::{Callback, ClosedSpan, SpanTimingLayer};
    /// use tracing_subscriber::layer::SubscriberExt;
    ///
    /// let tell = |span: &ClosedSpan<'_>| {
    ///     if let Some(route) = span.field("route") {
    ///         println!("{route}: {:?}, status {:?}", span.times().total(), span.field("status"));
    ///     }
    /// };
    /// let layer = SpanTimingLayer::new()
    ///     .with_sink(Callback::new(tell).with_fields(&["route", "status"]));
    /// let subscriber = tracing_subscriber::registry().with(layer);
    /// # tracing::subscriber::with_default(subscriber, || drop(tracing::info_span!("get", route = "/")));
    /// ```
    #[must_use]
    pub fn with_fields(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }
}

impl<F> fmt::Debug for Callback<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

impl<F> Sink for Callback<F> {
    type Hooks = Self;

    fn hooks(self) -> Self {
        self
    }
}

impl<S, F> Hooks<S> for Callback<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(&ClosedSpan<'_>) + Send + Sync + 'static,
{
    #[inline]
    fn wants_fields(&self, metadata: &'static Metadata<'static>) -> bool {
        kept_fields::has_any(metadata, self.fields)
    }

    fn created(&self, attributes: &Attributes<'_>, span: &SpanRef<'_, S>, _: u64) {
        kept_fields::keep(span, self.fields, |visit| attributes.record(visit));
    }

    fn recorded(&self, values: &Record<'_>, span: &SpanRef<'_, S>) {
        kept_fields::keep(span, self.fields, |visit| values.record(visit));
    }

    #[inline]
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        let call = |fields| {
            (self.call)(&ClosedSpan {
                id: span.id(),
                metadata: span.metadata(),
                times,
                fields,
                #[cfg(all(unix, feature = "running"))]
                running: &|| crate::running::RunningTime::of(span),
            });
        };
        if self.fields.is_empty() {
            call(None);
        } else {
            // Taken out, so that no lock is held: the callback may use the extensions.
            let fields = span.extensions_mut().remove::<KeptFields>();
            call(fields.as_ref());
            if let Some(fields) = fields {
                span.extensions_mut().replace(fields);
            }
        }
    }
}
