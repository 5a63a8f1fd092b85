//! The flight recorder: the records that it keeps and overwrites, and its trace files.

use std::io::ErrorKind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, mem, thread};

use crate::common::{MockHand, on_thread, run_timed, run_with, spawn};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, tempdir};
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{TraceSummary, Tracks};
use tracing::{Dispatch, Span, debug_span, dispatcher, info, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{registry, reload};

pub(crate) fn written(recorder: &FlightRecorder) -> (TraceSummary, Vec<Value>) {
    let mut bytes = Vec::new();
    let summary = recorder.write_to(&mut bytes).unwrap();
    (summary, serde_json::from_slice(&bytes).unwrap())
}

pub(crate) fn names<'a>(events: &'a [Value], phase: &str) -> Vec<&'a str> {
    let in_phase = events.iter().filter(|event| event["ph"] == phase);
    in_phase
        .map(|event| event["name"].as_str().unwrap_or_default())
        .collect()
}

/// For each span of a request, the index of the first span on its track.
fn tracks_of_requests(events: &[Value]) -> Vec<usize> {
    let begins = events.iter().filter(|event| event["ph"] == "b");
    let tracks: Vec<_> = begins.map(|begin| &begin["id2"]["local"]).collect();
    let first = |track| tracks.iter().position(|known| *known == track);
    tracks.iter().filter_map(|track| first(*track)).collect()
}

/// The size of a ring follows the rate: the ring is small while spans are rare, and covers the last
/// five seconds once they are frequent.
#[test]
fn the_size_of_a_ring_follows_the_rate_of_spans() {
    let hand = MockHand::default();
    let kept = Duration::from_secs(5);
    let recorder = FlightRecorder::builder()
        .keep_last(kept)
        .bytes_per_thread(1 << 18)
        .build()
        .unwrap();
    hand.run_timed(recorder.clone(), || {
        for (spans, every_ns, bytes) in [
            (10_000, 1_000_000_000, 1 << 16),
            (10_000, 1_000_000, 1 << 18),
        ] {
            for _ in 0..spans {
                hand.advance_ns(every_ns);
                info_span!("work").in_scope(|| ());
            }
            let summary = written(&recorder).0;
            let reaches = summary.complete_since.unwrap().elapsed();
            assert!(
                summary.intervals * 40 < bytes && reaches > kept,
                "{summary:?} {reaches:?}"
            );
        }
    });
}

/// Symptom: after a reload, spans of the former layer counted as open for ever.
#[test]
fn spans_of_a_layer_that_is_gone_are_not_shown_as_open() {
    let recorder = FlightRecorder::builder()
        .tracks(Tracks::Requests)
        .build()
        .unwrap();
    let (slot, handle) =
        reload::Layer::new(Some(SpanTimingLayer::new().with_sink(recorder.clone())));
    tracing::subscriber::with_default(registry().with(slot), || {
        let across = info_span!("across");
        assert_eq!(written(&recorder).0.unended_intervals, 1);
        handle.reload(None).unwrap();
        drop(across);
        assert_eq!(written(&recorder).0.unended_intervals, 0);
    });
}

/// Symptom: a span below an open request was a request of its own, after the layer was replaced.
#[test]
fn a_layer_that_gets_a_sink_keeps_the_requests_that_are_open() {
    let recorder = FlightRecorder::builder()
        .tracks(Tracks::Requests)
        .build()
        .unwrap();
    let (layer, handle) = reload::Layer::new(SpanTimingLayer::new().with_sink(recorder.clone()));
    tracing::subscriber::with_default(registry().with(layer), || {
        let request = info_span!("request");
        let add = |layer: &mut SpanTimingLayer| *layer = mem::take(layer).with_callback(|_| ());
        handle.modify(add).unwrap();
        drop(info_span!(parent: &request, "inside"));
    });
    let (summary, events) = written(&recorder);
    assert_eq!((summary.intervals, summary.unended_intervals), (2, 0));
    assert_eq!(tracks_of_requests(&events), [0, 0]);
}

#[test]
fn a_span_below_one_that_a_filter_hides_is_in_the_request_above() {
    let recorder = FlightRecorder::builder()
        .tracks(Tracks::Requests)
        .build()
        .unwrap();
    let layer = SpanTimingLayer::new().with_sink(recorder.clone());
    let shown = layer.with_filter(LevelFilter::INFO);
    let subscriber = registry().with(shown).with(SpanTimingLayer::new());
    tracing::subscriber::with_default(subscriber, || {
        let request = info_span!("request");
        let hidden = debug_span!(parent: &request, "hidden");
        drop(info_span!(parent: &hidden, "inside"));
        hidden.in_scope(|| drop(info_span!("inside")));
    });
    assert_eq!(tracks_of_requests(&written(&recorder).1), [0, 0, 0]);
}

