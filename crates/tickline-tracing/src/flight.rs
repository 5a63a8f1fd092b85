//! A flight recorder: the last moments of the program, in memory, for when something goes wrong.
//!
//! Each thread has a ring of fixed size, in which new records overwrite the oldest. Threads format
//! nothing but fields, write no file, and never wait for each other. On request the recorder writes
//! all rings to a trace file, while the program goes on. [`chrome`](crate::chrome) describes its
//! format.
//!
//! ```
//! use std::time::Duration;
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::flight::FlightRecorder;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! # fn main() -> std::io::Result<()> {
//! # let path = std::env::temp_dir().join("tickline-doc-flight.json");
//! let recorder = FlightRecorder::builder().with_fields().build();
//! # let panics = std::env::temp_dir().join("tickline-doc-panic.json");
//! recorder.write_on_panic(panics);
//! let slow = (recorder.clone(), path.clone());
//! let layer = SpanTimingLayer::new().with_sink(recorder.clone()).with_callback(move |span| {
//!     if span.name() == "request" && span.times().total() > Duration::from_millis(200) {
//!         // The five seconds before this slow request.
//!         slow.0.write_in_background(&slow.1, Duration::from_secs(5));
//!     }
//! });
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # tracing::subscriber::with_default(subscriber, || {
//! tracing::info_span!("request", user = 7).in_scope(|| tracing::info!("read"));
//! # });
//! let summary = recorder.write(&path)?; // or whenever you like
//! assert_eq!((summary.written, summary.events, summary.dropped), (1, 1, 0));
//! # std::fs::remove_file(path)
//! # }
//! ```
//!
//! # What is in the file
//!
//! The events are in order of time. [`Summary::complete_since_ns`] says how far back the file reaches
//! without a gap. A mark on the track of each thread whose ring lost records says where that thread's
//! records begin, and how many are missing before. A request counts as open if its span is open
//! when the file is written. If a request has ended, but the ring that had its end is gone or
//! overwritten, it is left out.
//!
//! The records of each thread reach back as far as its ring does: those of an idle thread reach
//! back further. The outermost 64 spans that the thread was in at that time are there from their
//! beginning. A ring is overwritten in pieces of 32 KiB. The rings of the eight threads that ended
//! last are kept, too. A recorder's memory is therefore that of eight rings, and one for each thread
//! that runs and has recorded something.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::thread;

use crate::sink::{Hooks, Sink};
use crate::trace;
use crate::trace::json::{self, ThreadText};
use crate::trace::recorder::{Recorder, Settings, Summary, Tracks, WhenFull};
use crate::trace::ring::{Kind, Record, Records};

/// A sink that keeps the last moments. Clones are the same recorder: one is the sink, another
/// writes the file.
#[derive(Debug, Clone)]
pub struct FlightRecorder {
    recorder: Arc<Recorder>,
    is_writing: Arc<AtomicBool>,
}

impl Sink for FlightRecorder {
    fn hooks(self) -> Box<dyn Hooks> {
        Box::new(self.recorder)
    }
}

/// Settings for a flight recorder.
#[derive(Debug, Clone, Copy)]
pub struct Builder(Settings);

impl Builder {
    /// Memory for each thread: 1 MiB by default, at least 128 KiB, rounded up to a power of two. An
    /// entered span takes 40 bytes, a span of a request 64, an event 32. The text of fields and
    /// messages comes on top of that.
    #[must_use]
    pub fn bytes_per_thread(mut self, bytes: usize) -> Self {
        self.0.bytes_per_thread = bytes;
        self
    }

    /// Keeps the fields of spans, including values recorded later. They are formatted when they are
    /// recorded.
    #[must_use]
    pub fn with_fields(mut self) -> Self {
        self.0.has_fields = true;
        self
    }

    /// Adds the place in the source, as `"source": "src/main.rs:7"`, to the arguments of spans and
    /// events.
    #[must_use]
    pub fn with_source_locations(mut self) -> Self {
        self.0.has_locations = true;
        self
    }

    /// Where viewers draw the spans; [`Tracks::Threads`] by default.
    #[must_use]
    pub fn tracks(mut self, tracks: Tracks) -> Self {
        self.0.tracks = tracks;
        self
    }

