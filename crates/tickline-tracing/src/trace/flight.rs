//! A flight recorder: it keeps the last spans and events in memory, and writes them to a trace file
//! when something goes wrong.
//!
//! Each thread has a ring, in which new records overwrite the oldest. The program chooses the size
//! of a ring ([`FlightRecorderBuilder::bytes_per_thread`]), or the time that it covers
//! ([`FlightRecorderBuilder::keep_last`]). Threads format nothing but values of fields by their
//! `Debug`, and write no file. They wait for each other [in a few
//! cases](crate::trace_file#when-a-thread-waits). On request the recorder writes all rings to a
//! file, while the program goes on. [`trace_file`](crate::trace_file#formats) describes the
//! formats, and defines the types that trace files and recorders share: [`Tracks`],
//! [`TraceFormat`], [`TraceSummary`].
//!
//! ```
//! use std::time::Duration;
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::flight::FlightRecorder;
//! use tracing_subscriber::filter::LevelFilter;
//! use tracing_subscriber::prelude::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #   let folder = tempfile::tempdir()?;
//! #   std::env::set_current_dir(&folder)?;
//!     let _thread = tickline::start()?; // keep it by a name, not `_`
//!     let recorder = FlightRecorder::builder().with_fields().build()?;
//!     recorder.write_on_panic("panic.json")?;
//!     let writer = recorder.clone();
//!     let layer = SpanTimingLayer::new().with_sink(recorder.clone()).with_callback(move |span| {
//!         if span.name() == "request" && span.times().total() > Duration::from_millis(200) {
//!             // The five seconds before this slow request.
//!             writer.write_last_in_background("slow.json", Duration::from_secs(5)).ok();
//!         }
//!     });
//!     tracing_subscriber::registry().with(layer.with_filter(LevelFilter::INFO)).init();
//!
//!     tracing::info_span!("request", user = 7).in_scope(|| tracing::info!("read"));
//!
//!     let summary = recorder.write("trace.json")?; // or whenever you like
//!     assert_eq!((summary.intervals, summary.events, summary.overwritten_records), (1, 1, 0));
//!     Ok(())
//! }
//! ```
//!
//! [The front page](crate) says what the thread and the filter are for.
//!
//! # The black box
//!
//! Rings in memory are lost when the process is killed, aborts, segfaults or exits; only a panic
//! can still write them. With [`FlightRecorderBuilder::in_file`], on Unix, the rings are in a mapped
//! file. They survive every end of the process. Recording costs the same, because the threads
//! execute the same stores.
//!
#![cfg_attr(unix, doc = "```")]
#![cfg_attr(not(unix), doc = "```no_run")]
//! # use tickline_tracing::flight::{self, FlightRecorder};
//! use tickline_tracing::trace_file::TraceFormat;
//! # use std::fs::File;
//! # fn main() -> std::io::Result<()> {
//! # let folder = std::env::temp_dir();
//! # let path = folder.join("tickline-doc-box");
//! # let trace = folder.join("tickline-doc-box.pftrace");
//! // In the server: rings for 64 threads, 34 MB.
//! let recorder = FlightRecorder::builder().with_fields().in_file(&path).threads(64).build()?;
//! recorder.write_on_panic("panic.pftrace")?; // without this call no panic is in the file
//! // After the server's end: `tickline flight FILE --out trace.pftrace`, or
//! let mut converted = Vec::new(); // a file would stay behind, empty, if the conversion failed
//! let format = TraceFormat::from_path(&trace);
//! let summary = flight::convert(File::open(&path)?, &mut converted, format)?;
//! std::fs::write(&trace, converted)?;
//! # assert_eq!(summary.unended_intervals, 0);
//! # std::fs::remove_file(path)?;
//! # std::fs::remove_file(trace)
//! # }
//! ```
//!
//! - The file has a panic as an event only if the program has called
//!   [`FlightRecorder::write_on_panic`], which also writes a trace to another path.
//! - A record is in the file once it is complete. A record that a thread was writing when the
//!   process ended is lost.
//! - One ring of the file has the names of callsites and of their fields, up to 4 KiB for a
//!   callsite: fields beyond that are called `field 7` and so on. A callsite has no names if its
//!   own name, its target and its source location take more than 1 KiB, or if the ring is full when
//!   a record of it is written first: [`TraceSummary::callsites_without_names`].
//! - `build` fills a file `PATH.PID.RANDOM.part` first, and then gives it its name. A process that
//!   is killed meanwhile leaves the `.part` file, and nothing removes it later: where starts may be
//!   killed, remove `PATH.*.part` before a start.
//! - Only the file's owner may read it (mode 0600). It has its full size from the start, so `build`
//!   fails on a full disk. (Btrfs and ZFS need new space for each change of a file. There a full
//!   disk ends the process by `SIGBUS`.) Do not truncate the file while the process runs:
//!   this would also end the process by `SIGBUS`. Removing the file does no harm.
//! - The file survives the process, not the machine. On a disk the kernel writes it back every few
//!   seconds, and a thread may wait for the write. Choose a file system in memory: `/dev/shm`,
//!   `/run`. A container's own may end with the container: the
//!   [README](https://github.com/tickline/tickline/blob/main/crates/tickline-tracing/README.md)
//!   says what to mount.
//! - Each file has one recorder. `build` fails while another recorder uses the file, as in a
//!   rolling restart. It renames the file of a process that has ended to `PATH.old`, so that a
//!   restarted server does not overwrite it. The next restart replaces `PATH.old`: in a loop of
//!   crashes the first one, which has the cause, is gone after two restarts. If you need them all,
//!   put the time of the start into the name, and remove old files. Against the loop it also helps
//!   to move `PATH.old` away before each start.
//! - A restart needs room for two files: the new one, and the file of the process before.
//!   `PATH.old` is removed first if there is no room for three. The default file takes 17 MB; the
//!   `/dev/shm` of a container often has 64 MB. If `build` fails, a server should go on without
//!   the recorder, as the README shows.
//! - A process that has ended can't say which requests were open. Requests whose ends may have been
//!   overwritten are left out: [`TraceSummary::undecided_spans`].
//! - If more threads run at once than the file has rings, the others record in memory, and the file
//!   has nothing of them: [`TraceSummary::threads_without_ring`]. As any request may have ended
//!   on one of these threads, a request without an end in the file is then left out, too.
//!
//! # Content of the trace
//!
//! The events are in order of time. [`TraceSummary::complete_since`] says how far back the trace
//! reaches without a gap. If a thread's ring lost records, a mark on its track says where its
//! records begin, and how many are missing before. A request counts as open if its span is open
//! when the trace is written. A request that has ended is left out if the record of its end is
//! gone.
//!
//! A thread's records reach back as far as its ring does; an idle thread's ring reaches back
//! further. The outermost 64 spans that the thread was in at that time have their true beginnings;
//! the spans inside these are left out. The fields of these beginnings take at most 8 KiB together:
//! if they take more, the longest texts are cut. A thread overwrites its ring in pieces of 32 KiB.
//!
//! In memory, the recorder also keeps the rings of the eight threads that ended last. In a file it
//! keeps a ring until another thread needs it. The memory of a recorder is therefore limited to
//! eight rings, and a ring for each running thread that has recorded something.
//!
//! # In a forked child
//!
//! The child has a copy of the rings in memory, records to it, and may write files of its own. It
//! has no copy of rings in a file: it begins with empty rings in memory. (A child made by a bare
//! `clone` instead of `fork` would record into its parent's file.) A handler of `pthread_atfork`
//! must neither create nor drop a recorder with a file: it would deadlock. The child does not wait
//! for threads of its parent: if such a thread held the lock on the list of rings at the fork,
//! `write` returns an error within a second.

