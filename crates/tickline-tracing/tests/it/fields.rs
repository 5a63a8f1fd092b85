//! Fields in traces: long values, and values whose `Debug` or `Display` fails.

use std::error::Error;
use std::fmt;
use std::panic;
use std::sync::{Arc, Mutex};

use crate::common::{run_timed, run_with};
use serde_json::{Value, json};
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::histogram::{Histograms, Measure};
use tickline_tracing::trace_file::{TraceSummary, Tracks};
use tickline_tracing::{Callback, CloseEvents, SpanTimingLayer};
use tracing::field::Empty;
use tracing::{info, info_span};

fn written(recorder: &FlightRecorder) -> (TraceSummary, Vec<Value>) {
    let mut bytes = Vec::new();
    let summary = recorder.write_to(&mut bytes).unwrap();
    (summary, serde_json::from_slice(&bytes).unwrap())
}

/// The events of the trace of a flight recorder with fields.
fn recorded(run: impl FnOnce()) -> (TraceSummary, Vec<Value>) {
    let recorder = FlightRecorder::builder().with_fields().build().unwrap();
    run_timed(recorder.clone(), run);
    written(&recorder)
}

/// The first event in this phase.
fn first<'a>(events: &'a [Value], phase: &str) -> &'a Value {
    events.iter().find(|event| event["ph"] == phase).unwrap()
}

/// Symptom: the span had only the number of its bytes, and no field.
#[test]
fn a_span_with_a_value_that_is_too_long_keeps_its_other_values() {
    let sql = "x".repeat(100_000);
    let (_, events) = recorded(|| drop(info_span!("work", id = 7, sql, ok = true).entered()));
    let args = &first(&events, "B")["args"];
    assert_eq!((&args["id"], &args["ok"]), (&json!(7), &json!(true)));
}

#[test]
fn a_value_that_is_too_long_is_cut() {
    let sql = "x".repeat(100_000);
    let (summary, events) = recorded(|| drop(info_span!("work", id = 7, sql, ok = true).entered()));
    let args = &first(&events, "B")["args"];
    let sql = args["sql"].as_str().unwrap().strip_suffix("… (cut)");
    assert!(matches!(sql.map(str::len), Some(16_000..16_384)));
    assert_eq!(summary.cut_values, 1);
}

/// Symptom: the event was called "long event".
#[test]
fn an_event_with_a_long_value_keeps_its_message() {
    let sql = "x".repeat(100_000);
    let (_, events) = recorded(|| info!(sql = %sql, id = 7, "query"));
    let event = first(&events, "i");
    assert_eq!(
        (&event["name"], &event["args"]["id"]),
        (&json!("query"), &json!(7))
    );
}

#[test]
fn a_long_message_is_cut() {
    let (summary, events) = recorded(|| info!(id = 7, "{}", "x".repeat(100_000)));
    let event = first(&events, "i");
    assert!(event["name"].as_str().unwrap().ends_with("x… (cut)"));
    assert_eq!((&event["args"]["id"], summary.cut_values), (&json!(7), 1));
}

#[test]
fn a_value_is_cut_between_two_characters() {
    for text in ["ü".repeat(20_000), "x".to_owned() + &"ü".repeat(20_000)] {
        let (_, events) = recorded(|| drop(info_span!("work", text).entered()));
        let cut = first(&events, "B")["args"]["text"].as_str().unwrap();
        let cut = cut.strip_suffix("… (cut)").unwrap();
        assert!(text.starts_with(cut) && cut.len() > 16_000);
    }
}

#[test]
fn two_long_values_are_cut_to_the_same_length_and_a_short_one_stays() {
    let long = "x".repeat(20_000);
    let short = "y".repeat(1_000);
    let (_, events) = recorded(|| drop(info_span!("work", a = long, short, b = long).entered()));
    let args = &first(&events, "B")["args"];
    assert_eq!(args["short"], short.as_str());
    assert_eq!(args["a"], args["b"]);
    assert!(args["a"].as_str().unwrap().len() > 7_000);
}

