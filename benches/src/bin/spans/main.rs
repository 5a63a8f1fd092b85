//! The cost of a span that is created, entered, exited and closed: without a layer, with one that
//! does nothing, with tickline-tracing's, and with others for the same purpose. The subjects take
//! turns in each round. Ratios are to the bare counter in the same run. On one thread the fastest
//! round counts. On two threads the median counts, because in the fastest round the other thread
//! was not running.
//!
//! `cargo run --release -p tickline-benches --bin spans [-- --rounds 200 --json]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod cpu_time;

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use tickline::Clock;
use tickline_benches::subject::counter;
use tickline_benches::{args, report};
use tickline_tracing::chrome::Chrome;
use tickline_tracing::chrome::Guard;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::histogram::{Histograms, Measure};
use tickline_tracing::over::{LayerOver, StdClock};
use tickline_tracing::{CloseEvents, SpanTimingLayer};
use tracing::span::{Attributes, Id};
use tracing::{Dispatch, Subscriber, info, info_span};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

/// Spans in a round. They take 100 us or so, which is short against a time slice, so many rounds
/// are not interrupted.
const SPANS: u32 = 500;

/// A way to time spans, or not to.
struct Subject {
    name: &'static str,
    dispatch: MakeDispatch,
    spans: fn(u32),
    /// Held until the end, and then dropped.
    _keep: Option<Box<dyn Keep>>,
}

fn main() {
    let rounds = u32::try_from(args::number("rounds", 200)).unwrap_or(u32::MAX);
    let guard = tickline::start().expect("the global clock's thread");
    // Wait until the first recalibrations are over.
    std::thread::sleep(Duration::from_millis(1_500));
    let (subjects, trace) = subjects();
    let (bare, std_now) = (rdtsc(rounds), std_now(rounds));
    let one = one_thread(&subjects, rounds);
    let has_two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let two = has_two.then(|| two_threads(&subjects, rounds));
    let trace_cpu = cpu_time::of_traces(rounds);
    let spans = subjects.iter().enumerate().map(|(index, subject)| Cost {
        subject: subject.name,
        one_thread_ns: one[index],
        two_threads_ns: two.as_ref().map(|two| two[index]),
        one_thread_ratio: one[index] / bare,
        two_threads_ratio: two.as_ref().map(|two| two[index] / bare),
    });
    let report = Report {
        rounds,
        state: Clock::global().status().state.to_string(),
        bare_counter_ns: bare,
        std_instant_ns: std_now,
        spans: spans.collect(),
        trace_cpu,
        trace: format!("{:?}", trace.finish().expect("the trace's writer")),
    };
    report::print(&report, text);
    drop(guard);
}

#[derive(Debug, Serialize)]
struct Report {
    /// The fastest counts; on two threads, the median.
    rounds: u32,
    /// The state of tickline's clock.
    state: String,
    bare_counter_ns: f64,
    std_instant_ns: f64,
    spans: Vec<Cost>,
    /// The CPU time that traces take on all threads of the process.
    trace_cpu: Vec<cpu_time::CpuTime>,
    /// The summary of the trace that was written.
    trace: String,
}

/// A span that is created, entered, exited and closed.
#[derive(Debug, Serialize)]
struct Cost {
    subject: &'static str,
    one_thread_ns: f64,
    /// The cost while another CPU does the same; `None` with one CPU.
    two_threads_ns: Option<f64>,
    /// The cost divided by that of a reading of the bare counter; so is the next field.
    one_thread_ratio: f64,
    two_threads_ratio: Option<f64>,
}

fn text(report: &Report) {
    println!("{}", report.state);
    println!(
        "bare counter {:.2} ns, std Instant::now {:.2} ns\n",
        report.bare_counter_ns, report.std_instant_ns
    );
    println!("{:<44} {:>9} {:>7} {:>9} {:>7}", "ns a span", "1 thread", "/bare", "2 threads", "/bare");
    for span in &report.spans {
        println!(
            "{:<44} {:>9.1} {:>7.2} {:>9} {:>7}",
            span.subject,
            span.one_thread_ns,
            span.one_thread_ratio,
            report::or_dash(span.two_threads_ns, 1),
            report::or_dash(span.two_threads_ratio, 2)
        );
    }
    let of = |name: &str| {
        let found = report.spans.iter().find(|span| span.subject == name);
        found.map_or(f64::NAN, |span| span.one_thread_ratio)
    };
    println!(
        "\nSpanTiming costs {:+.2} bare readings more than `stores an extension`, {:+.2} than the same that looks it up",
        of(TIMING) - of(STORES),
        of(TIMING) - of(LOOKS)
    );
    let ns = |name: &str| {
        let found = report.spans.iter().find(|span| span.subject == name);
        found.map_or(f64::NAN, |span| span.one_thread_ns)
    };
    println!(
        "with 10,000 open spans SpanTiming costs {:+.1} ns, the storing layer {:+.1} ns",
        ns(TIMING_AMONG_MANY) - ns(TIMING),
        ns(STORES_AMONG_MANY) - ns(STORES)
    );
    println!("a flight recorder costs {:+.1} ns", ns(FLIGHT) - ns(TIMING));
    println!("\n{:<44} {:>9} {:>9}", "CPU time a span, ns, writer included", "1 thread", "2 threads");
    for cpu in &report.trace_cpu {
        println!("{:<44} {:>9.1} {:>9.1}", cpu.subject, cpu.one_thread_ns, cpu.two_threads_ns);
    }
    println!("the trace: {}", report.trace);
}