#[test]
fn open_requests_of_all_layers_with_the_recorder_are_known() {
    let recorder = FlightRecorder::builder()
        .tracks(Tracks::Requests)
        .build()
        .unwrap();
    let [first, second] = [(); 2].map(|()| {
        Dispatch::new(registry().with(SpanTimingLayer::new().with_sink(recorder.clone())))
    });
    let request = || info_span!("request");
    let open = [first, second].map(|layer| dispatcher::with_default(&layer, request));
    assert_eq!(written(&recorder).0.unended_intervals, 2);
    drop(open);
    assert_eq!(written(&recorder).0.unended_intervals, 0);
}

/// The first spans of two subscribers have the same number. Symptom: the inner span was missing,
/// and the outer one ended with it.
#[test]
fn a_span_of_another_subscriber_inside_a_span_is_no_re_entry() {
    let recorder = FlightRecorder::builder().build().unwrap();
    let [first, second] = [(); 2].map(|()| {
        Dispatch::new(registry().with(SpanTimingLayer::new().with_sink(recorder.clone())))
    });
    let inner = || info_span!("inner").in_scope(|| ());
    let nested = || dispatcher::with_default(&second, inner);
    dispatcher::with_default(&first, || info_span!("outer").in_scope(nested));
    let (_, events) = written(&recorder);
    assert_eq!(names(&events, "B"), ["outer", "inner"]);
    assert_eq!(names(&events, "E").len(), 2);
}

/// Calls `run` with a recorder of requests, and with a request that hangs in the second of its two
/// queries. Ten other requests have ended on another thread, whose later spans have overwritten
/// these ends.
fn run_with_a_request_that_hangs(run: impl FnOnce(&FlightRecorder, [Span; 2])) {
    let hand = &MockHand::default();
    let builder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .tracks(Tracks::Requests);
    let recorder = builder.with_source_locations().build().unwrap();
    hand.run_timed(recorder.clone(), || {
        drop(info_span!("early"));
        let ended: Vec<_> = (0..10).map(|_| info_span!(parent: None, "ended")).collect();
        let hangs = info_span!(parent: None, "hangs");
        let [query, hanging_query] = [1_000, 2_000].map(|ns| {
            hand.set_ns(ns);
            info_span!(parent: &hangs, "query")
        });
        drop(query);
        on_thread(|| {
            let _active = hand.0.activate();
            drop(ended);
            for _ in 0..20_000 {
                hand.advance_ns(1_000);
                drop(info_span!(parent: None, "flood"));
            }
        });
        hand.advance_ns(1);
        drop(info_span!("late"));
        run(&recorder, [hangs, hanging_query]);
    });
}

/// Symptoms: the file showed requests as open whose ends were overwritten, beside the request that
/// hung. Of two spans of a request and one callsite, the first had ended and the second hung; the
/// file showed neither as open.
#[test]
fn only_the_spans_of_a_request_that_hangs_are_open() {
    run_with_a_request_that_hangs(|recorder, _open| {
        let (summary, events) = written(recorder);
        let (mut begun, ended) = (names(&events, "b"), names(&events, "e"));
        assert_eq!(
            (summary.unended_intervals, begun.len()),
            (2, ended.len() + 2),
            "{summary:?}"
        );
        begun.retain(|name| *name != "flood");
        assert_eq!(begun, ["early", "hangs", "query", "query", "late"]);
    });
}

#[test]
fn a_request_that_no_longer_hangs_is_not_open() {
    run_with_a_request_that_hangs(|recorder, open| {
        drop(open);
        assert_eq!(written(recorder).0.unended_intervals, 0);
    });
}

#[test]
fn a_recorder_that_has_overwritten_nothing_is_complete() {
    let recorder = FlightRecorder::builder()
        .tracks(Tracks::Requests)
        .build()
        .unwrap();
    run_timed(recorder.clone(), || drop(info_span!("early")));
    assert_eq!(written(&recorder).0.complete_since, None);
}

#[test]
fn a_mark_shows_since_when_a_file_is_complete() {
    run_with_a_request_that_hangs(|recorder, _open| {
        let (summary, events) = written(recorder);
        let since_ns = summary.complete_since.unwrap().as_nanos();
        let (us, ns) = (since_ns / 1_000, since_ns % 1_000);
        let since = json!(format!("{us}.{ns:03}").parse::<f64>().unwrap());
        let marks = events
            .iter()
            .filter(|event| event["args"]["overwritten"].is_u64());
        assert!(
            marks.map(|event| &event["ts"]).eq([&since]),
            "{since} {events:?}"
        );
    });
}

