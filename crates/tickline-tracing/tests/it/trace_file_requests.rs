//! The requests in a trace file: their spans, events and tracks.

use std::collections::HashMap;
use std::io;

use serde_json::{Value, json};
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{TraceFile, TraceSummary, Tracks};
use tracing::info_span;

use crate::common::{Calls, on_thread, run_with};
use crate::trace_view::{stuck, traced, track_of};

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

/// Symptom: a trace had no room for the beginning of a request, and the flight recorder beside it
/// lost the end of this request. Cause: all recorders shared one flag.
#[test]
fn each_recorder_has_the_ends_of_its_own_requests() {
    let flight = FlightRecorder::builder()
        .tracks(Tracks::Requests)
        .build()
        .unwrap();
    let (_, events) = stuck(
        TraceFile::builder().tracks(Tracks::Requests).with_fields(),
        |trace| {
            let layer = SpanTimingLayer::new()
                .with_sink(flight.clone())
                .with_sink(trace);
            run_with(layer, || {
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
fn the_summary_tells_the_spans_of_requests_from_the_intervals_of_threads() {
    let builder = TraceFile::builder().tracks(Tracks::ThreadsAndRequests);
    let (summary, ..) = traced(builder, |_| {
        let span = info_span!("request");
        for _ in ["a poll", "another"] {
            span.in_scope(|| ());
        }
    });
    assert_eq!((summary.intervals, summary.request_intervals), (3, 1));
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
    let with_source = sources.filter(|source| source.contains("trace_file_requests.rs:"));
    assert_eq!(
        with_source.count() as u64,
        summary.intervals + summary.events
    );
}

/// Symptom: one object had the key twice, and a reader saw one of the two values.
#[test]
fn a_field_that_is_called_source_stays_beside_the_source_location() {
    let builder = TraceFile::builder().with_fields().with_source_locations();
    let (_, events, _) = traced(builder, |_| tracing::info!(source = "disk", "read"));
    let args = &events.iter().find(|event| event["ph"] == "i").unwrap()["args"];
    assert_eq!(args["source"], "disk");
    let location = args["source location"].as_str().unwrap();
    assert!(location.contains("trace_file_requests.rs:"), "{location}");
}
