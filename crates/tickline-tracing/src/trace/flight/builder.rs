//! The settings of a flight recorder.

use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::FlightRecorder;
use crate::layer::timing::as_ns;
use crate::trace::capture::black_box::RingFile;
use crate::trace::capture::panic_event;
use crate::trace::capture::recorder::Recorder;
use crate::trace::capture::trace_sink::RecorderInLayer;
#[cfg(doc)]
use crate::trace::format::summary::TraceSummary;
use crate::trace::format::trace_output::TraceFormat;
use crate::trace::settings::{DEFAULT_BYTES_IN_FILE, Settings, Tracks, WhenFull};
use crate::trace::sys::temporary::with_path;
#[cfg(doc)]
use crate::trace::trace_file::TraceFileBuilder;

/// 17 MB with the default size of a ring. A restart needs room for two files, and the `/dev/shm` of
/// a container has 64 MB (Docker, Kubernetes).
const DEFAULT_THREADS: usize = 32;

/// Settings for a flight recorder: [`FlightRecorder::builder`] begins them. [`build`](Self::build)
/// makes a recorder in memory, and [`in_file`](Self::in_file) leads to one in a file.
#[derive(Debug, Clone)]
#[must_use]
pub struct FlightRecorderBuilder {
    settings: Settings,
}

impl FlightRecorderBuilder {
    pub(super) fn new() -> Self {
        Self {
            settings: Settings::new(WhenFull::Overwrite),
        }
    }

    /// The largest size of a thread's ring, in bytes. It is rounded up to a power of two, and to at
    /// least 128 KiB, also from 0. By default it is 1 MiB, and 512 KiB [in a file](Self::in_file).
    /// [A trace file](TraceFileBuilder::bytes_per_thread) has such rings, too: what a span takes is
    /// described there.
    pub fn bytes_per_thread(mut self, bytes: usize) -> Self {
        self.settings.bytes_per_thread = Some(bytes);
        self
    }

    /// Records the fields of spans, which the trace then shows as
    /// [a trace file](TraceFileBuilder::with_fields) does. Events have their fields without this
    /// setting, too.
    pub fn with_fields(mut self) -> Self {
        self.settings.has_fields = true;
        self
    }

    /// Adds the [source location](TraceFileBuilder::with_source_locations) to the arguments of
    /// spans and events in the trace.
    pub fn with_source_locations(mut self) -> Self {
        self.settings.has_locations = true;
        self
    }

    /// The format of the traces that the recorder writes. Without this setting, the name of each
    /// file decides ([`TraceFormat::from_path`]), and an output without a name gets JSON.
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

    /// Keeps the records of the period `last`. Each ring begins with 64 KiB. It grows if it would
    /// otherwise overwrite a younger record, up to [`bytes_per_thread`](Self::bytes_per_thread),
    /// and never becomes smaller. The 64 KiB stay in use however short the period is, so also with
    /// [`Duration::ZERO`]. Without this setting a ring always grows to that size.
    ///
    /// At that size the ring overwrites its oldest records, even younger ones than `last`;
    /// [`TraceSummary::complete_since`] says how far back the rings reach. A thread that records
    /// 100,000 spans a second takes 20 MB for five seconds. Choose the size for the busiest thread:
    /// the system commits only used memory. In a file ([`in_file`](Self::in_file)) the whole size
    /// is allocated at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickline_tracing::flight::FlightRecorder;
    /// let builder = FlightRecorder::builder().keep_last(Duration::from_secs(5));
    /// let recorder = builder.bytes_per_thread(64 << 20).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn keep_last(mut self, last: Duration) -> Self {
        self.settings.keep_ns = as_ns(last);
        self
    }

    /// Makes a recorder whose rings are in memory.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if a ring were to be larger than 16 GiB
    /// ([`bytes_per_thread`](Self::bytes_per_thread)).
    pub fn build(self) -> io::Result<FlightRecorder> {
        self.settings.check_bytes_per_thread()?;
        Ok(recorder_of(Recorder::new(self.settings)))
    }

    /// Puts the rings into a file at `path`, where they survive every end of the process ([the
    /// black box](crate::flight#the-black-box)). The settings above come before this call, those of
    /// the file after it. [`FlightFileBuilder::build`] then makes the file, on Unix; elsewhere it
    /// returns an error.
    pub fn in_file(self, path: impl Into<PathBuf>) -> FlightFileBuilder {
        FlightFileBuilder {
            settings: self.settings,
            path: path.into(),
            threads: DEFAULT_THREADS,
        }
    }
}

