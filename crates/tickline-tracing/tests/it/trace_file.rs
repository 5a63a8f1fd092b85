//! Trace files are whole, in order and balanced, even if the rings are too small.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{Calls, Hand, on_thread, spawn, timed, with};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{TraceFile, TraceFileBuilder, TraceSummary, Tracks};
use tracing::{debug_span, info_span};

/// Runs `run` with a trace, and reads the trace.
fn traced(builder: TraceFileBuilder, run: impl FnOnce(&Hand)) -> (TraceSummary, Vec<Value>, Trace) {
    let (hand, path) = (
        Hand::default(),
        NamedTempFile::new().unwrap().into_temp_path(),
    );
    let (trace, guard) = builder.create(&path).unwrap();
    hand.timed(trace, || run(&hand));
    let summary = guard.finish().unwrap();
    let events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let trace = Trace::from_events(&events);
    assert_eq!(
        (trace.open().len() as u64, summary.dropped_records),
        (summary.unended_intervals, 0)
    );
    (summary, events, trace)
}

/// The events as a viewer reads them, by the rules of the format for the phases in use.
#[derive(Default)]
struct Trace {
    /// The complete busy intervals: name, start and end (us), and arguments.
    slices: Vec<Value>,
    /// The beginnings of the incomplete intervals, by thread.
    inside: HashMap<u64, Vec<Value>>,
    /// The last time of each thread, us.
    last: HashMap<u64, f64>,
}

impl Trace {
    fn from_events(events: &[Value]) -> Self {
        let mut trace = Self::default();
        events.iter().for_each(|event| trace.add(event));
        trace
    }

    /// Adds an event, and asserts that the times of its thread are in order. An `E` ends the last
    /// open `B` of its thread, and adds its arguments.
    fn add(&mut self, event: &Value) {
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        let thread = event["tid"].as_u64().unwrap();
        let phase = event["ph"].as_str().unwrap();
        assert!(event["name"].is_string() || phase == "E", "{event}");
        if phase == "M" {
            return assert!(event["args"]["name"].is_string(), "{event}");
        }
        let us = event["ts"].as_f64().unwrap();
        if matches!(phase, "B" | "E" | "i") {
            let last = self.last.entry(thread).or_default();
            assert!(*last <= us || event["s"] == "p", "{event} after {last}");
            *last = us.max(*last);
        }
        let inside = self.inside.entry(thread).or_default();
        match phase {
            "B" => inside.push(event.clone()),
            "E" => {
                let mut begin = inside.pop().expect("an end has a beginning");
                for (name, value) in event["args"].as_object().into_iter().flatten() {
                    begin["args"][name] = value.clone();
                }
                self.slices
                    .push(json!([begin["name"], begin["ts"], us, begin["args"]]));
            }
            "i" => assert!(event["s"] == "p" || event["s"] == "t", "{event}"),
            "b" | "n" | "e" => {
                track_of(event);
                assert!(event["cat"].is_string(), "{event}");
            }
            other => panic!("phase {other}"),
        }
    }

    /// The names of the spans that are open at the end.
    fn open(&self) -> Vec<&str> {
        self.inside
            .values()
            .flatten()
            .map(|begin| begin["name"].as_str().unwrap())
            .collect()
    }
}

/// The track of an event of a request.
fn track_of(event: &Value) -> &str {
    event["id2"]["local"]
        .as_str()
        .unwrap_or_else(|| panic!("no track: {event}"))
}

/// The spans of requests as a viewer pairs them: an `e` ends the last open `b` of its track and its
/// name, and adds its arguments. For each: name, start and end (us), and arguments.
fn spans_of_requests(events: &[Value]) -> Vec<Value> {
    let (mut open, mut spans) = (HashMap::<_, Vec<&Value>>::new(), Vec::new());
    for event in events {
        let key = || (track_of(event), event["name"].as_str());
        match event["ph"].as_str() {
            Some("b") => open.entry(key()).or_default().push(event),
            Some("e") => {
                let mut begin = open.get_mut(&key()).and_then(Vec::pop).unwrap().clone();
                for (name, value) in event["args"].as_object().into_iter().flatten() {
                    begin["args"][name] = value.clone();
                }
                spans.push(json!([
                    begin["name"],
                    begin["ts"],
                    event["ts"],
                    begin["args"]
                ]));
            }
            _ => {}
        }
    }
    spans
}

