//! The file of a trace. In a process it has one writer: a second one would truncate what the first
//! has written, and both would then write over each other.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use spin::mutex::SpinMutex;
use tickline::background::process_token;

use crate::layer::process_mutex::lock_with_retries;
use crate::trace::records::memory::Mapping;

/// The files that are being written. A forked child inherits the list, but no writer.
static WRITTEN: SpinMutex<Vec<FileOfProcess>> = SpinMutex::new(Vec::new());

/// How often a thread tries to lock the list, 50 us apart: for at least a second. A thread has it for
/// less than a microsecond, unless it is preempted; in a forked child it may be locked for ever.
const TRIES: u32 = 20_000;

/// A file, and the process that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileOfProcess {
    device: u64,
    inode: u64,
    process: u64,
}

/// Runs `run` with the list; `None` if it stays locked.
fn with_written<R>(run: impl FnOnce(&mut Vec<FileOfProcess>) -> R) -> Option<R> {
    lock_with_retries(TRIES, || WRITTEN.try_lock()).map(|mut written| run(&mut written))
}

/// A file that no other trace of this process writes.
#[derive(Debug)]
pub(crate) struct OwnFile {
    file: File,
    /// `None` if it is not a regular file: several traces may go to `/dev/null`.
    entry: Option<FileOfProcess>,
}

impl OwnFile {
    /// Creates or truncates the file. Follows links.
    ///
    /// # Errors
    ///
    /// - The system's error.
    /// - `ResourceBusy` if another trace of this process is being written to the file, or if a
    ///   recorder has its rings there: a store to a ring that is truncated ends the process.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        // It must not be truncated yet.
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(Self { file, entry: None });
        }
        if Mapping::is_any_in(&found) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "a recorder's rings are in this file: write the trace to another path",
            ));
        }
        let entry = FileOfProcess {
            device: found.dev(),
            inode: found.ino(),
            process: process_token(),
        };
        let is_busy = with_written(|written| {
            let is_known = written.contains(&entry);
            if !is_known {
                written.push(entry);
            }
            is_known
        });
        if is_busy == Some(true) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "this process is writing another trace to it: finish that one first, or choose \
                 another path",
            ));
        }
        let own = Self {
            file,
            entry: Some(entry),
        };
        own.file.set_len(0)?;
        Ok(own)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            with_written(|written| written.retain(|known| *known != entry));
        }
    }
}

impl Write for OwnFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
