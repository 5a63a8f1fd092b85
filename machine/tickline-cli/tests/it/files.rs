//! Tests of writes: the program replaces a regular file as a whole, and writes to a device or a
//! pipe in place.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::common::{NOBODY, assert_fails, code, entries, is_root, send, skip, text, tickline};

/// Runs a shell script with the program as `$0`. `$0 $BENCH` measures for some milliseconds.
fn sh(folder: &Path, script: &str) -> Output {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_tickline")])
        .current_dir(folder)
        .env_remove("TICKLINE");
    command
        .env("BENCH", "bench --rounds 1 --calls 1")
        .output()
        .expect("a shell")
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("the file").ino()
}

/// Runs a script in a folder with the file `log`, which begins with a line. Returns the file's
/// contents afterwards, and the script's errors. Checks that the file is the same one.
#[track_caller]
fn written_to_a_log(script: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, "before\n").unwrap();
    let before = inode(&log);
    let output = sh(folder.path(), script);
    code(&output);
    assert_eq!(inode(&log), before, "{script}: the log is another file");
    (fs::read_to_string(&log).unwrap(), text(&output.stderr))
}

/// Symptom: a file with only the JSON replaced the log. The text went to the removed file, and rows
/// overwrote the log's beginning.
#[test]
fn a_log_or_a_pipe_is_written_to_in_place() {
    for script in [
        "\"$0\" $BENCH --json /dev/stdout >> log",
        "\"$0\" $BENCH --json /dev/fd/3 3>> log >> log",
        // Symptom: where the shell does not append, the text overwrote the JSON.
        "(echo before; \"$0\" $BENCH --json /dev/fd/1) > log",
        "mkfifo pipe; cat pipe >> log & \"$0\" $BENCH --json pipe >/dev/null; wait $!; test -p pipe || exit 2",
    ] {
        let (found, errors) = written_to_a_log(script);
        let rest = found.strip_prefix("before\n").expect("what was there");
        let (text, json) = rest.split_at(rest.find('{').expect("JSON"));
        let mut json = serde_json::Deserializer::from_str(json).into_iter::<Value>();
        assert_eq!(
            json.next().expect("JSON").expect("JSON")["command"],
            "bench",
            "{script}"
        );
        let is_stdout = !script.contains("/dev/fd/3");
        let rest = &rest[text.len() + json.byte_offset()..];
        assert!(
            is_stdout || (text.to_owned() + rest).contains("Long run: 1 calls"),
            "{found}"
        );
        assert_eq!(errors, "", "{script}");
    }
}

#[test]
fn rows_are_appended_to_a_log_and_the_summary_goes_elsewhere() {
    let (found, errors) =
        written_to_a_log("\"$0\" watch --duration 1s --interval 300ms --csv /dev/stdout >> log");
    assert!(
        found.starts_with("before\n") && found.contains("\nat_s,unix_s"),
        "{found}"
    );
    assert!(
        errors.contains("Watched for "),
        "the summary goes elsewhere"
    );
}

