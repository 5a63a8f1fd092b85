//! The compared layers, and their spans.

use std::any::Any;
use std::hint::black_box;
use std::io;
use std::sync::Arc;

use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::fmt::Rfc3339;
use tickline_tracing::histogram::{Histograms, Measure};
use tickline_tracing::trace_file::{TraceFile, TraceFileGuard};
use tickline_tracing::{CloseEvents, SpanTimingLayer};
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Span, Subscriber, info_span};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

use crate::otel;

/// A layer, or none, and the spans that it gets.
pub(crate) struct SpanSubject {
    /// The name in the tables.
    pub(crate) name: &'static str,
    pub(crate) dispatch: MakeDispatch,
    /// Makes this many spans.
    pub(crate) spans: fn(u32),
}

/// The number of spans of the measuring thread that stay open during the measurement.
const MANY: u32 = 10_000;

fn plain(name: &'static str, layers: impl Subscriber + Send + Sync) -> SpanSubject {
    SpanSubject {
        name,
        dispatch: shared(layers),
        spans: |count| empty_spans(count, || info_span!("span")),
    }
}

/// Opens many spans, and returns them.
fn many(subject: &SpanSubject) -> Box<dyn Any> {
    let open = || {
        (0..MANY)
            .map(|number| info_span!("open", number))
            .collect::<Vec<_>>()
    };
    Box::new(tracing::dispatcher::with_default(
        &(subject.dispatch)(),
        open,
    ))
}

fn trace_file() -> (TraceFile, TraceFileGuard) {
    TraceFile::builder()
        .bytes_per_thread(8 << 20)
        .build(io::sink())
        .expect("the trace's thread")
}

/// All subjects, and values that must live until the end of the measurement.
pub(crate) fn subjects() -> (Vec<SpanSubject>, Vec<Box<dyn Any>>) {
    let timing = SpanTimingLayer::new;
    let closes = || timing().with_sink(CloseEvents::new());
    let fmt = || {
        tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(io::sink)
    };
    let fmt_closes = || {
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(io::sink);
        layer.with_span_events(FmtSpan::CLOSE)
    };
    let (trace, guard) = trace_file();
    let (their_chrome, their_guard) = tracing_chrome::ChromeLayerBuilder::new()
        .writer(io::sink())
        .include_locations(false)
        .build();
    let stores_among_many = plain(
        "a layer that stores, 10,000 spans open",
        registry().with(Stores),
    );
    let timing_among_many = plain(
        "SpanTimingLayer, 10,000 spans open",
        registry().with(timing()),
    );
    let kept: Vec<Box<dyn Any>> = vec![
        many(&stores_among_many),
        many(&timing_among_many),
        Box::new((guard, their_guard)),
    ];
    let flight = FlightRecorder::builder().build().expect("a recorder");
    let by_fields = Histograms::builder(Measure::Total)
        .labels(["route", "status"])
        .build();
    let subjects = vec![
        plain("a registry without layers", registry()),
        plain("a layer that stores an extension", registry().with(Stores)),
        plain("SpanTimingLayer", registry().with(timing())),
        stores_among_many,
        timing_among_many,
        plain(
            "SpanTimingLayer, histograms",
            registry().with(timing().with_sink(Histograms::new(Measure::Total))),
        ),
        SpanSubject {
            spans: |count| empty_spans(count, || info_span!("span", route = "/item", status = 200)),
            ..plain(
                "SpanTimingLayer, histograms by two fields",
                registry().with(timing().with_sink(by_fields)),
            )
        },
        plain(
            "SpanTimingLayer, flight recorder",
            registry().with(timing().with_sink(flight)),
        ),
        plain(
            "SpanTimingLayer, trace file",
            registry().with(timing().with_sink(trace)),
        ),
        plain("tracing-chrome", registry().with(their_chrome)),
        plain("tracing-opentelemetry, spans dropped", otel::plain()),
        plain("tracing-opentelemetry, tickline's times", otel::timed()),
        plain(
            "SpanTimingLayer, close events to fmt, to a sink",
            registry().with(closes()).with(fmt()),
        ),
        plain(
            "SpanTimingLayer, close events, tickline's timer",
            registry()
                .with(closes())
                .with(fmt().with_timer(Rfc3339::new())),
        ),
        plain(
            "fmt with FmtSpan::CLOSE, to a sink",
            registry().with(fmt_closes()),
        ),
        plain(
            "fmt with FmtSpan::CLOSE, tickline's timer",
            registry().with(fmt_closes().with_timer(Rfc3339::new())),
        ),
    ];
    (subjects, kept)
}

/// Makes a thread's own `Dispatch`. The global default, which programs use, counts no references.
/// Two threads with one `Dispatch`, or with two that are neighbours in memory, would compete for a
/// reference count at every span.
pub(crate) type MakeDispatch = Box<dyn Fn() -> Dispatch + Send + Sync>;

fn shared(subscriber: impl Subscriber + Send + Sync + 'static) -> MakeDispatch {
    let subscriber = Arc::new(subscriber);
    Box::new(move || Dispatch::new(Arc::clone(&subscriber)))
}

fn empty_spans(count: u32, make: impl Fn() -> Span) {
    for _ in 0..count {
        let span = make();
        let entered = span.enter();
        black_box(());
        drop(entered);
    }
}

/// An extension as large as the timing layer's.
#[derive(Debug, Default)]
struct Stored {
    #[expect(dead_code, reason = "only its size matters")]
    words: [u64; 5],
}

const _: () = assert!(size_of::<Stored>() == size_of::<tickline_tracing::SpanTimes>());

struct Stores;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Stores {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        span.extensions_mut().insert(Stored::default());
    }
}
