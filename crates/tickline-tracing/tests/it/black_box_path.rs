//! A trace that would go to the file of a flight recorder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use tempfile::tempdir;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::TraceFile;

use crate::black_box::{content, create};

/// Asserts that a trace to a recorder's file is refused with the file's name and what to
/// do, and that the file stays.
fn assert_file_stays<T>(write: impl FnOnce(&FlightRecorder, &Path) -> io::Result<T>) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let recorder = create(&path, 1).unwrap();
    let error = write(&recorder, &path).map(drop).expect_err("a recorder's");
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    let text =
        format!("{path:?}: a recorder's rings are in this file: write the trace to another path");
    assert_eq!(error.to_string(), text);
    content(&path); // It is still a recorder's file.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Symptom: the trace replaced the recorder's file, and the next start failed.
#[test]
fn a_recorder_does_not_write_its_trace_to_its_own_file() {
    assert_file_stays(|recorder, path| recorder.write(path));
}

/// Symptom: the trace replaced the recorder's file. The thread that writes could not return the
/// error.
#[test]
fn a_write_in_the_background_to_the_recorders_own_file_does_not_start() {
    assert_file_stays(|recorder, path| recorder.write_last_in_background(path, Duration::MAX));
}

/// Symptom: the program learned it from standard error, when the trace of a panic was lost.
#[test]
fn a_recorder_does_not_promise_a_panics_trace_in_its_own_file() {
    assert_file_stays(|recorder, path| recorder.write_on_panic(path));
}

/// Symptom: the trace replaced the other recorder's file, and the next start failed.
#[test]
fn a_recorder_does_not_write_its_trace_to_another_ones_file() {
    assert_file_stays(|_, path| FlightRecorder::builder().build().unwrap().write(path));
}

/// Symptom: the trace truncated the recorder's file, and the next span ended the program by SIGBUS.
#[test]
fn a_trace_file_is_not_made_of_a_recorders_file() {
    assert_file_stays(|_, path| TraceFile::builder().create(path));
}

#[test]
fn a_recorder_does_not_write_its_trace_through_a_link_to_its_own_file() {
    let folder = tempdir().unwrap();
    let (path, link) = (folder.path().join("box"), folder.path().join("link"));
    let recorder = create(&path, 1).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = recorder.write(&link).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    content(&path); // It is still a recorder's file.
}
