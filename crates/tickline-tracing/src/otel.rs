//! tickline's times for the spans that [`tracing-opentelemetry`] exports.
//!
//! That crate reads `SystemTime::now` when a span is created and exited, and for each event. It has
//! no setting for another clock. [`OtelTimes`] puts tickline's readings in their place, from two
//! sides: layers around the OpenTelemetry layer read the clock, and a tracer inside puts their
//! readings into the spans.
//!
//! ```
//! use opentelemetry::trace::TracerProvider;
//! use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
//! use tickline_tracing::otel::OtelTimes;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let exporter = InMemorySpanExporter::default(); // or that of opentelemetry-otlp
//! let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
//!
//! let times = OtelTimes::new();
//! let tracer = times.tracer(provider.tracer("app"));
//! let layer = times.layer(tracing_opentelemetry::layer().with_tracer(tracer));
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
//! # Which times
//!
//! | of a span | is |
//! |---|---|
//! | start | when it was created |
//! | end | its last exit, or its end if it was never entered, as without this module |
//! | event | when the event happened |
//! | `busy_ns`, `idle_ns` | [`SpanTimes`](crate::SpanTimes)'s, if a [`SpanTimingLayer`](crate::SpanTimingLayer) was added before; else those of `std::time::Instant` |
//!
//! All times of a span have the same offset from monotonic time, so that it becomes neither longer
//! nor shorter if somebody sets the clock meanwhile.
//!
//! Calls that bypass `tracing` keep their times: `OpenTelemetrySpanExt::add_event`, and spans that
//! are started by the tracer itself. An event before OpenTelemetry starts its span also keeps its
//! time. OpenTelemetry starts a span when the span is first entered or gets a child; without
//! context activation, when it is closed.
//!
//! # Filters
//!
//! Put a filter around the whole: `times.layer(otel).with_filter(filter)`. If the filter is inside,
//! spans that it hides still cost three readings of the clock and an entry in their extensions.
//!
//! [`tracing-opentelemetry`]: https://docs.rs/tracing-opentelemetry

use std::sync::Arc;

use tracing_core::Subscriber;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::source::{GlobalClock, TimeSource, UnixOffset};

mod layers;
mod tracer;

use layers::{After, Before};
pub use tracer::{TimedSpan, TimedTracer};

/// The clock for one OpenTelemetry layer and its tracer; see the [module](self).
#[derive(Debug, Clone)]
#[must_use]
pub struct OtelTimes {
    clock: Arc<dyn TimeSource>,
    offset: Arc<UnixOffset>,
}

impl OtelTimes {
    /// Times of tickline's global clock.
    pub fn new() -> Self {
        Self::from_source(GlobalClock)
    }

    /// Times of another clock, for tests.
    pub fn from_source(clock: impl TimeSource) -> Self {
        Self { clock: Arc::new(clock), offset: Arc::default() }
    }

    /// `tracer` with these times, for `tracing_opentelemetry::layer().with_tracer`. It does nothing
    /// else, and nothing at all unless the layer is in [`layer`](Self::layer).
    pub fn tracer<T>(&self, tracer: T) -> TimedTracer<T> {
        TimedTracer { tracer, times: self.clone() }
    }

    /// The OpenTelemetry layer `layer`, whose tracer is made by [`tracer`](Self::tracer).
    pub fn layer<S, L>(&self, layer: L) -> impl Layer<S> + use<S, L>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        L: Layer<S>,
    {
        Before(self.clone()).and_then(layer).and_then(After)
    }
}

impl Default for OtelTimes {
    fn default() -> Self {
        Self::new()
    }
}
