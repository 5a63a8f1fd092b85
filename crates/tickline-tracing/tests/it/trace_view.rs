//! JSON traces, as a viewer reads them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::thread;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tickline_tracing::trace_file::{TraceFile, TraceFileBuilder, TraceSummary};

use crate::common::MockHand;
use crate::perfetto_view::{Slice, Track, View};

/// Runs `run` with a trace, and reads the trace.
pub fn traced(
    builder: TraceFileBuilder,
    run: impl FnOnce(&MockHand),
) -> (TraceSummary, Vec<Value>, Trace) {
    let (hand, path) = (
        MockHand::default(),
        NamedTempFile::new().unwrap().into_temp_path(),
    );
    let (trace, guard) = builder.create(&path).unwrap();
    hand.run_timed(trace, || run(&hand));
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
pub struct Trace {
    /// The complete busy intervals: name, start and end (us), and arguments.
    pub slices: Vec<Value>,
    /// The beginnings of the incomplete intervals, by thread.
    pub inside: HashMap<u64, Vec<Value>>,
    /// The last time of each thread, us.
    last: HashMap<u64, f64>,
}

impl Trace {
    pub fn from_events(events: &[Value]) -> Self {
        let mut trace = Self::default();
        events.iter().for_each(|event| trace.add(event));
        trace
    }

    /// Adds an event, and asserts that the times of its thread are in order. An `E` ends the last
    /// open `B` of its thread, and adds its arguments.
    pub fn add(&mut self, event: &Value) {
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
            "C" => assert!(event["args"].is_object(), "{event}"),
            "b" | "n" | "e" => {
                track_of(event);
                assert!(event["cat"].is_string(), "{event}");
            }
            other => panic!("phase {other}"),
        }
    }

    /// The names of the spans that are open at the end.
    pub fn open(&self) -> Vec<&str> {
        self.inside
            .values()
            .flatten()
            .map(|begin| begin["name"].as_str().unwrap())
            .collect()
    }
}

/// A trace as the view of one in Perfetto's format. Only its counters have tracks.
pub fn view_of(events: &[Value]) -> View {
    let trace = Trace::from_events(events);
    let mut view = View::default();
    for slice in &trace.slices {
        let slice = slice_of(&slice[0], &slice[1], &slice[2], &slice[3]);
        view.slices.push(slice);
    }
    for begin in trace.inside.values().flatten() {
        let start = &begin["ts"];
        let slice = slice_of(&begin["name"], start, start, &begin["args"]);
        view.open.push(slice);
    }
    for event in events {
        let at = &event["ts"];
        match event["ph"].as_str() {
            Some("i") => {
                let instant = slice_of(&event["name"], at, at, &event["args"]);
                view.instants.push(instant);
            }
            Some("C") => {
                let track = counter_track(&mut view, event["name"].as_str().unwrap());
                let value = event["args"]["value"].as_f64().unwrap();
                view.counters.push((track, ns_of(at), value));
            }
            _ => {}
        }
    }
    view
}

/// A busy interval or an event, without what this format has elsewhere or not at all.
fn slice_of(name: &Value, start: &Value, end: &Value, args: &Value) -> Slice {
    let args = args.as_object().cloned().unwrap_or_default();
    Slice {
        name: name.as_str().unwrap().to_owned(),
        category: String::new(),
        start_ns: ns_of(start),
        end_ns: ns_of(end),
        args: args.into(),
        source: None,
        track: 0,
        flows: Vec::new(),
    }
}

/// A time in ns. The format has it in us, with three decimals.
fn ns_of(us: &Value) -> u64 {
    let us = format!("{:.3}", us.as_f64().unwrap());
    us.replace('.', "").parse().unwrap()
}

/// The number of the track of the counter with this name. A viewer tells counters apart by their
/// names.
fn counter_track(view: &mut View, name: &str) -> u64 {
    let known = view.tracks.iter().find(|(_, track)| track.name == name);
    if let Some((number, _)) = known {
        return *number;
    }
    let number = view.tracks.len() as u64;
    let track = Track {
        name: name.to_owned(),
        is_counter: true,
        ..Track::default()
    };
    view.tracks.insert(number, track);
    number
}

/// The track of an event of a request.
pub fn track_of(event: &Value) -> &str {
    event["id2"]["local"]
        .as_str()
        .unwrap_or_else(|| panic!("no track: {event}"))
}

/// Runs `run` with a small ring, while the writer is stuck because its pipe is full. Then reads the
/// trace.
pub fn stuck(builder: TraceFileBuilder, run: impl FnOnce(TraceFile)) -> (TraceSummary, Vec<Value>) {
    let (reader, pipe) = io::pipe().unwrap();
    let (trace, guard) = builder.bytes_per_thread(1).build(pipe).unwrap();
    run(trace);
    let read = thread::spawn(|| io::read_to_string(reader));
    let summary = guard.finish().unwrap();
    (
        summary,
        serde_json::from_str(&read.join().unwrap().unwrap()).unwrap(),
    )
}
