//! The table of spans: layers that do the same thing, over the same clock and over their own.

use serde_json::Value;

use super::fields::{at, number, number_if_any, text};
use super::markdown::{head_of, line, whole};
use super::stored::{Record, title};

/// The rows: the name of a subject of the program `spans`, and the title here.
const ROWS: [(&str, &str); 18] = [
    ("a registry without layers", "a registry without layers"),
    ("a layer that stores an extension", "a layer that stores an extension"),
    ("a layer that stores, 10,000 spans open", "... while 10,000 other spans are open"),
    ("SpanTiming", "`SpanTimingLayer`"),
    ("SpanTiming, 10,000 spans open", "... while 10,000 other spans are open"),
    ("SpanTiming over std", "... over std's clock"),
    ("SpanTiming, a sink that does nothing", "... with a sink that does nothing"),
    ("SpanTiming, histograms", "... with `Histograms`"),
    ("SpanTiming, flight recorder", "... with `FlightRecorder`"),
    ("SpanTiming, Chrome", "... with `Chrome`, to a sink"),
    ("SpanTiming over std, Chrome", "... with `Chrome`, over std's clock"),
    ("tracing-chrome", "tracing-chrome, to a sink (std's clock)"),
    ("tracing-opentelemetry, spans dropped", "tracing-opentelemetry (std's clock)"),
    ("tracing-opentelemetry, tickline's times", "... with `OtelTimes`"),
    ("SpanTiming, close events to fmt, to a sink", "`CloseEvents` and `fmt`"),
    ("fmt with FmtSpan::CLOSE, to a sink", "`fmt` with `FmtSpan::CLOSE`"),
    ("SpanTiming, close events, tickline's timer", "`CloseEvents` and `fmt`, which has `Rfc3339`"),
    ("fmt with FmtSpan::CLOSE, tickline's timer", "`fmt` with `FmtSpan::CLOSE` and `Rfc3339`"),
];

/// ns a span on one thread, and on each of two. A record that is older than a row has no figure
/// there.
pub(super) fn block(records: &[Record]) -> Result<String, String> {
    let titles: Vec<String> = records.iter().map(|record| title(record, records).to_owned()).collect();
    let mut block = head_of("ns a span: one thread / two", &titles);
    for (subject, title) in ROWS {
        block += &line(title, records, |record| {
            let Some(cost) = cost(&record.json, subject)? else { return Ok(String::new()) };
            let two = number_if_any(cost, "two_threads_ns")?.map_or_else(|| "-".to_owned(), whole);
            Ok(format!("{} / {two}", whole(number(cost, "one_thread_ns")?)))
        })?;
    }
    Ok(block)
}

/// What the record has for `subject`.
fn cost<'a>(record: &'a Value, subject: &str) -> Result<Option<&'a Value>, String> {
    let spans = at(record, "spans.spans")?.as_array().ok_or("spans.spans is not a list in the record")?;
    for span in spans {
        if text(span, "subject")? == subject {
            return Ok(Some(span));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::samples::samples;
    use super::*;

    /// Otherwise its cells would be empty.
    #[test]
    fn each_row_is_a_subject_of_the_program() {
        let program = include_str!("../../../benches/src/bin/spans/subjects.rs");
        for (subject, _) in ROWS {
            assert!(program.contains(&format!("\"{subject}\"")), "{subject}");
        }
    }

    #[test]
    fn a_row_has_a_figure_for_each_record_that_has_one() {
        let mut records = samples();
        let spans = records[1].json["spans"]["spans"].as_array_mut().unwrap();
        spans.retain(|span| span["subject"] != "SpanTiming over std");
        spans[0]["two_threads_ns"] = 1_442.4.into();
        let block = block(&records).unwrap();
        let lines: Vec<&str> = block.lines().collect();
        assert_eq!(lines[0], "| ns a span: one thread / two | AMD EPYC | Intel Xeon |");
        assert_eq!(lines.len(), 2 + ROWS.len());
        assert_eq!(lines[5], "| `SpanTimingLayer` | 220 / - | 220 / 1,442 |");
        assert_eq!(lines[7], "| ... over std's clock | 321 / - |  |");
        assert_eq!(lines[8], "| ... with a sink that does nothing |  |  |");
    }
}
