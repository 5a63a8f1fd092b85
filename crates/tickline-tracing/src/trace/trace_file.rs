//! A sink that writes a trace file for <https://ui.perfetto.dev>, `chrome://tracing` and similar
//! viewers while the program runs.
//!
//! # Formats
//!
//! The name of the file chooses the format ([`TraceFormat::from_path`]), or
//! [`TraceFileBuilder::format`] does:
//!
//! | | JSON | Perfetto's own format |
//! |---|---|---|
//! | name | any other | `.pftrace`, `.perfetto-trace` |
//! | viewers | ui.perfetto.dev, `chrome://tracing`, speedscope, scripts | ui.perfetto.dev, Perfetto's trace processor |
//! | size ([measured](https://github.com/tickline/tickline/blob/main/benches/README.md)) | | about a quarter |
//! | spans of a request that overlap | on tracks of their own | on tracks below the request's |
//! | events with a field such as `counter.queue = 3` | counters | counters |
//! | the CPU time of each thread ([`TraceFileBuilder::with_cpu_time`]) | counters, told apart by the thread's number | counters below the threads |
//! | `follows_from`, with [`Tracks::Requests`] | no | an arrow |
//! | merges with traces of other machines and of `perf` | by a script | by the clocks in the file |
//! | compression | no | `TraceFormat::CompressedPerfetto` (feature `compression`) |
//!
//! `follows_from` to a span that has already ended draws no arrow.
//!
//! A field named `counter.x` is a counter if its value is a finite number. An event that has only
//! counters is not shown itself. A trace in Perfetto's format relates its times to the time since
//! the boot and to Unix time at its beginning, and every 10 s. The events of the module `utc` add
//! UTC, as the clock 128.
//!
//! JSON is the JSON Array Format of "Trace Event Format" (Google, 2016): an array of events.
//! A busy interval of a thread in a span is a `B` event and an `E` event. The file therefore also
//! has spans that do not end. The spans of a request are `b` and `e` events with the number
//! of a track ([`Tracks`]). Events of `tracing` are instants with their fields, named by their
//! message. The numbers that JSON lacks are the texts `inf`, `-inf` and `NaN`. Threads have the
//! system's numbers and names. The first event, `process_name`, has the Unix time, if it is known:
//! `unix_time` (RFC 3339) is that of the moment `unix_time_at_us` on the file's timescale. That
//! moment is the beginning of a trace file, and the end of a flight recorder's trace.
//!
//! The [README](https://github.com/tickline/tickline/blob/main/crates/tickline-tracing/README.md)
//! compares this sink with tracing-chrome, tracing-perfetto and tracing-perfetto-file.
//!
//! # When the program ends without dropping the guard
//!
//! The writer writes every 100 ms ([`TraceFileBuilder::flush_every`]). The table says when the file
//! also has the records after the last write:
//!
//! | the program | is the file complete up to that moment? |
//! |---|---|
//! | panics | with [`TraceFileBuilder::flush_on_panic`], even if the panic aborts |
//! | leaks its guard, or calls `exit` on the thread that made the trace | if the system then runs the thread's destructors: Linux with glibc, macOS |
//! | calls `exit` on another thread | if it calls [`Flusher::flush`] before |
//! | aborts, segfaults | if its signal handler calls [`Flusher::flush_in_signal_handler`] |
//! | is killed | no, the records since the last write are missing: the last 100 ms, and more if the writer gets no CPU; the file of a flight recorder is complete ([`flight`](crate::flight#the-black-box)) |
//!
//! Viewers open an incomplete file. In Perfetto's format it ends with a whole packet or, after a
//! `SIGKILL` during a write, with a truncated one. In a compressed file this packet is a block;
//! each write ends a block. In JSON, "the `]` at the end of the JSON Array Format is optional"
//! (ibid.). The file begins with `[` and an event, and a comma comes before each further event.
//! Each write ends with a whole event. A `SIGKILL` during a write may truncate the last event,
//! which Perfetto then leaves out. A loss of power may damage the file.
//!
//! # When a write fails
//!
//! The trace ends at the first error of a write, as on a full disk, and the program goes on without
//! it. How the program shows the error:
//!
//! | the error comes | it is |
//! |---|---|
//! | while the program runs | a line on standard error, at once: the path, the error, what to do |
//! | when the guard is dropped | the same line |
//! | when the program calls [`TraceFileGuard::finish`] | the result of that call, which also returns an earlier error |
//!
//! [`Flusher::flush`] returns [`Flushed::Failed`] after the error. On Unix, the line is left out if
//! standard error takes nothing for 100 ms, for example a full pipe that nobody reads. An error
//! whose line was left out while the program runs is said when the guard is dropped. On other
//! systems the writer waits for standard error, and a thread that drops the guard meanwhile waits
//! for the writer, for at least 2 s.
//!
//! A seccomp filter may kill the writer's thread alone, at a system call of a write
//! (`SECCOMP_RET_KILL_THREAD`). The trace has then ended, too. No line is written at once, because
//! a filter may kill for that as well: the error is the result of `finish`, or the line of a guard
//! that is dropped. Flushes return [`Flushed::Failed`], and no thread waits for room any more.
//! Threads that have recorded before go on, and their records get lost.
//!
//! On Linux, a write beyond the limit on a file's size (`ulimit -f`) is such an error, because the
//! writer's thread blocks all signals. On other Unix systems SIGXFSZ ends the process, unless the
//! program ignores or handles that signal.
//!
//! # In a forked child
//!
//! The file belongs to the parent. The child's spans are not recorded, the child does not wait for
//! the writer, and its copy of the guard does nothing. A child that needs a trace makes its own, in
//! another file.
//!
//! # Order in the file
//!
//! The busy intervals of a thread are in order of time, and each `E` belongs to the last open `B`
//! of its thread. The spans of requests come in groups, each in order of time. Each `e` comes after
//! its `b`, and belongs to the last open `b` of its track (`id2`). CPU times come at the end of a
//! write. Viewers sort the events.
//!
//! # Cost
//!
//! A thread writes three words to a ring of its own when it enters a span, and two when it exits.
//! With [`SpanTimingLayer::for_sinks_only`](crate::SpanTimingLayer::for_sinks_only) a span costs
//! less still, because the layer stores nothing in the registry. The writer's thread turns the
//! words into text or packets.
//!
//! Records that do not fit into the ring are dropped and counted. The file says how many were
//! dropped, and where. [`TraceFileGuard::finish`] returns their number
//! ([`TraceSummary::dropped_records`]); a guard that is dropped instead writes it to standard
//! error. The end of a span that has begun in the file is not dropped, though its fields may be.
//! With [`TraceFileBuilder::wait_when_full`] the program's threads wait instead.
//!
//! # When a thread waits
//!
//! Most records wait for no other thread, in a trace file and in a [flight
//! recorder](crate::flight). In these cases a thread needs a lock, and waits if another thread has
//! it:
//!
//! - at its first record, and when it ends: the lock of the list of rings;
//! - at a record of a callsite that it has not recorded lately (it remembers up to 64): the lock of
//!   the callsites' names;
//! - at a record of a span: the span's lock. Another thread has it only while it works on the same
//!   span. After 100 tries the waiting thread sleeps for 50 us at a time, and after at least 2 s it
//!   gives the span up, because the other thread was probably killed, by a seccomp filter for
//!   example;
//! - at the beginning of a span, if the table of open spans must grow, and at each record of a span
//!   that has no place in it: the table's locks;
//! - at the end of a request's span, if the ring is full: the lock of the list of such ends.
//!
//! A thread that writes a trace takes these locks, too, while it copies the lists.

