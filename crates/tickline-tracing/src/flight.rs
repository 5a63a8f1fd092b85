//! A flight recorder: the last moments of the program, in memory, for when something goes wrong.
//!
//! Each thread has a ring, in which new records overwrite the oldest. The program chooses the size
//! of a ring ([`Builder::bytes_per_thread`]), or the time that it covers ([`Builder::keep_last`]).
//! Threads format nothing but fields, write no file, and never wait for each other. On request the
//! recorder writes all rings to a trace file, while the program goes on. [`chrome`](crate::chrome)
//! describes its format.
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
//!         let _ = slow.0.write_last_in_background(&slow.1, Duration::from_secs(5));
//!     }
//! });
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # tracing::subscriber::with_default(subscriber, || {
//! tracing::info_span!("request", user = 7).in_scope(|| tracing::info!("read"));
//! # });
//! let summary = recorder.write(&path)?; // or whenever you like
//! assert_eq!((summary.intervals, summary.events, summary.dropped), (1, 1, 0));
//! # std::fs::remove_file(path)
//! # }
//! ```
//!
//! # The black box
//!
//! These rings are lost when the process is killed, aborts, segfaults or exits; only a panic can
//! write them. With [`Builder::create`] the rings are in a mapped file, and stay there whatever
//! ends the process. Recording costs the same: it is the same stores.
//!
#![cfg_attr(unix, doc = "```")]
#![cfg_attr(not(unix), doc = "```no_run")]
//! # use tickline_tracing::flight::{self, FlightRecorder};
//! # use std::fs::File;
//! # fn main() -> std::io::Result<()> {
//! # let folder = std::env::temp_dir();
//! # let (path, trace) = (folder.join("tickline-doc-box"), folder.join("tickline-doc-box.json"));
//! // In the server: rings for 32 threads, 34 MB.
//! let recorder = FlightRecorder::builder().with_fields().create(&path, 32)?;
//! // After its end: `tickline flight FILE --out trace.json`, or
//! let summary = flight::convert(File::open(&path)?, File::create(&trace)?)?;
//! # assert_eq!(summary.unended, 0);
//! # std::fs::remove_file(path)?;
//! # std::fs::remove_file(trace)
//! # }
//! ```
//!
//! - A record is in the file once it is whole. One that a thread was writing at the end is lost.
//! - The names of all callsites are in the file: up to 1,024 bytes for each, and one ring for all.
//! - The file is its owner's alone (mode 0600), and has its full size from the start, so that a full
//!   disk is an error of `create`. (Btrfs and ZFS need new space for each change of a file. A full
//!   disk there ends the process by `SIGBUS`.) Nobody may truncate the file: the process would end by
//!   `SIGBUS`. Removing it does no harm.
//! - The file survives the process, not the machine. On a disk the kernel writes it back every few
//!   seconds, and a thread may wait for that. Choose a file system in memory: `/dev/shm`, `/run`.
//! - Each file has one recorder. `create` fails while another one has it. The file of a process that
//!   has ended becomes `PATH.old`, so that a server that starts again leaves it to be read.
//! - A process that has ended can't say which requests were open. Requests whose ends may have been
//!   overwritten are left out: [`TraceSummary::undecided`]. If more threads run than the file has rings,
//!   a mark says how many; requests that ended on these look open.
//!
//! # What is in the file
//!
//! The events are in order of time. [`TraceSummary::complete_since_ns`] says how far back the file
//! reaches without a gap. A mark on the track of each thread whose ring lost records says where
//! that thread's records begin, and how many are missing before. A request counts as open if its
//! span is open when the file is written. If a request has ended, but the ring that had its end is
//! gone or overwritten, it is left out.
//!
//! The records of each thread reach back as far as its ring does: those of an idle thread reach
//! back further. The outermost 64 spans that the thread was in at that time are there from their
//! beginning. A ring is overwritten in pieces of 32 KiB. The rings of the eight threads that ended
//! last are kept, too; in a file all are, until another thread needs one. A recorder's memory is
//! therefore at most that of eight rings, and one for each thread that runs and has recorded
//! something.
//!
//! # In a forked child
//!
//! The child has a copy of the rings, records to it, and may write files of its own. Of rings in a
//! file it has no copy: it begins with empty ones, in memory. (A child that a bare `clone` made, not
//! `fork`, would record into its parent's file.) A handler of `pthread_atfork` must neither create
//! nor drop a recorder of a file: it would wait for itself. The child does not wait for threads of
//! its parent: if such a thread held the lock on the list of rings at the fork, `write` returns an
//! error within a second. (The child may wait for ever in a span that it was in at the fork, if
//! another thread was just entering or exiting that, or reading whether it is open.)

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::thread;

