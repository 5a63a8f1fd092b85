//! What a trace file can't be, or can't be any more: errors that name the file, the value and the
//! limit.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::tempdir;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{Flushed, TraceFile};
use tracing::info_span;

use crate::common::run_timed;

/// Symptom: the error was "No such file or directory", without a name.
#[test]
fn a_file_that_cannot_be_created_is_named_by_the_error() {
    let error = TraceFile::builder().create("no-folder/x.json").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().starts_with("\"no-folder/x.json\": "),
        "{error}"
    );
}

/// Symptom: the text began with a colon.
#[test]
fn an_empty_path_is_quoted_by_the_error() {
    let recorder = FlightRecorder::builder().build().unwrap();
    let errors = [
        TraceFile::builder().create("").unwrap_err(),
        recorder.write("").unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().starts_with("\"\": "), "{error}");
    }
}

/// Symptom: both traces ended without an error, and the file was none.
#[test]
#[cfg(unix)]
fn a_second_trace_to_a_file_is_an_error_that_names_the_file_and_a_way_out() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let _first = TraceFile::builder().create(&path).unwrap();
    let error = TraceFile::builder().create(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    let text = format!(
        "{path:?}: this process is writing another trace to it: finish that one first, or choose another \
         path"
    );
    assert_eq!(error.to_string(), text);
}

/// Symptom: both traces ended without an error, and the first was truncated.
#[test]
#[cfg(unix)]
fn a_second_trace_by_another_name_of_the_file_leaves_the_first_one() {
    let folder = tempdir().unwrap();
    let (path, link) = (folder.path().join("trace.json"), folder.path().join("link"));
    let (trace, guard) = TraceFile::builder().create(&path).unwrap();
    run_timed(trace, || info_span!("work").in_scope(|| ()));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(TraceFile::builder().create(&link).is_err());
    guard.finish().unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(events.iter().any(|event| event["name"] == "work"));
}

#[test]
fn a_trace_may_replace_one_that_has_ended() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    for _ in 0..2 {
        let (_trace, guard) = TraceFile::builder().create(&path).unwrap();
        guard.finish().unwrap();
    }
}

/// As a program does that renames a full trace and begins another one.
#[test]
fn a_trace_may_have_the_former_path_of_one_that_goes_on() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let _first = TraceFile::builder().create(&path).unwrap();
    fs::rename(&path, folder.path().join("former.json")).unwrap();
    drop(TraceFile::builder().create(&path).unwrap());
}

#[test]
#[cfg(unix)]
fn several_traces_may_go_to_a_device() {
    let _first = TraceFile::builder().create("/dev/null").unwrap();
    drop(TraceFile::builder().create("/dev/null").unwrap());
}

/// Symptom: the error was "No space left on device", without a name.
#[test]
#[cfg(target_os = "linux")]
fn the_error_of_a_later_write_names_the_file() {
    let (trace, guard) = TraceFile::builder().create("/dev/full").unwrap();
    run_timed(trace, || info_span!("work").in_scope(|| ()));
    let error = guard.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("\"/dev/full\": "), "{error}");
}

/// Symptom: the program was aborted at its first span.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_ring_that_is_too_large_is_an_error_with_its_size_and_the_limit() {
    let bytes = (16 << 30) + 1;
    let builder = TraceFile::builder().bytes_per_thread(bytes);
    let error = builder.build(io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "rings of 17179869185 bytes for each thread: the limit is 17179869184 bytes (16 GiB); \
         choose a smaller bytes_per_thread()"
    );
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_ring_that_is_too_large_leaves_no_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let builder = TraceFile::builder().bytes_per_thread(usize::MAX);
    assert!(builder.create(&path).is_err() && !path.exists());
}

/// Symptom: after the output had panicked, threads waited for the writer for ever.
#[test]
fn a_writer_that_fails_or_panics_keeps_no_thread_waiting() {
    // Its `write` panics, because no vector is so long.
    let mut panics = io::Cursor::new(Vec::new());
    panics.set_position(u64::MAX);
    let fails: Box<dyn Write + Send> = Box::new(io::Cursor::new([0; 10]));
    for (output, error) in [
        (fails, ErrorKind::WriteZero),
        (Box::new(panics), ErrorKind::Other),
    ] {
        let builder = TraceFile::builder().wait_when_full().bytes_per_thread(1);
        let (trace, guard) = builder.build(output).unwrap();
        let ((ended, has_ended), long) = (mpsc::channel(), Duration::from_secs(60));
        let work = || (0..10_000).for_each(|_| info_span!("work").in_scope(|| ()));
        thread::spawn(move || {
            run_timed(trace, work);
            ended.send(())
        });
        has_ended
            .recv_timeout(long)
            .expect("the thread does not wait");
        assert_eq!(guard.flusher().flush(long), Flushed::Failed);
        assert_eq!(guard.finish().unwrap_err().kind(), error);
    }
}

/// The writer never spins.
#[test]
fn a_trace_is_flushed_at_most_every_millisecond() {
    let builder = TraceFile::builder().flush_every(Duration::ZERO);
    assert!(format!("{builder:?}").contains("flush_every: 1ms"));
}