mod writer;

use core::time::Duration;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::Arc;

use tickline::process_token;

use super::capture::panic_event;
use super::capture::recorder::Recorder;
use super::capture::thread_recorder;
use super::capture::trace_sink::{RecorderInLayer, TraceSink};
use super::flusher::{FlushRequests, LAST_FLUSH, WAS_KILLED, flush_when_this_thread_ends};
use super::own_file::OwnFile;
use super::panic_hook::around_panics;
use super::settings::{Settings, WhenFull};
use super::sys::stderr::say;
use super::sys::temporary::with_path;
use super::writer_thread::WriterThread;

pub use super::flusher::{Flushed, Flusher};
pub use super::format::summary::TraceSummary;
pub use super::format::trace_output::TraceFormat;
pub use super::settings::Tracks;

/// The default of [`TraceFileBuilder::flush_every`]. A longer time loses more events when the
/// process is killed; a shorter time costs more system calls.
const DEFAULT_FLUSH_EVERY: Duration = Duration::from_millis(100);

/// A sink that writes a trace file, made by [`TraceFile::builder`].
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tickline_tracing::trace_file::TraceFile;
/// use tracing_subscriber::filter::LevelFilter;
/// use tracing_subscriber::prelude::*;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
/// #   let folder = tempfile::tempdir()?;
/// #   std::env::set_current_dir(&folder)?;
///     let _thread = tickline::start()?; // keep it by a name, not `_`
///     let (trace, guard) = TraceFile::builder().with_fields().create("trace.json")?;
///     let layer = SpanTimingLayer::new().with_sink(trace);
///     tracing_subscriber::registry().with(layer.with_filter(LevelFilter::INFO)).init();
///
///     tracing::info_span!("outer", user = 7).in_scope(|| tracing::info!(bytes = 512, "read"));
///
///     let summary = guard.finish()?; // at the end of `main`: join the threads first
///     assert_eq!((summary.intervals, summary.unended_intervals, summary.events), (1, 0, 1));
///     assert_eq!(summary.dropped_records, 0);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct TraceFile(RecorderInLayer);

