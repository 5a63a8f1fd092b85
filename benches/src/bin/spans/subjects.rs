//! What is compared: layers, and the spans that they get.

use std::hint::black_box;
use std::io;
use std::sync::{Arc, Mutex};

use tickline_tracing::chrome::{Chrome, Guard};
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::histogram::{Histograms, Measure};
use tickline_tracing::over::{LayerOver, StdClock};
use tickline_tracing::{CloseEvents, Sink, SpanTiming, SpanTimingLayer};
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Subscriber, info, info_span};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::otel;

/// A way to time spans, or not to.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) dispatch: MakeDispatch,
    pub(crate) spans: fn(u32),
    /// Held until the end, and then dropped.
    _keep: Option<Box<dyn Keep>>,
}

pub(crate) const STORES: &str = "a layer that stores an extension";
pub(crate) const LOOKS: &str = "... and looks it up at enter, exit, close";
pub(crate) const TIMING: &str = "SpanTiming";
pub(crate) const IGNORES: &str = "SpanTiming, a sink that does nothing";
pub(crate) const HISTOGRAMS: &str = "SpanTiming, histograms";
pub(crate) const FLIGHT: &str = "SpanTiming, flight recorder";
pub(crate) const STORES_AMONG_MANY: &str = "a layer that stores, 10,000 spans open";
pub(crate) const TIMING_AMONG_MANY: &str = "SpanTiming, 10,000 spans open";

/// Spans of the measuring thread that stay open meanwhile.
const MANY: u32 = 10_000;

/// The cost of a span while many other spans are open.
fn among_many(name: &'static str, dispatch: MakeDispatch) -> Subject {
    let open: Vec<_> = tracing::dispatcher::with_default(&dispatch(), || {
        (0..MANY).map(|number| info_span!("open", number)).collect()
    });
    Subject { name, dispatch, spans: empty_spans, _keep: Some(Box::new(Held(Mutex::new(open)))) }
}

pub(crate) fn subjects() -> (Vec<Subject>, Guard) {
    let plain = |name, dispatch: MakeDispatch| Subject { name, dispatch, spans: empty_spans, _keep: None };
    let (chrome, chrome_guard) =
        Chrome::builder().bytes_per_thread(8 << 20).write_to(io::sink()).expect("the trace's thread");
    let (chrome_over_std, std_guard) =
        Chrome::builder().bytes_per_thread(8 << 20).write_to(io::sink()).expect("the trace's thread");
    let std_guard = Held(Mutex::new(std_guard));
    let (their_chrome, their_guard) =
        tracing_chrome::ChromeLayerBuilder::new().writer(io::sink()).include_locations(false).build();
    let their_guard = Held(Mutex::new(their_guard));
    let timing = || {
        tracing_timing::Builder::default()
            .layer(|| hdrhistogram::Histogram::new_with_max(3_600_000_000_000, 2).expect("bounds"))
    };
    let subjects = vec![
        plain("no subscriber", Box::new(Dispatch::none)),
        plain("a registry without layers", shared(registry())),
        plain("a layer that does nothing", shared(registry().with(Nothing))),
        plain(STORES, shared(registry().with(Stores))),
        plain(LOOKS, shared(registry().with(LooksUp))),
        plain(TIMING, shared(registry().with(SpanTimingLayer::new()))),
        among_many(STORES_AMONG_MANY, shared(registry().with(Stores))),
        among_many(TIMING_AMONG_MANY, shared(registry().with(SpanTimingLayer::new()))),
        plain("SpanTiming over std", shared(registry().with(LayerOver::new(StdClock::new())))),
        plain(IGNORES, shared(registry().with(SpanTimingLayer::new().with_sink(Ignores)))),
        plain(
            HISTOGRAMS,
            shared(registry().with(SpanTimingLayer::new().with_sink(Histograms::new(Measure::Total)))),
        ),
        Subject {
            name: "SpanTiming, 64 callsites",
            dispatch: shared(registry().with(SpanTimingLayer::new())),
            spans: spans_of_64_callsites,
            _keep: None,
        },
        Subject {
            name: "SpanTiming, histograms, 64 callsites",
            dispatch: shared(
                registry().with(SpanTimingLayer::new().with_sink(Histograms::new(Measure::Total))),
            ),
            spans: spans_of_64_callsites,
            _keep: None,
        },
        plain(
            "SpanTiming, flight recorder of 256 KiB",
            shared(registry().with(
                SpanTimingLayer::new().with_sink(FlightRecorder::builder().bytes_per_thread(1 << 18).build()),
            )),
        ),
        plain(
            FLIGHT,
            shared(registry().with(SpanTimingLayer::new().with_sink(FlightRecorder::builder().build()))),
        ),
        #[cfg(unix)]
        plain(
            "SpanTiming, CPU time of spans",
            shared(
                registry()
                    .with(SpanTimingLayer::new().with_sink(tickline_tracing::running::RunningTime::new())),
            ),
        ),
        plain("tracing-timing (without an event: no value)", shared(registry().with(timing()))),
        Subject {
            name: "tracing-timing, an event in the span",
            dispatch: shared(registry().with(timing())),
            spans: spans_with_event,
            _keep: None,
        },
        plain("SpanTiming, Chrome", shared(registry().with(SpanTimingLayer::new().with_sink(chrome)))),
        Subject {
            name: "SpanTiming over std, Chrome",
            dispatch: shared(registry().with(LayerOver::new(StdClock::new()).with_sink(chrome_over_std))),
            spans: empty_spans,
            _keep: Some(Box::new(std_guard)),
        },
        Subject {
            name: "tracing-chrome",
            dispatch: shared(registry().with(their_chrome)),
            spans: empty_spans,
            _keep: Some(Box::new(their_guard)),
        },
        plain("tracing-opentelemetry, spans dropped", otel::plain()),
        plain("tracing-opentelemetry, tickline's times", otel::timed()),
        plain("tracing-perfetto", shared(registry().with(tracing_perfetto::PerfettoLayer::new(io::sink)))),
        plain(
            "SpanTiming, close events to fmt, to a sink",
            shared(
                registry()
                    .with(SpanTimingLayer::new().with_sink(CloseEvents::new()))
                    .with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::sink)),
            ),
        ),
        plain(
            "SpanTiming, close events, tickline's timer",
            shared(
                registry().with(SpanTimingLayer::new().with_sink(CloseEvents::new())).with(
                    tracing_subscriber::fmt::layer()
                        .with_ansi(false)
                        .with_timer(tickline_tracing::format::Rfc3339::new())
                        .with_writer(io::sink),
                ),
            ),
        ),
        plain(
            "fmt with FmtSpan::CLOSE, to a sink",
            shared(
                registry().with(
                    tracing_subscriber::fmt::layer()
                        .with_ansi(false)
                        .with_span_events(FmtSpan::CLOSE)
                        .with_writer(io::sink),
                ),
            ),
        ),
        plain(
            "fmt with FmtSpan::CLOSE, tickline's timer",
            shared(
                registry().with(
                    tracing_subscriber::fmt::layer()
                        .with_ansi(false)
                        .with_timer(tickline_tracing::format::Rfc3339::new())
                        .with_span_events(FmtSpan::CLOSE)
                        .with_writer(io::sink),
                ),
            ),
        ),
    ];
    (subjects, chrome_guard)
}

