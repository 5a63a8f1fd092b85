//! The file of a `TraceFile`. No other `TraceFile` of the process writes to it: that one would
//! truncate what the first has written, and both would then write over each other. Nor does a
//! flight recorder of the process put its trace there: the file would have no name any more.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::Path;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use tickline::process_token;

use crate::layer::process_mutex::{TRIES_OF_CHILD, lock_with_retries, spin_then_sleep};
use crate::trace::capture::black_box::check_has_no_rings;
use crate::trace::sys::file_number::FileNumber;

/// The files that are being written. A forked child inherits the list, but no writer.
static WRITTEN: SpinMutex<Vec<FileOfProcess>> = SpinMutex::new(Vec::new());

/// A file, and the process that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileOfProcess {
    file: FileNumber,
    process: u64,
}

impl FileOfProcess {
    /// The file, as one that this process writes.
    fn of(found: &Metadata) -> Self {
        Self {
            file: FileNumber::of(found),
            process: process_token(),
        }
    }

    /// Fails if a trace of this process is being written to the file.
    fn check_not_in(self, written: &[Self]) -> io::Result<()> {
        if !written.contains(&self) {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "this process is writing another trace to it: finish that one first, or choose another \
             path",
        ))
    }
}

/// Locks the list. A thread has it for less than a microsecond, unless it is preempted. `None` in a
/// forked child if another thread of the parent had locked it.
fn lock_written() -> Option<SpinMutexGuard<'static, Vec<FileOfProcess>>> {
    lock_with_retries(TRIES_OF_CHILD, || WRITTEN.try_lock())
}

/// Fails if a trace of this process is being written to the file `found`.
pub(crate) fn check_has_no_trace(found: &Metadata) -> io::Result<()> {
    lock_written().map_or(Ok(()), |written| {
        FileOfProcess::of(found).check_not_in(&written)
    })
}

/// A file that no other trace of this process writes.
#[derive(Debug)]
pub(crate) struct OwnFile {
    file: File,
    /// `None` if it is not a regular file, because several traces may go to `/dev/null`, and in a
    /// forked child if another thread of the parent had locked the list.
    entry: Option<FileOfProcess>,
}

impl OwnFile {
    /// Creates or truncates the file. Follows links.
    ///
    /// # Errors
    ///
    /// - The system's error.
    /// - `ResourceBusy` if another trace of this process is being written to the file, or if a
    ///   recorder of any process on this machine has its rings there.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        // It must not be truncated yet.
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        Self::truncated(file, path)
    }

    /// The file that was opened at `path`.
    fn truncated(file: File, path: &Path) -> io::Result<Self> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(Self { file, entry: None });
        }
        check_has_no_rings(&found, path)?;
        let mut entry = None;
        if let Some(mut written) = lock_written() {
            let own = FileOfProcess::of(&found);
            own.check_not_in(&written)?;
            written.push(own);
            entry = Some(own);
        }
        let own = Self { file, entry };
        // The check for rings has read the file at the path. And before the entry was there, a
        // flight recorder may have replaced this file. A path like /dev/stdout may lead to a device,
        // and its opening to the file behind it.
        let at_path = fs::metadata(path)?;
        if at_path.is_file() && FileNumber::of(&at_path) != FileNumber::of(&found) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another file has come to this path meanwhile: begin the trace again",
            ));
        }
        own.file.set_len(0)?;
        Ok(own)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        // A process that has made an entry does not find the list locked for ever. To a forked
        // child the entries of its parent mean nothing.
        if let Some(entry) = self.entry
            && entry.process == process_token()
        {
            let mut written = WRITTEN
                .try_lock()
                .unwrap_or_else(|| spin_then_sleep(&WRITTEN));
            written.retain(|known| *known != entry);
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

#[cfg(all(test, not(miri)))]
mod tests {
    use core::mem;
    use core::time::Duration;
    use std::thread;

    use super::*;
    use crate::trace::flight::FlightRecorder;
    use tickline_observe::fork::code_of_fork;

    /// Symptom: the check looked at the other file, and the rings were truncated, which ended their
    /// process by SIGBUS.
    #[test]
    fn rings_whose_path_another_file_has_taken_are_not_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        let builder = FlightRecorder::builder().bytes_per_thread(1);
        let _recorder = builder.in_file(&path).threads(1).build().unwrap();
        let opened = File::options().write(true).open(&path).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        fs::write(&path, "another").unwrap();
        let before = opened.metadata().unwrap().len();
        let is_refused = || {
            let refused = OwnFile::truncated(opened.try_clone().unwrap(), &path);
            refused.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
        };
        assert!(is_refused(), "by the recorder's process");
        assert_eq!(code_of_fork(|| (!is_refused()).into()), 0);
        assert_eq!(opened.metadata().unwrap().len(), before);
    }

    /// Symptom: the trace went into a file without a name. A flight recorder's trace had come to the
    /// path between the check of the path and the entry.
    #[test]
    fn a_file_that_is_replaced_before_it_has_an_entry_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [path, another] = ["trace.json", "another"].map(|name| folder.path().join(name));
        fs::write(&another, "another").unwrap();
        let opened = File::create(&path).unwrap();
        let locked = WRITTEN.lock();
        let refused = thread::scope(|scope| {
            let waiting = scope.spawn(|| OwnFile::truncated(opened, &path).is_err());
            // If the thread does not wait for the lock yet, it is refused all the more.
            thread::sleep(Duration::from_millis(5));
            fs::rename(&another, &path).unwrap();
            drop(locked);
            waiting.join().unwrap()
        });
        assert!(refused);
    }

    #[test]
    fn a_file_whose_path_another_file_has_taken_may_be_written_at_its_new_path() {
        let folder = tempfile::tempdir().unwrap();
        let [path, moved] = ["trace.json", "moved.json"].map(|name| folder.path().join(name));
        let opened = File::create(&path).unwrap();
        fs::rename(&path, &moved).unwrap();
        fs::write(&path, "another").unwrap();
        let error = OwnFile::truncated(opened, &path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        OwnFile::create(&moved).unwrap();
    }

    /// Symptom: the end of such a trace waited for a second. Another symptom: with optimisation
    /// level 1 of rustc 1.98 there was no trace, because `==` of two nested `Option`s was wrong.
    #[test]
    fn a_trace_of_a_child_in_which_the_list_stays_locked_has_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let create = || {
            // Another test may have locked it at the fork.
            mem::forget(WRITTEN.try_lock());
            OwnFile::create(&path).is_ok_and(|own| own.entry.is_none())
        };
        assert_eq!(code_of_fork(|| (!create()).into()), 0);
    }
}