impl TraceSink for TraceFile {
    fn in_layer(&self) -> &RecorderInLayer {
        &self.0
    }

    fn in_layer_mut(&mut self) -> &mut RecorderInLayer {
        &mut self.0
    }
}

/// Settings for a trace file: [`TraceFile::builder`] begins them, and [`create`](Self::create) or
/// [`build`](Self::build) makes the sink.
#[derive(Debug, Clone)]
#[must_use]
pub struct TraceFileBuilder {
    settings: Settings,
    flush_every: Duration,
    flush_on_panic: bool,
}

impl TraceFileBuilder {
    /// The largest size of a thread's ring, in bytes. It is rounded up to a power of two, and to at
    /// least 128 KiB. With more than 16 GiB the sink can't be made. By default it is 1 MiB. The
    /// system commits the memory when it is first used.
    ///
    /// An entered span takes 40 bytes, a span of a request 72, an event 32. A field with a number
    /// adds 10 bytes; one with a text adds 4, and the text. The records of a thread for whose ring
    /// the system has no memory count as dropped ([`TraceSummary::dropped_records`]).
    pub fn bytes_per_thread(mut self, bytes: usize) -> Self {
        self.settings.bytes_per_thread = Some(bytes);
        self
    }

    /// Writes the fields of a span as the arguments of its events. Values that are recorded later
    /// are at the next end of a busy interval, and at the end of the span in its request. Values
    /// from after the last exit are therefore not on the track of a thread: for the status that an
    /// async server records after an `.await`, choose [`Tracks::Requests`]. Events have their
    /// fields without this setting, too.
    ///
    /// A program's thread copies numbers, booleans and strings to its ring. It formats only values
    /// of other types, by their `Debug` or `Display`. If this returns an error or panics, the
    /// value's text says so, and the program goes on after the panic hook. A value that is a
    /// `&dyn Error` also has the texts of its sources, as with `tracing_subscriber::fmt`.
    ///
    /// The fields of one span or event take at most 16 KiB. If they take more, the longest texts
    /// are cut, end with `… (cut)`, and are counted by [`TraceSummary::cut_values`]. This holds for
    /// events without this setting, too.
    pub fn with_fields(mut self) -> Self {
        self.settings.has_fields = true;
        self
    }

    /// Adds the source location, such as `"source": "src/main.rs:7"`, to the arguments of spans and
    /// events; its key is `"source location"` where a field is named `source`. Perfetto's format
    /// has it in a place of its own.
    pub fn with_source_locations(mut self) -> Self {
        self.settings.has_locations = true;
        self
    }

    /// The format of the trace file. Without this setting, the file's name decides
    /// ([`TraceFormat::from_path`]), and an output without a name gets JSON.
    pub fn format(mut self, format: TraceFormat) -> Self {
        self.settings.format = Some(format);
        self
    }

    /// The tracks on which viewers draw the spans; [`Tracks::Threads`] by default. Async servers
    /// need [`Tracks::Requests`].
    pub fn tracks(mut self, tracks: Tracks) -> Self {
        self.settings.tracks = tracks;
        self
    }