mod builder;
mod contents;
mod on_panic;
mod replace_trace;
mod write_snapshot;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use builder::{FlightFileBuilder, FlightRecorderBuilder};
use on_panic::OnPanic;
use replace_trace::{check_not_in_use, replace_trace};
use tickline::process_token;
use write_snapshot::write_snapshot;

use super::capture::black_box;
use super::capture::trace_sink::{RecorderInLayer, TraceSink};
use super::format::summary::TraceSummary;
use super::format::trace_output::TraceFormat;
use super::panic_hook::around_panics;
#[cfg(doc)]
use super::settings::Tracks;
use super::sys::stderr::say;
use super::sys::temporary::{check_replaceable, with_path};
use super::writer_thread::WriterThread;
use crate::layer::timing::as_ns;

/// A sink that keeps the last spans and events, made by [`FlightRecorder::builder`]. Clones share
/// one recorder: use one clone as the sink, and another to write the file, as in the [module's
/// example](self).
///
/// If clones are in two layers of one subscriber, the recorder has each span once, but each event
/// once for each layer: give the layers filters that do not overlap for events. In the layers of
/// two subscribers, a span of one inside a span of the other has no slice on the thread's track if
/// both have the same number and the same callsite.
#[derive(Debug, Clone)]
pub struct FlightRecorder(RecorderInLayer);