#[test]
fn values_that_are_recorded_later_are_cut_too() {
    let (summary, events) = recorded(|| {
        let span = info_span!("work", id = 7, later = Empty).entered();
        span.record("later", "x".repeat(100_000));
        span.in_scope(|| ());
    });
    assert_eq!(first(&events, "B")["args"], json!({ "id": 7 }));
    let later = first(&events, "E")["args"]["later"].as_str().unwrap();
    assert!(later.ends_with("x… (cut)"));
    assert_eq!(summary.cut_values, 1);
}

/// The longest value that a record has room for.
#[test]
fn a_value_of_16_kb_is_whole() {
    let text = "x".repeat(16_384 - 4);
    let (summary, events) = recorded(|| drop(info_span!("work", text).entered()));
    assert_eq!(first(&events, "B")["args"], json!({ "text": text }));
    assert_eq!(summary.cut_values, 0);
}

/// A block repeats the beginnings of the spans around it. Symptom: it left out fields that took
/// more than a quarter of the block.
#[test]
fn a_repeated_beginning_keeps_the_short_values() {
    let recorder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .with_fields()
        .build()
        .unwrap();
    run_timed(recorder.clone(), || {
        let _span = info_span!("around", id = 7, sql = "x".repeat(15_000)).entered();
        (0..100_000).for_each(|_| info!("inside"));
    });
    let (summary, events) = written(&recorder);
    assert!(summary.overwritten_records > 0);
    let args = &first(&events, "B")["args"];
    assert_eq!(args["id"], 7);
    assert!(args["sql"].as_str().unwrap().ends_with("x… (cut)"));
}

#[test]
fn a_value_replaces_an_earlier_value_of_the_same_name() {
    let (_, events) = recorded(|| {
        let span = info_span!("work", id = 1, id = 2);
        span.record("id", 3);
        span.in_scope(|| ());
    });
    assert_eq!(first(&events, "B")["args"], json!({ "id": 3 }));
}

/// Symptom: the first value of the callsite counted.
#[test]
fn a_label_has_the_last_value_of_its_name() {
    let histograms = Histograms::builder(Measure::Total).labels(["id"]).build();
    run_timed(histograms.clone(), || {
        drop(info_span!("work", id = 1, id = 2));
        let span = info_span!("work", id = 1, id = 2);
        span.record("id", 3);
        drop(span);
        drop(info_span!("work", id = 4, id = Empty));
    });
    let summaries = histograms.summaries();
    let values = summaries.iter().map(|summary| &summary.label_values[0]);
    assert_eq!(values.collect::<Vec<_>>(), ["2", "3", "4"]);
}

/// Symptom: a callback got the first value of the callsite.
#[test]
fn a_callback_gets_the_last_value_of_a_name() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let callback = Callback::new(move |span| {
        let text = span.field("id").map(str::to_owned);
        keep.lock().unwrap().push(text);
    });
    run_timed(callback.keep_fields(["id"]), || {
        drop(info_span!("work", id = 1, id = 2));
    });
    assert_eq!(*kept.lock().unwrap(), [Some("2".to_owned())]);
}

#[test]
fn numbers_keep_their_types() {
    let (_, events) = recorded(|| {
        let (least, most, wide) = (i64::MIN, u64::MAX, i128::MIN);
        info!(
            least,
            most,
            wide,
            half = 0.5,
            whole = 2.0,
            none = f64::NAN,
            no = false,
            "event"
        );
    });
    let args = json!({
        "least": i64::MIN, "most": u64::MAX, "wide": i128::MIN.to_string(), "half": 0.5,
        "whole": 2.0, "none": "NaN", "no": false,
    });
    assert_eq!(first(&events, "i")["args"], args);
}

