//! tickline's times for the spans that [`tracing-opentelemetry`] exports.
//!
//! That crate reads `SystemTime::now` when a span is created and exited, and for each event. It has
//! no setting for another clock. [`OtelTimes`] puts tickline's readings in their place, from two
//! sides: layers around the OpenTelemetry layer read the clock, and a tracer inside puts their
//! readings into the spans.
//!
#![cfg_attr(feature = "opentelemetry-0-33", doc = "```")]
#![cfg_attr(not(feature = "opentelemetry-0-33"), doc = "```ignore")]
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
//! # Versions
//!
//! Two versions of the crate `opentelemetry` have a feature here, and both may be on. Older
//! versions of `tracing-opentelemetry` do not accept a tracer of another crate.
//!
//! | feature | `opentelemetry` | `tracing-opentelemetry` |
//! |---|---|---|
//! | `opentelemetry-0-33` | 0.33 | 0.34 |
//! | `opentelemetry-0-32` | 0.32 | 0.33 |
//!
//! # Which times
//!
//! | of a span | is |
//! |---|---|
//! | start | when it was created |
//! | end | its last exit, or its end if it was never entered, as without this module |
//! | event | when the event happened |
//! | `busy_ns`, `idle_ns` | [`SpanTiming`](crate::SpanTiming)'s, if a [`SpanTimingLayer`](crate::SpanTimingLayer) was added before; else those of `std::time::Instant` |
//!
//! All times of a span have the same offset from monotonic time, so that it becomes neither longer
//! nor shorter if somebody sets the clock meanwhile.
//!
//! Calls that bypass `tracing` keep their times: `OpenTelemetrySpanExt::add_event`, and spans that
//! are started by the tracer itself. If two threads compete, one with the first enter of a span and
//! the other with an event in it, that event may keep the time of `SystemTime`.
//!
//! # Filters
//!
//! Put a filter around the whole: `times.layer(otel).with_filter(filter)`. If the filter is inside,
//! spans that it hides still cost two readings of the clock and an entry in their extensions.
//!
//! [`tracing-opentelemetry`]: https://docs.rs/tracing-opentelemetry

use core::fmt;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing_core::Subscriber;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::source::{GlobalClock, TimeSource};
use crate::unix_offset::UnixOffset;

mod call;
mod layers;
mod versions;

use layers::{After, Before};

/// Numbers the spans of the process, so that a tracer finds the times of their events.
static NEXT_SPAN: AtomicU64 = AtomicU64::new(1);

/// The clock for one OpenTelemetry layer and its tracer; see the [module](self).
#[derive(Debug, Clone)]
pub struct OtelTimes(Arc<Shared>);

struct Shared {
    clock: Box<dyn TimeSource>,
    offset: UnixOffset,
    /// Monotonic times of the events of spans that OpenTelemetry has not started yet, by the span's
    /// number. OpenTelemetry starts a span at its first enter, so that few have such events.
    waiting: Mutex<HashMap<u64, Vec<u64>>>,
    /// Spans in `waiting`.
    waiting_spans: AtomicUsize,
}

impl OtelTimes {
    /// Times of tickline's global clock.
    #[must_use]
    pub fn new() -> Self {
        Self::over(GlobalClock)
    }

    /// Times of another clock, for tests.
    #[must_use]
    pub fn over(clock: impl TimeSource) -> Self {
        Self(Arc::new(Shared {
            clock: Box::new(clock),
            offset: UnixOffset::new(),
            waiting: Mutex::default(),
            waiting_spans: AtomicUsize::new(0),
        }))
    }

    /// `tracer` with these times, for `tracing_opentelemetry::layer().with_tracer`. It does nothing
    /// else, and nothing at all unless the layer is in [`layer`](Self::layer).
    #[must_use]
    pub fn tracer<T>(&self, tracer: T) -> TimedTracer<T> {
        TimedTracer { tracer, shared: Arc::clone(&self.0) }
    }

    /// The OpenTelemetry layer `layer`, whose tracer is made by [`tracer`](Self::tracer).
    #[must_use]
    pub fn layer<S, L>(&self, layer: L) -> impl Layer<S> + use<S, L>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        L: Layer<S>,
    {
        Before(Arc::clone(&self.0)).and_then(layer).and_then(After(Arc::clone(&self.0)))
    }
}

impl Default for OtelTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<u64>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the time of an event until OpenTelemetry starts its span.
    fn wait(&self, span: u64, event_ns: u64) {
        let mut waiting = self.lock();
        waiting.entry(span).or_default().push(event_ns);
        // ORDERING: Relaxed, pairs with the load in `take_waiting`.
        self.waiting_spans.store(waiting.len(), Ordering::Relaxed);
    }

    /// The times of a span's events that were kept, ns.
    fn take_waiting(&self, span: u64) -> Vec<u64> {
        // ORDERING: Relaxed, pairs with the store in `wait`. No time is lost: a thread that sees
        // the event in its span has taken OpenTelemetry's lock after it.
        if self.waiting_spans.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut waiting = self.lock();
        let times = waiting.remove(&span).unwrap_or_default();
        // ORDERING: Relaxed, as in `wait`.
        self.waiting_spans.store(waiting.len(), Ordering::Relaxed);
        times
    }
}

/// A tracer whose spans have tickline's times; made by [`OtelTimes::tracer`].
#[derive(Debug, Clone)]
pub struct TimedTracer<T> {
    tracer: T,
    shared: Arc<Shared>,
}

impl<T> TimedTracer<T> {
    /// The offset of Unix time from monotonic time, for a span that starts now.
    fn offset(&self) -> Offset {
        let clock = &*self.shared.clock;
        Offset(self.shared.offset.get(clock.now_ns(), clock))
    }
}

/// A span of a [`TimedTracer`].
#[derive(Debug)]
pub struct TimedSpan<S> {
    span: S,
    /// `None` if the span did not come from a layer that [`OtelTimes`] knows.
    offset: Option<Offset>,
}

/// The offset of Unix time from monotonic time, ns.
#[derive(Debug, Clone, Copy)]
struct Offset(i64);

impl Offset {
    fn unix(self, monotonic_ns: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(monotonic_ns.saturating_add_signed(self.0))
    }
}
