//! What a flight recorder does when a thread panics.

use core::ptr;
use std::panic::PanicHookInfo;
use std::path::PathBuf;

use tracing_core::callsite::Callsite;
use tracing_core::field::{FieldSet, Visit};
use tracing_core::metadata::Kind as CallsiteKind;
use tracing_core::{Interest, Level, Metadata, identify_callsite};

use super::FlightRecorder;
use crate::layer::process_mutex::ProcessMutex;
use crate::trace::capture::recorder::Recorder;
use crate::trace::capture::thread_recorder;
use crate::trace::capture::trace_sink::TraceSink;
use crate::trace::rings::fields;
use crate::trace::rings::record::{Kind, Record};
use crate::trace::stderr::say;

/// The callsite of the event by which a trace shows a panic. It is registered nowhere: only a
/// recorder records it.
struct PanicCallsite;

static CALLSITE: PanicCallsite = PanicCallsite;

/// It has no source location: that of the panic is a field.
static METADATA: Metadata<'static> = Metadata::new(
    "panic",
    "panic",
    Level::ERROR,
    None,
    None,
    None,
    FieldSet::new(
        &["panic.payload", "panic.location"],
        identify_callsite!(&CALLSITE),
    ),
    CallsiteKind::EVENT,
);

impl Callsite for PanicCallsite {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &METADATA
    }
}

/// Adds the names of the panic's event to a recorder. In a file they then have room, whatever
/// names follow.
pub(super) fn add_names(recorder: &Recorder) {
    recorder.add_callsite(ptr::from_ref(&METADATA).addr(), &METADATA);
}

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

    /// Records the panic as an event of this thread.
    pub(super) fn record(&self, panic: &PanicHookInfo<'_>) {
        let now_ns = tickline::now_ns();
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let location = panic.location().map(ToString::to_string);
        let values = [text, location.as_deref()];
        let record = |visit: &mut dyn Visit| {
            for (field, value) in METADATA.fields().iter().zip(values) {
                if let Some(value) = value {
                    visit.record_str(&field, value);
                }
            }
        };
        fields::collect(&METADATA, record, |payload| {
            let record = Record {
                payload,
                ..Record::new(Kind::Instant, now_ns)
            };
            thread_recorder::record(self.recorder.recorder(), &METADATA, record)
        });
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
        if let Err(error) = written {
            // The error's text has the path.
            say(format_args!("no trace of the panic: {error}"));
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
        let recorder = FlightRecorder::builder().build();
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

    /// Symptom: once the file's ring of names was full, a panic had the name `?`.
    #[test]
    #[cfg(unix)]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_new_file_has_the_names_of_the_panics_event() {
        use crate::trace::capture::black_box;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        let builder = FlightRecorder::builder().bytes_per_thread(1);
        let _recorder = builder.threads_in_file(1).create(&path).unwrap();
        let snapshot = black_box::read(fs::File::open(&path).unwrap()).unwrap();
        let names = snapshot.callsites.get(&ptr::from_ref(&METADATA).addr());
        assert!(names.is_some_and(|names| names.starts_with("panic\0")));
    }
}