/// The names are not in the records, but in the file's ring of names.
#[test]
#[cfg(unix)]
fn a_black_box_has_the_names_of_fields() {
    use tickline_tracing::flight;
    use tickline_tracing::trace_file::TraceFormat;

    use crate::common::on_thread;

    let (folder, mut trace) = (tempfile::tempdir().unwrap(), Vec::new());
    let path = folder.path().join("box");
    let builder = FlightRecorder::builder().with_fields().bytes_per_thread(1);
    let recorder = builder.in_file(&path).threads(1).build().unwrap();
    run_timed(recorder, || {
        on_thread(|| info!(first = 1, second = "two", "event"));
    });
    flight::convert(
        &std::fs::read(&path).unwrap()[..],
        &mut trace,
        TraceFormat::Json,
    )
    .unwrap();
    let events: Vec<Value> = serde_json::from_slice(&trace).unwrap();
    let args = json!({ "first": 1, "second": "two" });
    assert_eq!(first(&events, "i")["args"], args);
}

/// A value whose `Debug` does this after it has written `begun`.
struct Fails(fn() -> fmt::Result);

impl fmt::Debug for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("begun ")?;
        (self.0)()
    }
}

/// Symptom: the values were null.
#[test]
fn numbers_that_json_lacks_are_texts() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let (_, events) = recorded(|| drop(info_span!("work", nan, inf, less = -inf).entered()));
    let args = json!({ "nan": "NaN", "inf": "inf", "less": "-inf" });
    assert_eq!(first(&events, "B")["args"], args);
}

/// A name in two pairs of quotes would be no JSON.
#[test]
fn a_message_that_is_no_number_of_json_is_a_name() {
    let (_, events) = recorded(|| info!(message = f64::NAN));
    assert_eq!(first(&events, "i")["name"], "NaN");
}

/// A viewer can't draw such a value.
#[test]
fn a_counter_that_is_not_finite_is_an_argument() {
    let (_, events) = recorded(|| info!(counter.queue = f64::INFINITY));
    assert_eq!(
        first(&events, "i")["args"],
        json!({ "counter.queue": "inf" })
    );
}

const ERROR: Fails = Fails(|| Err(fmt::Error));
const PANIC: Fails = Fails(|| panic::panic_any(()));

/// Symptom: the program panicked.
#[test]
fn a_value_whose_debug_returns_an_error_says_so() {
    let (_, events) = recorded(|| drop(info_span!("work", at = ?ERROR, id = 7).entered()));
    let args = json!({ "at": "begun (its Debug or Display returned an error)", "id": 7 });
    assert_eq!(first(&events, "B")["args"], args);
}

#[test]
fn a_value_whose_debug_panics_says_so() {
    let (_, events) = recorded(|| drop(info_span!("work", at = ?PANIC, id = 7).entered()));
    let args = json!({ "at": "begun (its Debug or Display panicked)", "id": 7 });
    assert_eq!(first(&events, "B")["args"], args);
}

/// Symptom: the program panicked, even if the recorder has no fields of spans.
#[test]
fn a_failing_value_of_an_event_says_so_without_fields() {
    let recorder = FlightRecorder::builder().build().unwrap();
    run_timed(recorder.clone(), || info!(at = ?ERROR, "event"));
    let args = json!({ "at": "begun (its Debug or Display returned an error)" });
    assert_eq!(first(&written(&recorder).1, "i")["args"], args);
}

/// Symptom: the program panicked.
#[test]
fn a_failing_value_that_a_callback_keeps_says_so() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let callback = Callback::new(move |span| {
        let text = span.field("at").map(str::to_owned);
        keep.lock().unwrap().push(text);
    });
    run_timed(callback.keep_fields(["at"]), || {
        drop(info_span!("work", at = ?ERROR));
        drop(info_span!("work", at = ?PANIC));
    });
    let [error, panicked] = ["returned an error", "panicked"]
        .map(|failure| Some(format!("begun (its Debug or Display {failure})")));
    assert_eq!(*kept.lock().unwrap(), [error, panicked]);
}