use crate::timing::as_ns;
use crate::trace::file::{self, RingFile};
use crate::trace::json::Trace;
use crate::trace::record::{Kind, Record, Records};
use crate::trace::recorder::{Recorder, Snapshot, ThreadSnapshot, TraceSink};
use crate::trace::{self, Settings, TraceSummary, Tracks, WhenFull, fields, settings};

/// A sink that keeps the last moments. Clones are the same recorder: one is the sink, another
/// writes the file.
#[derive(Debug, Clone)]
pub struct FlightRecorder {
    recorder: Arc<Recorder>,
}

impl TraceSink for FlightRecorder {
    fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }
}

/// Settings for a flight recorder.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    settings!();

    /// Keeps what happened within `last`. Each ring begins with 64 KiB. It grows when it would
    /// overwrite a record younger than that, up to [`bytes_per_thread`](Self::bytes_per_thread),
    /// and never becomes smaller. Without this setting a ring always grows to that size.
    ///
    /// Beyond that the oldest are overwritten, however young; [`TraceSummary::complete_since_ns`]
    /// says how far back the rings reach. A thread that records 100,000 spans a second takes 20 MB
    /// for five seconds. So state as much as the busiest thread may take: only what is used is
    /// committed. In a file ([`create`](Self::create)) all of it is allocated at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickline_tracing::flight::FlightRecorder;
    /// let builder = FlightRecorder::builder().keep_last(Duration::from_secs(5));
    /// let recorder = builder.bytes_per_thread(64 << 20).build();
    /// ```
    pub fn keep_last(mut self, last: Duration) -> Self {
        self.settings.kept_ns = as_ns(last);
        self
    }

    /// The recorder.
    pub fn build(self) -> FlightRecorder {
        FlightRecorder { recorder: Arc::new(Recorder::new(self.settings)) }
    }

    /// Makes a recorder whose records are in a file, and stay there however the process ends ([the
    /// black box](self#the-black-box)). The file has a head of 4 KiB, a ring for each of `threads`
    /// threads, and one more ring for names. Each ring has
    /// [`bytes_per_thread`](Self::bytes_per_thread) and 256 bytes. Further threads record in
    /// memory. The file counts them.
    ///
    /// If the process before has left a file there, this becomes `PATH.old`, in place of an older
    /// one.
    ///
    /// # Errors
    ///
    /// - If the file cannot be created with all its blocks, for example on a full disk.
    /// - If another recorder writes to an existing file, or the existing file is not a recorder's.
    /// - If the process has no memory to prepare for a `fork`.
    /// - On a system other than Unix.
    pub fn create(self, path: impl AsRef<Path>, threads: usize) -> io::Result<FlightRecorder> {
        let mut recorder = Recorder::new(self.settings);
        recorder.file = Some(RingFile::create(path.as_ref(), threads, self.settings.bytes_per_thread)?);
        Ok(FlightRecorder { recorder: Arc::new(recorder) })
    }
}

/// Reads the file of a recorder ([`Builder::create`]), and writes what is in it as a trace. Of a
/// process that is still running, records that it overwrites meanwhile are missing or damaged.
///
/// # Errors
///
/// - The file cannot be read, or is not a recorder's.
/// - Another kind of machine wrote the file.
/// - The file is cut, or has longer names of a callsite than a recorder writes.
/// - The first error of a write.
///
/// Damaged records are left out, and counted by [`TraceSummary::damaged`].
pub fn convert(file: impl Read, output: impl Write) -> io::Result<TraceSummary> {
    write_since(&file::read(file)?, output, 0)
}

impl FlightRecorder {
    /// Settings for a recorder.
    pub fn builder() -> Builder {
        Builder { settings: Settings::new(WhenFull::Overwrite) }
    }

    /// Writes all that is kept to a file, in place of an older one. The program goes on
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. Then an older one stays as it is.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<TraceSummary> {
        self.write_last(path, Duration::MAX)
    }