/// Symptom: a file that root replaced belonged to root, and a new file gave the old group's rights
/// to the process's group.
#[test]
fn a_file_keeps_its_owner_its_group_and_its_mode() {
    if !is_root() {
        return skip("without root there is no second user");
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, owner) in [("theirs", NOBODY), ("ours", 0)] {
        let path = folder.path().join(name);
        fs::write(&path, "what was there before").unwrap();
        chown(&path, Some(owner), Some(NOBODY)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
        let before = inode(&path);
        code(&sh(folder.path(), &format!("\"$0\" $BENCH --json {name}")));
        let found = fs::metadata(&path).unwrap();
        assert_eq!(
            (found.uid(), found.gid(), found.mode() & 0o777),
            (owner, NOBODY, 0o660),
            "{name}"
        );
        assert!(
            name == "theirs" || found.ino() != before,
            "a file of one's own is replaced as a whole"
        );
        serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap();
    }
}

/// Symptom: a second document was appended to a regular file below /dev or /proc.
#[test]
fn a_link_is_followed_and_its_file_replaced() {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
    .unwrap();
    let link = folder.path().join("link");
    let file = folder.path().join("data/file");
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(&file, "what was there before").unwrap();
    symlink("data/file", &link).unwrap();
    for name in [
        "$PWD/link",
        if cfg!(target_os = "linux") {
            "/proc/self/cwd/link"
        } else {
            "link"
        },
    ] {
        let before = inode(&file);
        code(&sh(folder.path(), &format!("\"$0\" $BENCH --json {name}")));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_ne!(inode(&file), before, "{name}");
        serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
    }
    assert_eq!(entries(&folder.path().join("data")), ["file"]);
}

/// Symptom: the kernel refuses to follow such a link (`fs.protected_symlinks`), but the program
/// renamed its new file over the link's target.
#[cfg(target_os = "linux")]
#[test]
fn a_link_that_another_user_left_in_a_shared_folder_is_refused() {
    let protects = fs::read_to_string("/proc/sys/fs/protected_symlinks");
    if !is_root() || protects.is_ok_and(|value| value.trim() == "0") {
        return skip("this needs root, and fs.protected_symlinks");
    }
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    fs::write(folder.path().join("precious"), "of value").unwrap();
    symlink("../precious", shared.join("link")).unwrap();
    std::os::unix::fs::lchown(shared.join("link"), Some(NOBODY), Some(NOBODY)).unwrap();
    let output = sh(folder.path(), "\"$0\" $BENCH --json shared/link");
    assert_fails(&output, 2, "shared/link: Permission denied");
    assert_eq!(
        fs::read(folder.path().join("precious")).unwrap(),
        b"of value"
    );
}

/// The files contain facts about the machine, so a private umask or mode must apply to them.
#[test]
fn the_umask_counts_for_new_files() {
    for (umask, expected) in [("077", 0o600), ("022", 0o644)] {
        let folder = tempfile::tempdir().unwrap();
        code(&sh(
            folder.path(),
            &format!("umask {umask}; \"$0\" $BENCH --json run.json"),
        ));
        assert_eq!(mode(&folder.path().join("run.json")), expected, "{umask}");
    }
}

#[test]
fn an_old_file_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    code(&sh(
        folder.path(),
        "umask 022; \"$0\" $BENCH --json run.json",
    ));
    assert_eq!(mode(&path), 0o640);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Starts `watch`, which writes its document to this file at its end. Returns once a row is there:
/// the program has checked the file by then.
fn watch_after_its_first_row(file: &Path) -> Child {
    let mut command = tickline(&["watch", "--interval", "50ms", "--csv", "-", "--json"]);
    command.arg(file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    for _ in ["the head", "a row"] {
        rows.read_line(&mut String::new()).unwrap();
    }
    child.stdout = Some(rows.into_inner());
    child
}

#[test]
fn a_folder_that_gets_the_files_name_during_a_measurement_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late");
    let child = watch_after_its_first_row(&file);
    fs::create_dir(&file).unwrap();
    send(&child, libc::SIGINT);
    assert_fails(&child.wait_with_output().unwrap(), 2, "late: ");
    assert_eq!(entries(folder.path()), ["late"], "a half file was left");
}

#[test]
fn a_command_that_is_killed_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    fs::write(&file, "what was there before").unwrap();
    let mut child = watch_after_its_first_row(&file);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entries(folder.path()), ["a.json"], "a half file was left");
    assert_eq!(fs::read_to_string(&file).unwrap(), "what was there before");
}

/// Symptoms: the message named the temporary file, and not only the file that the user names; the
/// signal of the limit ended the program without a message, and left the temporary file.
#[test]
fn a_file_without_room_for_its_content_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.json");
    fs::write(&file, "what was there before").unwrap();
    let output = sh(folder.path(), "ulimit -f 0; \"$0\" $BENCH --json a.json");
    let too_large = std::io::Error::from_raw_os_error(libc::EFBIG);
    assert_fails(&output, 2, &format!("a.json: {too_large}\n"));
    assert_eq!(entries(folder.path()), ["a.json"], "a half file was left");
    assert_eq!(fs::read_to_string(&file).unwrap(), "what was there before");
}

/// In this folder no process can make a file. Symptom: `watch` tried that, and refused a file to
/// which it may write.
#[cfg(target_os = "linux")]
#[test]
fn a_table_needs_no_new_file_in_its_folder() {
    code(&sh(
        Path::new("/"),
        "\"$0\" watch --duration 1s --csv /proc/self/comm",
    ));
}

#[test]
fn flight_says_at_its_end_what_opens_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let [recorded, trace] = ["server.flight", "trace.json"].map(|name| folder.path().join(name));
    let recorder = tickline_tracing::flight::FlightRecorder::builder()
        .in_file(&recorded)
        .threads(1)
        .build()
        .unwrap();
    drop(recorder);
    let mut command = tickline(&["flight"]);
    let output = command.arg(recorded).arg("--out").arg(&trace).output();
    let shown = text(&output.unwrap().stdout);
    assert!(
        shown.ends_with("; open it at https://ui.perfetto.dev\n"),
        "{shown}"
    );
    assert!(trace.exists());
}

