//! The file of a trace is made as `File::create` does. A flight recorder's trace replaces an older
//! file whole, and nothing else.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, io};

use tempfile::tempdir;
use tickline_observe::fork::code_of_fork;
use tickline_observe::skip;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::TraceFile;
use tracing::info_span;

use crate::common::run_timed;

/// What an error says of a file that is neither regular nor a folder.
const NOT_REGULAR: &str = "it is a device, pipe or socket, not a regular file: choose another \
                           path; of the recorder's calls only write_to() writes into it";

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
    FlightRecorder::builder()
        .build()
        .unwrap()
        .write(&recorders)
        .unwrap();
    assert_eq!([mode(&trace), mode(&recorders)], [mode(&plain); 2]);
}

/// Symptom: the result was `Ok`, and each panic said that there is no such folder.
#[test]
fn a_recorder_does_not_promise_a_panics_trace_in_a_folder_that_is_missing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("missing/panic.pftrace");
    let recorder = FlightRecorder::builder().build().unwrap();
    let error = recorder.write_on_panic(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().starts_with(&format!("{path:?}: ")));
}

#[test]
fn the_check_of_a_panics_path_leaves_no_file() {
    let folder = tempdir().unwrap();
    let recorder = FlightRecorder::builder().build().unwrap();
    let path = folder.path().join("panic.pftrace");
    recorder.write_on_panic(path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Symptom: the program learned it from standard error, when the trace of a panic was lost.
#[test]
fn a_recorder_does_not_promise_a_panics_trace_in_place_of_a_folder() {
    let folder = tempdir().unwrap();
    let recorder = FlightRecorder::builder().build().unwrap();
    let error = recorder.write_on_panic(folder.path()).unwrap_err();
    let expected = format!("{:?}: it is a folder, not a regular file", folder.path());
    assert_eq!(error.to_string(), expected);
}

/// The hook would wait for a reader.
#[test]
fn a_recorder_does_not_promise_a_panics_trace_in_a_pipe() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let recorder = FlightRecorder::builder().build().unwrap();
    let error = recorder.write_on_panic(&pipe).unwrap_err();
    let expected = format!("{pipe:?}: {NOT_REGULAR}");
    assert_eq!(error.to_string(), expected);
}

/// Runs itself again with a pipe as its standard error, as `/dev/stderr` is below a supervisor.
#[test]
#[cfg(target_os = "linux")]
fn a_recorder_does_not_promise_a_panics_trace_on_standard_error() {
    const IS_CHILD: &str = "TICKLINE_TEST_PANIC_ON_STDERR";
    if env::var_os(IS_CHILD).is_some() {
        let recorder = FlightRecorder::builder().build().unwrap();
        let error = recorder.write_on_panic("/proc/self/fd/2").unwrap_err();
        let expected = format!("\"/proc/self/fd/2\": {NOT_REGULAR}");
        return assert_eq!(error.to_string(), expected);
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([
        "--exact",
        "trace_path::a_recorder_does_not_promise_a_panics_trace_on_standard_error",
    ]);
    let output = child.env(IS_CHILD, "").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Symptom: the trace was promised, and each panic said that it could not be written.
#[test]
#[cfg(target_os = "linux")]
fn a_recorder_does_not_promise_a_panics_trace_in_place_of_an_open_file() {
    use std::os::fd::AsRawFd;

    let log = tempfile::tempfile().unwrap();
    let path = format!("/proc/self/fd/{}", log.as_raw_fd());
    let recorder = FlightRecorder::builder().build().unwrap();
    let error = recorder.write_on_panic(&path).unwrap_err();
    let expected = format!(
        "{path:?}: it is an open file of a process: choose another path; of the recorder's calls \
         only write_to() writes into it"
    );
    assert_eq!(error.to_string(), expected);
}

/// Symptom: the trace was promised, and each panic said that it could not be written.
#[test]
#[cfg(target_os = "linux")]
fn a_recorder_does_not_promise_a_panics_trace_in_place_of_a_closed_file() {
    let path = format!("/proc/self/fd/{}", i32::MAX); // above the limit of any process
    let recorder = FlightRecorder::builder().build().unwrap();
    let error = recorder.write_on_panic(&path).unwrap_err();
    let expected = format!("{path:?}: it is a closed file of a process");
    assert_eq!(error.to_string(), expected);
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
    let recorder = FlightRecorder::builder().build().unwrap();
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
        assert!(error.ends_with(NOT_REGULAR), "{error}");
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
        FlightRecorder::builder()
            .build()
            .unwrap()
            .write(&link)
            .unwrap();
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
    if File::options().write(true).open(&path).is_ok() {
        return skip("root may write to any file");
    }
    let error = FlightRecorder::builder()
        .build()
        .unwrap()
        .write(&path)
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(fs::read(&path).unwrap(), b"of another");
}

/// Symptom: the error was about the link, which was as it should be.
#[test]
fn an_error_names_the_path_to_which_links_lead() {
    let folder = tempdir().unwrap();
    let [link, target] = ["link.json", "folder"].map(|name| folder.path().join(name));
    fs::create_dir(&target).unwrap();
    symlink(&target, &link).unwrap();
    let expected = format!("{link:?}: {target:?}: it is a folder, not a regular file");
    assert_eq!(error_of_recorder(&link), expected);
}

/// Symptom: a trace that only its owner should read had the mode of the umask.
#[test]
fn a_recorders_trace_keeps_the_mode_of_an_older_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, "older").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    FlightRecorder::builder()
        .build()
        .unwrap()
        .write(&path)
        .unwrap();
    assert_eq!(mode(&path) & 0o777, 0o600);
}

/// Symptom: root took a user's file away.
#[test]
fn a_recorders_trace_keeps_the_owner_and_the_group_of_an_older_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, "older").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    if let Err(error) = chown(&path, Some(12_345), Some(12_346)) {
        return skip(format_args!("no file of another user: {error}"));
    }
    FlightRecorder::builder()
        .build()
        .unwrap()
        .write(&path)
        .unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid()), (12_345, 12_346));
    assert_eq!(mode(&path) & 0o777, 0o640);
}

