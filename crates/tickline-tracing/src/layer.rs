//! The layer that programs use.

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::layer_over::LayerOver;
use crate::sink::{Callback, ClosedSpan, Sink};
use crate::source::GlobalClock;

/// Times every span. The layer puts the times into the span's extensions
/// ([`SpanTiming`](crate::SpanTiming)), and passes them to its sink `K`.
///
/// A layer is for one subscriber. If a subscriber has two such layers, both sinks get the times of
/// the layer that is called first when the span is closed. A span is not timed if it was created
/// before the layer was there, or if the layer was [reloaded](tracing_subscriber::reload) since.
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let layer = SpanTimingLayer::new().with_callback(|span| {
///     println!("{} took {:?} since {:?}", span.name(), span.times().total(), span.times().created());
/// });
/// let subscriber = tracing_subscriber::registry().with(layer);
/// # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
/// ```
#[derive(Debug)]
pub struct SpanTimingLayer<K = ()>(LayerOver<GlobalClock, K>);

impl SpanTimingLayer {
    /// A layer over tickline's global clock, without a sink.
    #[must_use]
    pub fn new() -> Self {
        Self(LayerOver::new(GlobalClock))
    }
}

impl Default for SpanTimingLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> SpanTimingLayer<K> {
    /// The same layer, which also calls `sink`.
    #[must_use]
    pub fn with_sink<L>(self, sink: L) -> SpanTimingLayer<(K, L)> {
        SpanTimingLayer(self.0.with_sink(sink))
    }

    /// The same layer, which also calls `call` for each span that is closed, on the thread that
    /// closes it.
    #[must_use]
    pub fn with_callback<F>(self, call: F) -> SpanTimingLayer<(K, Callback<F>)>
    where
        F: Fn(&ClosedSpan<'_>) + Send + Sync + 'static,
    {
        self.with_sink(Callback::new(call))
    }
}

impl<S, K> Layer<S> for SpanTimingLayer<K>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    K: Sink<S>,
{
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        Layer::<S>::on_register_dispatch(&self.0, dispatch);
    }

    #[inline]
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        self.0.on_new_span(attributes, id, ctx);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        self.0.on_record(id, values, ctx);
    }

    #[inline]
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        self.0.on_event(event, ctx);
    }

    #[inline]
    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        self.0.on_enter(id, ctx);
    }

    #[inline]
    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        self.0.on_exit(id, ctx);
    }

    #[inline]
    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        self.0.on_close(id, ctx);
    }
}