/// Symptom: four futures of 30 ms in a request showed as 1, 21, 41 and 61 ms, each with the later
/// fields of another. Cause: a viewer paired their ends by the number of the request.
#[test]
fn spans_that_overlap_in_a_request_keep_their_length_and_fields() {
    let builder = TraceFile::builder().tracks(Tracks::Requests).with_fields();
    let (summary, events, _) = traced(builder, |hand| {
        let request = info_span!("request");
        let begin = |number: u64| {
            hand.set_ns(number * 10);
            info_span!(parent: &request, "parse", number, result = tracing::field::Empty)
        };
        for (number, span) in [0, 1, 2, 3].map(|number| (number, begin(number))) {
            hand.set_ns(30 + number * 10);
            span.record("result", number);
        }
    });
    assert_eq!((summary.intervals, summary.unended_intervals), (5, 0));
    let mut spans = spans_of_requests(&events);
    spans.retain(|span| span[0] == "parse");
    let expected = [
        json!(["parse", 1_000_000.0, 1_000_000.03, { "number": 0, "result": 0 }]),
        json!(["parse", 1_000_000.01, 1_000_000.04, { "number": 1, "result": 1 }]),
        json!(["parse", 1_000_000.02, 1_000_000.05, { "number": 2, "result": 2 }]),
        json!(["parse", 1_000_000.03, 1_000_000.06, { "number": 3, "result": 3 }]),
    ];
    assert_eq!(spans, expected);
}

