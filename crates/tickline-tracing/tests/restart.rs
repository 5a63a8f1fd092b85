//! Restarts of a program with a flight recorder, in a file system with little room. Each test runs
//! itself again in a mount namespace of its own, with a tmpfs of the size that it needs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, abort};

use tickline_observe::skip;
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
fn run_in_a_tmpfs(size: &str, test: &str, run: impl FnOnce(&Path)) {
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
        refused => return skip(format_args!("no tmpfs in a mount namespace: {refused:?}")),
    };
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("1 passed"), "{shown}");
}

/// The default size of a file.
fn create(path: &Path) -> io::Result<FlightRecorder> {
    FlightRecorder::builder().in_file(path).build()
}

fn old(path: &Path) -> PathBuf {
    path.with_extension("old")
}

/// Leaves the file of a recorder that has ended.
fn record_and_end(path: &Path) {
    drop(create(path).unwrap());
}

/// Takes this number of MiB of the tmpfs.
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

/// The program that the tests start. Does nothing by itself.
#[test]
#[ignore = "it ends its process"]
fn role_server_that_aborts() {
    let (Some(folder), Ok(start)) = (env::var_os(FOLDER), env::var(START)) else {
        return;
    };
    let recorder = create(&Path::new(&folder).join("box")).unwrap();
    let layer = SpanTimingLayer::new().with_sink(recorder);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    tracing::info!("start {start}");
    abort();
}

/// Starts the server that aborts, `starts` times. Each start is in the file, and the one before it
/// in the old file.
fn assert_starts_again(path: &Path, starts: u32) {
    for start in 1..=starts {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "role_server_that_aborts",
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
    run_in_a_tmpfs(
        "64m",
        "a_server_starts_again_in_the_memory_of_a_container",
        |path| assert_starts_again(path, 3),
    );
}

/// Symptom: the third start failed, although the file that it was about to replace had the room.
#[test]
fn a_server_starts_again_where_two_files_have_room() {
    run_in_a_tmpfs(
        "40m",
        "a_server_starts_again_where_two_files_have_room",
        |path| assert_starts_again(path, 3),
    );
}

/// The error, of this kind, of a `create` that leaves all files.
fn error_that_leaves_all_files(
    path: &Path,
    kind: ErrorKind,
    create: impl FnOnce() -> io::Result<FlightRecorder>,
) -> String {
    let files = || {
        let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().ino()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let error = create().unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(files(), before);
    error.to_string()
}

/// Asserts that a restart beside this `PATH.old` fails with this error, and leaves all files.
fn assert_old_file_in_the_way(path: &Path, kind: ErrorKind, reason: &str) {
    record_and_end(path);
    let error = error_that_leaves_all_files(path, kind, || create(path));
    let old = old(path);
    let expected = format!(
        "{path:?}: {old:?} is in the way of the file of the process before, {path:?}: {reason}; move one \
         of them away"
    );
    assert_eq!(error, expected);
}

/// Symptom: with room for three files, a restart replaced the file of a live recorder, which then
/// wrote to a file without a name.
#[test]
fn the_old_file_of_a_live_recorder_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = &folder.path().join("box");
    let _live = create(&old(path)).unwrap();
    assert_old_file_in_the_way(
        path,
        ErrorKind::ResourceBusy,
        "another recorder writes to it",
    );
}

/// Symptom: a restart replaced a file of the user.
#[test]
fn an_old_file_that_is_not_a_recorders_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = &folder.path().join("box");
    fs::write(old(path), "a text").unwrap();
    let reason = "it is not a recorder's file, so it stays";
    assert_old_file_in_the_way(path, ErrorKind::AlreadyExists, reason);
}

#[test]
fn an_old_file_that_is_a_link_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = &folder.path().join("box");
    std::os::unix::fs::symlink("elsewhere", old(path)).unwrap();
    let reason = "it is a symbolic link, not a regular file";
    assert_old_file_in_the_way(path, ErrorKind::Other, reason);
}

#[test]
fn an_old_folder_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = &folder.path().join("box");
    fs::create_dir(old(path)).unwrap();
    let reason = "it is a folder, not a regular file";
    assert_old_file_in_the_way(path, ErrorKind::Other, reason);
}