    /// The same, but only what happened within `last`, up to now.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn write_last(&self, path: impl AsRef<Path>, last: Duration) -> io::Result<TraceSummary> {
        trace::beside(path.as_ref(), |beside| {
            let summary = self.write_within(last, File::create_new(beside)?)?;
            fs::rename(beside, &path)?;
            Ok(summary)
        })
    }

    /// The same on a thread of its own, for callbacks that must not wait. Errors of writing are
    /// lost.
    ///
    /// # Errors
    ///
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if an earlier call is still writing; the
    /// system's, if no thread could be started.
    pub fn write_last_in_background(&self, path: impl Into<PathBuf>, last: Duration) -> io::Result<()> {
        // ORDERING: Relaxed, a flag on its own: the file system orders what is done to files.
        if self.recorder.writing.swap(process::id(), Ordering::Relaxed) == process::id() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "an earlier call is still writing"));
        }
        let (recorder, path) = (self.clone(), path.into());
        let write = move || {
            let _ = recorder.write_last(path, last);
            // ORDERING: Relaxed, a flag on its own.
            recorder.recorder.writing.store(0, Ordering::Relaxed);
        };
        let thread = thread::Builder::new().name("tickline-flight".to_owned()).spawn(write);
        if thread.is_err() {
            // ORDERING: Relaxed, nothing was written.
            self.recorder.writing.store(0, Ordering::Relaxed);
        }
        thread.map(drop)
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
    pub fn write_to(&self, output: impl Write) -> io::Result<TraceSummary> {
        self.write_within(Duration::MAX, output)
    }

    fn write_within(&self, last: Duration, output: impl Write) -> io::Result<TraceSummary> {
        let since_ns = tickline::now_ns().saturating_sub(as_ns(last));
        let locked = || io::Error::other("a thread of the parent process has the records locked");
        write_since(&self.recorder.snapshot().ok_or_else(locked)?, output, since_ns)
    }
}

fn write_since(snapshot: &Snapshot, output: impl Write, since_ns: u64) -> io::Result<TraceSummary> {
    let mut kept = Kept::of(snapshot);
    kept.drop_before(since_ns, snapshot);
    let mut trace = Trace::begin(output, snapshot.process, &snapshot.name)?;
    for thread in snapshot.threads.iter().filter(|thread| !thread.name.is_empty()) {
        trace.write_name(thread.number, &thread.name)?;
    }
    for (thread, before_ns, lost) in kept.lost.iter().filter(|(_, before_ns, _)| *before_ns >= since_ns) {
        let what = ["older records overwritten", "overwritten"];
        trace.write_mark(snapshot.threads[*thread].number, *before_ns, *lost, what)?;
    }
    trace.summary = kept.summary;
    for item in kept.items.iter().filter(|item| item.is_wanted) {
        let number = snapshot.threads[item.thread].number;
        trace.write(number, &item.record, |address| snapshot.callsites.get(&address).cloned())?;
    }
    if snapshot.outside > 0 {
        let what = ["threads had no ring in the file", "threads"];
        trace.write_mark(0, kept.end_ns, snapshot.outside, what)?;
    }
    trace.finish()
}

/// A record of one of the threads.
struct Item<'a> {
    thread: usize,
    record: Record<'a>,
    is_wanted: bool,
}

/// The records of a snapshot that are to be written.
#[derive(Default)]
struct Kept<'a> {
    items: Vec<Item<'a>>,
    /// The threads whose rings lost records; the time of the first record that the ring still has,
    /// or when it was copied; how many are lost.
    lost: Vec<(usize, u64, u64)>,
    summary: TraceSummary,
    /// When the rings were copied, or the time of the last record that a process has left. A record
    /// that was being written when its file was copied may have any time.
    end_ns: u64,
}

