//! Trace files in JSON are whole, in order and balanced, even if the rings are too small.
//! What Perfetto's format has, too, is in `both_formats.rs`.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{MockHand, on_thread, run_timed, run_with, spawn};
use crate::trace_view::{Trace, stuck, traced};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::trace_file::{TraceFile, TraceFileGuard, TraceSummary, Tracks};
use tracing::info_span;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;

/// The type, name, time and fields of all events in a trace of one layer.
fn events_with(tracks: Tracks, change: fn(SpanTimingLayer) -> SpanTimingLayer) -> Vec<Value> {
    let (hand, path) = (
        MockHand::default(),
        NamedTempFile::new().unwrap().into_temp_path(),
    );
    let builder = TraceFile::builder().tracks(tracks).with_fields();
    let (trace, guard) = builder.create(&path).unwrap();
    let _active = hand.0.activate();
    run_with(change(SpanTimingLayer::new().with_sink(trace)), || {
        let span = info_span!("outer", field = 7, late = tracing::field::Empty);
        hand.advance_ns(1_000);
        span.in_scope(|| {
            hand.advance_ns(2_000);
            span.record("late", 8);
            info_span!("inner").in_scope(|| hand.advance_ns(3_000));
        });
        hand.advance_ns(4_000);
    });
    guard.finish().unwrap();
    let mut events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // The first event also has the Unix time of the trace's beginning.
    assert!(events[0]["args"]["unix_time"].is_string(), "{}", events[0]);
    events[0]["args"] = Value::Null;
    let shown = |event: &Value| json!([event["ph"], event["name"], event["ts"], event["args"]]);
    events.iter().map(shown).collect()
}

#[test]
fn a_trace_is_the_same_if_the_times_are_for_sinks_only() {
    for tracks in [
        Tracks::Threads,
        Tracks::Requests,
        Tracks::ThreadsAndRequests,
    ] {
        assert_eq!(
            events_with(tracks, |layer| layer),
            events_with(tracks, SpanTimingLayer::for_sinks_only)
        );
    }
}

/// Only on Linux is the thread's number that of the system.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_has_the_systems_number() {
    let (_, events, _) = traced(TraceFile::builder(), |_| info_span!("work").in_scope(|| ()));
    let system = fs::read_link("/proc/thread-self").unwrap();
    let thread = events.last().unwrap()["tid"].to_string();
    assert_eq!(system.file_name().unwrap().to_str(), Some(thread.as_str()));
}

/// The trace of a span around 10,000 spans with an event each, which the ring has no room for. No
/// thread waits for the writer.
fn overfull() -> (TraceSummary, Vec<Value>) {
    let work =
        || (0..10_000).for_each(|_| info_span!("work").in_scope(|| tracing::info!("an event")));
    let (summary, events) = stuck(TraceFile::builder(), |trace| {
        run_timed(trace, || info_span!("outer").in_scope(work))
    });
    assert!(
        summary.dropped_records > 0 && summary.intervals > 100,
        "{summary:?}"
    );
    (summary, events)
}

#[test]
fn the_summary_counts_what_a_full_ring_drops() {
    let (summary, _) = overfull();
    assert_eq!(
        summary.intervals + summary.events + summary.dropped_records,
        20_001
    );
}

#[test]
fn the_file_says_how_much_a_full_ring_has_dropped() {
    let (summary, events) = overfull();
    let is_mark = |event: &&Value| {
        let name = event["name"].as_str();
        name.is_some_and(|name| name.ends_with(" records dropped"))
    };
    let marked: u64 = events
        .iter()
        .filter(is_mark)
        .filter_map(|event| event["args"]["dropped"].as_u64())
        .sum();
    assert_eq!(marked, summary.dropped_records);
}

#[test]
fn a_full_ring_drops_no_end_of_a_span_whose_beginning_it_had_room_for() {
    let (summary, events) = overfull();
    let trace = Trace::from_events(&events);
    assert_eq!(
        (trace.slices.len() as u64, trace.open().len()),
        (summary.intervals, 0)
    );
}

#[test]
fn the_summary_of_a_full_ring_has_no_span_without_an_end() {
    let (summary, _) = overfull();
    assert_eq!(summary.unended_intervals, 0);
}