/// Symptom: the program panicked.
#[test]
fn a_failing_value_of_a_label_says_so() {
    let histograms = Histograms::builder(Measure::Total).labels(["at"]).build();
    run_timed(histograms.clone(), || drop(info_span!("work", at = ?ERROR)));
    let text = histograms.to_prometheus("spans");
    let label = "at=\"begun (its Debug or Display returned an error)\"";
    assert!(text.contains(label), "{text}");
}

/// A text beyond the limit of labels and of callbacks, in pieces, as a large struct prints it.
struct Long;

impl fmt::Debug for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..30_000).try_for_each(|_| f.write_str("ü"))
    }
}

/// What is left of [`Long`].
fn cut_long() -> String {
    "ü".repeat(16_384 / 2) + "… (cut)"
}

/// A value whose `Debug` fails after that text.
struct FailsLate(Fails);

impl fmt::Debug for FailsLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Long, f)?;
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Both ways to fail, and the reasons in the text.
fn late_failures() -> [(FailsLate, String); 2] {
    let failures = [(ERROR, "returned an error"), (PANIC, "panicked")];
    failures.map(|(fails, how)| {
        let reason = format!("(its Debug or Display {how})");
        (FailsLate(fails), reason)
    })
}

/// Symptom: the text ended with "… (cut)", and lacked the reason. The second text makes the first
/// one shorter.
#[test]
fn a_long_value_whose_debug_fails_says_so() {
    for (at, reason) in late_failures() {
        for other in [0, 20_000].map(|len| "x".repeat(len)) {
            let (_, events) = recorded(|| drop(info_span!("work", ?at, other, id = 7).entered()));
            let args = &first(&events, "B")["args"];
            let text = args["at"].as_str().unwrap();
            assert!(text.ends_with(&format!("ü{reason}… (cut)")), "{text}");
            assert_eq!(args["id"], 7);
        }
    }
}

#[test]
fn a_long_value_of_a_label_whose_debug_fails_says_so() {
    for (at, reason) in late_failures() {
        let histograms = Histograms::builder(Measure::Total).labels(["at"]).build();
        run_timed(histograms.clone(), || drop(info_span!("work", ?at)));
        let text = histograms.to_prometheus("spans");
        assert!(text.contains(&format!("ü{reason}… (cut)\"")), "{text}");
    }
}

/// Symptom: a `Debug` that printed 1 GB took 1 GB for the program's life.
#[test]
fn a_long_value_of_a_label_is_cut() {
    let histograms = Histograms::builder(Measure::Total).labels(["at"]).build();
    run_timed(histograms.clone(), || {
        drop(info_span!("work", at = ?Long));
        drop(info_span!("work", at = "ü".repeat(30_000)));
    });
    let summary = histograms.summary(&[cut_long().as_str()]).unwrap();
    assert_eq!(summary.count, 2);
}

/// Symptom: a `Debug` that printed 1 GB took 1 GB until the span was closed.
#[test]
fn a_long_value_that_a_callback_keeps_is_cut() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let callback = Callback::new(move |span| {
        let text = span.field("at").map(str::to_owned);
        keep.lock().unwrap().push(text);
    });
    run_timed(callback.keep_fields(["at"]), || {
        drop(info_span!("work", at = ?Long));
        drop(info_span!("work", at = "ü".repeat(30_000)));
    });
    assert!(*kept.lock().unwrap() == [Some(cut_long()), Some(cut_long())]);
}

