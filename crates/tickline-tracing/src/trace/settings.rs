//! The settings of a recorder, which both sinks share.

use std::io;
use std::path::Path;

use super::format::trace_output::TraceFormat;

/// The default memory of a ring: enough for 26,000 entered spans without fields.
const DEFAULT_BYTES: usize = 1 << 20;

/// The default size of a ring in a file: enough for 13,000 entered spans without fields.
pub(crate) const DEFAULT_BYTES_IN_FILE: usize = 1 << 19;

/// The limit of a ring, bytes: far more than a trace needs, and less than the address space of a
/// 64-bit program. With a larger number, which must be a mistake, the first span of each thread
/// would ask the system for memory in vain; so would a thread that has no ring in a file.
const MAX_BYTES: u64 = 16 << 30;

/// The tracks on which viewers draw the spans. In an async server, choose
/// [`Requests`](Self::Requests):
///
/// | | `Threads` | `Requests` |
/// |---|---|---|
/// | a span that is entered at five polls | five slices, one for each poll | one slice, whose length is the span's time |
/// | a value recorded while the span is entered | in the slice of that time | in the span's slice |
/// | a value recorded after the last exit, such as a status | missing | in the span's slice |
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tickline_tracing::trace_file::{TraceFile, Tracks};
/// use tracing::Instrument;
/// use tracing_subscriber::filter::LevelFilter;
/// use tracing_subscriber::prelude::*;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// #   let folder = tempfile::tempdir()?;
/// #   std::env::set_current_dir(&folder)?;
///     let _thread = tickline::start()?; // keep it by a name, not `_`
///     let builder = TraceFile::builder().with_fields().tracks(Tracks::Requests);
///     let (trace, guard) = builder.create("trace.json")?;
///     let layer = SpanTimingLayer::new().with_sink(trace);
///     tracing_subscriber::registry().with(layer.with_filter(LevelFilter::INFO)).init();
///
///     let span = tracing::info_span!("request", status = tracing::field::Empty);
///     tokio::task::yield_now().instrument(span.clone()).await; // two polls
///     span.record("status", 200);
///     drop(span);
///
///     let summary = guard.finish()?;
///     assert_eq!(summary.intervals, 1);
/// #   let text = std::fs::read_to_string("trace.json")?;
/// #   assert!(text.contains("\"status\":200"), "{text}");
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Tracks {
    /// A track for each thread, with its busy intervals in spans, from enter to exit.
    #[default]
    Threads,
    /// A track for each request, with its spans from creation to end, across every `.await`. A
    /// request is a span without a parent, and all spans below it, on any threads. Spans of a
    /// request that overlap without being inside each other, as futures in a `join_all` do, are on
    /// further tracks of the request. If another thread creates a span at its parent's time to the
    /// ns, as under a mock clock, the span may be a request of its own.
    Requests,
    /// Tracks for threads, and tracks for requests.
    ThreadsAndRequests,
}

/// The fate of a record for which a ring has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WhenFull {
    /// The record overwrites the oldest ones.
    #[default]
    Overwrite,
    /// The record is dropped.
    Drop,
    /// The thread waits for the reader.
    Wait,
}

/// The settings of a recorder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    /// The largest size of a thread's ring; `None` if the program does not choose it.
    pub(crate) bytes_per_thread: Option<usize>,
    /// The age, ns, up to which a ring that overwrites keeps records. It uses no more memory than
    /// these need.
    pub(crate) keep_ns: u64,
    pub(crate) when_full: WhenFull,
    pub(crate) tracks: Tracks,
    pub(crate) has_fields: bool,
    pub(crate) has_locations: bool,
    /// Whether the writer of the trace reads the threads' CPU times.
    pub(crate) has_cpu_time: bool,
    /// The format of the trace; `None` if the name of the file decides.
    pub(crate) format: Option<TraceFormat>,
}

impl Settings {
    /// The format of a file of this name; `None` is an output without a name.
    pub(crate) fn format_for(&self, path: Option<&Path>) -> TraceFormat {
        let by_name = || path.map_or(TraceFormat::Json, TraceFormat::from_path);
        self.format.unwrap_or_else(by_name)
    }

    /// The size of rings in memory.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.bytes_per_thread.unwrap_or(DEFAULT_BYTES)
    }

    /// Whether rings may have this size.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, with the size, the limit, and the setting.
    pub(crate) fn check_bytes_per_thread(&self) -> io::Result<()> {
        let bytes = self.bytes_in_memory();
        if bytes as u64 <= MAX_BYTES {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "rings of {bytes} bytes for each thread: the limit is {MAX_BYTES} bytes ({} GiB); \
                 choose a smaller bytes_per_thread()",
                MAX_BYTES >> 30
            ),
        ))
    }

    /// The default settings of both sinks.
    pub(crate) fn new(when_full: WhenFull) -> Self {
        Self {
            keep_ns: u64::MAX,
            when_full,
            ..Self::default()
        }
    }
}