/// Symptom: a thread in more spans than its ring has room for waited for ever.
#[test]
fn a_thread_does_not_wait_for_room_that_its_ring_never_has() {
    let (trace, guard) = TraceFile::builder()
        .wait_when_full()
        .bytes_per_thread(1)
        .build(io::sink())
        .unwrap();
    let (sender, done) = mpsc::channel();
    // If the thread waits for ever, the timeout drops the guard, which ends the wait.
    let finish = thread::spawn(move || {
        done.recv_timeout(Duration::from_secs(30))
            .map(|()| guard.finish())
    });
    run_timed(trace, || {
        let mut inside: Vec<_> = (0..3_000).map(|_| info_span!("inside").entered()).collect();
        while inside.pop().is_some() {}
    });
    sender.send(()).expect("the thread did not wait");
    let summary = finish.join().unwrap().unwrap().unwrap();
    // The ring has room for the ends of 2,047 spans.
    assert_eq!(
        (
            summary.intervals,
            summary.dropped_records,
            summary.unended_intervals
        ),
        (2_047, 953, 0)
    );
}

/// Writes 40,000 busy intervals of 8 threads, half of them in a shared span, to a file; 10 million
/// intervals with `TICKLINE_TEST_SPANS=10000000`. Each thread has its name.
#[test]
fn a_file_from_eight_threads_is_balanced() {
    const THREADS: u64 = 8;
    let spans: u64 = env::var("TICKLINE_TEST_SPANS").map_or(40_000, |text| text.parse().unwrap());
    let path = NamedTempFile::new().unwrap().into_temp_path();
    // No record may be missing.
    let (trace, guard) = TraceFile::builder().wait_when_full().create(&path).unwrap();
    let each = spans / THREADS / 2 * 2;
    run_timed(trace, || {
        let shared = info_span!("outer");
        let work =
            || (0..each / 2).for_each(|_| shared.in_scope(|| info_span!("inner").in_scope(|| ())));
        thread::scope(|scope| {
            (0..THREADS).for_each(|number| _ = spawn(scope, &number.to_string(), work))
        });
    });
    let summary = guard.finish().unwrap();
    // The test reads line by line, because ten million values would take gigabytes.
    let (mut trace, mut names, mut ended) = (Trace::default(), HashMap::new(), BTreeMap::new());
    let lines = BufReader::new(fs::File::open(&path).unwrap())
        .lines()
        .map(Result::unwrap);
    for line in lines.take_while(|line| line != "]") {
        let event: Value = serde_json::from_str(line.trim_matches(['[', ','])).unwrap();
        let thread = event["tid"].as_u64().unwrap();
        if event["name"] == "thread_name" {
            names.insert(thread, event["args"]["name"].as_str().unwrap().to_owned());
        }
        trace.add(&event);
        let spans = |inside: &Vec<Value>| ["outer", "inner"].into_iter().take(inside.len());
        let begun =
            |inside: &Vec<Value>| inside.iter().map(|begin| &begin["name"]).eq(spans(inside));
        assert!(trace.inside.values().all(begun));
        trace
            .slices
            .drain(..)
            .for_each(|_| *ended.entry(names[&thread].clone()).or_default() += 1);
    }
    assert_eq!(
        ended,
        (0..THREADS)
            .map(|number| (number.to_string(), each))
            .collect()
    );
    assert_eq!(summary.intervals, each * THREADS);
    assert_eq!(
        (
            trace.open().len(),
            summary.unended_intervals,
            summary.dropped_records
        ),
        (0, 0, 0)
    );
}

fn of_file(path: &Path) -> Trace {
    let bytes = fs::read(path).unwrap();
    Trace::from_events(&serde_json::from_slice::<Vec<_>>(&bytes).unwrap())
}

/// The summary and the trace of a span in an open span with a field.
fn within_an_open_span() -> (TraceSummary, Trace) {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, guard) = TraceFile::builder().with_fields().create(&path).unwrap();
    let mut summary = None;
    run_timed(trace, || {
        let _outer = info_span!("outer", user = 7).entered();
        info_span!("work").in_scope(|| ());
        summary = Some(guard.finish().unwrap());
    });
    (summary.unwrap(), of_file(&path))
}

#[test]
fn open_spans_are_counted() {
    let (summary, _) = within_an_open_span();
    assert_eq!((summary.intervals, summary.unended_intervals), (2, 1));
}

#[test]
fn open_spans_are_in_the_file() {
    let (_, trace) = within_an_open_span();
    assert_eq!((trace.open(), trace.slices.len()), (vec!["outer"], 1));
}

