//! The layers, each with its trace file, and the records.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;

use tickline::ClockGuard;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::trace_file::{TraceFile, TraceFileGuard, TraceFormat, Tracks};
use tracing::{info, info_span};
use tracing_perfetto_file::{FlushGuard, PerfettoLayer, SpanMode};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// What is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Span,
    SpanWithField,
    EventWithField,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Span, Self::SpanWithField, Self::EventWithField];
}

/// A layer, and how it is used.
pub(crate) struct TraceSubject {
    /// The name in the tables.
    pub(crate) name: &'static str,
    /// Makes the layer the process's default, with the trace in this file.
    pub(crate) start: fn(&Path) -> Trace,
    /// Makes so many records.
    pub(crate) record: fn(Kind, u64),
}

/// A trace in work.
pub(crate) enum Trace {
    /// Nothing is written.
    None,
    Tickline(ClockGuard, TraceFileGuard),
    PerfettoFile(FlushGuard),
    TracingChrome(tracing_chrome::FlushGuard),
    Fastrace(fastrace::Span),
}

impl Trace {
    /// Writes the rest.
    pub(crate) fn finish(self) {
        match self {
            Self::None => {}
            Self::Tickline(_thread, guard) => {
                let summary = guard.finish().expect("the trace is written");
                assert_eq!(summary.dropped_records, 0, "the trace is whole");
            }
            Self::PerfettoFile(guard) => guard.flush().expect("the trace is written"),
            Self::TracingChrome(guard) => drop(guard),
            Self::Fastrace(root) => {
                drop(root);
                fastrace::flush();
            }
        }
    }
}

pub(crate) const SUBJECTS: [TraceSubject; 12] = [
    TraceSubject {
        name: "a registry without layers",
        start: |_| {
            registry().init();
            Trace::None
        },
        record: by_tracing,
    },
    TraceSubject {
        name: "tickline, JSON, threads",
        start: |path| trace_file(path, TraceFormat::Json, Tracks::Threads),
        record: by_tracing,
    },
    TraceSubject {
        name: "tickline, JSON, requests",
        start: |path| trace_file(path, TraceFormat::Json, Tracks::Requests),
        record: by_tracing,
    },
    TraceSubject {
        name: "tickline, JSON, both",
        start: |path| trace_file(path, TraceFormat::Json, Tracks::ThreadsAndRequests),
        record: by_tracing,
    },
    TraceSubject {
        name: "tickline, Perfetto, threads",
        start: |path| trace_file(path, TraceFormat::Perfetto, Tracks::Threads),
        record: by_tracing,
    },
    TraceSubject {
        name: "tickline, Perfetto, requests",
        start: |path| trace_file(path, TraceFormat::Perfetto, Tracks::Requests),
        record: by_tracing,
    },
    TraceSubject {
        name: "tickline, Perfetto, both",
        start: |path| trace_file(path, TraceFormat::Perfetto, Tracks::ThreadsAndRequests),
        record: by_tracing,
    },
    TraceSubject {
        name: "tracing-perfetto-file, spans",
        start: |path| perfetto_file(path, SpanMode::SpanTracks),
        record: by_tracing,
    },
    TraceSubject {
        name: "tracing-perfetto-file, threads",
        start: |path| perfetto_file(path, SpanMode::ThreadTracks),
        record: by_tracing,
    },
    TraceSubject {
        name: "tracing-perfetto-file, both",
        start: |path| perfetto_file(path, SpanMode::Both),
        record: by_tracing,
    },
    TraceSubject {
        name: "tracing-chrome",
        start: |path| {
            let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new()
                .file(path)
                .include_args(true)
                .include_locations(false)
                .build();
            registry().with(layer).init();
            Trace::TracingChrome(guard)
        },
        record: by_tracing,
    },
    TraceSubject {
        name: "fastrace, spans reported to nobody",
        start: |_| {
            fastrace::set_reporter(Nobody, fastrace::collector::Config::default());
            Trace::Fastrace(fastrace::Span::noop())
        },
        record: by_fastrace,
    },
];

fn trace_file(path: &Path, format: TraceFormat, tracks: Tracks) -> Trace {
    let thread = tickline::start().expect("the clock's thread");
    let (trace, guard) = TraceFile::builder()
        .format(format)
        .tracks(tracks)
        .with_fields()
        .wait_when_full()
        .create(path)
        .expect("the trace's file");
    registry()
        .with(SpanTimingLayer::new().with_sink(trace).for_sinks_only())
        .init();
    Trace::Tickline(thread, guard)
}

fn perfetto_file(path: &Path, mode: SpanMode) -> Trace {
    let file = File::create(path).expect("the trace's file");
    let (layer, guard) = PerfettoLayer::builder(file)
        .span_mode(mode)
        .with_debug_annotations()
        .build();
    registry().with(layer).init();
    Trace::PerfettoFile(guard)
}

fn by_tracing(kind: Kind, records: u64) {
    for number in 0..records {
        match kind {
            Kind::Span => info_span!("span").in_scope(|| black_box(())),
            Kind::SpanWithField => info_span!("span", number).in_scope(|| black_box(())),
            Kind::EventWithField => info!(number, "event"),
        }
    }
}

struct Nobody;

impl fastrace::collector::Reporter for Nobody {
    fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
        black_box(spans);
    }
}

/// The number of local spans under one root: fastrace keeps that many at most.
const LOCAL_SPANS: u64 = 1_000;

fn by_fastrace(kind: Kind, records: u64) {
    use fastrace::prelude::{Event, LocalSpan, Span, SpanContext};

    for first in (0..records).step_by(usize::try_from(LOCAL_SPANS).unwrap_or(usize::MAX)) {
        let root = Span::root("root", SpanContext::random());
        let _parent = root.set_local_parent();
        for number in first..records.min(first + LOCAL_SPANS) {
            match kind {
                Kind::Span => drop(LocalSpan::enter_with_local_parent("span")),
                Kind::SpanWithField => drop(
                    LocalSpan::enter_with_local_parent("span")
                        .with_property(|| ("number", number.to_string())),
                ),
                Kind::EventWithField => LocalSpan::add_event(
                    Event::new("event").with_property(|| ("number", number.to_string())),
                ),
            }
        }
    }
}