/// Settings for a flight recorder in a file: [`FlightRecorderBuilder::in_file`] begins them, and
/// [`build`](Self::build) makes the recorder.
///
/// If a server should rather have a recorder in memory than none, the same settings make it:
///
#[cfg_attr(unix, doc = "```")]
#[cfg_attr(not(unix), doc = "```no_run")]
/// # use tickline_tracing::flight::FlightRecorder;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("server.flight");
/// let settings = FlightRecorder::builder().with_fields();
/// let in_file = settings.clone().in_file(path).threads(64).build();
/// let recorder = in_file.or_else(|error| {
///     eprintln!("the flight recorder will not survive a kill: {error}");
///     settings.build()
/// })?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct FlightFileBuilder {
    settings: Settings,
    path: PathBuf,
    threads: usize,
}

impl FlightFileBuilder {
    /// The number of threads that have rings in the file at once, at least 1: 32 by default, which
    /// takes 17 MB.
    /// Further threads record in memory, and the file only counts them
    /// ([`TraceSummary::threads_without_ring`]).
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Makes the file and the recorder. The file has a head of 4 KiB, a ring for each of its
    /// [threads](Self::threads), and one more ring for names. Each ring has
    /// [`bytes_per_thread`](FlightRecorderBuilder::bytes_per_thread) and 256 bytes. The file has at
    /// most 64 GiB.
    ///
    /// If an earlier process has left a file at the path, it gets the name `PATH.old`, and replaces
    /// the file of an ended recorder that has that name. If there is no room for all three files,
    /// that `PATH.old` is removed before the new file is filled.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput) if the file were to have no ring for a thread
    ///   ([`threads`](Self::threads)), if a ring were to be larger than 16 GiB, or the file than 64
    ///   GiB or the address space.
    /// - [`FileTooLarge`](io::ErrorKind::FileTooLarge) if it would be larger than a file of this
    ///   process may be (`RLIMIT_FSIZE`, `ulimit -f`); the text has the size and the limit.
    /// - [`StorageFull`](io::ErrorKind::StorageFull) if the file system has too little free space;
    ///   the text has the sizes of the files at the path and `PATH.old`.
    /// - If the file cannot be created with all its blocks, for example because of a quota.
    /// - [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another recorder writes to the file at
    ///   the path, or to the `PATH.old` that would be replaced.
    /// - [`AlreadyExists`](io::ErrorKind::AlreadyExists) if one of these files is not a recorder's,
    ///   even if it was made while the new file was filled, or if `PATH.old` was made meanwhile;
    ///   another kind if it is a link or a folder.
    /// - If the file system has no hard links.
    /// - If the process has no memory for the mapping, or to prepare for a `fork`.
    /// - On a system other than Unix.
    ///
    /// No new file is then left, and all others stay, with three exceptions:
    ///
    /// - An error after `PATH.old` was removed, for example because another program has taken the
    ///   room meanwhile. The text then says that it was removed.
    /// - If two processes start at once, the one that fails with
    ///   [`ResourceBusy`](io::ErrorKind::ResourceBusy) may be the one that has renamed the earlier
    ///   file to `PATH.old`. The other's file is at the path. The earlier file may also be at
    ///   `PATH.old` if another program makes a file at the path at that moment.
    /// - If the new file can't get its name, although it could get another one in this
    ///   folder (a quota), the earlier file is at `PATH.old`, and what was there is gone.
    pub fn build(self) -> io::Result<FlightRecorder> {
        self.settings
            .check_bytes_per_thread()
            .map_err(|error| with_path(&self.path, &error))?;
        if self.threads == 0 {
            let none =
                "rings for 0 threads: a recorder's file needs at least 1, or it has no record";
            let error = io::Error::new(io::ErrorKind::InvalidInput, none);
            return Err(with_path(&self.path, &error));
        }
        let bytes = self.settings.bytes_per_thread;
        let mut recorder = Recorder::new(self.settings);
        recorder.file = Some(RingFile::create(
            &self.path,
            self.threads,
            bytes.unwrap_or(DEFAULT_BYTES_IN_FILE),
        )?);
        panic_event::add_names(&recorder);
        Ok(recorder_of(recorder))
    }
}

fn recorder_of(recorder: Recorder) -> FlightRecorder {
    FlightRecorder(RecorderInLayer::new(Arc::new(recorder)))
}
