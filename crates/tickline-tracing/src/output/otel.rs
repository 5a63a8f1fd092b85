//! tickline's times for the spans that [`tracing-opentelemetry`] exports.
//!
//! That crate reads `SystemTime::now` when a span is created and exited, and for each event. It has
//! no setting for another clock. This module replaces these readings by tickline's, in two parts. A
//! layer around the OpenTelemetry layer reads the clock ([`layer`]). A tracer inside that layer
//! puts the readings into the spans ([`tracer`]).
//!
//! ```
//! use opentelemetry::trace::TracerProvider;
//! use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
//! use tickline_tracing::otel;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let exporter = InMemorySpanExporter::default(); // or the exporter of opentelemetry-otlp
//! let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
//!
//! let tracer = otel::tracer(provider.tracer("app"));
//! let layer = otel::layer(tracing_opentelemetry::layer().with_tracer(tracer));
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # tracing::subscriber::with_default(subscriber, || {
//! tracing::info_span!("request").in_scope(|| tracing::info!("read"));
//! # });
//! assert_eq!(exporter.get_finished_spans().unwrap()[0].name, "request");
//! ```
//!
//! # Version
//!
//! The feature `opentelemetry-0-33` is for version 0.33 of the crate `opentelemetry`, which
//! `tracing-opentelemetry` 0.34 uses.
//!
//! # Times of a span
//!
//! | time | meaning |
//! |---|---|
//! | start | the span's creation |
//! | end | the span's last exit, or its end if it was never entered, as without this module |
//! | event | the moment of the event |
//! | `busy_ns`, `idle_ns` | the values of [`SpanTimes`], if a [`SpanTimingLayer`](crate::SpanTimingLayer) was added before; otherwise those by `std::time::Instant` |
//!
//! All times of a span use the same offset from monotonic time. The span therefore becomes neither
//! longer nor shorter if the clock is set meanwhile.
//!
//! Calls that bypass `tracing` keep their times: `OpenTelemetrySpanExt::add_event`, and spans that
//! the program starts through the tracer itself. An event before OpenTelemetry starts its span also
//! keeps its time. OpenTelemetry starts a span when the span is first entered or gets a child;
//! without context activation, when the span is closed.
//!
//! # Filters
//!
//! Put a filter around the whole layer: `otel::layer(layer).with_filter(filter)`. If the filter is
//! inside, hidden spans still cost three readings of the clock and an entry in their extensions.
//!
//! [`tracing-opentelemetry`]: https://docs.rs/tracing-opentelemetry

use core::any::TypeId;
use core::cell::RefCell;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Span, SpanBuilder, SpanContext, Status, Tracer};
use opentelemetry::{KeyValue, Value};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Interest, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::layer::timing::SpanTimes;
use crate::layer::unix_offset::{UnixOffset, unix_offset_ns};

/// Wraps a tracer for `tracing_opentelemetry::layer().with_tracer`. Inside [`layer`], its spans get
/// tickline's times. Elsewhere it changes nothing.
pub fn tracer<T>(tracer: T) -> TimedTracer<T> {
    TimedTracer {
        tracer,
        offset: Arc::default(),
    }
}

/// Wraps the OpenTelemetry layer, whose tracer must come from [`tracer`].
pub fn layer<S, L>(layer: L) -> impl Layer<S> + use<S, L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    Timed(layer)
}

// The layer around the OpenTelemetry layer: it announces each call, with a time.

/// A call of the OpenTelemetry layer: a span was created or closed, or an event happened.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The time of the call, monotonic ns. For a closed span: its last exit, if there was one.
    ns: u64,
    /// The times of a closed span.
    times: Option<SpanTimes>,
}

thread_local! {
    /// The calls in progress, usually one. A call may cause others if the SDK itself is traced.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// A call in progress. Its drop ends it, also if the OpenTelemetry layer panics, as it does if a
/// value's `Debug` returns an error.
struct InCall;

impl InCall {
    /// Begins a call. A thread that is ending has lost its thread-local memory, so its last spans
    /// keep the times of `SystemTime`.
    fn begin(ns: u64, times: Option<SpanTimes>) -> Self {
        _ = CALLS.try_with(|calls| calls.borrow_mut().push(Call { ns, times }));
        Self
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        _ = CALLS.try_with(|calls| calls.borrow_mut().pop());
    }
}

fn current_call() -> Option<Call> {
    CALLS
        .try_with(|calls| calls.borrow().last().copied())
        .ok()?
}

/// The extension of a span: its last exit, monotonic ns.
struct Exited(u64);

/// Keeps the time of a span's exit.
fn keep_exit<S>(id: &Id, ctx: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let now_ns = tickline::now_ns();
    let Some(span) = ctx.span(id) else { return };
    let mut extensions = span.extensions_mut();
    match extensions.get_mut::<Exited>() {
        // Two threads may come here in another order than they have read the clock.
        Some(Exited(ns)) => *ns = now_ns.max(*ns),
        None => extensions.insert(Exited(now_ns)),
    }
}

/// Begins the call that closes a span.
fn begin_close<S>(id: &Id, ctx: &Context<'_, S>) -> InCall
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let now_ns = tickline::now_ns();
    let found = ctx.span(id).map(|span| {
        let extensions = span.extensions();
        (
            extensions.get::<Exited>().map(|exited| exited.0),
            extensions.get::<SpanTimes>().copied(),
        )
    });
    let (exited_ns, times) = found.unwrap_or_default();
    InCall::begin(exited_ns.unwrap_or(now_ns), times)
}

/// The layer around the OpenTelemetry layer, which gets all calls.
struct Timed<L>(L);

impl<S, L> Layer<S> for Timed<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        self.0.on_register_dispatch(subscriber);
    }

    fn on_layer(&mut self, subscriber: &mut S) {
        self.0.on_layer(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, ctx: Context<'_, S>) -> bool {
        self.0.enabled(metadata, ctx)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let _call = InCall::begin(tickline::now_ns(), None);
        self.0.on_new_span(attributes, id, ctx);
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.max_level_hint()
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        self.0.on_record(id, values, ctx);
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, ctx: Context<'_, S>) {
        self.0.on_follows_from(id, follows, ctx);
    }

    fn event_enabled(&self, event: &Event<'_>, ctx: Context<'_, S>) -> bool {
        self.0.event_enabled(event, ctx)
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let _call = InCall::begin(tickline::now_ns(), None);
        self.0.on_event(event, ctx);
    }

    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        self.0.on_enter(id, ctx);
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        keep_exit(id, &ctx);
        self.0.on_exit(id, ctx);
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let _call = begin_close(&id, &ctx);
        self.0.on_close(id, ctx);
    }

    fn on_id_change(&self, old: &Id, new: &Id, ctx: Context<'_, S>) {
        self.0.on_id_change(old, new, ctx);
    }

    /// `OpenTelemetrySpanExt` finds the OpenTelemetry layer by this.
    #[allow(unsafe_code, reason = "the method of the trait is unsafe")]
    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        // SAFETY: the caller's obligations are the same as this method's. The pointer is valid as
        // long as `self`, which contains the layer.
        unsafe { self.0.downcast_raw(id) }
    }
}

