//! Records of spans and events, for trace files and flight recorders.
//!
//! Each thread writes its records ([`record`]) to a [`ring`] of its own, without a lock.
//! [`thread_recorder`]
//! has the rest of a thread's state. A [`Recorder`](recorder::Recorder) knows the rings of all
//! threads. [`crate::chrome`] takes records out while the program runs. [`crate::flight`] copies
//! them on request, or reads what another process has left in a [`file`]. [`json`] makes the text.

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

/// Memory for a thread, by default: 26,000 entered spans without fields.
const DEFAULT_BYTES: usize = 1 << 20;

/// Where viewers draw the spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Tracks {
    /// On a track for each thread: its busy intervals in a span, from enter to exit.
    #[default]
    Threads,
    /// On a track for each request, from creation to end, across every `.await`. A request is a
    /// span without a parent, with all spans below it, on whatever threads they run.
    Requests,
    /// Both.
    ThreadsAndRequests,
}

/// What happens to a record for which a ring has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WhenFull {
    /// It overwrites the oldest.
    #[default]
    Overwrite,
    /// It is dropped.
    Drop,
    /// The thread waits.
    Wait,
}

/// What a recorder records, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) bytes_per_thread: usize,
    /// A ring that overwrites uses no more memory than records of this age need.
    pub(crate) kept_ns: u64,
    pub(crate) when_full: WhenFull,
    pub(crate) tracks: Tracks,
    pub(crate) has_fields: bool,
    pub(crate) has_locations: bool,
}

/// The settings that both sinks have, as methods of a builder with the field `settings`.
macro_rules! settings {
    () => {
        /// The most memory for the records of each thread: 1 MiB by default, at least 128 KiB,
        /// rounded up to a power of two. The system commits it as it is first used. An entered span
        /// takes 40 bytes, a span of a request 64, an event 32. The text of fields and messages
        /// comes on top of that.
        pub fn bytes_per_thread(mut self, bytes: usize) -> Self {
            self.settings.bytes_per_thread = bytes;
            self
        }

        /// Writes the fields of a span as the arguments of its events, including values recorded
        /// later. The program's threads format them when they are recorded.
        pub fn with_fields(mut self) -> Self {
            self.settings.has_fields = true;
            self
        }

        /// Adds the place in the source, as `"source": "src/main.rs:7"`, to the arguments of spans
        /// and events.
        pub fn with_source_locations(mut self) -> Self {
            self.settings.has_locations = true;
            self
        }

        /// Where viewers draw the spans; [`Tracks::Threads`] by default.
        pub fn tracks(mut self, tracks: Tracks) -> Self {
            self.settings.tracks = tracks;
            self
        }
    };
}

pub(crate) use settings;

impl Settings {
    /// What both sinks begin with.
    pub(crate) fn new(when_full: WhenFull) -> Self {
        Self { bytes_per_thread: DEFAULT_BYTES, kept_ns: u64::MAX, when_full, ..Self::default() }
    }
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TraceSummary {
    /// Busy intervals of threads, and spans of requests, that are in the file.
    pub intervals: u64,
    /// Those of `intervals` that had not ended when the file did.
    pub unended: u64,
    /// Events that are in the file.
    pub events: u64,
    /// Records that are not in the file, because a thread's ring was full. A trace lacks
    /// beginnings, events, and ends of spans of requests that found no room. In a flight recorder's
    /// rings new records overwrote the oldest: two for a span, one for an event.
    pub dropped: u64,
    /// In the file of a flight recorder: since when no thread's records are missing, ns of
    /// `CLOCK_MONOTONIC`; `None` if nothing was overwritten. Threads that ended, and whose rings
    /// are gone, do not count here.
    pub complete_since_ns: Option<u64>,
    /// Records of a recorder's file that are damaged, and were left out. Always 0 for the recorder
    /// itself.
    pub damaged: u64,
    /// Spans of requests that the trace of an ended process leaves out, because they may have
    /// ended. They began before records of other threads, and these records were overwritten.
    pub undecided: u64,
    ended: u64,
}

impl TraceSummary {
    /// Counts a record, unless it only repeats another, or begins a block.
    pub(crate) const fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Begin | Kind::AsyncBegin => self.intervals += 1,
            Kind::End | Kind::AsyncEnd => self.ended += 1,
            Kind::Instant => self.events += 1,
            Kind::Rest | Kind::Block | Kind::Inside | Kind::Name => {}
        }
        // The end of a request's span may come first, if it was on another thread.
        self.unended = self.intervals.saturating_sub(self.ended);
    }
}

/// A number that this process has for one thing: a request, a file, or a thread without a number of
/// the system's.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // ORDERING: Relaxed, only the number counts.
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

/// `path` with something behind its name.
pub(crate) fn with_suffix(path: &Path, behind: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(behind);
    name.into()
}

/// Lets `make` make a file beside `path`, and put it there once it is complete. Nobody else has the
/// name that `make` gets: two threads that panic write at once. Nothing is left there.
pub(crate) fn beside<T>(path: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let beside = with_suffix(path, &format!(".{}.{}.part", process::id(), next_number()));
    // A file of this name was left by a process of the same number.
    let _ = fs::remove_file(&beside);
    let made = make(&beside);
    let _ = fs::remove_file(&beside);
    made
}