/// Symptom: a copy that a full disk had cut short gave nothing, although most rings were whole.
#[test]
fn flight_converts_the_whole_rings_of_a_file_that_is_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let [recorded, trace] = ["server.flight", "trace.json"].map(|name| folder.path().join(name));
    let builder = tickline_tracing::flight::FlightRecorder::builder().in_file(&recorded);
    drop(builder.threads(3).build().unwrap());
    let bytes = fs::read(&recorded).unwrap();
    fs::write(&recorded, &bytes[..bytes.len() - 1]).unwrap();
    let mut command = tickline(&["flight"]);
    let output = command
        .arg(recorded)
        .arg("--out")
        .arg(&trace)
        .output()
        .unwrap();
    let shown = text(&output.stdout);
    let expected = ": 0 intervals and 0 events; incomplete: 1 ring missing; ";
    assert!(shown.contains(expected), "{shown}");
    assert_eq!(output.status.code(), Some(1));
    assert!(trace.exists());
}

/// Symptom: the line did not say that the file has nothing of some threads.
#[test]
fn flight_says_how_many_threads_had_no_ring() {
    let folder = tempfile::tempdir().unwrap();
    let [recorded, trace] = ["server.flight", "trace.json"].map(|name| folder.path().join(name));
    let builder = tickline_tracing::flight::FlightRecorder::builder().in_file(&recorded);
    drop(builder.threads(1).build().unwrap());
    let mut bytes = fs::read(&recorded).unwrap();
    // The word 5 of the head has their number.
    bytes[5 * 8..6 * 8].copy_from_slice(&4_u64.to_ne_bytes());
    fs::write(&recorded, bytes).unwrap();
    let mut command = tickline(&["flight"]);
    let output = command.arg(recorded).arg("--out").arg(&trace).output();
    let shown = text(&output.unwrap().stdout);
    let expected = ": 0 intervals and 0 events; incomplete: 4 threads without a ring; ";
    assert!(shown.contains(expected), "{shown}");
}

/// Symptom: the comparison replaced one of the documents that it compares.
#[test]
fn a_document_that_a_command_reads_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    code(&sh(folder.path(), "\"$0\" $BENCH --json a"));
    let original = fs::read(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("b"), &original).unwrap();
    symlink("b", folder.path().join("link")).unwrap();
    for command in [
        "compare a b --json a",
        "compare a b --json ./b",
        "compare a b --json link",
        "compare a link --json b",
        "compare - b --json a <a",
        "compare b b a --json a",
        "doctor --facts a --json a",
        "doctor --facts - --json a <a",
        "doctor --facts a --openmetrics a",
    ] {
        let output = sh(folder.path(), &format!("\"$0\" {command}"));
        assert_fails(&output, 2, "this command reads");
        for name in ["a", "b"] {
            let found = fs::read(folder.path().join(name)).unwrap();
            assert!(found == original, "{command}: {name} has changed");
        }
    }
}

/// Symptom: what the shell wrote next to the descriptor overwrote the document.
#[test]
fn a_descriptor_is_written_to_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    for (script, log) in [
        (
            "(echo before; \"$0\" $BENCH --json /dev/fd/3 3>&1 >text; echo after) >log",
            "log",
        ),
        (
            "(echo before >&3; \"$0\" $BENCH --json /proc/self/fd/3 >text; echo after >&3) 3>log",
            "log",
        ),
        (
            "(echo before >&2; \"$0\" $BENCH --json /dev/stderr >text; echo after >&2) 2>log",
            "log",
        ),
    ] {
        code(&sh(folder.path(), script));
        let found = fs::read_to_string(folder.path().join(log)).unwrap();
        let json = found.strip_prefix("before\n").expect(&found);
        let json = json.strip_suffix("after\n").expect(&found);
        serde_json::from_str::<Value>(json).expect(&found);
    }
}

#[test]
fn a_descriptor_that_is_open_for_reading_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log"), "before").unwrap();
    let output = sh(folder.path(), "\"$0\" $BENCH --json /dev/fd/3 3<log");
    assert_fails(&output, 2, "/dev/fd/3: ");
    assert_eq!(fs::read(folder.path().join("log")).unwrap(), b"before");
}

/// Symptom: exit code 0, and nothing was printed.
#[cfg(target_os = "linux")]
#[test]
fn a_standard_output_that_is_closed_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "$BENCH",
        "$BENCH --json -",
        "$BENCH --json a.json",
        "--help",
        "explain",
        "completions bash",
        "watch",
        "watch --csv -",
    ] {
        let output = sh(folder.path(), &format!("\"$0\" {command} >&-"));
        assert_fails(&output, 2, "standard output: Bad file descriptor");
    }
    let output = sh(folder.path(), "\"$0\" --check >&-");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_nobody_wants_may_go_to_dev_null() {
    let folder = tempfile::tempdir().unwrap();
    for output in [">/dev/null", "1<>/dev/null", ">/dev/null 2>&- <&-"] {
        code(&sh(folder.path(), &format!("\"$0\" $BENCH {output}")));
    }
}