impl TraceSink for FlightRecorder {
    fn in_layer(&self) -> &RecorderInLayer {
        &self.0
    }

    fn in_layer_mut(&mut self) -> &mut RecorderInLayer {
        &mut self.0
    }
}

/// Reads the file of a recorder ([`FlightRecorderBuilder::in_file`]), and writes its records as a
/// trace in this format. If the process still runs, the records that it overwrites meanwhile are
/// missing or damaged. [`TraceSummary::unix_end`] and a JSON trace have the Unix time of the end,
/// by the clock as it was when the file was created. A trace in Perfetto's format relates its times
/// to no other clock, because the file may be from before the last boot.
///
/// # Errors
///
/// If the recorder's file is the cause, nothing has been written: a trace's file that was created
/// before the call stays empty. So convert into memory, as in the [module's
/// example](self#the-black-box), or to a temporary name.
///
/// - The file cannot be read, or is not a recorder's.
/// - Another kind of machine wrote the file.
/// - By its head it has more than 64 GiB, the limit of a recorder's file.
/// - The file is truncated before the end of its first thread's ring, or the names of a callsite
///   are longer than a recorder writes them.
/// - A write fails: the first error.
///
/// Damaged records are left out, and counted by [`TraceSummary::damaged_records`]. So are the rings
/// that a truncated file lacks, by [`TraceSummary::missing_rings`], and the threads for which the
/// file had no ring, by [`TraceSummary::threads_without_ring`]. Callsites whose names the file
/// lacks are counted by [`TraceSummary::callsites_without_names`].
pub fn convert(
    file: impl Read,
    output: impl Write,
    format: TraceFormat,
) -> io::Result<TraceSummary> {
    write_snapshot(&black_box::read(file)?, output, format, 0)
}

impl FlightRecorder {
    /// Settings for a recorder.
    pub fn builder() -> FlightRecorderBuilder {
        FlightRecorderBuilder::new()
    }

    /// Writes all kept records to a file, which replaces an older one. The program goes on
    /// meanwhile. This is not for signal handlers: set a flag there, and call this from a thread
    /// that looks at it. Links are followed. A new file has the mode of the umask, like that of a
    /// [`TraceFile`](crate::trace_file::TraceFile) and unlike the file of a [black
    /// box](self#the-black-box), which only its owner may read. An older file's mode stays: if
    /// others must not read the trace, make the file before, with mode 600. The older file's owner
    /// and group stay as far as this process may set them; a group that is not the older file's
    /// gets no rights.
    ///
    /// Processes that run at once need paths of their own. Of two that write to the same path, the
    /// later one replaces the earlier one's trace, so put the process's number into the name:
    /// `format!("trace.{}.json", std::process::id())`. The same holds for
    /// [`write_on_panic`](Self::write_on_panic).
    ///
    /// # Errors
    ///
    /// - If the file cannot be written. On Unix, a file beyond the limit on its size (`ulimit -f`)
    ///   is an error only if the program ignores, handles or blocks SIGXFSZ. Otherwise that signal
    ///   ends the process.
    /// - If there is something other than a regular file at the path: a device, a pipe, a socket or
    ///   a folder. Use [`write_to`](Self::write_to) for these.
    /// - If the path leads through a process's open files, as `/dev/stderr` does, even if it is a
    ///   regular file. Use [`write_to`](Self::write_to) here, too.
    /// - If this process may not write to the older file, even if it may replace it in its folder.
    /// - [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the file is in use: a recorder has its
    ///   rings there ([`FlightRecorderBuilder::in_file`]), and its process, this one or another on
    ///   this machine, still runs; or, on Unix, a trace of this process that
    ///   [`TraceFileBuilder::create`] has begun is being written there. On other systems, and for a
    ///   trace that [`build`] writes to a file, nothing refuses it: that trace is then lost.
    /// - In a forked child, if a thread of the parent had the list of rings locked at the fork ([In
    ///   a forked child](self#in-a-forked-child)).
    ///
    /// What is at the path then stays unchanged.
    ///
    /// [`TraceFileBuilder::create`]: crate::trace_file::TraceFileBuilder::create
    /// [`build`]: crate::trace_file::TraceFileBuilder::build
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<TraceSummary> {
        self.write_last(path, Duration::MAX)
    }

    /// Writes the kept records of the period `last`, up to now, to a file, which replaces an older
    /// one.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write).
    pub fn write_last(&self, path: impl AsRef<Path>, last: Duration) -> io::Result<TraceSummary> {
        let path = path.as_ref();
        let format = self.recorder().settings.format_for(Some(path));
        replace_trace(path, |file| self.write_within(last, format, file))
            .map_err(|error| with_path(path, &error))
    }