/// An error with a source.
#[derive(Debug)]
struct Failed(&'static str, Option<&'static Failed>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.map(|source| source as &(dyn Error + 'static))
    }
}

const NOT_FOUND: &Failed = &Failed("not found", None);
const NO_FILE: &Failed = &Failed("no file", Some(NOT_FOUND));
const NO_PAGE: &(dyn Error + 'static) = &Failed("no page", Some(NO_FILE));

/// The text of [`NO_PAGE`] as the value of the field `error`.
const WITH_SOURCES: &str = "no page error.sources=[no file, not found]";

/// Symptom: the trace had only "no page", and the line of fmt the whole chain.
#[test]
fn an_error_has_its_sources() {
    let (_, events) = recorded(|| {
        info!(error = NO_PAGE, "first");
        let without = NOT_FOUND as &(dyn Error + 'static);
        drop(info_span!("work", error = without).entered());
    });
    assert_eq!(
        first(&events, "i")["args"],
        json!({ "error": WITH_SOURCES })
    );
    assert_eq!(first(&events, "B")["args"], json!({ "error": "not found" }));
}

#[test]
fn an_error_that_a_callback_keeps_has_its_sources() {
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let callback = Callback::new(move |span| {
        *keep.lock().unwrap() = span.field("error").map(str::to_owned);
    });
    let span = || drop(info_span!("work", error = NO_PAGE));
    run_timed(callback.keep_fields(["error"]), span);
    assert_eq!(kept.lock().unwrap().as_deref(), Some(WITH_SOURCES));
}

#[test]
fn an_error_that_is_a_label_has_its_sources() {
    let histograms = Histograms::builder(Measure::Total)
        .labels(["error"])
        .build();
    let span = || drop(info_span!("work", error = NO_PAGE));
    run_timed(histograms.clone(), span);
    assert_eq!(histograms.summaries()[0].label_values, [WITH_SOURCES]);
}

/// A close event has the callsite of its span, but other fields.
#[test]
fn a_close_event_keeps_its_own_fields() {
    let recorder = FlightRecorder::builder().with_fields().build().unwrap();
    let layer = SpanTimingLayer::new().with_sink(recorder.clone());
    run_with(layer.with_sink(CloseEvents::new()), || {
        drop(info_span!("work", first = 1, second = 2, third = 3));
    });
    let (_, events) = written(&recorder);
    let event = first(&events, "i");
    let fields: Vec<_> = event["args"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["time.busy", "time.idle"]);
    assert_eq!(event["name"], "close");
}

/// The traces of two recorders in one layer: the first with fields, the second without. They share
/// the span's fields, whose second is recorded later.
fn with_and_without_fields() -> [Vec<Value>; 2] {
    let builder = || FlightRecorder::builder().tracks(Tracks::ThreadsAndRequests);
    let recorders = [builder().with_fields(), builder()].map(|builder| builder.build().unwrap());
    let layer = SpanTimingLayer::new()
        .with_sink(recorders[0].clone())
        .with_sink(recorders[1].clone());
    run_with(layer, || {
        let work = info_span!("work", id = 7, rows = Empty);
        work.in_scope(|| work.record("rows", 3));
    });
    recorders.map(|recorder| written(&recorder).1)
}

/// The arguments of the first event in this phase, with the recorder of fields and without.
fn arguments(phase: &str) -> [Value; 2] {
    with_and_without_fields().map(|events| first(&events, phase)["args"].clone())
}

#[test]
fn a_recorder_without_fields_shows_no_field_at_an_enter() {
    assert_eq!(arguments("B"), [json!({"id": 7}), Value::Null]);
}

#[test]
fn a_recorder_without_fields_shows_no_later_field_at_an_exit() {
    assert_eq!(arguments("E"), [json!({"rows": 3}), Value::Null]);
}

#[test]
fn a_recorder_without_fields_shows_no_field_at_the_start_of_a_request() {
    assert_eq!(arguments("b"), [json!({"id": 7}), Value::Null]);
}

#[test]
fn a_recorder_without_fields_shows_no_later_field_at_the_end_of_a_request() {
    assert_eq!(arguments("e"), [json!({"rows": 3}), Value::Null]);
}
