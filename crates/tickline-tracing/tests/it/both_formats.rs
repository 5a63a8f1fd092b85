//! What a trace has in both formats. `trace_file.rs` and `perfetto.rs` have what one alone has.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tickline_tracing::trace_file::{
    Flushed, TraceFile, TraceFileBuilder, TraceFormat, TraceSummary,
};
use tracing::{debug_span, info, info_span};

use crate::common::{MockHand, START_NS, run_timed};
use crate::perfetto::bytes_of;
use crate::perfetto_view::View;
use crate::trace_view::view_of;

const FORMATS: [TraceFormat; 2] = [TraceFormat::Json, TraceFormat::Perfetto];

/// Runs `run` with a trace in this format, and reads the trace.
fn traced(
    format: TraceFormat,
    builder: TraceFileBuilder,
    run: impl FnOnce(&MockHand),
) -> (TraceSummary, View) {
    let (summary, bytes) = bytes_of(builder.format(format), run);
    (summary, read(format, &bytes))
}

fn read(format: TraceFormat, bytes: &[u8]) -> View {
    match format {
        TraceFormat::Json => view_of(&serde_json::from_slice::<Vec<Value>>(bytes).unwrap()),
        _ => View::of(bytes),
    }
}

/// A text with all characters that JSON escapes.
const TEXT: &str = "a\"b\\c\n\r\t\0\u{1f}\u{7f}\u{b5}\u{1F600}\\";

const OUTER: &str = "outer \"quoted\"";

/// The trace of two busy intervals of a span `outer "quoted"`, which has values of several types.
/// The span `inner` is within the first.
fn nested(format: TraceFormat) -> (TraceSummary, View) {
    traced(format, TraceFile::builder().with_fields(), |hand| {
        let outer = info_span!(
            OUTER,
            args = 7,
            negative = -7,
            text = TEXT,
            flag = true,
            half = 0.5
        );
        outer.in_scope(|| {
            hand.advance_ns(1);
            debug_span!("inner", large = u64::MAX).in_scope(|| hand.advance_ns(20));
            outer.in_scope(|| hand.advance_ns(300));
        });
        hand.advance_ns(4_000);
        outer.in_scope(|| hand.advance_ns(50_000));
    })
}

#[test]
fn busy_intervals_are_exact() {
    for format in FORMATS {
        let (_, view) = nested(format);
        let times: Vec<_> = view
            .slices
            .iter()
            .map(|slice| (&*slice.name, slice.start_ns, slice.end_ns))
            .collect();
        let expected = [
            ("inner", START_NS + 1, START_NS + 21),
            (OUTER, START_NS, START_NS + 321),
            (OUTER, START_NS + 4_321, START_NS + 54_321),
        ];
        assert_eq!(times, expected, "{format:?}");
    }
}

#[test]
fn values_keep_their_types_and_texts_all_characters() {
    for format in FORMATS {
        let (_, view) = nested(format);
        let args: Vec<_> = view.slices.iter().map(|slice| &slice.args).collect();
        let of_inner = json!({ "large": u64::MAX });
        let of_outer = json!({
            "args": 7, "negative": -7, "text": TEXT, "flag": true, "half": 0.5
        });
        assert_eq!(args, [&of_inner, &of_outer, &of_outer], "{format:?}");
    }
}

#[test]
fn the_summary_counts_busy_intervals() {
    for format in FORMATS {
        let (summary, view) = nested(format);
        let counts = (summary.intervals, summary.unended_intervals);
        assert_eq!((counts, view.open.len()), ((3, 0), 0), "{format:?}");
    }
}

/// The trace of three events: with a message and a field, with a message that is a number, and
/// without a message.
fn three_events(format: TraceFormat) -> (TraceSummary, View) {
    traced(format, TraceFile::builder().with_fields(), |hand| {
        hand.advance_ns(7);
        info!(rows = 3, "read \"{}\"", "all");
        info!(message = 5);
        info!(answer = 42);
    })
}

#[test]
fn events_are_counted_instants() {
    for format in FORMATS {
        let (summary, view) = three_events(format);
        let counts = (summary.intervals, summary.events);
        assert_eq!((counts, view.instants.len()), ((0, 3), 3), "{format:?}");
    }
}

#[test]
fn events_have_their_messages_for_names() {
    for format in FORMATS {
        let (_, view) = three_events(format);
        assert_eq!(view.instants[0].name, "read \"all\"", "{format:?}");
        assert_eq!(view.instants[1].name, "5", "{format:?}");
        let without_message = &view.instants[2].name;
        assert!(
            without_message.starts_with("event "),
            "{format:?}: {without_message}"
        );
    }
}

#[test]
fn an_event_has_its_time() {
    for format in FORMATS {
        let (_, view) = three_events(format);
        assert_eq!(view.instants[0].start_ns, START_NS + 7, "{format:?}");
    }
}

#[test]
fn an_event_has_its_fields() {
    for format in FORMATS {
        let (_, view) = three_events(format);
        assert_eq!(view.instants[0].args, json!({ "rows": 3 }), "{format:?}");
    }
}

/// The trace of two events with counters: the first has nothing else, the second has a message.
fn two_events_with_counters(format: TraceFormat) -> (TraceSummary, View) {
    traced(format, TraceFile::builder(), |hand| {
        info!(counter.queue = 3);
        hand.advance_ns(5);
        info!(counter.queue = -1, counter.load = 0.5, "balanced");
    })
}

#[test]
fn numbers_with_the_prefix_are_counters() {
    for format in FORMATS {
        let (_, view) = two_events_with_counters(format);
        let mut values = Vec::new();
        for (track, ns, value) in &view.counters {
            let track = &view.tracks[track];
            assert!(track.is_counter, "{format:?}: {track:?}");
            values.push((&*track.name, *ns, *value));
        }
        let expected = [
            ("queue", START_NS, 3.0),
            ("queue", START_NS + 5, -1.0),
            ("load", START_NS + 5, 0.5),
        ];
        assert_eq!(values, expected, "{format:?}");
    }
}

#[test]
fn an_event_with_counters_alone_is_counted_but_not_shown() {
    for format in FORMATS {
        let (summary, view) = two_events_with_counters(format);
        let instants: Vec<_> = view.instants.iter().map(|event| &*event.name).collect();
        assert_eq!(summary.events, 2, "{format:?}");
        assert_eq!(instants, ["balanced"], "{format:?}");
    }
}

#[test]
fn after_a_flush_the_file_has_all_earlier_records() {
    for format in FORMATS {
        let path = NamedTempFile::new().unwrap().into_temp_path();
        let builder = TraceFile::builder().flush_every(Duration::MAX);
        let (trace, guard) = builder.format(format).create(&path).unwrap();
        run_timed(trace, || {
            let _outer = info_span!("outer").entered();
            for round in 1..=5 {
                let _inside = info_span!("work").entered();
                let flushed = guard.flusher().flush(Duration::from_secs(60));
                assert_eq!(flushed, Flushed::Written, "{format:?}");
                let mut bytes = fs::read(&path).unwrap();
                if format == TraceFormat::Json {
                    // The list has no end yet.
                    bytes.push(b']');
                }
                let view = read(format, &bytes);
                let open: Vec<_> = view.open.iter().map(|slice| &*slice.name).collect();
                assert_eq!(open, ["outer", "work"], "{format:?}");
                assert_eq!(view.slices.len(), round - 1, "{format:?}");
            }
        });
    }
}
