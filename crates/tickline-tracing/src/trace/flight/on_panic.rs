//! What a flight recorder does when a thread panics.

use std::panic::PanicHookInfo;
use std::path::PathBuf;

use super::FlightRecorder;
use crate::layer::process_mutex::ProcessMutex;
use crate::trace::capture::panic_event;
use crate::trace::capture::trace_sink::TraceSink;
use crate::trace::sys::stderr::say;

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
}

impl OnPanic {
    pub(super) fn new(recorder: FlightRecorder, path: PathBuf) -> Self {
        Self {
            recorder,
            path,
            is_written: ProcessMutex::default(),
        }
    }

    pub(super) fn record(&self, panic: &PanicHookInfo<'_>) {
        panic_event::record(self.recorder.recorder(), panic);
    }

    /// Writes the trace, unless that of an earlier panic is there.
    pub(super) fn write(&self) {
        let path = &self.path;
        let Some(mut is_written) = self.is_written.lock() else {
            return say(format_args!(
                "no trace of this panic: a thread of the parent process was writing {path:?} at the fork"
            ));
        };
        if *is_written && self.path.exists() {
            drop(is_written);
            return say(format_args!(
                "no trace of this panic: the trace of an earlier panic stays at {path:?}"
            ));
        }
        let written = self.recorder.write(&self.path);
        *is_written = written.is_ok();
        // A thread that holds standard error may panic, and wait for this lock.
        drop(is_written);
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
