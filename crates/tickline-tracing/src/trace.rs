//! Records of spans and events, for trace files and flight recorders.
//!
//! Each thread writes its records ([`record`]) to a [`ring`] of its own, without a lock. The rest
//! of a thread's state is in [`thread_recorder`]. A [`Recorder`](recorder::Recorder) has the rings
//! of all threads. [`crate::chrome`] takes records out while the program runs. [`crate::flight`]
//! copies them on request, or reads them from the [`file`] of another process. [`json`] makes the
//! text.

pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod json;
pub(crate) mod memory;
pub(crate) mod record;
pub(crate) mod recorder;
pub(crate) mod ring;
pub(crate) mod thread_recorder;

use core::sync::atomic::{AtomicU64, Ordering};
use std::path::{Path, PathBuf};
use std::{fs, io, process};

use record::Kind;
use tickline::Instant;

/// The default memory of a ring: enough for 26,000 entered spans without fields.
const DEFAULT_BYTES: usize = 1 << 20;

/// The tracks on which viewers draw the spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Tracks {
    /// A track for each thread, with its busy intervals in spans, from enter to exit.
    #[default]
    Threads,
    /// A track for each request, with its spans from creation to end, across every `.await`. A
    /// request is a span without a parent, and all spans below it, on any threads.
    ///
    /// In the file, the end of such a span has the request and the name, but does not say which
    /// beginning it belongs to. Suppose that two spans of one name overlap in a request, and that
    /// the first ends before the second, as futures in a `join_all` may. A viewer then can't tell
    /// their ends apart, and may show each span with the end and the later fields of the other. A
    /// flight recorder also gives an end to the last beginning of the same callsite. It may
    /// therefore leave out the wrong one of the two, for example in `write_last`. Give such spans
    /// different names, or use [`Threads`](Self::Threads), whose intervals are right.
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
    pub(crate) bytes_per_thread: usize,
    /// The age, ns, up to which a ring that overwrites keeps records. It uses no more memory than
    /// these need.
    pub(crate) keep_ns: u64,
    pub(crate) when_full: WhenFull,
    pub(crate) tracks: Tracks,
    pub(crate) has_fields: bool,
    pub(crate) has_locations: bool,
}

/// The methods for the settings of both sinks, in a builder with the field `settings`.
macro_rules! settings {
    () => {
        /// The largest size of a thread's ring: 1 MiB by default, at least 128 KiB, rounded up to a
        /// power of two. The system commits the memory when it is first used. An entered span takes
        /// 40 bytes, a span of a request 64, an event 32, plus the text of fields and messages.
        pub fn bytes_per_thread(mut self, bytes: usize) -> Self {
            self.settings.bytes_per_thread = bytes;
            self
        }

        /// Writes the fields of a span as the arguments of its events. Values that are recorded
        /// later are at the next end of a busy interval, and at the end of the span in its request.
        /// Values from after the last exit are therefore not on the track of a thread. The
        /// program's threads format the values when they record them.
        pub fn with_fields(mut self) -> Self {
            self.settings.has_fields = true;
            self
        }

        /// Adds the source location, such as `"source": "src/main.rs:7"`, to the arguments of spans
        /// and events.
        pub fn with_source_locations(mut self) -> Self {
            self.settings.has_locations = true;
            self
        }

        /// The tracks on which viewers draw the spans; [`Tracks::Threads`] by default.
        pub fn tracks(mut self, tracks: Tracks) -> Self {
            self.settings.tracks = tracks;
            self
        }
    };
}

pub(crate) use settings;

impl Settings {
    /// The default settings of both sinks.
    pub(crate) fn new(when_full: WhenFull) -> Self {
        Self {
            bytes_per_thread: DEFAULT_BYTES,
            keep_ns: u64::MAX,
            when_full,
            ..Self::default()
        }
    }
}

/// A summary of the content of a trace file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TraceSummary {
    /// The number of busy intervals of threads, and of spans of requests.
    pub intervals: u64,
    /// How many of `intervals` had not ended when the trace was written.
    pub unended_intervals: u64,
    /// The number of events.
    pub events: u64,
    /// The number of missing records. In a trace by [`chrome`](crate::chrome) these found no room
    /// in a thread's ring: beginnings, events, and ends of spans of requests. In a flight
    /// recorder's trace, newer records overwrote them: two for a span, one for an event.
    pub dropped_records: u64,
    /// In the trace of a flight recorder: the instant since when no thread's records are missing;
    /// `None` if no record was overwritten. It is of `CLOCK_MONOTONIC` as the recording process
    /// read it. Threads that have ended, and whose rings are gone, do not count here.
    pub complete_since: Option<Instant>,
    /// The number of damaged records in a recorder's file, which the trace leaves out. Always 0 for
    /// the recorder itself.
    pub damaged_records: u64,
    /// The number of spans of requests that the trace of an ended process leaves out, because they
    /// may have ended: overwritten records of other threads, from after these spans' beginnings,
    /// may include their ends.
    pub undecided_spans: u64,
    ended: u64,
}

impl TraceSummary {
    /// Counts a record, unless it repeats another record, or begins a block.
    pub(crate) const fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Begin | Kind::AsyncBegin => self.intervals += 1,
            Kind::End | Kind::AsyncEnd => self.ended += 1,
            Kind::Instant => self.events += 1,
            Kind::Rest | Kind::Block | Kind::RepeatedBegin | Kind::Unrepeated | Kind::Name => {}
        }
        // If a request's span ended on another thread, its end may be counted before its beginning.
        self.unended_intervals = self.intervals.saturating_sub(self.ended);
    }
}

/// A number that is unique in this process: for a request, a file, or a thread.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // ORDERING: Relaxed: the number orders no memory.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Calls `call` when a thread panics, after the present panic hook has run.
pub(crate) fn after_panics(call: impl Fn() + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        call();
    }));
}

/// `path` with a suffix.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Calls `make` with the path of a temporary file beside `path`. Once the file is complete, `make`
/// moves or links it to `path`. Each call has a path of its own, because two threads may panic at
/// once. Finally the temporary file is removed.
pub(crate) fn with_temporary<T>(
    path: &Path,
    make: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let temporary = with_suffix(path, &format!(".{}.{}.part", process::id(), next_number()));
    // An earlier process with the same number may have left a file of this name.
    fs::remove_file(&temporary).ok();
    let result = make(&temporary);
    fs::remove_file(&temporary).ok();
    result
}