impl<'a> Kept<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut kept = Self::default();
        kept.summary.dropped = snapshot.gone;
        for (index, thread) in snapshot.threads.iter().enumerate() {
            kept.add(index, thread);
        }
        // A request may run on several threads: all records are put in order of time. The sort is
        // stable, so those of a thread stay in order.
        kept.items.sort_by_key(|item| (item.record.ns, item.record.kind == Kind::AsyncEnd));
        kept.end_ns = kept.items.last().map_or(0, |item| item.record.ns).max(snapshot.end_ns);
        // Of a thread of which nothing is left, all before the end is missing.
        for (_, before_ns, _) in &mut kept.lost {
            *before_ns = kept.end_ns.min(*before_ns);
        }
        kept.summary.complete_since_ns = kept.lost.iter().map(|(_, before_ns, _)| *before_ns).max();
        kept
    }

    /// Adds what a thread's ring had.
    fn add(&mut self, thread: usize, snapshot: &'a ThreadSnapshot) {
        let mut records = Records::new(&snapshot.words, 0);
        // The thread may have overwritten all words while they were copied.
        let mut lost = if snapshot.words.is_empty() { snapshot.written } else { 0 };
        let (mut blocks, mut first_ns) = (0, u64::MAX);
        for mut record in &mut records {
            if !fields::is_whole(&record) {
                self.summary.damaged += 1;
                continue;
            }
            match record.kind {
                Kind::Rest | Kind::Name => continue,
                Kind::Block => {
                    if blocks == 0 {
                        lost = record.ns;
                    }
                    blocks += 1;
                    continue;
                }
                // In the first block these spans began earlier, so their beginnings are
                // written; later blocks repeat beginnings that are there.
                Kind::Inside if blocks > 1 => continue,
                Kind::Inside => record.kind = Kind::Begin,
                _ => first_ns = record.ns.min(first_ns),
            }
            self.items.push(Item { thread, record, is_wanted: true });
        }
        self.summary.damaged += records.damaged;
        self.summary.dropped = self.summary.dropped.saturating_add(lost);
        if lost > 0 {
            self.lost.push((thread, first_ns, lost));
        }
    }

    /// Drops three kinds of records: what ended before `since_ns`; ends without a beginning; and
    /// beginnings of requests whose end is lost. If the open requests are unknown, the third kind
    /// is every beginning without an end from before the last end that may be lost.
    fn drop_before(&mut self, since_ns: u64, snapshot: &Snapshot) {
        let mut still_open = snapshot.open_requests.clone();
        let ends_gone_before_ns =
            snapshot.ends_gone_before_ns.max(self.summary.complete_since_ns.unwrap_or(0));
        // The indices of beginnings: a stack for each thread, and one for each request's number and
        // callsite.
        let (mut inside, mut open) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for index in 0..self.items.len() {
            let Item { thread, record: Record { kind, ns, callsite, id, .. }, .. } = self.items[index];
            let begins = match kind {
                Kind::Begin | Kind::End => inside.entry(thread).or_default(),
                Kind::AsyncBegin | Kind::AsyncEnd => open.entry((id, callsite)).or_default(),
                _ => {
                    self.items[index].is_wanted = ns >= since_ns;
                    continue;
                }
            };
            if matches!(kind, Kind::Begin | Kind::AsyncBegin) {
                // No end is that of a request's span that is open.
                let open = still_open.as_mut().filter(|_| kind == Kind::AsyncBegin);
                match open.and_then(|open| open.get_mut(&(ns, callsite))) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ => begins.push(index),
                }
                continue;
            }
            let begin = begins.pop();
            if begin.is_none() || ns < since_ns {
                begin.into_iter().chain([index]).for_each(|index| self.items[index].is_wanted = false);
            }
        }
        for begin in open.into_values().flatten() {
            let item = &mut self.items[begin];
            let is_undecided = still_open.is_none() && item.record.ns < ends_gone_before_ns;
            item.is_wanted &= still_open.is_none() && !is_undecided;
            self.summary.undecided += u64::from(is_undecided);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::ring::Ring;

    /// Symptom: the thread had overwritten its ring while it was copied, but for the beginnings of
    /// blocks, or for nothing. Then the file said that it is complete, or since the end of time.
    #[test]
    fn a_thread_of_which_nothing_is_left_is_incomplete_before_now() {
        let ring = Ring::new(1);
        ring.push(&Record::new(Kind::End, 7));
        (0..8).for_each(|_| ring.begin_block(7, 0));
        for words in [ring.snapshot(), Vec::new()] {
            let before_ns = tickline::now_ns();
            let mut snapshot = FlightRecorder::builder().build().recorder.snapshot().unwrap();
            snapshot.threads.push(ThreadSnapshot { words, ..ThreadSnapshot::of(&ring) });
            let kept = Kept::of(&snapshot);
            assert_eq!((kept.summary.dropped, kept.items.len()), (1, 0));
            assert!((before_ns..=tickline::now_ns()).contains(&kept.summary.complete_since_ns.unwrap()));
        }
    }

    /// Symptom: of a process that still ran, every open request was left out of the trace, and a
    /// mark lay 250 years ahead. Cause: the last of a record's words were not yet written.
    #[test]
    fn a_torn_record_does_not_set_the_end() {
        let ring = Ring::new(1);
        ring.begin_block(1, 0);
        for (ns, text) in [(5, ""), (u64::MAX, "\"torn")] {
            ring.push(&Record { callsite: 7, text, ..Record::new(Kind::Begin, ns) });
        }
        let snapshot = Snapshot { threads: vec![ThreadSnapshot::of(&ring)], ..Snapshot::default() };
        assert_eq!(Kept::of(&snapshot).end_ns, 5);
    }

    /// A child has no thread of its parent's that writes.
    #[test]
    fn a_child_may_write_while_its_parent_does() {
        let recorder = FlightRecorder::builder().build();
        let path = std::env::temp_dir().join(format!("tickline-tracing-child-{}", process::id()));
        let writes = |writing| {
            // ORDERING: Relaxed, one thread.
            recorder.recorder.writing.store(writing, Ordering::Relaxed);
            recorder.write_last_in_background(path.join("none"), Duration::MAX)
        };
        assert_eq!(writes(process::id()).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        writes(process::id() ^ 1).unwrap();
    }
}