#[test]
fn records_from_before_the_requested_period_are_not_missing() {
    run_with_a_request_that_hangs(|recorder, _open| {
        let path = NamedTempFile::new().unwrap().into_temp_path();
        recorder.write_last(&path, Duration::ZERO).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains("overwritten"));
    });
}

#[test]
fn the_spans_of_all_threads_are_in_order_of_time() {
    run_with_a_request_that_hangs(|recorder, _open| {
        let events = written(recorder).1;
        let spans = events.iter().filter(|event| event["cat"] == "request");
        let times: Vec<f64> = spans.map(|event| event["ts"].as_f64().unwrap()).collect();
        assert!(times.len() > 1 && times.is_sorted(), "{times:?}");
    });
}

#[test]
fn the_spans_of_requests_have_their_source_locations() {
    run_with_a_request_that_hangs(|recorder, _open| {
        let events = written(recorder).1;
        let begins = events.iter().filter(|event| event["ph"] == "b");
        let sources = begins.map(|event| event["args"]["source"].as_str().unwrap_or_default());
        let sources: Vec<&str> = sources.collect();
        let is_here = |source: &&str| source.contains("flight.rs:");
        assert!(
            !sources.is_empty() && sources.iter().all(is_here),
            "{sources:?}"
        );
    });
}

/// Records a span with an event in both recorders, side by side.
fn record_by_both(both: &[FlightRecorder; 2]) {
    let layer = SpanTimingLayer::new();
    let layer = both
        .iter()
        .fold(layer, |layer, recorder| layer.with_sink(recorder.clone()));
    run_with(layer, || info_span!("work").in_scope(|| info!("read")));
}

#[test]
fn two_recorders_of_a_layer_both_get_busy_intervals_and_events() {
    let both = [(); 2].map(|()| FlightRecorder::builder().build().unwrap());
    record_by_both(&both);
    for recorder in &both {
        let summary = written(recorder).0;
        assert_eq!((summary.intervals, summary.events), (1, 1), "{summary:?}");
    }
}

/// The other recorder wants enters, so the layer calls both.
#[test]
fn a_recorder_of_requests_has_no_busy_intervals_beside_one_of_threads() {
    for order in [
        [Tracks::Requests, Tracks::Threads],
        [Tracks::Threads, Tracks::Requests],
    ] {
        let both = order.map(|tracks| FlightRecorder::builder().tracks(tracks).build().unwrap());
        record_by_both(&both);
        for (recorder, tracks) in both.iter().zip(order) {
            let (_, events) = written(recorder);
            let expected = if tracks == Tracks::Requests { 0 } else { 1 };
            let [begins, ends] = ["B", "E"].map(|phase| names(&events, phase).len());
            assert_eq!([begins, ends], [expected; 2], "{tracks:?}: {events:?}");
        }
    }
}

/// A trace of the last period leaves out spans that had ended earlier.
#[test]
fn write_last_leaves_out_earlier_spans() {
    let recorder = FlightRecorder::builder()
        .tracks(Tracks::ThreadsAndRequests)
        .build()
        .unwrap();
    let (hand, path) = (
        MockHand::default(),
        NamedTempFile::new().unwrap().into_temp_path(),
    );
    hand.run_timed(recorder.clone(), || {
        let _around = info_span!("around").entered();
        info_span!("early").in_scope(|| info!("early event"));
        hand.advance_ns(20);
        info_span!("late").in_scope(|| info!("late event"));
        hand.advance_ns(3);
        let summary = recorder.write_last(&path, Duration::from_nanos(3)).unwrap();
        let events: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for phase in ["B", "b"] {
            assert_eq!(names(&events, phase), ["around", "late"]);
        }
        assert_eq!(names(&events, "n"), ["late event"]);
        assert_eq!(
            (summary.intervals, summary.unended_intervals, summary.events),
            (4, 2, 1)
        );
    });
}

