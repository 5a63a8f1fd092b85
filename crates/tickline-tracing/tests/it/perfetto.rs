//! Traces in Perfetto's format, as types from Perfetto's own schema read them. What JSON has, too,
//! is in `both_formats.rs`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use std::{fs, io};

use serde_json::json;
use tempfile::tempdir;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{
    TraceFile, TraceFileBuilder, TraceFormat, TraceSummary, Tracks,
};
use tracing::{info, info_span};

use crate::common::{MockHand, START_NS, on_thread, run_timed};
use crate::perfetto_view::View;

/// Runs `run` with a trace, and returns its bytes.
pub fn bytes_of(builder: TraceFileBuilder, run: impl FnOnce(&MockHand)) -> (TraceSummary, Vec<u8>) {
    let (hand, folder) = (MockHand::default(), tempdir().unwrap());
    let path = folder.path().join("trace.pftrace");
    let (trace, guard) = builder.create(&path).unwrap();
    hand.run_timed(trace, || run(&hand));
    let summary = guard.finish().unwrap();
    assert_eq!(summary.dropped_records, 0);
    (summary, fs::read(path).unwrap())
}

/// Runs `run` with a trace, and reads the trace.
fn traced(builder: TraceFileBuilder, run: impl FnOnce(&MockHand)) -> (TraceSummary, View) {
    let (summary, bytes) = bytes_of(builder, run);
    let view = View::of(&bytes);
    assert_eq!(
        (view.slices.len() + view.open.len(), view.open.len() as u64),
        (
            usize::try_from(summary.intervals).unwrap(),
            summary.unended_intervals
        )
    );
    (summary, view)
}

fn names(view: &View) -> Vec<&str> {
    view.slices.iter().map(|slice| &*slice.name).collect()
}

#[test]
fn the_extension_of_the_file_chooses_the_format() {
    let (_, bytes) = bytes_of(TraceFile::builder(), |_| info_span!("work").in_scope(|| ()));
    assert_eq!(names(&View::of(&bytes)), ["work"]);
}

#[test]
fn the_setting_chooses_the_format_against_the_extension() {
    let (_, bytes) = bytes_of(TraceFile::builder().format(TraceFormat::Json), |_| ());
    assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok());
}

#[test]
fn the_category_of_a_span_is_its_module() {
    let (_, view) = traced(TraceFile::builder(), |_| info_span!("work").in_scope(|| ()));
    assert_eq!(view.slices[0].category, "it::perfetto");
}

/// The trace of a span on another thread.
fn of_another_thread() -> View {
    let (_, view) = traced(TraceFile::builder(), |hand| {
        on_thread(|| {
            let _active = hand.0.activate();
            info_span!("work").in_scope(|| ());
        });
    });
    view
}

#[test]
fn a_thread_has_its_name_and_numbers() {
    let view = of_another_thread();
    let thread = &view.tracks[&view.slices[0].track];
    assert_eq!(thread.name, "a thread");
    assert!(thread.tid > Some(0) && thread.pid == i32::try_from(std::process::id()).ok());
}

#[test]
fn the_process_has_its_name() {
    let view = of_another_thread();
    let process = view.tracks.values().find(|track| track.tid.is_none());
    assert!(process.unwrap().name.starts_with("it-"));
}

/// The trace of a request with four spans `parse`, which overlap.
fn overlapping() -> View {
    let builder = TraceFile::builder().tracks(Tracks::Requests).with_fields();
    let (_, view) = traced(builder, |hand| {
        let request = info_span!("request");
        let begin = |number: u64| {
            hand.set_ns(number * 10);
            info_span!(parent: &request, "parse", number, result = tracing::field::Empty)
        };
        let spans = [0, 1, 2, 3].map(|number| (number, begin(number)));
        for (number, span) in spans {
            hand.set_ns(40 + number * 10);
            span.record("result", number);
        }
    });
    view
}