    /// Starts a thread that does [`write_last`](Self::write_last), for callbacks that must not
    /// wait. If the trace can't be written, the thread writes a line with the path and the error to
    /// standard error. A panic of the thread is shown by the program's panic hook.
    ///
    /// # Errors
    ///
    /// Those of the beginning:
    ///
    /// - [`WouldBlock`](io::ErrorKind::WouldBlock) if an earlier call is still writing: call again
    ///   later.
    /// - [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the file is in use, as for
    ///   [`write`](Self::write): choose another path.
    /// - The system's error if no thread could be started.
    ///
    /// The error's text begins with the path, in quotes.
    pub fn write_last_in_background(
        &self,
        path: impl Into<PathBuf>,
        last: Duration,
    ) -> io::Result<()> {
        let path = path.into();
        let write = {
            let path = path.clone();
            move |recorder: &Self| recorder.write_last(path, last).map(drop)
        };
        check_not_in_use(&path)
            .and_then(|()| self.run_in_background(write))
            .map_err(|error| with_path(&path, &error))
    }

    /// Starts a thread that does `write`, unless an earlier one still does. The thread says the
    /// error of `write` on standard error.
    fn run_in_background(
        &self,
        write: impl FnOnce(&Self) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let process = process_token();
        // ORDERING: Relaxed: the flag orders no memory, and the file system orders the writes.
        let last_writing = self
            .recorder()
            .writing_process
            .swap(process, Ordering::Relaxed);
        if last_writing == process {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "an earlier call is still writing a trace: call again later",
            ));
        }
        let recorder = self.clone();
        let write = move || {
            // A later call may write, also after a panic, which the panic hook has shown.
            let written = catch_unwind(AssertUnwindSafe(|| write(&recorder)));
            // ORDERING: Relaxed: the flag orders no memory.
            recorder
                .recorder()
                .writing_process
                .store(0, Ordering::Relaxed);
            if let Ok(Err(error)) = written {
                // The error's text has the path.
                say(format_args!("no trace: {error}"));
            }
        };
        // ORDERING: Relaxed: no other thread wrote anything.
        WriterThread::start(c"tickline-flight", write)
            .inspect_err(|_| self.recorder().writing_process.store(0, Ordering::Relaxed))
            .map(WriterThread::detach)
    }

    /// Installs a panic hook that writes all kept records to `path`, after the present panic hook
    /// has run. A line on standard error then says where the trace is, and, if the trace has
    /// neither spans nor events but those of panics, what to look at. If the trace can't be written
    /// any more, the line has the path and the error, an older file stays, and the trace is lost.
    ///
    /// The panic is an event `panic`, with the fields `panic.payload` (the message, if the payload
    /// is text) and `panic.location` (`file:line:column`), as tracing-panic names them. The event
    /// is on the thread's track; if the recorder has requests ([`Tracks`]) and the thread is in a
    /// span, on the track of the innermost one. If a thread is in spans of two subscribers that
    /// both have the recorder, the event is on the track of one of them. The hook records it before
    /// the present panic hook runs, so it is in the file of a [black
    /// box](crate::flight#the-black-box), too, if the file has a ring for the thread. Like the
    /// fields of every event, the two take at most 16 KiB. The event of a panic while its thread
    /// writes a record, or drops its thread-local values, may be missing.
    ///
    /// A thread that has recorded nothing before takes a ring for this event, as for any other. If
    /// no ring of the file is free, it takes that of the thread that ended first, whose records are
    /// then lost ([`TraceSummary::overwritten_records`]). If no thread has ended, the file does not
    /// get the event ([`TraceSummary::threads_without_ring`]). In both cases the file no longer
    /// says which earlier requests were open ([`TraceSummary::undecided_spans`]). A file with a
    /// ring for each thread of the program loses nothing
    /// ([`FlightFileBuilder::threads`]).
    ///
    /// The trace of the process's first panic stays: it has the cause in nearly all cases. It
    /// replaces a file of another process, as [`write`](Self::write) does. For each later panic
    /// the hook writes a line to standard error that says where the trace of the first one is. If
    /// that trace was moved away, or could not be written, the next panic's trace is written. But if
    /// a seccomp filter kills a thread while it writes the trace, later panics have only a line
    /// that says so.
    ///
    /// A panic that is caught counts too, also one in the `Debug` of a field, which this crate
    /// catches. A program that catches panics and goes on moves each trace away, or calls
    /// [`write`](Self::write) where it catches.
    ///
    /// A forked child writes to the same path. The first panic of a child replaces the parent's
    /// trace; a child that was forked after the parent's first panic keeps that trace.
    ///
    /// A hook that ends the process, for example by `abort`, must be installed after this call, and
    /// must call the hook before it first. Otherwise nothing is written.
    ///
    /// # Errors
    ///
    /// - [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the file is in use, as for
    ///   [`write`](Self::write): choose another path.
    /// - If what is at the path is not a regular file, or if the process may not write to it.
    /// - If the path leads through a process's open files, as `/dev/stderr` does, even after the
    ///   process has closed the file.
    /// - If the system does not say what is at the path, for example because the process may not
    ///   search its folder.
    /// - If the path's folder is missing, or takes no new file from this process. The call finds
    ///   out by a temporary file, which it removes at once; nothing needs to be at the path itself.
    ///
    /// No hook is then installed. The error's text begins with the path, in quotes.
    pub fn write_on_panic(&self, path: impl Into<PathBuf>) -> io::Result<()> {
        let path = path.into();
        check_not_in_use(&path)
            .and_then(|()| check_replaceable(&path))
            .map_err(|error| with_path(&path, &error))?;
        let on_panic = Arc::new(OnPanic::new(self.clone(), path));
        let recording = Arc::clone(&on_panic);
        around_panics(
            move |panic| recording.record(panic),
            move || on_panic.write(),
        );
        Ok(())
    }

    /// Writes all kept records to `output`.
    ///
    /// # Errors
    ///
    /// - The first error of a write.
    /// - In a forked child, if a thread of the parent had the list of rings locked at the fork.
    pub fn write_to(&self, output: impl Write) -> io::Result<TraceSummary> {
        let format = self.recorder().settings.format_for(None);
        self.write_within(Duration::MAX, format, output)
    }

    fn write_within(
        &self,
        last: Duration,
        format: TraceFormat,
        output: impl Write,
    ) -> io::Result<TraceSummary> {
        let since_ns = tickline::now_ns().saturating_sub(as_ns(last));
        let locked = || {
            io::Error::other(
                "a thread of the parent had the list of rings locked at the fork, so this child \
                 can't write the parent's records: build another recorder in the child",
            )
        };
        let snapshot = self.recorder().snapshot().ok_or_else(locked)?;
        write_snapshot(&snapshot, output, format, since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorder with a write of `process` that has not ended.
    fn written_by(process: u64) -> FlightRecorder {
        let recorder = FlightRecorder::builder().build().unwrap();
        // ORDERING: Relaxed, one thread.
        recorder
            .recorder()
            .writing_process
            .store(process, Ordering::Relaxed);
        recorder
    }

    /// Symptom: the kind was that of a path in use, for which a later call does not help.
    #[test]
    fn a_process_has_one_write_in_the_background_at_once() {
        let recorder = written_by(process_token());
        let error = recorder.run_in_background(|_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    /// Symptom: the text was "an earlier call is still writing".
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no files")]
    fn the_error_of_a_second_write_in_the_background_has_its_path() {
        let recorder = written_by(process_token());
        let error = recorder
            .write_last_in_background("slow.json", Duration::MAX)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"slow.json\": an earlier call is still writing a trace: call again later"
        );
    }

    /// The writing thread of the parent does not exist in the child.
    #[test]
    fn a_child_may_write_while_its_parent_does() {
        let recorder = written_by(process_token() ^ 1);
        recorder.run_in_background(|_| Ok(())).unwrap();
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_child_with_its_parents_process_id_may_write_while_its_parent_does() {
        let make = || {
            let recorder = FlightRecorder::builder().build().unwrap();
            let start = recorder.run_in_background(|_| {
                loop {
                    std::thread::park();
                }
            });
            (recorder, start)
        };
        tickline_observe::fork::assert_in_namesake(make, |(recorder, start)| {
            start.is_ok() && recorder.run_in_background(|_| Ok(())).is_ok()
        });
    }

    /// Symptom: after a panic of the thread no later call wrote anything.
    #[test]
    fn a_write_that_panics_lets_later_ones_begin() {
        let recorder = FlightRecorder::builder().build().unwrap();
        recorder.run_in_background(|_| panic!("a write")).unwrap();
        let start = std::time::Instant::now();
        while let Err(error) = recorder.run_in_background(|_| Ok(())) {
            assert!(start.elapsed() < Duration::from_secs(30), "{error}");
            std::thread::yield_now();
        }
    }
}
