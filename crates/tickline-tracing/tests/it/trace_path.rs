//! The file of a trace is made as `File::create` does. A flight recorder's trace replaces an older
//! file whole, and nothing else.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use tempfile::tempdir;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::TraceFile;

fn write_trace(path: &Path) {
    let (trace, guard) = TraceFile::builder().create(path).unwrap();
    drop(trace);
    guard.finish().unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode()
}

#[test]
fn a_trace_has_the_mode_of_the_umask() {
    let folder = tempdir().unwrap();
    let names = ["plain", "trace.json", "recorder.json"];
    let [plain, trace, recorders] = names.map(|name| folder.path().join(name));
    File::create(&plain).unwrap();
    write_trace(&trace);
    FlightRecorder::builder().build().write(&recorders).unwrap();
    assert_eq!([mode(&trace), mode(&recorders)], [mode(&plain); 2]);
}

#[test]
fn a_trace_goes_through_a_link() {
    let folder = tempdir().unwrap();
    let [link, target] = ["link.json", "target.json"].map(|name| folder.path().join(name));
    symlink(&target, &link).unwrap();
    write_trace(&link);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::metadata(&target).unwrap().len() > 0);
}

#[test]
fn a_trace_replaces_all_of_a_longer_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, [b'~'; 100_000]).unwrap();
    write_trace(&path);
    assert!(!fs::read(&path).unwrap().contains(&b'~'));
}

/// The error of a recorder's trace at this path.
fn error_of_recorder(path: &Path) -> String {
    let recorder = FlightRecorder::builder().build();
    recorder.write(path).unwrap_err().to_string()
}

/// Symptom: the pipe, the socket, or the device was gone, and nothing said so.
#[test]
fn a_recorders_trace_replaces_no_pipe_and_no_socket() {
    let folder = tempdir().unwrap();
    let [pipe, socket] = ["pipe", "socket"].map(|name| folder.path().join(name));
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let _listener = UnixListener::bind(&socket).unwrap();
    for path in [&pipe, &socket] {
        let error = error_of_recorder(path);
        let expected = "it is a device, pipe or socket, not a regular file";
        assert!(error.ends_with(expected), "{error}");
    }
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

/// Symptom: the link was replaced, and its target stayed as it was.
#[test]
fn a_recorders_trace_goes_through_links() {
    let folder = tempdir().unwrap();
    let names = ["link.json", "other.json", "target.json"];
    let [link, other, target] = names.map(|name| folder.path().join(name));
    symlink("other.json", &link).unwrap();
    symlink(&target, &other).unwrap();
    // The target is missing before the first one.
    for _ in 0..2 {
        FlightRecorder::builder().build().write(&link).unwrap();
        assert!(fs::metadata(&target).unwrap().len() > 0);
        fs::write(&target, "").unwrap();
    }
    for path in [&link, &other] {
        assert!(fs::symlink_metadata(path).unwrap().is_symlink());
    }
}

/// Symptom: the file was replaced, because its folder allows that.
#[test]
fn a_recorders_trace_replaces_no_file_that_is_read_only() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, "of another").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    // Root may write to any file.
    if File::options().write(true).open(&path).is_err() {
        error_of_recorder(&path);
        assert_eq!(fs::read(&path).unwrap(), b"of another");
    }
}

/// Symptom: a trace that only its owner should read had the mode of the umask.
#[test]
fn a_recorders_trace_keeps_the_mode_of_an_older_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, "older").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    FlightRecorder::builder().build().write(&path).unwrap();
    assert_eq!(mode(&path) & 0o777, 0o600);
}
