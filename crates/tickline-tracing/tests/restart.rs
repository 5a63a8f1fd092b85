//! Restarts of a program with a flight recorder, in a file system with little room. Each test runs
//! itself again in a mount namespace of its own, with a tmpfs of the size that it needs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(clippy::print_stderr, reason = "it says why it skips")]

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, abort};

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::{self, FlightRecorder};
use tickline_tracing::trace_file::TraceFormat;
use tracing_subscriber::layer::SubscriberExt;

/// The variable with the folder of the tmpfs.
const FOLDER: &str = "TICKLINE_TEST_SMALL_FOLDER";

const MOUNT_AND_RUN: &str = "mount -t tmpfs -o size=\"$1\" tmpfs \"$2\" && echo mounted && \
                             shift 2 && exec \"$@\"";

/// Calls `run` with the path for a recorder's file, in a tmpfs of this size, in a process of its
/// own. `test` is the name of the test that calls this.
fn in_a_tmpfs(size: &str, test: &str, run: impl FnOnce(&Path)) {
    if let Some(folder) = env::var_os(FOLDER) {
        return run(&Path::new(&folder).join("box"));
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .args(["sh", "-c", MOUNT_AND_RUN, "sh", size])
        .arg(folder.path())
        .arg(env::current_exe().unwrap())
        .args(["--exact", test])
        .env(FOLDER, folder.path())
        .output();
    let output = match output {
        Ok(output) if output.stdout.starts_with(b"mounted\n") => output,
        refused => return eprintln!("SKIPPED: no tmpfs in a mount namespace: {refused:?}"),
    };
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("1 passed"), "{shown}");
}

/// The default size of a file.
fn create(path: &Path) -> io::Result<FlightRecorder> {
    FlightRecorder::builder().create(path)
}

fn old(path: &Path) -> PathBuf {
    path.with_extension("old")
}

/// Leaves the file of a recorder that has ended.
fn of_an_ended_recorder(path: &Path) {
    drop(create(path).unwrap());
}

/// Takes so many MiB of the tmpfs.
fn fill(path: &Path, mebibytes: usize) {
    fs::write(path.with_extension("other"), vec![1; mebibytes << 20]).unwrap();
}

/// The trace of a recorder's file.
fn content(path: &Path) -> String {
    let mut trace = Vec::new();
    flight::convert(File::open(path).unwrap(), &mut trace, TraceFormat::Json).unwrap();
    String::from_utf8(trace).unwrap()
}

/// The variable with the number of a start.
const START: &str = "TICKLINE_TEST_START";

/// Not a test, but the program that the tests start.
#[test]
#[ignore = "it ends its process"]
fn a_server_that_aborts() {
    let (Some(folder), Ok(start)) = (env::var_os(FOLDER), env::var(START)) else {
        return;
    };
    let recorder = create(&Path::new(&folder).join("box")).unwrap();
    let layer = SpanTimingLayer::new().with_sink(recorder);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    tracing::info!("start {start}");
    abort();
}

/// Starts the server that aborts so often. Each start is in the file, and the one before it in the
/// old file.
fn starts_again(path: &Path, starts: u32) {
    for start in 1..=starts {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "a_server_that_aborts",
            ])
            .env(START, start.to_string())
            .output()
            .unwrap();
        let is_aborted = output.status.signal() == Some(libc::SIGABRT);
        assert!(is_aborted, "start {start}: {output:?}");
        assert!(content(path).contains(&format!("start {start}")));
        if start > 1 {
            assert!(content(&old(path)).contains(&format!("start {}", start - 1)));
        }
    }
}

/// Symptom: after its first crash a server did not start again in a container, whose `/dev/shm` has
/// 64 MB. Cause: the file of 34 MB had no room beside the one of the process before.
#[test]
fn a_server_starts_again_in_the_memory_of_a_container() {
    in_a_tmpfs(
        "64m",
        "a_server_starts_again_in_the_memory_of_a_container",
        |path| starts_again(path, 3),
    );
}

/// Symptom: the third start failed, although the file that it was about to replace had the room.
#[test]
fn a_server_starts_again_where_two_files_have_room() {
    in_a_tmpfs(
        "40m",
        "a_server_starts_again_where_two_files_have_room",
        |path| starts_again(path, 3),
    );
}

/// The error of a `create` for which there is no room, and which leaves all files.
fn error_that_leaves_all_files(
    path: &Path,
    create: impl FnOnce() -> io::Result<FlightRecorder>,
) -> String {
    let files = || {
        let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let error = create().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    assert_eq!(files(), before);
    error.to_string()
}

#[test]
fn the_old_file_of_a_live_recorder_stays() {
    in_a_tmpfs("40m", "the_old_file_of_a_live_recorder_stays", |path| {
        let _live = create(&old(path)).unwrap();
        of_an_ended_recorder(path);
        error_that_leaves_all_files(path, || create(path));
    });
}

/// Nothing would replace it.
#[test]
fn the_old_file_stays_if_no_file_is_renamed() {
    in_a_tmpfs("40m", "the_old_file_stays_if_no_file_is_renamed", |path| {
        of_an_ended_recorder(&old(path));
        fill(path, 15);
        error_that_leaves_all_files(path, || create(path));
    });
}

#[test]
fn the_old_file_stays_if_its_room_would_not_be_enough() {
    in_a_tmpfs(
        "40m",
        "the_old_file_stays_if_its_room_would_not_be_enough",
        |path| {
            of_an_ended_recorder(path);
            of_an_ended_recorder(path);
            let large = FlightRecorder::builder().threads_in_file(24);
            error_that_leaves_all_files(path, || large.create(path));
        },
    );
}

#[test]
fn the_error_names_the_way_out_and_what_takes_the_room() {
    in_a_tmpfs(
        "40m",
        "the_error_names_the_way_out_and_what_takes_the_room",
        |path| {
            of_an_ended_recorder(path);
            of_an_ended_recorder(path);
            let len = fs::metadata(path).unwrap().len();
            let large = FlightRecorder::builder().threads_in_file(32);
            let error = error_that_leaves_all_files(path, || large.create(path));
            let path = path.display();
            let expected = format!(
                " free; a smaller threads_in_file or bytes_per_thread takes less; {path} takes \
                 {len}; {path}.old takes {len}"
            );
            assert!(error.ends_with(&expected), "{error}");
        },
    );
}