const STORES: &str = "a layer that stores an extension";
const LOOKS: &str = "... and looks it up at enter, exit, close";
const TIMING: &str = "SpanTiming";
const FLIGHT: &str = "SpanTiming, flight recorder";
const STORES_AMONG_MANY: &str = "a layer that stores, 10,000 spans open";
const TIMING_AMONG_MANY: &str = "SpanTiming, 10,000 spans open";

/// Spans of the measuring thread that stay open meanwhile.
const MANY: u32 = 10_000;

/// The cost of a span while many other spans are open.
fn among_many(name: &'static str, dispatch: MakeDispatch) -> Subject {
    let open: Vec<_> = tracing::dispatcher::with_default(&dispatch(), || {
        (0..MANY).map(|number| info_span!("open", number)).collect()
    });
    Subject { name, dispatch, spans: empty_spans, _keep: Some(Box::new(Held(Mutex::new(open)))) }
}

fn subjects() -> (Vec<Subject>, Guard) {
    let plain = |name, dispatch: MakeDispatch| Subject { name, dispatch, spans: empty_spans, _keep: None };
    let (chrome, chrome_guard) =
        Chrome::builder().bytes_per_thread(8 << 20).write_to(io::sink()).expect("the trace's thread");
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
        plain(
            "SpanTiming, histograms",
            shared(registry().with(SpanTimingLayer::new().with_sink(Histograms::new(Measure::Total)))),
        ),
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
        Subject {
            name: "SpanTiming, Chrome",
            dispatch: shared(registry().with(SpanTimingLayer::new().with_sink(chrome))),
            spans: empty_spans,
            _keep: None,
        },
        Subject {
            name: "tracing-chrome",
            dispatch: shared(registry().with(their_chrome)),
            spans: empty_spans,
            _keep: Some(Box::new(their_guard)),
        },
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
            "... with the time by tickline",
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
            "... with the time by tickline too",
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
type MakeDispatch = Box<dyn Fn() -> Dispatch + Send + Sync>;

fn shared(subscriber: impl Subscriber + Send + Sync + 'static) -> MakeDispatch {
    let subscriber = Arc::new(subscriber);
    Box::new(move || Dispatch::new(Arc::clone(&subscriber)))
}

/// This thread's own `Dispatch` for each subject.
fn dispatches(subjects: &[Subject]) -> Vec<Dispatch> {
    subjects.iter().map(|subject| (subject.dispatch)()).collect()
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

fn per_call(calls: u32, run: impl FnOnce(u32)) -> f64 {
    let start = Instant::now();
    run(calls);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

fn fastest(rounds: u32, mut round: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn rdtsc(rounds: u32) -> f64 {
    let counter = counter();
    let run = |calls| (0..calls).for_each(|_| _ = black_box(tickline_core::counter::Counter::now(&counter)));
    fastest(rounds, || per_call(2_000, run))
}

fn std_now(rounds: u32) -> f64 {
    fastest(rounds, || per_call(2_000, |calls| (0..calls).for_each(|_| _ = black_box(Instant::now()))))
}

/// ns a span for each subject.
fn one_thread(subjects: &[Subject], rounds: u32) -> Vec<f64> {
    let mut fastest = vec![f64::INFINITY; subjects.len()];
    let dispatches = dispatches(subjects);
    for _ in 0..rounds {
        for ((subject, dispatch), fastest) in subjects.iter().zip(&dispatches).zip(&mut fastest) {
            tracing::dispatcher::with_default(dispatch, || {
                (subject.spans)(50);
                *fastest = fastest.min(per_call(SPANS, subject.spans));
            });
        }
        // Give the traces' writers time, so that their work does not count for other subjects.
        std::thread::sleep(Duration::from_millis(1));
    }
    fastest
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// ns a span for each subject, while another thread on another CPU does the same.
fn two_threads(subjects: &[Subject], rounds: u32) -> Vec<f64> {
    const IDLE: usize = usize::MAX;
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    let pin = |index: usize| {
        if let Some(cpu) = cpus.get(index) {
            core_affinity::set_for_current(*cpu);
        }
    };
    let (current, running) = (AtomicUsize::new(IDLE), AtomicUsize::new(IDLE));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            let dispatches = dispatches(subjects);
            // ORDERING: Relaxed for all: hints about what to do next.
            while !stop.load(Ordering::Relaxed) {
                // ORDERING: as above.
                let subject = current.load(Ordering::Relaxed);
                // ORDERING: as above.
                running.store(subject, Ordering::Relaxed);
                match subjects.get(subject).zip(dispatches.get(subject)) {
                    Some((subject, dispatch)) => {
                        tracing::dispatcher::with_default(dispatch, || (subject.spans)(50));
                    }
                    None => std::thread::sleep(Duration::from_micros(100)),
                }
            }
        });
        let measured = scope.spawn(|| {
            pin(0);
            let dispatches = dispatches(subjects);
            let mut times = vec![Vec::new(); subjects.len()];
            for _ in 0..rounds {
                for (index, (subject, times)) in subjects.iter().zip(&mut times).enumerate() {
                    // ORDERING: Relaxed, as above.
                    current.store(index, Ordering::Relaxed);
                    // ORDERING: as above.
                    while running.load(Ordering::Relaxed) != index {
                        spin_loop();
                    }
                    tracing::dispatcher::with_default(&dispatches[index], || {
                        (subject.spans)(50);
                        times.push(per_call(SPANS, subject.spans));
                    });
                }
                // ORDERING: as above.
                current.store(IDLE, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
            // ORDERING: Relaxed, as above.
            stop.store(true, Ordering::Relaxed);
            times.into_iter().map(median).collect()
        });
        measured.join().expect("the measuring thread")
    })
}