    /// The longest time before an event is written to the file: 100 ms by default, at least 1 ms.
    pub fn flush_every(mut self, flush_every: Duration) -> Self {
        self.flush_every = flush_every.max(Duration::from_millis(1));
        self
    }

    /// Makes a thread wait for the writer when its ring is full. A record is then dropped only if
    /// even an empty ring has no room for it: if the thread is in more than about 30,000 spans at
    /// once, or 2,000 with the smallest ring.
    ///
    /// A thread that panics waits at most about 10 ms, for all its records in this trace together,
    /// so that a stuck writer does not keep the panic from its end. Then its records are dropped:
    /// the panic's event ([`flush_on_panic`](Self::flush_on_panic)), events that destructors send
    /// during the unwinding, and the beginnings of spans there. The end of a span that began is not
    /// dropped, but its later values may be.
    pub fn wait_when_full(mut self) -> Self {
        self.settings.when_full = WhenFull::Wait;
        self
    }

    /// Adds the CPU time of each thread, as a counter of nanoseconds below the thread's track. This
    /// is the time for which a CPU has executed the thread since its beginning. In the counter's
    /// mode "rate" of Perfetto's viewer, 10^9 are a whole CPU. Without this setting a trace has no
    /// such counters, because each thread gets one more track.
    ///
    /// The writer's thread reads the CPU times at each flush ([`flush_every`](Self::flush_every)),
    /// by one system call for each thread that has recorded something, so the program's threads do
    /// nothing for it. A value belongs to its time to within 50 us. A value that did not change is
    /// left out, so an idle thread adds nothing to the file. Any other value takes about 30 bytes
    /// in Perfetto's format, 110 in JSON. A thread that has ended gets no further value, and one
    /// that ends before the first flush gets none.
    ///
    /// Only Linux and Android have such clocks. On other systems the trace has no such counter. Nor
    /// has the trace of a flight recorder, which has no writer.
    ///
    /// ```
    /// # use tickline_tracing::trace_file::TraceFile;
    /// # fn main() -> std::io::Result<()> {
    /// # let path = std::env::temp_dir().join(format!("tickline-doc-cpu-{}", std::process::id()));
    /// let (trace, guard) = TraceFile::builder().with_cpu_time().create(&path)?;
    /// # drop((trace, guard));
    /// # std::fs::remove_file(path)
    /// # }
    /// ```
    pub fn with_cpu_time(mut self) -> Self {
        self.settings.has_cpu_time = true;
        self
    }

    /// Records the panics of all threads, and flushes the trace after the panic hook that the
    /// program has when it makes the trace. A panic is an event `panic`, as
    /// [`FlightRecorder::write_on_panic`](crate::flight::FlightRecorder::write_on_panic) describes
    /// it. With [`Tracks::Requests`] it is on the track of the span in which it happened. If the
    /// thread's ring has no room, the event is dropped, with
    /// [`wait_when_full`](Self::wait_when_full) after a wait. The hook waits for the writer at most
    /// 2 s. If the writer takes longer, the hook writes a line with the path and the time to
    /// standard error.
    ///
    /// A hook that ends the process, for example by `abort`, must be installed after the trace is
    /// made, and must call the hook before it first. Otherwise nothing is flushed.
    pub fn flush_on_panic(mut self) -> Self {
        self.flush_on_panic = true;
        self
    }

