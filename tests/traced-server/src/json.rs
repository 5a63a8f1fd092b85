//! Reads a trace in JSON.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::{Interval, TraceContents};

/// Reads the intervals of threads (`B`, `E`), and those of spans (`b`, `e`). On a track intervals
/// are nested.
pub fn read(path: &Path) -> TraceContents {
    let text = std::fs::read_to_string(path).expect("the trace's file");
    let mut contents = TraceContents::default();
    let mut open: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    // Each event has a line of its own.
    for line in text.lines() {
        let line = line.trim_start_matches('[').trim_end_matches([',', ']']);
        if line.is_empty() {
            continue;
        }
        let event: Value = serde_json::from_str(line).expect("an event");
        let phase = event["ph"].as_str().expect("a phase");
        let track = match phase {
            "B" | "E" => format!("thread {}", event["tid"]),
            "b" | "e" => format!("{} {} {}", event["cat"], event["id"], event["id2"]),
            _ => continue,
        };
        let ns = nanoseconds(&event["ts"]);
        let stack = open.entry(track).or_default();
        if matches!(phase, "B" | "b") {
            let span = event["args"]["number"].as_u64().expect("a span's number");
            stack.push((span, ns));
            continue;
        }
        let (span, begin_ns) = stack.pop().expect("an end has a beginning");
        let interval = Interval {
            span,
            begin_ns,
            end_ns: ns,
        };
        match phase {
            "E" => contents.busy.push(interval),
            _ => contents.whole.push(interval),
        }
    }
    contents
}

/// A time in the file, us with three digits after the point, in ns.
fn nanoseconds(time: &Value) -> u64 {
    let text = time.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{fraction:0<3}");
    assert_eq!(digits.len(), 3, "{text}");
    whole.parse::<u64>().expect("us") * 1_000 + digits.parse::<u64>().expect("ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// serde_json leaves out the zeros at the end of a fraction.
    #[test]
    fn a_time_is_read_to_the_nanosecond() {
        for (text, expected_ns) in [("12.345", 12_345), ("12.3", 12_300), ("12", 12_000)] {
            let time = serde_json::from_str(text).expect("a number");
            assert_eq!(nanoseconds(&time), expected_ns, "{text}");
        }
    }
}
