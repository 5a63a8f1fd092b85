//! The file of a trace is made as `File::create` does.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::tempdir;
use tickline_tracing::trace_file::TraceFile;

fn write_trace(path: &Path) {
    let (trace, guard) = TraceFile::builder().create(path).unwrap();
    drop(trace);
    guard.finish().unwrap();
}

#[test]
fn a_trace_has_the_mode_of_the_umask() {
    let folder = tempdir().unwrap();
    let mode = |name: &str| {
        fs::metadata(folder.path().join(name))
            .unwrap()
            .permissions()
            .mode()
    };
    File::create(folder.path().join("plain")).unwrap();
    write_trace(&folder.path().join("trace.json"));
    assert_eq!(mode("trace.json"), mode("plain"));
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
