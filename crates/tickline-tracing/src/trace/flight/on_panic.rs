//! What a flight recorder does when a thread panics.

use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::MutexGuard;

use super::FlightRecorder;
use crate::layer::process_mutex::ProcessMutex;
use crate::trace::capture::panic_event;
use crate::trace::capture::trace_sink::TraceSink;
use crate::trace::sys::stderr::say;
use crate::trace::sys::thread_life::ThreadLife;

/// What to look at if the trace of a panic has no span.
const EMPTY: &str = "if the program has entered one, make the recorder a sink of the layer \
                     (`with_sink`), install the layer, or let a filter show its spans";

/// A recorder, and the trace that it writes when a thread panics.
pub(super) struct OnPanic {
    recorder: FlightRecorder,
    path: PathBuf,
    /// Whether the trace is written. A thread that panics meanwhile waits: its panic may end the
    /// process, and with it the thread that writes.
    is_written: ProcessMutex<bool>,
    /// The thread that has the lock of `is_written`. A filter may kill it at a system call of the
    /// write.
    writer: ProcessMutex<Option<ThreadLife>>,
}

/// The right of one thread to write the trace.
struct Turn<'a> {
    is_written: MutexGuard<'a, bool>,
    on_panic: &'a OnPanic,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Before the lock is released: a thread that ends after that was not killed with it.
        self.on_panic.set_writer(None);
    }
}

impl OnPanic {
    pub(super) fn new(recorder: FlightRecorder, path: PathBuf) -> Self {
        Self {
            recorder,
            path,
            is_written: ProcessMutex::default(),
            writer: ProcessMutex::default(),
        }
    }

    pub(super) fn record(&self, panic: &PanicHookInfo<'_>) {
        panic_event::record(self.recorder.recorder(), panic);
    }

    /// Writes the trace, unless that of an earlier panic is there.
    pub(super) fn write(&self) {
        let path = &self.path;
        let Some(mut turn) = self.await_turn() else {
            return say(format_args!(
                "no trace of this panic: a thread that was killed, or is the parent process's, \
                 was writing {path:?}"
            ));
        };
        if *turn.is_written && self.path.exists() {
            drop(turn);
            return say(format_args!(
                "no trace of this panic: the trace of an earlier panic stays at {path:?}"
            ));
        }
        let written = self.recorder.write(&self.path);
        *turn.is_written = written.is_ok();
        // A thread that holds standard error may panic, and wait for this lock.
        drop(turn);
        match written {
            Ok(summary) if summary.is_of_nothing_but(self.recorder.recorder().panics()) => {
                say(format_args!(
                    "the trace of the panic has no span: {path:?}: {EMPTY}"
                ));
            }
            Ok(_) => say(format_args!("the trace of the panic is at {path:?}")),
            // The error's text has the path.
            Err(error) => say(format_args!("no trace of the panic: {error}")),
        }
    }

    /// Waits until no other thread writes the trace. `None` if a thread that was killed was writing
    /// it, or, in a forked child, a thread of the parent.
    fn await_turn(&self) -> Option<Turn<'_>> {
        // Before the lock: these are system calls, too.
        let this_thread = ThreadLife::of_this_thread();
        let was_killed = || {
            let writer = self.writer();
            // A thread that ended properly is not the writer any more; another one may be.
            writer.is_some_and(ThreadLife::has_ended) && self.writer() == writer
        };
        let is_written = self.is_written.lock_unless(was_killed)?;
        self.set_writer(this_thread);
        Some(Turn {
            is_written,
            on_panic: self,
        })
    }

    fn writer(&self) -> Option<ThreadLife> {
        self.writer.lock().and_then(|writer| *writer)
    }

    fn set_writer(&self, thread: Option<ThreadLife>) {
        if let Some(mut writer) = self.writer.lock() {
            *writer = thread;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The hook of a recorder, and its path in this folder.
    fn on_panic(folder: &tempfile::TempDir, name: &str) -> (OnPanic, PathBuf) {
        let path = folder.path().join(name);
        let recorder = FlightRecorder::builder().build().unwrap();
        (OnPanic::new(recorder, path.clone()), path)
    }

    /// Symptom: each later panic waited for ever.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    #[allow(unsafe_code, reason = "a thread ends as if a filter killed it")]
    fn a_panic_does_not_wait_for_a_thread_that_was_killed_while_it_wrote() {
        use std::sync::{Arc, mpsc};
        use std::thread;
        use std::time::Duration;

        let folder = tempfile::tempdir().unwrap();
        let (on_panic, path) = on_panic(&folder, "x.json");
        let on_panic = Arc::new(on_panic);
        let killed = Arc::clone(&on_panic);
        let (sender, is_locked) = mpsc::channel();
        thread::spawn(move || {
            let _turn = killed.await_turn();
            sender.send(()).unwrap();
            // SAFETY: ends this thread, which has only the lock that nobody shall wait for.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
        is_locked.recv().unwrap();
        let (sender, has_ended) = mpsc::channel();
        thread::spawn(move || {
            on_panic.write();
            sender.send(()).unwrap();
        });
        let ended = has_ended.recv_timeout(Duration::from_secs(30));
        assert_eq!(ended, Ok(()));
        assert!(!path.exists());
    }

    #[test]
    fn a_second_panic_leaves_the_trace_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let (on_panic, path) = on_panic(&folder, "x.json");
        on_panic.write();
        fs::write(&path, "the first").unwrap();
        on_panic.write();
        assert_eq!(fs::read(path).unwrap(), b"the first");
    }

    #[test]
    fn the_panic_after_one_whose_trace_failed_replaces_a_file_of_an_earlier_process() {
        let folder = tempfile::tempdir().unwrap();
        let (on_panic, path) = on_panic(&folder, "x.json");
        fs::create_dir(&path).unwrap();
        on_panic.write();
        fs::remove_dir(&path).unwrap();
        fs::write(&path, "of an earlier process").unwrap();
        on_panic.write();
        assert_ne!(fs::read(path).unwrap(), b"of an earlier process");
    }

    #[test]
    fn a_panic_is_written_after_the_first_trace_was_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let (on_panic, path) = on_panic(&folder, "x.json");
        on_panic.write();
        fs::rename(&path, folder.path().join("kept.json")).unwrap();
        on_panic.write();
        assert!(path.exists());
    }
}