/// Symptom: four futures of 30 ms in a request showed as 1, 21, 41 and 61 ms, each with the later
/// fields of another.
#[test]
fn spans_that_overlap_keep_their_length_and_fields() {
    let expected = [0, 1, 2, 3].map(|number: u64| {
        let start_ns = START_NS + number * 10;
        (
            start_ns,
            start_ns + 40,
            json!({ "number": number, "result": number }),
        )
    });
    assert_eq!(overlapping().named("parse"), expected);
}

#[test]
fn the_first_of_overlapping_spans_is_on_the_track_of_the_request() {
    let view = overlapping();
    let tracks: BTreeSet<_> = view.slices.iter().map(|slice| slice.track).collect();
    assert_eq!(tracks.len(), 4, "of the request and four spans");
}

#[test]
fn the_tracks_of_overlapping_spans_are_below_the_request_and_name_the_thread() {
    let view = overlapping();
    for slice in view.slices.iter().filter(|slice| slice.name == "parse") {
        let path = view.path(slice.track);
        assert_eq!(path[path.len() - 2], "request", "{path:?}");
        assert!(path[path.len() - 1].starts_with("it-"), "{path:?}");
    }
}

#[test]
fn a_span_that_ends_on_another_thread_is_whole() {
    let (_, view) = traced(TraceFile::builder().tracks(Tracks::Requests), |hand| {
        let request = info_span!("request");
        on_thread(|| {
            let _active = hand.0.activate();
            hand.advance_ns(10);
            info_span!(parent: &request, "step").in_scope(|| hand.advance_ns(20));
            drop(request);
        });
    });
    assert_eq!(
        view.named("request"),
        [(START_NS, START_NS + 30, json!({}))]
    );
    assert_eq!(
        view.named("step"),
        [(START_NS + 10, START_NS + 30, json!({}))]
    );
}

/// The trace of an event with a field, and with its source location.
fn event_with_source_location() -> View {
    let builder = TraceFile::builder().with_source_locations();
    let (_, view) = traced(builder, |_| info!(rows = 3, "read"));
    view
}

#[test]
fn an_event_has_its_source_location() {
    let view = event_with_source_location();
    let source = view.instants[0].source.as_ref().unwrap();
    assert!(source.contains("tests/it/perfetto.rs:"), "{source}");
}

#[test]
fn a_source_location_is_no_argument() {
    let view = event_with_source_location();
    assert_eq!(view.instants[0].args, json!({ "rows": 3 }));
}

#[test]
fn an_event_in_a_request_is_on_the_track_of_its_span() {
    let (_, view) = traced(TraceFile::builder().tracks(Tracks::Requests), |_| {
        info_span!("request").in_scope(|| info!("told"));
    });
    assert_eq!(view.instants[0].track, view.slices[0].track);
}

/// The names of a callsite come with its first event that is shown.
#[test]
fn an_event_has_its_names_after_events_with_counters_alone() {
    let (_, view) = traced(TraceFile::builder(), |_| {
        for other in [None, Some(7)] {
            info!(counter.queue = 3, other);
        }
    });
    let [event] = &view.instants[..] else {
        panic!("{:?}", view.instants);
    };
    assert!(event.name.starts_with("event "), "{}", event.name);
}

#[test]
fn a_span_that_follows_from_another_is_connected_with_it() {
    let (_, view) = traced(TraceFile::builder().tracks(Tracks::Requests), |hand| {
        let first = info_span!("first");
        let second = info_span!("second");
        hand.advance_ns(5);
        second.follows_from(&first);
        hand.advance_ns(5);
    });
    let [from, to] = &view.instants[..] else {
        panic!("{:?}", view.instants)
    };
    assert_eq!(from.flows.len(), 1);
    assert_eq!(from.flows, to.flows);
    let names = [from, to].map(|end| view.tracks[&end.track].name.clone());
    assert_eq!(names, ["first", "second"]);
}

