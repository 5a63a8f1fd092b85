//! Serves requests by axum over TCP, writes their trace, and compares the file with a measurement
//! of its own: each interval of a thread in a span, and each span from its creation to its end.
//!
//! `cargo run --release [-- --requests 50000]`. Exits with 1 if an interval is wrong or missing,
//! with 2 for bad arguments.

mod json;
mod judge;
mod perfetto;
mod server;
mod witness;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::trace_file::{TraceFile, Tracks};
use tracing_subscriber::layer::SubscriberExt;

use judge::compare;
use witness::{Observed, Witness};

/// An interval in a file, ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The number of the span, which is one of its fields.
    pub span: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
}

/// The intervals in a trace file.
#[derive(Debug, Default)]
pub struct TraceContents {
    /// The intervals of threads in spans.
    pub busy: Vec<Interval>,
    /// The spans, from creation to end.
    pub whole: Vec<Interval>,
}

/// Reads a trace file of one format.
type ReadTrace = fn(&Path) -> TraceContents;

/// The formats: the extension by which a `TraceFile` chooses it, and what reads it.
const FORMATS: [(&str, ReadTrace); 2] = [("json", json::read), ("pftrace", perfetto::read)];

/// The number of requests that the program's arguments ask for.
fn requests(mut arguments: impl Iterator<Item = String>) -> Result<u64, String> {
    let Some(name) = arguments.next() else {
        return Ok(50_000);
    };
    let number = arguments.next();
    match (&*name, number, arguments.next()) {
        ("--requests", Some(number), None) => number
            .parse()
            .map_err(|_| format!("--requests: {number} is not a whole number such as 50000")),
        _ => Err("usage: traced-server [--requests 50000]".to_owned()),
    }
}

fn main() -> ExitCode {
    let requests = match requests(std::env::args().skip(1)) {
        Ok(requests) => requests,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut agrees = true;
    for (name, read) in FORMATS {
        let path = TracePath::new(name);
        let observed = trace(&path.0, requests);
        let bytes = std::fs::metadata(&path.0).expect("the trace's file").len();
        let contents = read(&path.0);
        let busy = compare(&observed.busy, &contents.busy);
        let whole = compare(&observed.whole, &contents.whole);
        println!("{name}: {requests} requests, {bytes} bytes");
        println!("  busy intervals: {busy}");
        println!("  whole spans:    {whole}");
        agrees &= busy.agrees() && whole.agrees();
    }
    if agrees {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Serves the requests with a trace. Returns what the witness has observed.
fn trace(path: &Path, requests: u64) -> Observed {
    let _clock = tickline::start().expect("the clock's thread");
    let (trace, guard) = TraceFile::builder()
        .tracks(Tracks::ThreadsAndRequests)
        .with_fields()
        .wait_when_full()
        .create(path)
        .expect("the trace's file");
    let witness = Witness::default();
    // The registry calls the layers in this order at each event of a span.
    let subscriber = tracing_subscriber::registry()
        .with(witness.before())
        .with(SpanTimingLayer::new().with_sink(trace))
        .with(witness.after());
    let dispatch = tracing::Dispatch::new(subscriber);
    server::serve(requests, &dispatch);
    drop(dispatch);
    let summary = guard.finish().expect("the trace is written");
    assert_eq!(summary.dropped_records, 0, "{summary:?}");
    witness.observed()
}

/// The path of a trace, which is removed at the end.
struct TracePath(PathBuf);

impl TracePath {
    fn new(extension: &str) -> Self {
        let name = format!("traced-server-{}.{extension}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TracePath {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests_of(arguments: &[&str]) -> Result<u64, String> {
        requests(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn the_number_of_requests_is_an_argument() {
        assert_eq!(requests_of(&["--requests", "7"]), Ok(7));
    }

    #[test]
    fn other_arguments_are_refused() {
        for wrong in [
            &["--request", "7"][..],
            &["--requests"],
            &["--requests", "few"],
            &["--requests", "7", "8"],
        ] {
            assert!(requests_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