    /// The recorder.
    #[must_use]
    pub fn build(self) -> FlightRecorder {
        FlightRecorder { recorder: Recorder::new(self.0), is_writing: Arc::default() }
    }
}

impl FlightRecorder {
    /// Settings for a recorder.
    #[must_use]
    pub fn builder() -> Builder {
        Builder(Settings::new(WhenFull::Overwrite))
    }

    /// Writes all that is kept to a file, in place of an older one. The program goes on
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. Then an older one stays as it is.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<Summary> {
        self.write_file(path.as_ref(), 0)
    }

    /// The same, but only what happened within `last`, up to now.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn write_last(&self, path: impl AsRef<Path>, last: Duration) -> io::Result<Summary> {
        self.write_file(path.as_ref(), since(last))
    }

    /// The same on a thread of its own, for callbacks that must not wait. Returns `false` if an
    /// earlier call is still writing, or no thread could be started. Errors of writing are lost.
    pub fn write_in_background(&self, path: impl Into<PathBuf>, last: Duration) -> bool {
        // ORDERING: Relaxed, a flag on its own: the file system orders what is done to files.
        if self.is_writing.swap(true, Ordering::Relaxed) {
            return false;
        }
        let (recorder, path, since_ns) = (self.clone(), path.into(), since(last));
        let write = move || {
            let _ = recorder.write_file(&path, since_ns);
            // ORDERING: Relaxed, a flag on its own.
            recorder.is_writing.store(false, Ordering::Relaxed);
        };
        let thread = thread::Builder::new().name("tickline-flight".to_owned()).spawn(write);
        if thread.is_err() {
            // ORDERING: Relaxed, nothing was written.
            self.is_writing.store(false, Ordering::Relaxed);
        }
        thread.is_ok()
    }

    /// Writes all that is kept to `path` when a thread panics, after the present panic hook has
    /// run. Errors of writing are lost.
    pub fn write_on_panic(&self, path: impl Into<PathBuf>) {
        let (recorder, path) = (self.clone(), path.into());
        trace::after_panics(move || _ = recorder.write(&path));
    }

    /// Writes all that is kept to `output`.
    ///
    /// # Errors
    ///
    /// The first error of a write.
    pub fn write_to(&self, output: impl Write) -> io::Result<Summary> {
        self.write_since(output, 0)
    }

    fn write_file(&self, path: &Path, since_ns: u64) -> io::Result<Summary> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".part");
        let written = File::create(&beside).and_then(|file| self.write_since(BufWriter::new(file), since_ns));
        let moved = written.and_then(|summary| fs::rename(&beside, path).map(|()| summary));
        if moved.is_err() {
            let _ = fs::remove_file(&beside);
        }
        moved
    }

    fn write_since(&self, mut output: impl Write, since_ns: u64) -> io::Result<Summary> {
        let mut kept = self.collect();
        kept.drop_before(since_ns);
        let mut text = json::head(process::id());
        for thread in &kept.threads {
            if !thread.name.is_empty() {
                thread.text.write_name(&thread.name, &mut text);
            }
            if thread.overwritten > 0 {
                thread.text.write_missing(thread.first_ns, thread.overwritten, &mut text);
            }
        }
        let mut summary = Summary::default();
        summary.complete_since_ns = kept.complete_since_ns();
        for item in kept.items.iter().filter(|item| item.is_wanted) {
            summary.count(item.kind);
            if let Some(thread) = kept.threads.get_mut(item.thread) {
                thread.text.write(&item.record(), &mut text);
            }
            if text.len() >= 1 << 16 {
                output.write_all(text.as_bytes())?;
                text.clear();
            }
        }
        text.push_str("\n]\n");
        output.write_all(text.as_bytes())?;
        output.flush()?;
        summary.dropped = kept.overwritten;
        Ok(summary)
    }

    fn collect(&self) -> Kept {
        let recorder = &self.recorder;
        let mut kept =
            Kept { threads: Vec::new(), items: Vec::new(), overwritten: recorder.dropped(), open: None };
        for track in recorder.tracks() {
            let words = track.ring.snapshot();
            let thread = kept.threads.len();
            let mut records = Records::new(&words, 0);
            let (mut blocks, mut overwritten, mut first_ns) = (0, 0, u64::MAX);
            while let Some(record) = records.next() {
                match record.kind {
                    Kind::Rest => {}
                    Kind::Block => {
                        if blocks == 0 {
                            overwritten = record.ns;
                        }
                        blocks += 1;
                    }
                    // In the first block these spans began earlier, so their beginnings are
                    // written; later blocks repeat beginnings that are there.
                    Kind::Inside if blocks > 1 => {}
                    Kind::Inside => kept.items.push(Item::new(&record, Kind::Begin, thread)),
                    kind => {
                        first_ns = first_ns.min(record.ns);
                        kept.items.push(Item::new(&record, kind, thread));
                    }
                }
            }
            kept.overwritten += overwritten;
            let text = ThreadText::new(process::id(), track.thread.number, recorder.has_locations());
            kept.threads.push(Thread { name: track.thread.name, text, overwritten, first_ns });
        }
        // A request may run on several threads: all records are put in order of time. The sort is
        // stable, so those of a thread stay in order.
        kept.items.sort_by_key(|item| (item.ns, item.kind == Kind::Close));
        // Later than the records: a request that ends meanwhile is left out, not shown as open.
        kept.open = recorder.open_spans();
        kept
    }
}

