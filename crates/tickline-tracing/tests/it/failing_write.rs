//! What a user learns of a write that fails, and of records that are dropped. Each test runs itself
//! again in a process whose files may have 8 KiB, and which may have 64 files.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, iter, mem, thread};

use tempfile::tempdir;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{Flushed, TraceFile, TraceFileGuard};
use tracing::info_span;

use crate::common::run_timed;

/// The variable with the path of the trace.
const TRACE: &str = "TICKLINE_TEST_LIMITED_TRACE";

/// The name of a pipe.
const PIPE: &str = "pipe";

/// POSIX counts the limit in blocks of 512 bytes. Outside of Linux SIGXFSZ would end the process,
/// unless it is ignored.
const LIMIT_AND_RUN: &str = if cfg!(target_os = "linux") {
    "ulimit -f 16 && ulimit -n 64 && exec \"$@\""
} else {
    "trap '' XFSZ && ulimit -f 16 && ulimit -n 64 && exec \"$@\""
};

/// Longer than any test takes, unless something waits for ever.
const LONG: Duration = Duration::from_secs(60);

/// Runs `test` in a process of its own, with this path, after the shell has set limits.
fn limited(limit_and_run: &str, test: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", limit_and_run, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &format!("failing_write::{test}")])
        .env(TRACE, path);
    command
}

/// A reader of a named pipe that does not wait.
fn reader(pipe: &Path) -> File {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    options.open(pipe).unwrap()
}

/// Calls `run` with a path in a process whose standard error is the full [`PIPE`] beside that path,
/// and checks that the process ends. Nobody reads the pipe, unless `run` does. `test` is the name
/// of the test that calls this.
#[track_caller]
fn assert_ends_with_full_stderr(test: &str, run: impl FnOnce(&Path)) {
    if let Some(path) = env::var_os(TRACE) {
        return run(Path::new(&path));
    }
    let folder = tempdir().unwrap();
    let (path, pipe) = (folder.path().join("trace.json"), folder.path().join(PIPE));
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // Without a reader, a write would be an error.
    let _reader = reader(&pipe);
    let mut writing = File::options();
    let stderr = writing.write(true).open(&pipe).unwrap();
    let mut filling = writing.custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    while filling.write(&[0]).is_ok() {}

    let mut command = limited(LIMIT_AND_RUN, test, &path);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LONG {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("1 passed"), "{output:?}");
}

/// Calls `run` with a path in a process of its own, and checks that the process then has written
/// these lines of this crate to standard error, in which PATH is the path. `test` is the name of
/// the test that calls this.
#[track_caller]
fn assert_lines(test: &str, expected: &[&str], run: impl FnOnce(&Path)) {
    if let Some(path) = env::var_os(TRACE) {
        return run(Path::new(&path));
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let output = limited(LIMIT_AND_RUN, test, &path).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("1 passed"), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr).replace(path.to_str().unwrap(), "PATH");
    let lines = errors.lines().filter(|line| line.starts_with("tickline: "));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

const LINE: &str = "tickline: the trace is incomplete and has ended: \"PATH\": File too large (os error 27); \
                    remove the cause, and begin another trace";

/// Records more than the file may have, after a flush of the file's beginning. Nothing flushes the
/// rest until the program asks for it.
fn record_too_much(path: &Path) -> TraceFileGuard {
    let (trace, guard) = TraceFile::builder().flush_every(LONG).create(path).unwrap();
    run_timed(trace, || {
        assert_eq!(guard.flusher().flush(LONG), Flushed::Written);
        (0..1_000).for_each(|_| info_span!("work").in_scope(|| ()));
    });
    guard
}

/// Symptom: the program went on without a trace, and nothing said so.
#[test]
fn a_failing_write_is_said_while_the_program_runs() {
    assert_lines(
        "a_failing_write_is_said_while_the_program_runs",
        &[LINE],
        |path| {
            let guard = record_too_much(path);
            assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
            mem::forget(guard);
        },
    );
}

#[test]
fn an_error_that_was_said_is_said_once() {
    assert_lines("an_error_that_was_said_is_said_once", &[LINE], |path| {
        let guard = record_too_much(path);
        for _ in 0..2 {
            assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
        }
        drop(guard);
    });
}

/// Symptom: nothing said that the trace was incomplete.
#[test]
fn a_guard_that_is_dropped_says_the_error_of_its_last_write() {
    assert_lines(
        "a_guard_that_is_dropped_says_the_error_of_its_last_write",
        &[LINE],
        |path| drop(record_too_much(path)),
    );
}

#[test]
fn an_error_that_finish_returns_is_not_said_too() {
    assert_lines(
        "an_error_that_finish_returns_is_not_said_too",
        &[],
        |path| {
            record_too_much(path).finish().unwrap_err();
        },
    );
}

#[test]
fn an_error_that_was_said_is_returned_too() {
    assert_lines("an_error_that_was_said_is_returned_too", &[LINE], |path| {
        let guard = record_too_much(path);
        assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
        let error = guard.finish().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path:?}: ")), "{error}");
    });
}