#[test]
fn the_old_file_of_a_live_recorder_stays_where_two_files_have_room() {
    run_in_a_tmpfs(
        "40m",
        "the_old_file_of_a_live_recorder_stays_where_two_files_have_room",
        |path| {
            let _live = create(&old(path)).unwrap();
            assert_old_file_in_the_way(
                path,
                ErrorKind::ResourceBusy,
                "another recorder writes to it",
            );
        },
    );
}

/// Calls `limit` where two files have room and the old file would have to be removed. A `create`
/// then fails, and leaves all files.
fn assert_fails_after(limit: impl FnOnce(), path: &Path, kind: ErrorKind) {
    record_and_end(path);
    record_and_end(path);
    limit();
    error_that_leaves_all_files(path, kind, || create(path));
}

/// Symptom: the old file was removed before the mapping failed.
#[test]
fn the_old_file_stays_if_the_address_space_is_limited() {
    run_in_a_tmpfs(
        "40m",
        "the_old_file_stays_if_the_address_space_is_limited",
        |path| assert_fails_after(limit_address_space, path, ErrorKind::OutOfMemory),
    );
}

/// Leaves this process 8 MiB more than it has mapped.
fn limit_address_space() {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: libc::rlim_t = pages.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: the call only asks.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = libc::rlim_t::try_from(page).unwrap();
    let limit = libc::rlimit {
        rlim_cur: pages * page + (8 << 20),
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the call reads the limits, and changes no memory.
    let refused = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(refused, 0);
}

/// Symptom: the file of the process before had replaced the old one when the link failed.
#[test]
fn the_old_file_stays_if_links_are_not_permitted() {
    run_in_a_tmpfs(
        "40m",
        "the_old_file_stays_if_links_are_not_permitted",
        |path| assert_fails_after(forbid_links, path, ErrorKind::PermissionDenied),
    );
}

/// Lets each link of this thread fail (seccomp(2)).
fn forbid_links() {
    let [load, equal, end] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ,
        libc::BPF_RET,
    ]
    .map(|code| u16::try_from(code).unwrap());
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut steps = [
        // The number of the call is at the beginning of the data.
        step(load, 0, 0),
        step(equal, 1, u32::try_from(libc::SYS_linkat).unwrap()),
        step(end, 0, libc::SECCOMP_RET_ERRNO | 1),
        step(end, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    let [yes, none]: [libc::c_ulong; 2] = [1, 0];
    // SAFETY: the call reads its arguments, and changes no memory.
    let refused = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, none, none, none) };
    assert_eq!(refused, 0);
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the call reads its arguments, and changes no memory.
    let refused = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) };
    assert_eq!(refused, 0);
}

/// Nothing would replace it.
#[test]
fn the_old_file_stays_if_no_file_is_renamed() {
    run_in_a_tmpfs("40m", "the_old_file_stays_if_no_file_is_renamed", |path| {
        record_and_end(&old(path));
        fill(path, 15);
        error_that_leaves_all_files(path, ErrorKind::StorageFull, || create(path));
    });
}

#[test]
fn the_old_file_stays_if_its_room_would_not_be_enough() {
    run_in_a_tmpfs(
        "40m",
        "the_old_file_stays_if_its_room_would_not_be_enough",
        |path| {
            record_and_end(path);
            record_and_end(path);
            let large = FlightRecorder::builder().in_file(path).threads(48);
            error_that_leaves_all_files(path, ErrorKind::StorageFull, || large.build());
        },
    );
}

#[test]
fn the_error_names_the_way_out_and_what_takes_the_room() {
    run_in_a_tmpfs(
        "40m",
        "the_error_names_the_way_out_and_what_takes_the_room",
        |path| {
            record_and_end(path);
            record_and_end(path);
            let len = fs::metadata(path).unwrap().len();
            let large = FlightRecorder::builder().in_file(path).threads(64);
            let error = error_that_leaves_all_files(path, ErrorKind::StorageFull, || large.build());
            let old = old(path);
            let expected = format!(
                " bytes free; fewer threads() or a smaller bytes_per_thread() take less; {path:?} takes \
                 {len} bytes; {old:?} takes {len} bytes"
            );
            assert!(error.ends_with(&expected), "{error}");
        },
    );
}