/// `CLOCK_MONOTONIC` at the time `last` ago, ns.
fn since(last: Duration) -> u64 {
    tickline::now_ns().saturating_sub(u64::try_from(last.as_nanos()).unwrap_or(u64::MAX))
}

struct Thread {
    name: String,
    text: ThreadText,
    /// Records that its ring lost.
    overwritten: u64,
    /// The time of the first record that its ring still has.
    first_ns: u64,
}

/// A record of one of the threads.
struct Item {
    thread: usize,
    kind: Kind,
    ns: u64,
    callsite: usize,
    id: u64,
    text: Box<str>,
    is_wanted: bool,
}

impl Item {
    fn new(record: &Record<'_>, kind: Kind, thread: usize) -> Self {
        let (ns, callsite, id, text) = (record.ns, record.callsite, record.id, record.text.into());
        Self { thread, kind, ns, callsite, id, text, is_wanted: true }
    }

    fn record(&self) -> Record<'_> {
        Record { kind: self.kind, ns: self.ns, callsite: self.callsite, id: self.id, text: &self.text }
    }
}

/// What the rings had.
struct Kept {
    threads: Vec<Thread>,
    /// In order of time.
    items: Vec<Item>,
    overwritten: u64,
    /// See [`Recorder::open_spans`].
    open: Option<HashMap<(u64, usize), u64>>,
}

impl Kept {
    /// Since when nothing was overwritten; `None` if nothing was at all.
    fn complete_since_ns(&self) -> Option<u64> {
        let lossy = self.threads.iter().filter(|thread| thread.overwritten > 0);
        lossy.map(|thread| thread.first_ns).max()
    }

    /// Drops what had ended before `since_ns`, and ends whose beginnings are gone, and beginnings of
    /// requests whose ends are gone.
    fn drop_before(&mut self, since_ns: u64) {
        // The places of beginnings: a stack for each thread, and one for each request's number and
        // callsite.
        let mut inside: Vec<Vec<usize>> = self.threads.iter().map(|_| Vec::new()).collect();
        let mut open: HashMap<(u64, usize), Vec<usize>> = HashMap::new();
        for place in 0..self.items.len() {
            let Item { thread, kind, ns, callsite, id, .. } = self.items[place];
            let begins = match kind {
                Kind::Begin | Kind::End => &mut inside[thread],
                Kind::Open | Kind::Close => open.entry((id, callsite)).or_default(),
                _ => {
                    self.items[place].is_wanted = ns >= since_ns;
                    continue;
                }
            };
            if matches!(kind, Kind::Begin | Kind::Open) {
                begins.push(place);
                continue;
            }
            match begins.pop() {
                Some(_) if ns >= since_ns => {}
                Some(begin) => {
                    self.items[begin].is_wanted = false;
                    self.items[place].is_wanted = false;
                }
                None => self.items[place].is_wanted = false,
            }
        }
        let Some(still_open) = &mut self.open else { return };
        for begin in open.into_values().flatten() {
            let Item { ns, callsite, .. } = self.items[begin];
            match still_open.get_mut(&(ns, callsite)) {
                Some(count) if *count > 0 => *count -= 1,
                _ => self.items[begin].is_wanted = false,
            }
        }
    }
}
