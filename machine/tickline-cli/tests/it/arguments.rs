//! Tests of refused command lines, of failing writes, and of readers that exit early.

use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
#[cfg(target_os = "linux")]
use tickline::exchange;

use crate::common::{assert_fails, entries, skip, text, tickline};
#[cfg(target_os = "linux")]
use crate::harmless::{open_folder, unprivileged};

/// A folder with a file `x`, a folder `taken`, a link to that folder, and a link to a missing file.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    std::fs::write(folder.path().join("x"), "of value").unwrap();
    symlink("taken", folder.path().join("link")).unwrap();
    symlink("missing", folder.path().join("dangling")).unwrap();
    folder
}

/// Checks that the program refuses each command line, with a message that has each of these parts,
/// and writes nothing else. It must refuse before it measures, which would take an hour for some.
fn assert_refused(cases: &[(&str, &[&str])]) {
    let folder = folder();
    for (line, parts) in cases {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = tickline(&arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert_eq!(text(&output.stdout), "", "{line}");
        let error = text(&output.stderr);
        for part in *parts {
            assert!(error.contains(part), "{line}: no {part} in {error}");
        }
    }
    assert_eq!(entries(folder.path()), ["dangling", "link", "taken", "x"]);
    assert_eq!(entries(&folder.path().join("taken")), [""; 0]);
    assert_eq!(std::fs::read(folder.path().join("x")).unwrap(), b"of value");
}

#[test]
fn a_figure_outside_its_limits_is_refused_with_the_limits() {
    assert_refused(&[
        ("--duration 0s", &["0s is not a span of time from 1s to 1h"]),
        (
            "wait --max-error 1s --timeout 5",
            &["5 has no unit", "5ms or 5s"],
        ),
        ("wait --max-error 1s --timeout -5s", &["-5s", "above 0"]),
        ("--duration x", &["x is not a span of time from 1s to 1h"]),
        (
            "watch --duration 8761h",
            &["8761h is not a span of time from 1s to 8760h"],
        ),
        (
            "watch --interval 10ms",
            &["10ms is not a span of time from 50ms to 1h"],
        ),
        ("watch --interval 0.2", &["0.2 has no unit"]),
        ("bench --rounds 0", &["1 to 100000"]),
        ("bench --rounds 100001", &["100001", "1 to 100000"]),
        (
            "bench --calls 1000000001",
            &["1000000001", "1 to 1000000000"],
        ),
        (
            "report --duration 3601s --out a.html",
            &["3601s is not a span of time from 1s to 1h"],
        ),
        ("compare --above NaN x x", &["0 to 10000"]),
        ("compare --above 10%% x x", &["10%%", "0 to 10000"]),
        ("compare --above 10001% x x", &["0 to 10000"]),
        // Symptom: "unexpected argument '-5' found".
        (
            "compare --above -5 x x",
            &["-5 is not a percentage from 0 to 10000"],
        ),
        (
            "--max-error -1ms",
            &["-1ms is not a span of time above 0, such as 100ms or 2s"],
        ),
        ("who abc", &["abc is not a process id from 1 to 4194304"]),
        ("who 0", &["0 is not a process id from 1 to 4194304"]),
    ]);
}

/// Symptoms: "a similar argument exists: '--yes'"; "unexpected value '5' for '--secs' found".
#[test]
fn an_option_that_users_guess_is_refused_with_the_right_one() {
    for (line, option) in [
        ("--secs 5", "--secs"),
        ("--secs=5", "--secs"),
        ("--sec 5", "--sec"),
        ("doctor --second 5", "--second"),
        ("watch --seconds 5", "--seconds"),
        ("report --secs 5 --out a.html", "--secs"),
        ("who --secs", "--secs"),
    ] {
        let error = format!("unexpected argument '{option}' found");
        let advice = "tip: doctor, watch, report and who take a span of time with its unit: \
                      --duration 5s";
        assert_refused(&[(line, &[&error, advice])]);
    }
    let error = "unexpected argument '--wait' found";
    assert_refused(&[("--wait", &[error, "tip: `tickline wait` is a command"])]);
}

/// Symptom: "a similar argument exists: '--wait'".
#[test]
fn no_option_that_users_guess_is_recommended() {
    for line in ["--secs 5", "--sec 5", "--watch", "--wait"] {
        let output = tickline(&line.split(' ').collect::<Vec<_>>()).output();
        let error = text(&output.unwrap().stderr);
        assert!(error.contains("unexpected argument"), "{error}");
        assert!(!error.contains("a similar argument exists"), "{error}");
    }
}

/// Symptom: `tickline bench --check` printed a monitoring plugin's line, and exited with 3.
#[test]
fn another_command_than_the_doctor_refuses_a_check() {
    for line in ["bench --check", "report --check", "compare --check a b"] {
        assert_refused(&[(line, &["unexpected argument '--check' found"])]);
    }
}

#[test]
fn a_wait_needs_its_limit() {
    assert_refused(&[("wait", &["--max-error <TIME>"])]);
}

/// No source of UTC knows it to the nanosecond.
#[test]
fn a_wait_ends_at_the_timeout_with_the_reason() {
    let arguments = ["wait", "--max-error", "1ns", "--timeout", "1s"];
    let output = tickline(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let line = text(&output.stdout);
    let (word, rest) = line.split_once(": ").unwrap_or_default();
    let words = ["WRONG", "NOT KNOWN RIGHT", "UNKNOWN"];
    assert!(words.contains(&word), "{line}");
    let start = "Unix time is not known to be within 1 ns of UTC after 1 s: ";
    assert!(rest.starts_with(start), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    let start = "tickline: waiting for Unix time to be within 1 ns of UTC (";
    let waiting = text(&output.stderr);
    assert!(waiting.starts_with(start), "{waiting}");
    assert_eq!(waiting.lines().count(), 1, "{waiting}");
}

/// Symptom: it measured, and printed the diagnosis, before it refused.
#[test]
fn a_fix_that_cannot_ask_is_refused() {
    assert_refused(&[
        ("--fix", &["not a terminal", "--yes"]),
        ("doctor --fix --duration 3600s", &["not a terminal"]),
    ]);
}

#[test]
fn a_list_of_cpus_that_cannot_be_compared_is_refused() {
    assert_refused(&[
        ("warp --cpus 3-1", &["3-1", "such as 0-3,8 (ascending)"]),
        ("warp --cpus 9000", &["9000", "8191"]),
        (
            "warp --cpus 8191",
            &["no thread could be started on CPU 8191: choose from"],
        ),
        ("warp --pairs some", &["some", "all", "star"]),
        (
            "watch --cpus 8191",
            &["no thread could be started on CPU 8191: choose from"],
        ),
    ]);
}

#[test]
fn an_empty_list_of_cpus_is_refused() {
    let output = tickline(&["warp", "--cpus", ""]).output().unwrap();
    assert_fails(&output, 2, "is not a list of CPUs");
}

#[test]
fn an_unknown_or_missing_word_is_refused_with_the_known_ones() {
    assert_refused(&[
        ("--nonsense", &["--nonsense"]),
        ("--json=", &["a value is required for '--json <FILE>'"]),
        ("report --out=", &["a value is required for '--out <FILE>'"]),
        ("explain tsc_skwe", &["did you mean tsc_skew?"]),
        (
            "explain nonsense",
            &["\"nonsense\" is not a code: `tickline explain` lists all codes"],
        ),
        // Symptom: 11 codes in one line.
        ("explain tsc", &["codes contain tsc:\n"]),
        ("man nonsense", &["nonsense is not a command; all: doctor"]),
        ("completions nonsense", &["bash"]),
        (
            "run --typo -- plugin --check",
            &["unexpected argument", "--typo"],
        ),
    ]);
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_measurement() {
    assert_refused(&[
        (
            "--duration 3600s --json no/such/folder/a.json",
            &["can't write no/such/folder/a.json: its folder does not exist"],
        ),
        ("--duration 3600s --json taken", &["taken: is a directory"]),
        // Symptom: each made a file called new.
        ("bench --json new/", &["new/: not a directory"]),
        ("bench --json new/.", &["new/.: not a directory"]),
        (
            "watch --csv no/such/folder/a.csv",
            &["can't write no/such/folder/a.csv: its folder does not exist"],
        ),
        (
            "bench --json no/such/folder/a.json",
            &["can't write no/such/folder/a.json: its folder does not exist"],
        ),
        (
            "report --duration 3600s --out no/such/folder/a.html",
            &["can't write no/such/folder/a.html: its folder does not exist"],
        ),
        (
            "flight x --out no/such/folder/a.json",
            &["can't write no/such/folder/a.json: its folder does not exist"],
        ),
        // Symptom: the program created the missing file that the link names, which `cp` never does.
        (
            "bench --json dangling",
            &["dangling: it is a link to a missing file"],
        ),
        (
            "watch --duration 1s --csv dangling",
            &["dangling: it is a link to a missing file"],
        ),
    ]);
}

#[test]
fn two_outputs_to_one_place_are_refused() {
    for line in [
        "--openmetrics - --json -",
        "--openmetrics a --json ./a",
        "watch --csv - --json -",
        "watch --csv - --json /dev/stdout",
        "watch --duration 3600s --csv x --json ./x",
        "report --duration 3600s --json -",
        "report --duration 3600s --out - --json -",
        "report --duration 3600s --out - --json /dev/stdout",
        "report --duration 3600s --out /dev/stdout --json -",
        "report --duration 3600s --out a --json ./a",
        // Neither file exists yet, and their folder has two names.
        "report --duration 1s --out taken/a --json link/a",
    ] {
        assert_refused(&[(
            line,
            &["name one place: write one of them to a file of its own"],
        )]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_by_its_name() {
    assert_refused(&[
        ("compare no/such.json x", &["no/such.json: No such file"]),
        (
            "compare x x",
            &["x: it is not a document that --json writes: expected value at line 1"],
        ),
        ("--facts -", &["standard input: it is empty"]),
        ("flight no/such/file", &["no/such/file: No such file"]),
        (
            "flight x",
            &[
                "x: it is not the file of a flight recorder of this version: it begins with \"of value\"",
            ],
        ),
        (
            "flight x --out ./x",
            &["./x: the trace would replace the recorder's file: choose another --out"],
        ),
    ]);
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
        return skip("there is no /dev/full");
    }
    // Symptom: a `--check` that could not write its line exited with 2, which means critical.
    for (arguments, code) in [
        (&["--duration", "1s", "--json", "-"][..], 2),
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

/// Symptom: "tickline: No space left on device", which did not say what was full.
#[test]
fn a_failed_write_to_standard_output_names_it() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return skip("there is no /dev/full");
    };
    let mut command = tickline(&["explain", "tsc_skew"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output();
    assert_fails(&output.unwrap(), 2, "tickline: standard output: No space");
}

/// Without a reader, every write fails, also the write of headings.
#[test]
fn a_reader_that_has_left_is_no_error() {
    // Start all commands before waiting, because most of them take a second.
    let started = [
        &["--duration", "1s"][..],
        &["--duration", "1s", "--json", "-"],
        &["report", "--duration", "1s", "--out", "-"],
        &["man", "report"],
        &["completions", "zsh"],
        &["watch"],
        &["watch", "--csv", "-"],
        &["watch", "--duration", "1s", "--json", "-"],
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

const COMMANDS: [&str; 14] = [
    "doctor",
    "wait",
    "bench",
    "warp",
    "watch",
    "report",
    "who",
    "serve",
    "run",
    "explain",
    "compare",
    "flight",
    "completions",
    "man",
];

/// The help of a command, or of the program, on a terminal of 80 columns.
fn help(arguments: &[&str]) -> String {
    let output = tickline(arguments).env("COLUMNS", "80").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    text(&output.stdout)
}

#[test]
fn short_help_has_one_line_for_each_option() {
    for command in COMMANDS {
        let short = help(&[command, "-h"]);
        let options = short.lines().skip_while(|line| *line != "Options:").skip(1);
        for line in options {
            assert!(line.trim_start().starts_with('-'), "{command}: {line}");
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

/// Symptom: `-h` of the program had 80 lines, and that of `serve` 56.
#[test]
fn short_help_fits_on_a_terminal() {
    for command in COMMANDS {
        let short = help(&[command, "-h"]);
        assert!(short.lines().count() <= 20, "{short}");
    }
}

#[test]
fn the_examples_are_in_long_help_only() {
    for command in COMMANDS {
        let long = help(&[command, "--help"]);
        assert!(long.contains("Examples:"), "{long}");
        let short = help(&[command, "-h"]);
        assert!(!short.contains("Examples:"), "{short}");
    }
}

/// The options are those of the default command.
#[test]
fn the_programs_short_help_has_one_line_for_each_command() {
    let short = help(&["-h"]);
    assert!(short.lines().count() <= COMMANDS.len() + 13, "{short}");
    for command in COMMANDS {
        let line = short
            .lines()
            .find(|line| line.starts_with(&format!("  {command} ")));
        assert!(line.is_some_and(|line| line.len() <= 80), "{short}");
    }
}

#[test]
fn the_programs_long_help_has_the_doctors_options_and_the_environment() {
    let long = help(&["--help"]);
    assert!(
        long.contains("--openmetrics") && long.contains("Environment:"),
        "{long}"
    );
}

#[test]
fn explain_without_a_code_lists_all_codes_in_columns_that_fit() {
    let listed = |columns: &str, more: &[&str]| {
        let mut command = tickline(&[&["explain"], more].concat());
        text(&command.env("COLUMNS", columns).output().unwrap().stdout)
    };
    let all = listed("80", &["--all"]);
    // A summary that is longer than a line goes on below itself, after spaces.
    let codes: Vec<_> = all
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(codes.len() > 30 && codes.contains(&"tsc_skew"), "{all}");
    // No text is wider than 100 columns. The longest code has 24 characters.
    for (columns, in_a_line) in [(40, 1), (80, 3), (120, 3)] {
        let list = listed(&columns.to_string(), &[]);
        let first = list.lines().next().unwrap();
        assert_eq!(first.split_whitespace().count(), in_a_line, "{list}");
        let words: Vec<_> = list.split_whitespace().collect();
        assert!(codes.iter().all(|code| words.contains(code)), "{list}");
        assert!(list.lines().all(|line| line.len() <= columns), "{list}");
    }
}

/// Symptom: `explain expiry` said "is not the code of a finding", though `watch` shows the word.
#[test]
fn explain_knows_the_words_that_watch_and_doctor_show() {
    for (code, says) in [
        ("expiry", "Event: a line has ended before the next one"),
        ("fast", "State: readings come from the counter"),
        ("kernel_rejected", "the kernel does not accept the counter"),
        ("no_source", "no source of UTC has answered:"),
    ] {
        let output = tickline(&["explain", code]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let shown = text(&output.stdout);
        assert!(shown.contains(says), "{code}: no {says} in {shown}");
    }
}

#[test]
fn an_empty_code_is_refused_in_quotes() {
    let output = tickline(&["explain", ""]).output().unwrap();
    assert_fails(&output, 2, "\"\" is not a code: `tickline explain` lists");
}

/// Symptom: "no thread could be started on CPU 0: choose from 0-1".
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_threads_is_not_a_wrong_choice_of_cpus() {
    let (_folder, program) = open_folder();
    let cpu = exchange::cpus()[0];
    let mut limited = unprivileged(Path::new("prlimit"));
    limited.arg("--nproc=1").arg(&program);
    let output = limited.args(["warp", "--cpus", &cpu.to_string()]).output();
    let output = output.expect("util-linux");
    let message = text(&output.stderr);
    assert_fails(&output, 2, "no thread could be started");
    assert!(!message.contains("choose from"), "{message}");
}

/// The tests of the build script say when that version has a commit.
#[test]
fn the_version_is_that_of_the_build() {
    let shown = text(&tickline(&["--version"]).output().unwrap().stdout);
    assert_eq!(shown, concat!("tickline ", env!("TICKLINE_VERSION"), "\n"));
}

/// Symptom: the documents of two builds had one version.
#[test]
fn a_document_has_the_version_of_the_build() {
    let output = tickline(&["doctor", "--json", "-"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["program_version"], env!("TICKLINE_VERSION"));
}