/// Symptom: there was no line, because a copy of standard error was one file too many. A trace that
/// has a file would free that first.
#[test]
fn an_error_is_said_without_a_free_file() {
    let line = "tickline: the trace is incomplete and has ended: failed to write the buffered data; \
                remove the cause, and begin another trace";
    assert_lines("an_error_is_said_without_a_free_file", &[line], |_| {
        let files: Vec<_> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
        let without_room: &mut [u8] = &mut [];
        let (_, guard) = TraceFile::builder().build(without_room).unwrap();
        drop((guard, files));
    });
}

/// Symptom: SIGXFSZ ended the process, and left a temporary file. Here nothing ignores the signal.
#[test]
fn a_recorders_file_beyond_the_limit_is_an_error_with_its_size_and_the_limit() {
    if let Some(path) = env::var_os(TRACE) {
        let builder = FlightRecorder::builder().bytes_per_thread(1);
        let error = builder.in_file(&path).threads(1).build().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let expected = format!(
            "{:?}: it takes 266752 bytes, and a file of this process may have at most 8192 bytes \
             (RLIMIT_FSIZE): raise the limit (ulimit -f), or choose fewer threads() or a smaller \
             bytes_per_thread()",
            Path::new(&path)
        );
        return assert_eq!(error.to_string(), expected);
    }
    let folder = tempdir().unwrap();
    let test = "a_recorders_file_beyond_the_limit_is_an_error_with_its_size_and_the_limit";
    let mut command = limited(
        "ulimit -f 16 && exec \"$@\"",
        test,
        &folder.path().join("box"),
    );
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

/// Records 3,000 spans in one another. The ring has room for the ends of 2,047, however fast the
/// writer is.
fn record_too_many_spans() -> TraceFileGuard {
    let builder = TraceFile::builder().wait_when_full().bytes_per_thread(1);
    let (trace, guard) = builder.build(io::sink()).unwrap();
    run_timed(trace, || {
        let mut inside: Vec<_> = (0..3_000).map(|_| info_span!("work").entered()).collect();
        while inside.pop().is_some() {}
    });
    guard
}

/// Symptom: a trace that lacked two thirds of its records ended without a word.
#[test]
fn a_guard_that_is_dropped_says_how_many_records_were() {
    let line = "tickline: the trace lacks records: 2047 intervals and 0 events; incomplete: 953 records \
                dropped; choose wait_when_full(), or a larger bytes_per_thread()";
    assert_lines(
        "a_guard_that_is_dropped_says_how_many_records_were",
        &[line],
        |_| drop(record_too_many_spans()),
    );
}

#[test]
fn dropped_records_that_finish_returns_are_not_said_too() {
    assert_lines(
        "dropped_records_that_finish_returns_are_not_said_too",
        &[],
        |_| {
            assert_eq!(
                record_too_many_spans().finish().unwrap().dropped_records,
                953
            )
        },
    );
}

/// Symptom: the call waited for the writer's thread, and that for standard error.
#[test]
fn finish_returns_an_error_that_could_not_be_said() {
    assert_ends_with_full_stderr("finish_returns_an_error_that_could_not_be_said", |path| {
        let guard = record_too_much(path);
        assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
        guard.finish().unwrap_err();
    });
}

/// Symptom: as of `finish_returns_an_error_that_could_not_be_said`.
#[test]
fn a_drop_returns_if_its_error_can_not_be_said() {
    assert_ends_with_full_stderr("a_drop_returns_if_its_error_can_not_be_said", |path| {
        drop(record_too_much(path));
    });
}

/// Symptom: the error was lost.
#[test]
fn a_drop_says_an_error_that_could_not_be_said_before() {
    assert_ends_with_full_stderr(
        "a_drop_says_an_error_that_could_not_be_said_before",
        |path| {
            let guard = record_too_much(path);
            assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
            let (mut stderr, mut said) = (reader(&path.with_file_name(PIPE)), [0; 1_000]);
            while stderr.read(&mut said).is_ok() {}
            drop(guard);
            let bytes = stderr.read(&mut said).unwrap();
            let line = format!("{}\n", LINE.replace("PATH", path.to_str().unwrap()));
            assert_eq!(String::from_utf8_lossy(&said[..bytes]), line);
        },
    );
}

/// Symptom: the trace had no span, and nothing told the user why.
#[test]
fn a_guard_that_is_dropped_before_the_first_span_is_reported() {
    let line = "tickline: the trace has ended, and has no span: \"PATH\": if the program has \
                entered one, keep the guard until the end of main, by a name (`_guard`: a `_` drops \
                it at once); or install the layer, or let a filter show its spans";
    let test = "a_guard_that_is_dropped_before_the_first_span_is_reported";
    assert_lines(test, &[line], |path| {
        let (trace, _) = TraceFile::builder().create(path).unwrap();
        run_timed(trace, || info_span!("work").in_scope(|| ()));
    });
}

#[test]
fn a_guard_that_is_dropped_after_a_span_says_nothing() {
    let test = "a_guard_that_is_dropped_after_a_span_says_nothing";
    assert_lines(test, &[], |path| {
        let (trace, _guard) = TraceFile::builder().create(path).unwrap();
        run_timed(trace, || info_span!("work").in_scope(|| ()));
    });
}

/// An output whose first write ends the writer's thread, as a seccomp filter does that kills one
/// thread alone (`SECCOMP_RET_KILL_THREAD`).
struct EndsThread;

impl io::Write for EndsThread {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        // SAFETY: ends this thread, which has no lock then.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        Ok(0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Symptom: it waited for its whole time, which may be for ever.
#[test]
fn a_flush_fails_if_the_writer_was_killed() {
    let (_trace, guard) = TraceFile::builder().build(EndsThread).unwrap();
    assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
}

#[test]
fn a_flush_in_a_signal_handler_fails_if_the_writer_was_killed() {
    let (_trace, guard) = TraceFile::builder().build(EndsThread).unwrap();
    let flushed = guard.flusher().flush_in_signal_handler(LONG);
    assert_eq!(flushed, Flushed::Failed);
}

/// Symptom: the error said that the thread had panicked.
#[test]
fn the_end_of_a_trace_says_that_the_writer_was_killed() {
    let (_trace, guard) = TraceFile::builder().build(EndsThread).unwrap();
    assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
    assert_eq!(
        guard.finish().unwrap_err().to_string(),
        "the thread that writes the trace was killed, for example by a seccomp filter"
    );
}

/// Symptom: nothing said that the trace was incomplete.
#[test]
fn a_guard_that_is_dropped_says_that_the_writer_was_killed() {
    let line = "tickline: the trace is incomplete and has ended: the thread that writes the trace \
                was killed, for example by a seccomp filter; remove the cause, and begin another \
                trace";
    let test = "a_guard_that_is_dropped_says_that_the_writer_was_killed";
    assert_lines(test, &[line], |_| {
        let (_trace, guard) = TraceFile::builder().build(EndsThread).unwrap();
        assert_eq!(guard.flusher().flush(LONG), Flushed::Failed);
        drop(guard);
    });
}

/// Symptom: the program's threads waited for room for ever.
#[test]
fn no_thread_waits_for_room_if_the_writer_was_killed() {
    let builder = TraceFile::builder().wait_when_full().bytes_per_thread(1);
    let (trace, guard) = builder.build(EndsThread).unwrap();
    let (sender, recorded) = mpsc::channel();
    thread::spawn(move || {
        // They take 400 kB, and the ring has 128 KiB.
        run_timed(trace, || {
            (0..10_000).for_each(|_| info_span!("work").in_scope(|| ()));
        });
        sender.send(()).unwrap();
    });
    assert_eq!(recorded.recv_timeout(LONG), Ok(()));
    guard.finish().unwrap_err();
}