/// Perfetto's own traces, and those of `perf`, are in the time since the boot.
#[test]
#[cfg(target_os = "linux")]
fn a_trace_relates_its_times_to_the_other_clocks_of_the_machine() {
    let (_, view) = traced(TraceFile::builder(), |_| ());
    const REALTIME: u32 = 1;
    const MONOTONIC: u32 = 3;
    const BOOTTIME: u32 = 6;
    let clocks: Vec<_> = view.clocks[0].keys().copied().collect();
    assert_eq!(clocks, [REALTIME, MONOTONIC, BOOTTIME]);
    assert!(view.clocks[0].values().all(|ns| *ns > 0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_viewer_shows_the_time_since_the_boot() {
    let (_, view) = traced(TraceFile::builder(), |_| ());
    const BOOTTIME: i32 = 6;
    assert_eq!(view.primary_clock, Some(BOOTTIME));
}

/// Symptom: the track "Clock Snapshots" of Perfetto's viewer crashed ("ts cannot be negative").
/// Cause: the sequences' clocks began at the zero of CLOCK_MONOTONIC, which by two readings of the
/// clocks was some ns before that of the time since the boot.
#[test]
fn the_clock_of_a_sequence_begins_after_the_boot() {
    let (_, view) = traced(TraceFile::builder(), |_| info_span!("work").in_scope(|| ()));
    const OF_SEQUENCE: u32 = 64;
    const MONOTONIC: u32 = 3;
    let of_sequences = view
        .clocks
        .iter()
        .filter(|clocks| clocks.contains_key(&OF_SEQUENCE));
    let begins: Vec<_> = of_sequences.map(|clocks| clocks[&MONOTONIC]).collect();
    let a_millisecond = 1_000_000;
    assert!(
        begins.len() > 1 && begins.iter().all(|ns| *ns >= a_millisecond),
        "{begins:?}"
    );
}

#[test]
fn the_bounds_of_utc_become_a_clock() {
    let (_, view) = traced(TraceFile::builder().with_fields(), |_| {
        info!(
            name: "clock snapshot",
            utc_minus_monotonic_least_ns = 970_i64,
            utc_minus_monotonic_most_ns = 1_490_i64,
            "clock snapshot"
        );
    });
    let utc = view.clocks.iter().find(|clocks| clocks.contains_key(&128));
    let utc = utc.expect("a reading of UTC");
    assert_eq!((utc[&3], utc[&128]), (START_NS, START_NS + 1_230));
}

#[test]
fn spans_that_did_not_end_are_open() {
    let builder = TraceFile::builder().tracks(Tracks::ThreadsAndRequests);
    let (summary, view) = traced(builder, |_| {
        std::mem::forget(info_span!("server").entered());
        info_span!("work").in_scope(|| ());
    });
    assert_eq!((summary.intervals, summary.unended_intervals), (4, 2));
    assert!(view.open.iter().all(|slice| slice.name == "server"));
}

fn record(recorder: &FlightRecorder) {
    run_timed(recorder.clone(), || {
        info_span!("request", user = 7).in_scope(|| info!("read"));
    });
}

/// The thread track and the request of a flight recorder's trace.
fn check_flight(view: &View) {
    assert_eq!(names(view), ["request", "request"]);
    assert!(
        view.slices
            .iter()
            .all(|slice| slice.args == json!({ "user": 7 }))
    );
    assert_eq!(view.instants[0].name, "read");
}

#[test]
fn a_flight_recorder_writes_by_the_extension() {
    let recorder = FlightRecorder::builder()
        .with_fields()
        .tracks(Tracks::ThreadsAndRequests)
        .build()
        .unwrap();
    record(&recorder);
    let folder = tempdir().unwrap();
    let path = folder.path().join("flight.perfetto-trace");
    recorder.write(&path).unwrap();
    check_flight(&View::of(&fs::read(&path).unwrap()));
}

/// The trace of a recorder's file, in this format.
#[cfg(unix)]
fn of_a_black_box(format: TraceFormat) -> Vec<u8> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let recorder = FlightRecorder::builder()
        .with_fields()
        .tracks(Tracks::ThreadsAndRequests)
        .bytes_per_thread(1)
        .in_file(&path)
        .threads(1)
        .build()
        .unwrap();
    record(&recorder);
    let mut bytes = Vec::new();
    tickline_tracing::flight::convert(fs::File::open(&path).unwrap(), &mut bytes, format).unwrap();
    bytes
}

#[test]
#[cfg(unix)]
fn a_black_box_becomes_a_trace_in_perfettos_format() {
    check_flight(&View::of(&of_a_black_box(TraceFormat::Perfetto)));
}

#[test]
#[cfg(unix)]
fn the_trace_of_a_black_box_has_only_its_own_clock() {
    let view = View::of(&of_a_black_box(TraceFormat::Perfetto));
    assert_eq!(view.primary_clock, Some(3), "the other clocks are unknown");
}

#[test]
#[cfg(unix)]
fn a_black_box_becomes_a_trace_in_json() {
    let json = of_a_black_box(TraceFormat::Json);
    assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
}

#[test]
fn a_mark_says_how_many_records_are_missing() {
    let recorder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .build()
        .unwrap();
    run_timed(recorder.clone(), || {
        (0..20_000).for_each(|_| info_span!("work").in_scope(|| ()));
    });
    let folder = tempdir().unwrap();
    let path = folder.path().join("flight.pftrace");
    let summary = recorder.write(&path).unwrap();
    let view = View::of(&fs::read(&path).unwrap());
    let mark = &view.instants[0];
    assert_eq!(
        mark.args,
        json!({ "overwritten": summary.overwritten_records })
    );
    assert!(mark.name.ends_with(" older records overwritten"));
}

/// An output that says when a write begins, and lets it go on once the sender of `may_go_on` is
/// gone.
struct Held {
    begun: mpsc::Sender<()>,
    may_go_on: mpsc::Receiver<()>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl io::Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The test awaits only the first one.
        _ = self.begun.send(());
        _ = self.may_go_on.recv();
        self.bytes.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writer is stuck in a write, and the ring has no room for the end of a span with a long
/// value. Symptom: the end was dropped, so the span ended with the span around it, or never, and
/// the writer kept the span's track for ever.
#[test]
fn a_requests_end_without_room_in_the_ring_is_not_lost() {
    let ((begun, has_begun), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let bytes = Arc::default();
    let output = Held {
        begun,
        may_go_on,
        bytes: Arc::clone(&bytes),
    };
    let builder = TraceFile::builder()
        .format(TraceFormat::Perfetto)
        .tracks(Tracks::Requests)
        .with_fields()
        .bytes_per_thread(1);
    let (trace, guard) = builder.build(output).unwrap();
    // If an assertion fails, it is dropped before the guard, which waits for the writer.
    let go_on = go_on;
    let hand = MockHand::default();
    hand.run_timed(trace, || {
        let outer = info_span!("outer");
        let inner = info_span!(parent: &outer, "inner", late = tracing::field::Empty);
        inner.record("late", "x".repeat(12_000));
        has_begun.recv_timeout(Duration::from_secs(30)).unwrap();
        // They are 600 KB, the ring has 128 KiB, and nobody takes them.
        for _ in 0..200 {
            info!(text = "x".repeat(3_000));
        }
        hand.advance_ns(100);
        drop(inner);
        hand.advance_ns(10);
        drop(outer);
    });
    drop(go_on);
    let summary = guard.finish().unwrap();
    let view = View::of(&bytes.lock().unwrap());
    assert!(summary.dropped_records > 0, "{summary:?}");
    assert_eq!(summary.unended_intervals, 0, "{summary:?}");
    assert_eq!(view.named("outer"), [(START_NS, START_NS + 110, json!({}))]);
    assert_eq!(view.named("inner"), [(START_NS, START_NS + 100, json!({}))]);
}
