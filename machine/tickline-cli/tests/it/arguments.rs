//! Tests of refused command lines, of failing writes, and of readers that exit early.

use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use crate::common::{assert_fails, entries, text, tickline};

/// Each line has a command line, and parts of the expected message.
const REFUSED: &str = include_str!("refused.txt");

#[test]
fn bad_arguments_are_named_with_their_limits() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(folder.path().join("x"), "of value").unwrap();
    for (link, target) in [("link", "taken"), ("dangling", "missing")] {
        symlink(target, folder.path().join(link)).unwrap();
    }
    for line in REFUSED.lines().filter(|line| !line.starts_with('#')) {
        let (words, parts) = line
            .split_once(" => ")
            .expect("a command line, and what it says");
        // The command must fail before the measurement, which would take an hour.
        let words: Vec<&str> = words
            .split(' ')
            .map(|word| word.trim_matches('"'))
            .collect();
        let output = tickline(&words)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{line}");
        let error = text(&output.stderr);
        assert!(
            parts.split(" & ").all(|part| error.contains(part)),
            "{line}: {error}"
        );
    }
    assert_eq!(entries(folder.path()), ["dangling", "link", "taken", "x"]);
    assert_eq!(entries(&taken), [""; 0]);
    assert_eq!(std::fs::read(folder.path().join("x")).unwrap(), b"of value");
}

/// Symptom: no call was seen of a thread that made 650,000 a second.
#[cfg(target_os = "linux")]
#[test]
fn who_refuses_the_number_of_a_thread() {
    assert_fails(
        &tickline(&["who", "4194304"]).output().unwrap(),
        2,
        "there is no process 4194304",
    );
    // The test runs in a thread of its own.
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let output = tickline(&["who"])
        .arg(thread.file_name().unwrap())
        .output()
        .unwrap();
    assert_fails(
        &output,
        2,
        &format!("is a thread of process {}", std::process::id()),
    );
}

#[test]
fn a_full_disk_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    // Symptom: a `--check` that could not write its line exited with 2, which means critical.
    for (arguments, code) in [
        (&["--secs", "1", "--json", "-"][..], 2),
        (&["--check"], 3),
        (&["docter", "--check"], 3),
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = tickline(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).starts_with("tickline: "),
            "{}",
            text(&output.stderr)
        );
    }
}

/// Without a reader, every write fails, also the write of headings.
#[test]
fn a_reader_that_has_left_is_no_error() {
    // Start all commands before waiting, because most of them take a second.
    let started = [
        &["--secs", "1"][..],
        &["--secs", "1", "--json", "-"],
        &["report", "--secs", "1", "--out", "-"],
        &["man", "report"],
        &["completions", "zsh"],
        &["watch"],
        &["watch", "--csv", "-"],
        &["watch", "--secs", "1", "--json", "-"],
    ]
    .map(|arguments| {
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        (
            tickline(arguments)
                .stdout(OwnedFd::from(writer))
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
            arguments,
        )
    });
    for (child, arguments) in started {
        let output = child.wait_with_output().unwrap();
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{arguments:?}: {output:?}"
        );
        assert!(
            !text(&output.stderr).contains("tickline: "),
            "{arguments:?}: {output:?}"
        );
    }
}
