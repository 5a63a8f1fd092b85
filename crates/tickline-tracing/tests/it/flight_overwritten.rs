//! What a flight recorder keeps of spans around records that it has overwritten.

use crate::common::{MockHand, run_timed};
use crate::flight::{names, written};
use serde_json::{Value, json};
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::TraceSummary;
use tracing::{info, info_span};

/// The number of spans with which [`overwritten`] overwrites the oldest.
const WORK: u64 = 100_000;

/// The trace of a recorder whose ring is too small. The span `server` is open at the end; inside it
/// were 100 spans `inside`, around many spans `work`, of 1 us each.
fn overwritten() -> (TraceSummary, Vec<Value>) {
    let hand = MockHand::default();
    let recorder = FlightRecorder::builder()
        .bytes_per_thread(1 << 17)
        .with_fields()
        .build()
        .unwrap();
    let mut trace = None;
    hand.run_timed(recorder.clone(), || {
        hand.set_ns(5_000);
        let _server = info_span!("server", port = 80).entered();
        let mut inside: Vec<_> = (0..100).map(|_| info_span!("inside").entered()).collect();
        for _ in 0..WORK {
            hand.advance_ns(1_000);
            info_span!("work").in_scope(|| ());
        }
        while let Some(_span) = inside.pop() {
            hand.set_ns(1_000_000_000 - 1_000 * inside.len() as u64);
        }
        trace = Some(written(&recorder));
    });
    trace.unwrap()
}

/// The number of spans `work` that a trace has.
fn work_in(events: &[Value]) -> u64 {
    let begins = names(events, "B");
    begins.iter().filter(|name| **name == "work").count() as u64
}

#[test]
fn the_oldest_spans_are_overwritten() {
    let (_, events) = overwritten();
    let work = work_in(&events);
    assert!((1_000..WORK / 2).contains(&work), "{work}");
}

/// The ends of the 100 spans are there. The first "work" may have lost its beginning.
#[test]
fn the_overwritten_records_are_counted() {
    let (summary, events) = overwritten();
    let work = work_in(&events);
    let kept = 2 * WORK + 101 - summary.overwritten_records;
    assert!(
        (2 * work..=2 * work + 1).contains(&kept),
        "{summary:?} {work}"
    );
}

/// The outermost 64 spans that were entered before the oldest records keep their beginnings.
/// Symptom: the ends of the spans inside these ended the spans around them, too early.
#[test]
fn the_outermost_64_spans_around_overwritten_records_stay() {
    let (summary, events) = overwritten();
    let (work, ends) = (work_in(&events), names(&events, "E").len() as u64);
    assert_eq!(
        (summary.intervals, summary.unended_intervals, ends),
        (work + 64, 1, work + 63)
    );
}

#[test]
fn a_span_around_overwritten_records_keeps_its_end() {
    let (_, events) = overwritten();
    assert_eq!(events[events.len() - 1]["ts"], 2_000_000.0);
}

#[test]
fn a_span_around_overwritten_records_keeps_its_beginning_and_its_fields() {
    let (_, events) = overwritten();
    let mut servers = events.iter().filter(|event| event["name"] == "server");
    let server = servers.next().unwrap();
    assert_eq!(
        (server["ts"].as_f64(), &server["args"]["port"]),
        (Some(1_000_005.0), &Value::from(80))
    );
}

/// The arguments of the beginnings in a recorder whose block has repeated these spans, which have a
/// text of this length.
fn repeated_arguments(spans: usize, bytes: usize) -> Vec<Value> {
    let recorder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .with_fields()
        .build()
        .unwrap();
    let mut events = Vec::new();
    run_timed(recorder.clone(), || {
        let text = "x".repeat(bytes);
        let _inside: Vec<_> = (0..spans)
            .map(|id| info_span!("inside", id, text).entered())
            .collect();
        (0..20_000).for_each(|_| info_span!("work").in_scope(|| ()));
        events = written(&recorder).1;
    });
    let is_inside = |event: &&Value| event["ph"] == "B" && event["name"] == "inside";
    let inside = events.iter().filter(is_inside);
    inside.map(|event| event["args"].clone()).collect()
}

/// A block repeats the spans that the thread is in, with fields up to a quarter of its 32 KiB.
#[test]
fn repeated_spans_keep_fields_that_take_a_quarter_of_a_block() {
    let arguments = repeated_arguments(9, 800);
    let texts = arguments.iter().map(|argument| &argument["text"]);
    assert!(texts.eq([&json!("x".repeat(800)); 9]));
}

/// Symptom: the outermost spans took the whole quarter, and the others had no fields.
#[test]
fn repeated_spans_with_long_texts_share_a_quarter_of_a_block() {
    let arguments = repeated_arguments(20, 6_000);
    let text = arguments[0]["text"].as_str().unwrap();
    let kept = text.strip_suffix("… (cut)").map(str::len);
    assert!(matches!(kept, Some(300..=400)), "{kept:?}");
    let argument = |id: u64| json!({ "id": id, "text": text });
    let expected: Vec<_> = (0..20).map(argument).collect();
    assert_eq!(arguments, expected);
}

/// Symptom: one long text of a span took all fields of the spans inside it.
#[test]
fn repeated_spans_inside_one_with_a_long_text_keep_their_fields() {
    let recorder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .with_fields()
        .build()
        .unwrap();
    run_timed(recorder.clone(), || {
        let _request = info_span!("request", body = "x".repeat(20_000)).entered();
        let _step = info_span!("step", id = 7, path = "/item").entered();
        (0..20_000).for_each(|_| info!("tick"));
    });
    let (summary, events) = written(&recorder);
    assert!(summary.overwritten_records > 0);
    let is_step = |event: &&Value| event["ph"] == "B" && event["name"] == "step";
    let step = events.iter().find(is_step).unwrap();
    assert_eq!(step["args"], json!({ "id": 7, "path": "/item" }));
}
