//! What is compared: layers, and the spans that they get.

use std::hint::black_box;
use std::io;
use std::sync::{Arc, Mutex};

use tickline_tracing::chrome::{Chrome, Guard};
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::format::Rfc3339;
use tickline_tracing::histogram::{Histograms, Measure};
use tickline_tracing::over::StdClock;
use tickline_tracing::{CloseEvents, ClosedSpan, SpanTimingLayer};
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Subscriber, info_span};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

use crate::otel;

/// A way to time spans, or not to. The names are those of the tables.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) dispatch: MakeDispatch,
    /// Held until the end, and then dropped.
    _keep: Option<Box<dyn Keep>>,
}

pub(crate) const TIMING: &str = "SpanTiming";

/// Spans of the measuring thread that stay open meanwhile.
const MANY: u32 = 10_000;

fn plain(name: &'static str, layers: impl Subscriber + Send + Sync) -> Subject {
    Subject { name, dispatch: shared(layers), _keep: None }
}

fn keeping<T: Send + 'static>(keep: T, subject: Subject) -> Subject {
    Subject { _keep: Some(Box::new(Held(Mutex::new(keep)))), ..subject }
}

/// The cost of a span while many other spans are open.
fn among_many(subject: Subject) -> Subject {
    let open: Vec<_> = tracing::dispatcher::with_default(&(subject.dispatch)(), || {
        (0..MANY).map(|number| info_span!("open", number)).collect()
    });
    keeping(open, subject)
}

fn chrome() -> (Chrome, Guard) {
    Chrome::builder().bytes_per_thread(8 << 20).write_to(io::sink()).expect("the trace's thread")
}

pub(crate) fn subjects() -> (Vec<Subject>, Guard) {
    let timing = SpanTimingLayer::new;
    let closes = || timing().with_sink(CloseEvents::new());
    let fmt = || tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::sink);
    let fmt_closes = || {
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(io::sink);
        layer.with_span_events(FmtSpan::CLOSE)
    };
    let ((chrome, guard), (chrome_over_std, std_guard)) = (chrome(), chrome());
    let (their_chrome, their_guard) =
        tracing_chrome::ChromeLayerBuilder::new().writer(io::sink()).include_locations(false).build();
    let subjects = vec![
        Subject { name: "no subscriber", dispatch: Box::new(Dispatch::none), _keep: None },
        plain("a registry without layers", registry()),
        plain("a layer that does nothing", registry().with(Nothing)),
        plain("a layer that stores an extension", registry().with(Stores)),
        plain("... and looks it up at enter, exit, close", registry().with(LooksUp)),
        plain(TIMING, registry().with(timing())),
        among_many(plain("a layer that stores, 10,000 spans open", registry().with(Stores))),
        among_many(plain("SpanTiming, 10,000 spans open", registry().with(timing()))),
        plain("SpanTiming over std", registry().with(SpanTimingLayer::over(StdClock::new()))),
        plain("SpanTiming, a sink that does nothing", registry().with(timing().with_callback(ignore))),
        plain("SpanTiming, histograms", registry().with(timing().with_sink(Histograms::new(Measure::Total)))),
        plain(
            "SpanTiming, flight recorder",
            registry().with(timing().with_sink(FlightRecorder::builder().build())),
        ),
        #[cfg(unix)]
        plain(
            "SpanTiming, CPU time of spans",
            registry().with(timing().with_sink(tickline_tracing::running::RunningTime::new())),
        ),
        plain("SpanTiming, Chrome", registry().with(timing().with_sink(chrome))),
        keeping(
            std_guard,
            plain(
                "SpanTiming over std, Chrome",
                registry().with(SpanTimingLayer::over(StdClock::new()).with_sink(chrome_over_std)),
            ),
        ),
        keeping(their_guard, plain("tracing-chrome", registry().with(their_chrome))),
        Subject { name: "tracing-opentelemetry, spans dropped", dispatch: otel::plain(), _keep: None },
        Subject { name: "tracing-opentelemetry, tickline's times", dispatch: otel::timed(), _keep: None },
        plain("SpanTiming, close events to fmt, to a sink", registry().with(closes()).with(fmt())),
        plain(
            "SpanTiming, close events, tickline's timer",
            registry().with(closes()).with(fmt().with_timer(Rfc3339::new())),
        ),
        plain("fmt with FmtSpan::CLOSE, to a sink", registry().with(fmt_closes())),
        plain(
            "fmt with FmtSpan::CLOSE, tickline's timer",
            registry().with(fmt_closes().with_timer(Rfc3339::new())),
        ),
    ];
    (subjects, guard)
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

/// What a call costs.
#[inline(never)]
fn ignore(span: &ClosedSpan<'_>) {
    black_box((span.metadata(), span.times().total()));
}