/// Makes a thread's own `Dispatch`. The global default, which programs use, counts no references.
/// With one `Dispatch`, two threads would compete at every span for its reference count, and so
/// they would with two that are neighbours in memory.
pub(crate) type MakeDispatch = Box<dyn Fn() -> Dispatch + Send + Sync>;

pub(crate) fn shared(subscriber: impl Subscriber + Send + Sync + 'static) -> MakeDispatch {
    let subscriber = Arc::new(subscriber);
    Box::new(move || Dispatch::new(Arc::clone(&subscriber)))
}

/// A guard that is only kept to be dropped, by any thread.
struct Held<T>(Mutex<T>);

/// A trait without methods, so that `dyn Keep` can box any value.
trait Keep: Send + Sync {}

impl<T: Send> Keep for Held<T> {}

pub(crate) fn empty_spans(count: u32) {
    for _ in 0..count {
        let span = info_span!("span");
        let entered = span.enter();
        black_box(());
        drop(entered);
    }
}

fn spans_with_event(count: u32) {
    for _ in 0..count {
        let span = info_span!("span with event");
        let entered = span.enter();
        info!("end");
        drop(entered);
    }
}

fn spans_of_64_callsites(count: u32) {
    /// Makes, enters and closes a span. Each use is another callsite.
    macro_rules! span {
        () => {
            || {
                let span = info_span!("span");
                let entered = span.enter();
                black_box(());
                drop(entered);
            }
        };
    }
    macro_rules! eight {
        ($one:expr) => {
            [$one, $one, $one, $one, $one, $one, $one, $one]
        };
    }
    let callsites: [[fn(); 8]; 8] = eight!(eight!(span!()));
    callsites.as_flattened().iter().cycle().take(count as usize).for_each(|span| span());
}

/// Implements every hook, and does nothing in them.
struct Nothing;

impl<S: Subscriber> Layer<S> for Nothing {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        black_box((attributes, id));
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        black_box(id);
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        black_box(id);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        black_box(id);
    }
}

/// As large as what the timing layer stores.
#[derive(Debug, Default)]
struct Stored([u64; 5]);

const _: () = assert!(size_of::<Stored>() == size_of::<tickline_tracing::SpanTiming>());

struct Stores;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Stores {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        span.extensions_mut().insert(Stored::default());
    }
}

/// Stores an extension, and looks it up when the span is entered, exited and closed.
struct LooksUp;

impl LooksUp {
    fn count<S: Subscriber + for<'a> LookupSpan<'a>>(id: &Id, ctx: &Context<'_, S>, place: usize) {
        let Some(span) = ctx.span(id) else { return };
        if let Some(stored) = span.extensions_mut().get_mut::<Stored>() {
            stored.0[place] += 1;
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LooksUp {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<Stored>().is_none() {
            extensions.insert(Stored::default());
        }
    }

    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        Self::count(id, &ctx, 0);
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        Self::count(id, &ctx, 1);
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        Self::count(&id, &ctx, 2);
    }
}

/// A sink that is called, and does nothing: what a call costs.
struct Ignores;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Sink<S> for Ignores {
    #[inline(never)]
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        black_box((span.metadata(), times.total()));
    }
}