    /// Creates or truncates the file, as [`File::create`](std::fs::File::create) does, and starts
    /// the thread that writes it. A restarted program thus loses the trace of its crash, and of two
    /// processes with one path the first loses its trace: put the time of the start into the name.
    /// Links are followed. If `/dev/stdout` is a file, it is truncated, too. To append to standard
    /// output, pass [`std::io::stdout`] to [`build`](Self::build).
    ///
    /// Not for processes that [may not read the counter](crate#when-a-gate-is-closed): the writer's
    /// thread may end them by SIGSEGV.
    ///
    /// # Errors
    ///
    /// - If the file cannot be created, or the thread cannot be started.
    /// - [`ResourceBusy`](io::ErrorKind::ResourceBusy) on Unix, if another trace of this process
    ///   that `create` has begun is being written to the file, or if a flight recorder has its
    ///   rings there ([`FlightRecorderBuilder::in_file`]) and its process, this one or another on
    ///   this machine, still runs. Also if another file comes to the path meanwhile. The file stays
    ///   as it is.
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput) if a ring were to be larger than 16 GiB
    ///   ([`bytes_per_thread`](Self::bytes_per_thread)).
    ///
    /// [`FlightRecorderBuilder::in_file`]: crate::flight::FlightRecorderBuilder::in_file
    pub fn create(self, path: impl AsRef<Path>) -> io::Result<(TraceFile, TraceFileGuard)> {
        let path = path.as_ref();
        self.settings.check_bytes_per_thread()?;
        let format = self.settings.format_for(Some(path));
        let file = OwnFile::create(path).map_err(|error| with_path(path, &error))?;
        self.write_in(format, file, Some(path))
    }

    /// Makes a sink that writes to `output`, and starts the thread that does so.
    ///
    /// # Errors
    ///
    /// - If the thread cannot be started.
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput) as for [`create`](Self::create).
    pub fn build(
        self,
        output: impl Write + Send + 'static,
    ) -> io::Result<(TraceFile, TraceFileGuard)> {
        self.settings.check_bytes_per_thread()?;
        let format = self.settings.format_for(None);
        self.write_in(format, output, None)
    }

    /// `path` leads to `output`, if it is a file.
    fn write_in(
        self,
        format: TraceFormat,
        output: impl Write + Send + 'static,
        path: Option<&Path>,
    ) -> io::Result<(TraceFile, TraceFileGuard)> {
        let recorder = Arc::new(Recorder::new(self.settings));
        let requests = Arc::new(FlushRequests::of(Arc::clone(&recorder.reader), path));
        let (recorded, requested) = (Arc::clone(&recorder), Arc::clone(&requests));
        let write = move || writer::write(output, format, &recorded, &requested, self.flush_every);
        let thread = WriterThread::start(c"tickline-trace", write)?;
        let flusher = Flusher {
            requests,
            process: process_token(),
        };
        flush_when_this_thread_ends(flusher.clone());
        if self.flush_on_panic {
            let flusher = flusher.clone();
            // The rings need not outlive the trace.
            let recorder = Arc::downgrade(&recorder);
            let record = move |panic: &PanicHookInfo<'_>| {
                if let Some(recorder) = recorder.upgrade() {
                    panic_event::record(&recorder, panic);
                }
            };
            around_panics(record, move || flush_in_hook(&flusher));
        }
        let trace = TraceFile(RecorderInLayer::new(Arc::clone(&recorder)));
        let guard = TraceFileGuard {
            recorder,
            flusher,
            thread: Some(thread),
        };
        Ok((trace, guard))
    }
}

/// Flushes the trace when a thread has panicked. Says on standard error if the flush takes too
/// long.
fn flush_in_hook(flusher: &Flusher) {
    // If the writer itself panics, a flush would wait for this thread. A forked child has no
    // writer.
    if thread_recorder::IS_READER.get() || flusher.is_in_child() {
        return;
    }
    match flusher.flush(LAST_FLUSH) {
        Flushed::Written => {}
        // The guard may be about to say it, but this panic may end the process.
        Flushed::Failed => flusher.say_error(),
        Flushed::TimedOut => say(format_args!(
            "the trace may be incomplete: {}the panic waited {} s for the writer, in vain",
            flusher.requests.path_prefix(),
            LAST_FLUSH.as_secs()
        )),
    }
}

impl TraceFile {
    /// Settings for a trace file.
    pub fn builder() -> TraceFileBuilder {
        let settings = Settings::new(WhenFull::Drop);
        TraceFileBuilder {
            settings,
            flush_every: DEFAULT_FLUSH_EVERY,
            flush_on_panic: false,
        }
    }
}