#[test]
fn open_spans_have_their_fields() {
    let (_, trace) = within_an_open_span();
    assert_eq!(
        trace.inside.values().flatten().next().unwrap()["args"],
        json!({ "user": 7 })
    );
}

#[test]
fn spans_after_the_end_are_not_in_the_file() {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, guard) = TraceFile::builder().create(&path).unwrap();
    run_timed(trace, || {
        info_span!("before").in_scope(|| ());
        drop(guard);
        info_span!("after").in_scope(|| ());
    });
    let trace = of_file(&path);
    let names: Vec<_> = trace.slices.iter().map(|slice| &slice[0]).collect();
    assert_eq!(names, ["before"]);
}

/// If guards are not dropped in the order of nesting, each span still has its own times.
#[test]
fn spans_may_end_out_of_order() {
    let (_, _, trace) = traced(TraceFile::builder().with_fields(), |hand| {
        let first = info_span!("first").entered();
        hand.advance_ns(10);
        let second = info_span!("second", user = 7).entered();
        hand.advance_ns(200);
        drop(first);
        hand.advance_ns(3_000);
        drop(second);
    });
    let slices = [
        json!(["second", 1_000_000.01, 1_000_000.21, { "user": 7 }]),
        json!(["first", 1_000_000.0, 1_000_000.21, null]),
        json!(["second", 1_000_000.21, 1_000_003.21, { "user": 7 }]),
    ];
    assert_eq!(trace.slices, slices);
}

/// Symptom: values that another thread recorded were missing.
#[test]
fn recorded_values_are_at_the_next_end_of_a_busy_interval() {
    let (_, _, trace) = traced(TraceFile::builder().with_fields(), |_| {
        let span = info_span!("request", route = "/", status = tracing::field::Empty);
        span.in_scope(|| span.record("status", 200));
        span.record("status", 500);
        span.in_scope(|| ());
        span.in_scope(|| on_thread(|| _ = span.record("route", "/b")));
    });
    let args: Vec<_> = trace.slices.iter().map(|slice| &slice[3]).collect();
    let with = |route: &str, status: u64| json!({ "route": route, "status": status });
    assert_eq!(args, [&with("/", 200), &with("/", 500), &with("/b", 500)]);
}

/// Asserts that a trace has no spans, and a mark with the possible causes, if `run` gets its sink
/// and its guard.
fn assert_is_empty_and_says_why(run: impl FnOnce(TraceFile, TraceFileGuard)) {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, guard) = TraceFile::builder().create(&path).unwrap();
    run(trace, guard);
    let events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mark = "0 spans: guard dropped too early, layer not installed, all filtered out, or none \
                entered";
    let last = events.last().unwrap();
    assert_eq!(last["name"], mark, "{events:?}");
}

/// `let _` drops a guard at once, which no lint reports. Symptom: the trace was empty, without a
/// reason.
#[test]
fn a_trace_whose_guard_is_dropped_at_once_says_so() {
    assert_is_empty_and_says_why(|trace, guard| {
        drop(guard);
        run_timed(trace, || info_span!("lost").in_scope(|| ()));
    });
}

/// Symptom: the mark named only the guard, also in the next two cases.
#[test]
fn a_trace_whose_layer_is_not_installed_says_so() {
    assert_is_empty_and_says_why(|trace, _guard| {
        let _layer = SpanTimingLayer::new().with_sink(trace);
        info_span!("lost").in_scope(|| ());
    });
}

#[test]
fn a_trace_of_which_a_filter_hides_all_says_so() {
    assert_is_empty_and_says_why(|trace, _guard| {
        let layer = SpanTimingLayer::new().with_sink(trace);
        let hides_all = layer.with_filter(LevelFilter::OFF);
        run_with(hides_all, || info_span!("lost").in_scope(|| ()));
    });
}

#[test]
fn a_trace_of_threads_without_an_entered_span_says_so() {
    assert_is_empty_and_says_why(|trace, _guard| run_timed(trace, || drop(info_span!("lost"))));
}

#[test]
fn a_counter_keeps_the_type_of_its_number() {
    let (_, events, _) = traced(TraceFile::builder(), |_| {
        tracing::info!(counter.queue = 3, counter.load = 0.5);
    });
    let counters = events.iter().filter(|event| event["ph"] == "C");
    let values: Vec<_> = counters.map(|event| &event["args"]["value"]).collect();
    assert_eq!(values, [&json!(3), &json!(0.5)]);
}