/// The recorder keeps the rings of the threads that ended last, not of those that began last.
/// Symptom: a hundred threads ended together, and their rings, 1 MiB each, stayed until new threads
/// recorded. Each new thread removed only one ring.
#[test]
fn the_eight_threads_that_ended_last_are_kept() {
    const BRIEF: u64 = 100;
    let recorder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .build()
        .unwrap();
    let together = Barrier::new(101);
    let brief = || {
        info_span!("brief").in_scope(|| ());
        together.wait();
        together.wait();
    };
    let long = || {
        info_span!("long").in_scope(|| ());
        thread::scope(|scope| {
            let all: Vec<_> = (0..BRIEF).map(|_| spawn(scope, "", brief)).collect();
            together.wait();
            assert_eq!(
                written(&recorder).0.intervals,
                BRIEF + 1,
                "rings of threads that run"
            );
            together.wait();
            all.into_iter().for_each(|thread| thread.join().unwrap());
        });
    };
    run_timed(recorder.clone(), || on_thread(long));
    let (summary, events) = written(&recorder);
    assert_eq!(
        (summary.intervals, summary.overwritten_records),
        (8, 2 * (BRIEF + 1 - 8))
    );
    assert_eq!(
        names(&events, "B"),
        [["long"].as_slice(), &["brief"; 7]].concat()
    );
}

/// Two threads write at once, as when both panic, while a third thread records. Symptom: half a
/// file, or a failed rename.
#[test]
fn two_threads_write_while_another_records() {
    let recorder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .with_fields()
        .build()
        .unwrap();
    let folder = tempdir().unwrap();
    let (path, stop) = (folder.path().join("trace"), AtomicBool::new(false));
    let work = || {
        // ORDERING: Relaxed, a hint to stop.
        while !stop.load(Ordering::Relaxed) {
            info_span!("outer", number = 7)
                .in_scope(|| info_span!("inner").in_scope(|| info!("told")));
        }
    };
    // Only the two spans that the thread is in may be open. All ends have their beginnings.
    let write = || {
        (0..50).all(|_| {
            recorder
                .write(&path)
                .is_ok_and(|summary| summary.unended_intervals <= 2)
        })
    };
    thread::scope(|scope| {
        run_timed(recorder.clone(), || _ = spawn(scope, "", work));
        let are_whole = [(); 2]
            .map(|()| scope.spawn(write))
            .map(|thread| thread.join());
        // ORDERING: Relaxed, a hint to stop.
        stop.store(true, Ordering::Relaxed);
        assert!(
            are_whole
                .into_iter()
                .all(|is_whole| matches!(is_whole, Ok(true)))
        );
    });
    assert!(serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).is_ok());
    let (summary, events) = written(&recorder);
    assert!(
        summary.intervals > 0 && summary.intervals == names(&events, "B").len() as u64,
        "{summary:?}"
    );
}

#[test]
fn a_write_that_fails_leaves_no_file() {
    let folder = tempdir().unwrap();
    let in_the_way = folder.path().join("a directory");
    fs::create_dir(&in_the_way).unwrap();
    let recorder = FlightRecorder::builder().build().unwrap();
    assert!(recorder.write(&in_the_way).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Symptom: the program was aborted at its first span.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_ring_in_memory_has_at_most_16_gib() {
    let builder = FlightRecorder::builder().bytes_per_thread((16 << 30) + 1);
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "rings of 17179869185 bytes for each thread: the limit is 17179869184 bytes (16 GiB); \
         choose a smaller bytes_per_thread()"
    );
}

/// Symptom: the error was "No such file or directory", without a name.
#[test]
fn a_file_that_cannot_be_written_is_named_by_the_error() {
    let recorder = FlightRecorder::builder().build().unwrap();
    let error = recorder.write("no-folder/x.json").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().starts_with("\"no-folder/x.json\": "),
        "{error}"
    );
}

/// Symptom: nothing in a post-mortem said on which day, or at which time, it was.
#[test]
fn a_json_trace_has_the_unix_time_of_its_end() {
    let before = tickline::UnixTime::now();
    let (summary, events) = written(&FlightRecorder::builder().build().unwrap());
    let end = summary.unix_end.unwrap();
    assert!((before..=tickline::UnixTime::now()).contains(&end), "{end}");
    assert_eq!(events[0]["args"]["unix_time"], end.to_string());
}

#[test]
fn the_moment_of_the_unix_time_is_a_time_as_the_others_in_the_trace() {
    let before = tickline::Instant::now_ordered();
    let (_, events) = written(&FlightRecorder::builder().build().unwrap());
    let at_us = events[0]["args"]["unix_time_at_us"].as_f64().unwrap();
    let at = tickline::Instant::from_nanos(0) + Duration::from_secs_f64(at_us / 1e6);
    // The clock's line may change a little between its readings.
    let margin = Duration::from_millis(1);
    let after = tickline::Instant::now_ordered() + margin;
    assert!((before - margin..after).contains(&at), "{at:?}");
}
