//! What the files of a program have.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tickline_tracing::flight;
use tickline_tracing::trace_file::{TraceFormat, TraceSummary};

use crate::perfetto_view::View;

/// Reads a trace, whose last bracket may be missing.
pub(crate) fn trace(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let events = text.strip_suffix("\n]\n").unwrap_or(&text);
    serde_json::from_str(&format!("{events}]")).unwrap()
}

/// The events of a trace without the last, which may be truncated.
pub(crate) fn whole_events(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let (whole, _) = text.rsplit_once(",\n").unwrap();
    serde_json::from_str(&format!("{whole}]")).unwrap()
}

/// Reads a trace in Perfetto's format, whose last packet may be truncated.
pub(crate) fn view(path: &Path) -> View {
    View::of_truncated(&fs::read(path).unwrap())
}

/// Reads a compressed trace. Asserts that it is compressed.
pub(crate) fn compressed_view(path: &Path) -> View {
    let view = view(path);
    assert!(view.compressed_packets > 0 || cfg!(not(feature = "compression")));
    view
}

/// Reads a trace in Perfetto's format that is being written, or may not exist yet.
pub(crate) fn growing_view(path: &Path) -> View {
    View::of_truncated(&fs::read(path).unwrap_or_default())
}

/// The trace from a recorder's file.
pub(crate) fn converted(path: &Path) -> (TraceSummary, Vec<Value>) {
    let mut trace = Vec::new();
    let summary =
        flight::convert(fs::File::open(path).unwrap(), &mut trace, TraceFormat::Json).unwrap();
    (summary, serde_json::from_slice(&trace).unwrap())
}

/// The trace in Perfetto's format from a recorder's file.
pub(crate) fn converted_view(path: &Path) -> View {
    let (mut trace, file) = (Vec::new(), fs::File::open(path).unwrap());
    flight::convert(file, &mut trace, TraceFormat::Perfetto).unwrap();
    View::of(&trace)
}