/// Ends the file when it is dropped. The file does not get later records: join the threads first,
/// and drop the guard at the end of `main`.
///
/// The drop writes a line with the path to standard error in two cases. If the last write fails,
/// the line has the error. If records were dropped, or if the trace has neither spans nor events
/// but those of panics, the line says what to change. [`finish`](Self::finish) returns the error,
/// or the summary, instead.
///
/// Keep the guard until the end of `main`, by a name: `let (trace, _guard) = ...`. In
/// `let (trace, _) = ...` Rust drops the guard at once, and no lint says so: the line does. The
/// [module's documentation](self) says which records are missing if the program ends without
/// dropping it.
///
/// A trace without spans, and without other events than those of panics, also has a mark, "0 spans:
/// ...", with the causes that are possible:
///
/// - The guard was dropped before the first span.
/// - The trace is a sink of no layer, or its layer belongs to no subscriber of the program's
///   threads.
/// - A filter hides all spans and events from the layer.
/// - No span was entered, and [`Tracks::Threads`] shows busy intervals only.
#[derive(Debug)]
#[must_use = "the file ends when the guard is dropped: `let (trace, _guard) = ..`; `_` drops it at once"]
pub struct TraceFileGuard {
    recorder: Arc<Recorder>,
    flusher: Flusher,
    thread: Option<WriterThread<io::Result<TraceSummary>>>,
}

impl TraceFileGuard {
    /// Writes the remaining records, ends the file, and returns a summary of its content.
    ///
    /// What other threads record from the call on is not in the file, and counts nowhere: join the
    /// threads first.
    ///
    /// # Errors
    ///
    /// - The first error of a write. The writer stopped at this error
    ///   ([*When a write fails*](self#when-a-write-fails)).
    /// - If the writer's thread panicked, as the `output` of [`TraceFileBuilder::build`] may do, or
    ///   was killed ([*When a write fails*](self#when-a-write-fails)).
    /// - In a forked child, because the file belongs to the parent.
    ///
    /// If [`TraceFileBuilder::create`] made the file, the error's text begins with its path, in
    /// quotes.
    pub fn finish(mut self) -> io::Result<TraceSummary> {
        let result = self.stop();
        // The drop need not say what this call returns, nor a panic.
        _ = self.flusher.take_error();
        result.map_err(|error| match &self.flusher.requests.path {
            Some(path) => with_path(path, &error),
            None => error,
        })
    }

    /// A flusher, for programs that end without dropping the guard.
    pub fn flusher(&self) -> Flusher {
        self.flusher.clone()
    }

    fn stop(&mut self) -> io::Result<TraceSummary> {
        let thread = self
            .thread
            .take()
            .ok_or_else(|| io::Error::other("finish() has ended the trace already"))?;
        if self.recorder.is_in_child() {
            return Err(io::Error::other(
                "the trace is written by the parent of this process; create another one in the child",
            ));
        }
        self.recorder.end();
        self.recorder.wake_reader();
        thread.join().unwrap_or_else(|| {
            let was_killed = self.flusher.requests.end_after_writers_thread();
            let error = if was_killed {
                WAS_KILLED
            } else {
                writer::PANICKED
            };
            Err(io::Error::other(error))
        })
    }
}

/// What to look at if a trace has no span when its guard is dropped.
const EMPTY: &str = "if the program has entered one, keep the guard until the end of main, by a \
                     name (`_guard`: a `_` drops it at once); or install the layer, or let a filter \
                     show its spans";

impl Drop for TraceFileGuard {
    fn drop(&mut self) {
        if let Ok(summary) = self.stop() {
            let path = self.flusher.requests.path_prefix();
            if summary.dropped_records > 0 {
                say(format_args!(
                    "the trace lacks records: {path}{summary}; choose wait_when_full(), or a larger \
                     bytes_per_thread()"
                ));
            } else if summary.is_of_nothing_but(self.recorder.panics()) {
                say(format_args!(
                    "the trace has ended, and has no span: {path}{EMPTY}"
                ));
            }
        }
        self.flusher.say_error();
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_finish_has_returned_is_left_for_nobody() {
        let (_trace, guard) = TraceFile::builder().create("/dev/full").unwrap();
        let flusher = guard.flusher();
        guard.finish().unwrap_err();
        assert_eq!(flusher.take_error(), None);
    }

    /// Symptom: the error said that the thread that writes the trace had panicked.
    #[test]
    fn a_child_with_its_parents_process_id_cannot_finish_its_trace() {
        let make = || TraceFile::builder().build(io::sink()).unwrap();
        tickline_observe::fork::assert_in_namesake(make, |(_trace, guard)| {
            let error = guard.finish().unwrap_err().to_string();
            error
                == "the trace is written by the parent of this process; create another one in the child"
        });
    }
}
