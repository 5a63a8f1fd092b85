//! The CPU time that a trace file takes on all threads of the process, including its writer's.

use std::io;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::chrome::Chrome;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::subjects::{MakeDispatch, empty_spans, shared};

/// Spans of a thread in a round. They fit into the rings, so that none is dropped. They take some
/// ms, which is long for the CPU clock of the process, whose resolution is 1 us or better.
const SPANS: u32 = 50_000;

/// Room for these spans, bytes: a span takes 96, and a quarter more.
const BYTES: usize = SPANS as usize * 120;

/// A span that is created, entered, exited, closed, and written.
#[derive(Debug, Serialize)]
pub(crate) struct CpuTime {
    pub(crate) subject: &'static str,
    pub(crate) one_thread_ns: f64,
    pub(crate) two_threads_ns: f64,
}

/// A name, and a run on so many threads, until its trace is finished.
type Traced = (&'static str, fn(u32));

/// What is compared. All write the same: no fields, and no places in the source.
const SUBJECTS: [Traced; 3] = [
    ("SpanTiming alone", |threads| run(&shared(registry().with(SpanTimingLayer::new())), threads)),
    ("SpanTiming, Chrome", |threads| {
        let (chrome, guard) =
            Chrome::builder().bytes_per_thread(BYTES).write_to(io::sink()).expect("the trace's thread");
        run(&shared(registry().with(SpanTimingLayer::new().with_sink(chrome))), threads);
        let summary = guard.finish().expect("a sink takes all");
        assert_eq!((summary.written, summary.dropped), (u64::from(threads * SPANS), 0));
    }),
    ("tracing-chrome", |threads| {
        let (layer, guard) =
            tracing_chrome::ChromeLayerBuilder::new().writer(io::sink()).include_locations(false).build();
        run(&shared(registry().with(layer)), threads);
        drop(guard);
    }),
];

/// The least CPU time of some rounds, in which the subjects take turns.
pub(crate) fn of_traces(rounds: u32) -> Vec<CpuTime> {
    let rounds = (rounds / 20).clamp(2, 15);
    let mut times = SUBJECTS.map(|(subject, _)| CpuTime {
        subject,
        one_thread_ns: f64::INFINITY,
        two_threads_ns: f64::INFINITY,
    });
    for _ in 0..rounds {
        for (time, (_, run)) in times.iter_mut().zip(SUBJECTS) {
            time.one_thread_ns = time.one_thread_ns.min(span_ns(run, 1));
            time.two_threads_ns = time.two_threads_ns.min(span_ns(run, 2));
        }
    }
    times.into()
}

/// CPU time of the process, ns a span, from the first span until the trace is finished.
fn span_ns(run: fn(u32), threads: u32) -> f64 {
    let before = process_cpu();
    run(threads);
    (process_cpu() - before).as_secs_f64() * 1e9 / f64::from(threads * SPANS)
}

fn run(dispatch: &MakeDispatch, threads: u32) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| tracing::dispatcher::with_default(&dispatch(), || empty_spans(SPANS)));
        }
    });
}

fn process_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, to which the pointer points.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "the process has a CPU clock");
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