/// The type, name, time and fields of all events in a trace of one layer.
fn events_with(tracks: Tracks, change: fn(SpanTimingLayer) -> SpanTimingLayer) -> Vec<Value> {
    let (hand, path) = (
        Hand::default(),
        NamedTempFile::new().unwrap().into_temp_path(),
    );
    let builder = TraceFile::builder().tracks(tracks).with_fields();
    let (trace, guard) = builder.create(&path).unwrap();
    let _active = hand.0.activate();
    with(change(SpanTimingLayer::new().with_sink(trace)), || {
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
    let events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
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

#[test]
fn busy_intervals_are_exact() {
    let text = "a\"b\\c\n\r\t\0\u{1f}\u{7f}\u{b5}\u{1F600}\\";
    let (summary, events, trace) = traced(TraceFile::builder().with_fields(), |hand| {
        let outer = info_span!("outer \"quoted\"", args = 7, text, flag = true, half = 0.5);
        outer.in_scope(|| {
            hand.advance_ns(1);
            debug_span!("inner").in_scope(|| hand.advance_ns(20));
            outer.in_scope(|| hand.advance_ns(300));
        });
        hand.advance_ns(4_000);
        outer.in_scope(|| hand.advance_ns(50_000));
    });
    assert_eq!((summary.intervals, summary.unended_intervals), (3, 0));
    // Only on Linux is the thread's number that of the system.
    if let Ok(system) = fs::read_link("/proc/thread-self") {
        let thread = events.last().unwrap()["tid"].to_string();
        assert_eq!(system.file_name().unwrap().to_str(), Some(thread.as_str()));
    }
    let args = json!({ "args": 7, "text": text, "flag": true, "half": 0.5 });
    let slices = [
        json!(["inner", 1_000_000.001, 1_000_000.021, null]),
        json!(["outer \"quoted\"", 1_000_000.0, 1_000_000.321, args]),
        json!(["outer \"quoted\"", 1_000_004.321, 1_000_054.321, args]),
    ];
    assert_eq!(trace.slices, slices);
}

/// Runs `run` with a small ring, while the writer is stuck because its pipe is full. Then reads the
/// trace.
fn stuck(builder: TraceFileBuilder, run: impl FnOnce(TraceFile)) -> (TraceSummary, Vec<Value>) {
    let (reader, pipe) = io::pipe().unwrap();
    let (trace, guard) = builder.bytes_per_thread(1).write_to(pipe).unwrap();
    run(trace);
    let read = thread::spawn(|| io::read_to_string(reader));
    let summary = guard.finish().unwrap();
    (
        summary,
        serde_json::from_str(&read.join().unwrap().unwrap()).unwrap(),
    )
}

/// The trace of a span around 10,000 spans with an event each, which the ring has no room for. No
/// thread waits for the writer.
fn overfull() -> (TraceSummary, Vec<Value>) {
    let work =
        || (0..10_000).for_each(|_| info_span!("work").in_scope(|| tracing::info!("an event")));
    let (summary, events) = stuck(TraceFile::builder(), |trace| {
        timed(trace, || info_span!("outer").in_scope(work))
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
    let marked: u64 = events
        .iter()
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
        .write_to(io::sink())
        .unwrap();
    let (sender, done) = mpsc::channel();
    // If the thread waits for ever, the timeout drops the guard, which ends the wait.
    let finish = thread::spawn(move || {
        done.recv_timeout(Duration::from_secs(30))
            .map(|()| guard.finish())
    });
    timed(trace, || {
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

/// Symptom: a trace had no room for the beginning of a request, and the flight recorder beside it
/// lost the end of this request. Cause: all recorders shared one flag.
#[test]
fn each_recorder_has_the_ends_of_its_own_requests() {
    let flight = FlightRecorder::builder().tracks(Tracks::Requests).build();
    let (_, events) = stuck(
        TraceFile::builder().tracks(Tracks::Requests).with_fields(),
        |trace| {
            let layer = SpanTimingLayer::new()
                .with_sink(flight.clone())
                .with_sink(trace);
            with(layer, || {
                (0..1_000).for_each(|_| drop(info_span!("request", text = "x".repeat(4_000))))
            });
        },
    );
    let summary = flight.write_to(io::sink()).unwrap();
    assert_eq!((summary.intervals, summary.unended_intervals), (1_000, 0));
    let [begun, ended] =
        ["b", "e"].map(|phase| events.iter().filter(|event| event["ph"] == phase).count());
    assert!(begun > 10 && ended <= begun, "{begun} began, {ended} ended");
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
    timed(trace, || {
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

fn of_file(path: &Path, end: &str) -> Trace {
    let text = fs::read_to_string(path).unwrap() + end;
    Trace::from_events(&serde_json::from_str::<Vec<_>>(&text).unwrap())
}

#[test]
fn after_a_flush_the_file_has_all_earlier_records() {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, guard) = TraceFile::builder()
        .flush_every(Duration::MAX)
        .create(&path)
        .unwrap();
    timed(trace, || {
        let _outer = info_span!("outer").entered();
        for round in 1..=5 {
            let _inside = info_span!("work").entered();
            assert!(guard.flusher().flush(Duration::from_secs(60)));
            let trace = of_file(&path, "]");
            assert_eq!(
                (trace.open(), trace.slices.len()),
                (vec!["outer", "work"], round - 1)
            );
        }
    });
}

#[test]
fn open_spans_are_in_the_file_with_their_fields_and_counted() {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, guard) = TraceFile::builder().with_fields().create(&path).unwrap();
    timed(trace, || {
        let _outer = info_span!("outer", user = 7).entered();
        info_span!("work").in_scope(|| ());
        let summary = guard.finish().unwrap();
        assert_eq!((summary.intervals, summary.unended_intervals), (2, 1));
    });
    let trace = of_file(&path, "");
    assert_eq!((trace.open(), trace.slices.len()), (vec!["outer"], 1));
    assert_eq!(
        trace.inside.values().flatten().next().unwrap()["args"],
        json!({ "user": 7 })
    );
}

#[test]
fn spans_after_the_end_are_not_in_the_file() {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, guard) = TraceFile::builder().create(&path).unwrap();
    timed(trace, || {
        info_span!("before").in_scope(|| ());
        drop(guard);
        info_span!("after").in_scope(|| ());
    });
    let trace = of_file(&path, "");
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

#[test]
fn events_are_instants_with_their_messages_for_names() {
    let (summary, events, _) = traced(TraceFile::builder().with_fields(), |hand| {
        hand.advance_ns(7);
        tracing::info!(rows = 3, "read \"{}\"", "all");
        tracing::info!(message = 5);
        tracing::info!(answer = 42);
    });
    assert_eq!((summary.intervals, summary.events), (0, 3));
    let instants: Vec<_> = events.iter().filter(|event| event["ph"] == "i").collect();
    let read = json!(["read \"all\"", 1_000_000.007, { "rows": 3 }]);
    assert_eq!(
        json!(["name", "ts", "args"].map(|key| &instants[0][key])),
        read
    );
    assert_eq!(instants[1]["name"], "5");
    assert!(
        instants[2]["name"].as_str().unwrap().starts_with("event "),
        "{}",
        instants[2]
    );
}

/// The trace of two requests by their tracks, with all settings. Each request has a span on its own
/// thread, one on another, and two events, one of them in the `Debug` of a value.
fn two_requests() -> (TraceSummary, Vec<Value>) {
    let builder = TraceFile::builder()
        .tracks(Tracks::Requests)
        .with_fields()
        .with_source_locations();
    let (summary, events, _) = traced(builder, |_| {
        let requests = [1, 2].map(|user| info_span!("request", user));
        for request in &requests {
            request.in_scope(|| info_span!("here").in_scope(|| tracing::info!("told")));
            let loud = Calls(|| tracing::info!("formatted"));
            request.in_scope(|| request.record("user", tracing::field::debug(loud)));
            let child = info_span!(parent: request, "elsewhere");
            on_thread(|| child.in_scope(|| ()));
        }
    });
    (summary, events)
}

/// All spans and events of a request are on its track, on any thread, if no spans overlap. Two
/// requests have two tracks.
/// Symptom: a value whose `Debug` sends an event deadlocked.
#[test]
fn a_request_is_one_track() {
    let (_, events) = two_requests();
    let mut requests: HashMap<String, Vec<[&str; 2]>> = HashMap::new();
    for event in events.iter().filter(|event| event["id2"].is_object()) {
        let text = ["ph", "name"].map(|key| event[key].as_str().unwrap());
        requests
            .entry(track_of(event).to_owned())
            .or_default()
            .push(text);
    }
    let spans = ["elsewhere", "here", "request"];
    let [begins, ends] = ["b", "e"].map(|phase| spans.map(|name| [phase, name]));
    let one = [&begins[..], &ends, &[["n", "formatted"], ["n", "told"]]].concat();
    let found = requests.into_values().map(|mut events| {
        events.sort_unstable();
        events
    });
    assert_eq!(found.collect::<Vec<_>>(), [one.clone(), one]);
}

#[test]
fn the_summary_counts_the_spans_and_events_of_requests() {
    let (summary, _) = two_requests();
    assert_eq!(
        (summary.intervals, summary.unended_intervals, summary.events),
        (6, 0, 4)
    );
}

#[test]
fn a_trace_of_requests_has_no_busy_intervals() {
    let (_, events) = two_requests();
    assert!(events.iter().all(|event| event["ph"] != "B"));
}

#[test]
fn the_spans_and_events_of_a_request_have_their_source_locations() {
    let (summary, events) = two_requests();
    let sources = events
        .iter()
        .filter_map(|event| event["args"]["source"].as_str());
    let with_source = sources.filter(|source| source.contains("trace_file.rs:"));
    assert_eq!(
        with_source.count() as u64,
        summary.intervals + summary.events
    );
}

/// `let _` drops a guard at once, which no lint reports. Symptom: the trace was empty, without a
/// reason.
#[test]
fn a_trace_whose_guard_is_dropped_at_once_says_so() {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, _) = TraceFile::builder().create(&path).unwrap();
    timed(trace, || info_span!("lost").in_scope(|| ()));
    let events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mark = "0 spans before the guard was dropped";
    assert!(
        events.iter().any(|event| event["name"] == mark),
        "{events:?}"
    );
}

#[test]
fn numbers_with_the_prefix_are_counters() {
    let path = NamedTempFile::new().unwrap().into_temp_path();
    let (trace, guard) = TraceFile::builder().create(&path).unwrap();
    timed(trace, || {
        tracing::info!(counter.queue = 3);
        tracing::info!(counter.queue = -1, counter.load = 0.5, "balanced");
    });
    assert_eq!(guard.finish().unwrap().events, 2);
    let events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let of_phase = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let counters: Vec<_> = of_phase("C")
        .map(|event| (event["name"].as_str().unwrap(), &event["args"]["value"]))
        .collect();
    let expected = [
        ("queue", &json!(3)),
        ("queue", &json!(-1)),
        ("load", &json!(0.5)),
    ];
    assert_eq!(counters, expected);
    let instants: Vec<_> = of_phase("i").collect();
    assert_eq!(
        (instants.len(), &instants[0]["name"]),
        (1, &json!("balanced"))
    );
}