// The tracer inside the OpenTelemetry layer, and its spans: they store the times.

/// An attribute of a span's builder. It is removed before OpenTelemetry starts the span, so no
/// sampler and no exporter sees it.
const CREATED: &str = "tickline.created_ns";

/// A tracer whose spans have tickline's times; made by [`tracer`].
#[derive(Debug, Clone)]
pub struct TimedTracer<T> {
    tracer: T,
    offset: Arc<UnixOffset>,
}

/// A span of a [`TimedTracer`].
#[derive(Debug)]
pub struct TimedSpan<S> {
    span: S,
    /// The offset of Unix time from monotonic time, ns. `None` outside of a [`layer`].
    offset: Option<i64>,
}

impl<S> TimedSpan<S> {
    /// The time of the present call; `time` if there is none.
    fn time_of_call_or(&self, time: SystemTime) -> SystemTime {
        self.offset
            .zip(current_call())
            .map_or(time, |(offset, call)| unix(call.ns, offset))
    }
}

fn unix(monotonic_ns: u64, offset_ns: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(monotonic_ns.saturating_add_signed(offset_ns))
}

impl<T: Tracer> Tracer for TimedTracer<T> {
    type Span = TimedSpan<T::Span>;

    /// The layer calls this when a `tracing` span is created. It later overwrites the start time
    /// with the time of its own clock, so an attribute keeps tickline's time.
    fn span_builder<N: Into<Cow<'static, str>>>(&self, name: N) -> SpanBuilder {
        let mut builder = self.tracer.span_builder(name);
        if let Some(ns) = current_call().and_then(|call| i64::try_from(call.ns).ok()) {
            let attributes = builder
                .attributes
                .get_or_insert_with(|| Vec::with_capacity(16));
            attributes.push(KeyValue::new(CREATED, ns));
        }
        builder
    }

    fn build_with_context(
        &self,
        mut builder: SpanBuilder,
        parent: &opentelemetry::Context,
    ) -> Self::Span {
        let offset = take_created(&mut builder).map(|created_ns| {
            let offset = self.offset.get(tickline::now_ns(), unix_offset_ns);
            builder.start_time = Some(unix(created_ns, offset));
            offset
        });
        TimedSpan {
            span: self.tracer.build_with_context(builder, parent),
            offset,
        }
    }
}

/// Removes the attribute [`CREATED`], and returns its value.
fn take_created(builder: &mut SpanBuilder) -> Option<u64> {
    let attributes = builder.attributes.as_mut()?;
    let index = attributes
        .iter()
        .position(|attribute| attribute.key.as_str() == CREATED)?;
    let Value::I64(ns) = attributes.remove(index).value else {
        return None;
    };
    u64::try_from(ns).ok()
}

impl<S: Span> Span for TimedSpan<S> {
    fn add_event_with_timestamp<N>(
        &mut self,
        name: N,
        timestamp: SystemTime,
        attributes: Vec<KeyValue>,
    ) where
        N: Into<Cow<'static, str>>,
    {
        self.span
            .add_event_with_timestamp(name, self.time_of_call_or(timestamp), attributes);
    }

    fn span_context(&self) -> &SpanContext {
        self.span.span_context()
    }

    fn is_recording(&self) -> bool {
        self.span.is_recording()
    }

    fn set_attribute(&mut self, mut attribute: KeyValue) {
        let times = current_call().and_then(|call| call.times);
        let time = times.and_then(|times| match attribute.key.as_str() {
            "busy_ns" => Some(times.busy()),
            "idle_ns" => Some(times.idle()),
            _ => None,
        });
        if let Some(ns) = time.and_then(|time| i64::try_from(time.as_nanos()).ok()) {
            attribute.value = Value::I64(ns);
        }
        self.span.set_attribute(attribute);
    }

    fn set_status(&mut self, status: Status) {
        self.span.set_status(status);
    }

    fn update_name<N: Into<Cow<'static, str>>>(&mut self, name: N) {
        self.span.update_name(name);
    }

    fn add_link(&mut self, context: SpanContext, attributes: Vec<KeyValue>) {
        self.span.add_link(context, attributes);
    }

    fn end_with_timestamp(&mut self, timestamp: SystemTime) {
        self.span
            .end_with_timestamp(self.time_of_call_or(timestamp));
    }
}