/// Runs itself again as a user who is not in the group of the file. Symptom: the user's own group
/// could read what was for the other one.
#[test]
fn a_group_that_is_not_the_older_files_gets_no_rights() {
    const PATH: &str = "TICKLINE_TEST_TRACE_OF_USER";
    if let Some(path) = env::var_os(PATH) {
        FlightRecorder::builder()
            .build()
            .unwrap()
            .write(path)
            .unwrap();
        return;
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, "older").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o664)).unwrap();
    let files = [(folder.path(), 12_345), (&path, 12_346)];
    let mut chowns = files
        .into_iter()
        .map(|(file, group)| chown(file, Some(12_345), Some(group)));
    if let Some(error) = chowns.find_map(Result::err) {
        return skip(format_args!("no file of another user: {error}"));
    }
    let mut as_user = Command::new(env::current_exe().unwrap());
    as_user.args([
        "--exact",
        "trace_path::a_group_that_is_not_the_older_files_gets_no_rights",
    ]);
    match as_user.env(PATH, &path).uid(12_345).gid(12_345).output() {
        Err(error) => return skip(format_args!("no process of another user: {error}")),
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.gid(), mode(&path) & 0o777), (12_345, 0o604));
}

/// Asserts that another process, a forked child, can't make a trace in the file in which a recorder
/// of this process has its rings.
fn assert_rings_stay(make_trace: impl FnOnce(&Path) -> io::Result<()>) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let builder = FlightRecorder::builder().bytes_per_thread(1);
    let _recorder = builder.in_file(&path).threads(1).build().unwrap();
    let is_refused = || {
        let error = make_trace(&path).err().map(|error| error.to_string());
        error.is_some_and(|error| error.contains("a recorder's rings are in this file"))
    };
    let before = fs::read(&path).unwrap();
    assert_eq!(code_of_fork(|| i32::from(!is_refused())), 0);
    assert!(fs::read(&path).unwrap() == before, "the file has changed");
}

/// Symptom: the trace replaced the file of the recorder, whose later records went to a file without
/// a name. They were lost when its process was killed.
#[test]
fn a_recorders_trace_does_not_replace_the_rings_of_another_process() {
    assert_rings_stay(|path| FlightRecorder::builder().build()?.write(path).map(drop));
}

/// Symptom: the file was truncated, and the other process's next record ended it by SIGBUS.
#[test]
fn a_trace_file_does_not_truncate_the_rings_of_another_process() {
    assert_rings_stay(|path| TraceFile::builder().create(path).map(drop));
}

/// Asserts that a trace to the file of a `TraceFile` is refused with the file's name and what to
/// do, and that this file has what comes later.
fn assert_trace_goes_on<T>(write: impl FnOnce(&FlightRecorder, &Path) -> io::Result<T>) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let (trace, guard) = TraceFile::builder().create(&path).unwrap();
    let recorder = FlightRecorder::builder().build().unwrap();
    let error = write(&recorder, &path).map(drop).expect_err("in use");
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
    let text = format!(
        "{path:?}: this process is writing another trace to it: finish that one first, or choose \
         another path"
    );
    assert_eq!(error.to_string(), text);
    run_timed(trace, || info_span!("later").in_scope(|| ()));
    guard.finish().unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("later"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

/// Symptom: both results were `Ok`, and the trace's later records went to a file without a name.
#[test]
fn a_recorders_trace_does_not_replace_a_trace_file_of_this_process() {
    assert_trace_goes_on(|recorder, path| recorder.write(path));
}

/// Symptom: the call's result was `Ok`, and the trace's later records went to a file without a
/// name. The thread that writes could not return the error.
#[test]
fn a_write_in_the_background_to_a_trace_file_of_this_process_does_not_start() {
    assert_trace_goes_on(|recorder, path| recorder.write_last_in_background(path, Duration::MAX));
}

/// Symptom: the trace of a panic replaced the file.
#[test]
fn a_recorder_does_not_promise_a_panics_trace_in_a_trace_file_of_this_process() {
    assert_trace_goes_on(|recorder, path| recorder.write_on_panic(path));
}

#[test]
fn a_recorders_trace_replaces_a_trace_file_that_has_ended() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    write_trace(&path);
    let recorder = FlightRecorder::builder().build().unwrap();
    recorder.write(&path).unwrap();
}

#[test]
fn a_recorders_trace_replaces_the_rings_of_a_process_that_has_ended() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    drop(
        FlightRecorder::builder()
            .in_file(&path)
            .threads(1)
            .build()
            .unwrap(),
    );
    FlightRecorder::builder()
        .build()
        .unwrap()
        .write(&path)
        .unwrap();
    assert!(fs::read(path).unwrap().starts_with(b"["));
}
