//! The settings of a flight recorder.

use core::time::Duration;
use std::io;
use std::path::Path;
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
use crate::trace::settings::{DEFAULT_BYTES_IN_FILE, Settings, Tracks, settings};

/// 17 MB with the default size of a ring. A restart needs room for two files, and the `/dev/shm` of
/// a container has 64 MB (Docker, Kubernetes).
pub(super) const DEFAULT_THREADS_IN_FILE: usize = 32;

/// Settings for a flight recorder: [`FlightRecorder::builder`] begins them, and
/// [`build`](Self::build) or [`create`](Self::create) makes the recorder.
#[derive(Debug, Clone)]
#[must_use]
pub struct FlightRecorderBuilder {
    pub(super) settings: Settings,
    pub(super) threads_in_file: usize,
}

impl FlightRecorderBuilder {
    settings!();

    /// Keeps the records of the period `last`. Each ring begins with 64 KiB. It grows if it would
    /// otherwise overwrite a younger record, up to [`bytes_per_thread`](Self::bytes_per_thread),
    /// and never becomes smaller. Without this setting a ring always grows to that size.
    ///
    /// At that size the ring overwrites its oldest records, even younger ones than `last`;
    /// [`TraceSummary::complete_since`] says how far back the rings reach. A thread that records
    /// 100,000 spans a second takes 20 MB for five seconds. Choose the size for the busiest thread:
    /// the system commits only used memory. In a file ([`create`](Self::create)) the whole size is
    /// allocated at once.
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

    /// The number of threads for which [`create`](Self::create) makes rings in the file: 32 by
    /// default, which takes 17 MB. Further threads record in memory, and the file only counts them
    /// ([`TraceSummary::threads_without_ring`]).
    pub fn threads_in_file(self, threads_in_file: usize) -> Self {
        Self {
            threads_in_file,
            ..self
        }
    }

    /// Makes a recorder whose rings are in memory. It does not need
    /// [`threads_in_file`](Self::threads_in_file), and ignores it: if [`create`](Self::create)
    /// fails, the same settings make a recorder without a file.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if a ring were to be larger than 16 GiB
    /// ([`bytes_per_thread`](Self::bytes_per_thread)).
    pub fn build(self) -> io::Result<FlightRecorder> {
        self.settings.check_bytes_per_thread()?;
        let recorder = Arc::new(Recorder::new(self.settings));
        Ok(FlightRecorder(RecorderInLayer::new(recorder)))
    }

    /// Makes a recorder whose rings are in a file, and survive every end of the process ([the black
    /// box](crate::flight#the-black-box)). The file has a head of 4 KiB, a ring for each of its
    /// [threads](Self::threads_in_file), and one more ring for names. Each ring has
    /// [`bytes_per_thread`](Self::bytes_per_thread) and 256 bytes. The file has at most 64 GiB.
    ///
    /// If an earlier process has left a file at `path`, `create` renames it to `PATH.old`, and
    /// replaces the file of an ended recorder that has that name. If there is no room for all three
    /// files, it removes that `PATH.old` before it fills the new file.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](io::ErrorKind::InvalidInput) if the file would be larger than 64 GiB, or
    ///   than the address space.
    /// - [`FileTooLarge`](io::ErrorKind::FileTooLarge) if it would be larger than a file of this
    ///   process may be (`RLIMIT_FSIZE`, `ulimit -f`); the text has the size and the limit.
    /// - [`StorageFull`](io::ErrorKind::StorageFull) if the file system has too little free space;
    ///   the text has the sizes of the files at `path` and `PATH.old`.
    /// - If the file cannot be created with all its blocks, for example because of a quota.
    /// - [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another recorder writes to the file at
    ///   `path`, or to the `PATH.old` that would be replaced.
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
    ///   file to `PATH.old`. The other's file is at `path`. The earlier file may also be at
    ///   `PATH.old` if another program makes a file at `path` at that moment.
    /// - If the new file can't get the name `path`, although it could get another one in this
    ///   folder (a quota), the earlier file is at `PATH.old`, and what was there is gone.
    pub fn create(self, path: impl AsRef<Path>) -> io::Result<FlightRecorder> {
        let Self {
            settings,
            threads_in_file,
        } = self;
        let mut recorder = Recorder::new(settings);
        recorder.file = Some(RingFile::create(
            path.as_ref(),
            threads_in_file,
            settings.bytes_per_thread.unwrap_or(DEFAULT_BYTES_IN_FILE),
        )?);
        panic_event::add_names(&recorder);
        Ok(FlightRecorder(RecorderInLayer::new(Arc::new(recorder))))
    }
}
