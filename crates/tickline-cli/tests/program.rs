//! The program as users run it.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use common::{code, entries, text};

fn tickline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
    command.args(["--secs", "1"]).env_remove("TICKLINE");
    command
}

#[test]
fn without_arguments_it_prints_everything_and_nothing_on_stderr() {
    let output = tickline().output().unwrap();
    code(&output);
    let out = text(&output.stdout);
    for part in [
        "tickline ",
        "Machine",
        "Gates",
        "Clocks: ",
        "clock_gettime MONOTONIC",
        "std::time::Instant",
        "Offset from",
    ] {
        assert!(out.contains(part), "no {part} in:\n{out}");
    }
    assert_eq!(text(&output.stderr), "", "no progress bar where stderr is no terminal");
    let levels = ["OK: ", "SLOW: ", "WRONG: ", "UNKNOWN: "];
    assert!(levels.iter().any(|level| out.starts_with(level)), "the machine comes first: {out}");
    let second = out.split("\ntickline ").count();
    assert!(second > 1, "then what tickline makes of it: {out}");
    for line in out.lines() {
        assert!(line.chars().count() <= 100, "too wide: {line}");
    }
}

#[test]
fn json_goes_to_standard_output_with_units_in_its_keys() {
    let output = tickline().args(["--json", "-"]).output().unwrap();
    let code = code(&output);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["schema"], "tickline/2");
    let bad = ["slow", "wrong"].iter().any(|level| value["health"]["level"] == *level);
    assert_eq!(value["fast"] == true && !bad, code == 0);
    let gates = value["gates"].as_array().unwrap();
    assert_eq!(gates.len(), 10);
    assert!(["cost", "unix_cost"].iter().all(|name| gates.iter().any(|gate| gate["gate"] == *name)));
    let costs = value["costs"].as_array().unwrap();
    assert!(costs.len() >= 12);
    let os = costs.iter().find(|cost| cost["clock"] == "clock_gettime MONOTONIC").unwrap();
    assert!(os["cost_ns"].as_f64().unwrap() > 0.0);
    assert!(os["served_by"].is_string() || value["served_unknown"].is_string(), "{os}");
    assert!(value["findings"].is_array());
    let points = value["track"]["points"].as_array().unwrap();
    assert!(!points.is_empty());
    assert!(points.iter().all(|point| point["offset_ns"].is_number() && point["bound_after_ns"].is_u64()));
}

#[test]
fn json_goes_to_a_file_and_the_text_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("measurement.json");
    std::fs::write(&path, "what was there before").unwrap();
    let output = tickline().arg("--json").arg(&path).output().unwrap();
    code(&output);
    assert!(text(&output.stdout).contains("Clocks: "));
    let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(value["verdict"].as_str().unwrap().contains("tickline"));
    assert_eq!(entries(folder.path()), ["measurement.json"], "no temporary file is left");
}

/// The files contain facts of the machine, so a private umask or mode must apply to them.
#[cfg(unix)]
#[test]
fn the_umask_counts_for_new_files_and_old_ones_keep_their_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let program = env!("CARGO_BIN_EXE_tickline");
    let run = |umask: &str| {
        let script = format!("umask {umask}; exec '{program}' bench --rounds 1 --calls 1 --json run.json");
        let mut command = Command::new("sh");
        let output = command.args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    };
    run("077");
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    run("022");
    assert_eq!(mode(), 0o640);
    std::fs::remove_file(&path).unwrap();
    run("022");
    assert_eq!(mode(), 0o644);
}

#[test]
fn a_failed_write_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such/folder/measurement.json");
    let start = std::time::Instant::now();
    let output = tickline().args(["--secs", "3600", "--json"]).arg(&missing).output().unwrap();
    assert!(start.elapsed().as_secs() < 60, "it measured for an hour before it checked the place");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no/such/folder/measurement.json"), "{}", text(&output.stderr));
    assert!(entries(folder.path()).is_empty());

    // The place is taken by a folder.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    let output = tickline().args(["--secs", "3600", "--json"]).arg(&taken).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("taken: is a directory"), "{}", text(&output.stderr));

    // A folder takes the place during the measurement (or before it, if the start is slow), so the
    // file cannot be put there.
    let late = folder.path().join("late");
    let child =
        tickline().arg("--json").arg(&late).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::fs::create_dir(&late).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(2));
    let left = entries(folder.path());
    assert_eq!(left, ["late", "taken"], "a half file was left");
}

/// A device or a pipe is written to, not replaced by a file; a link stays a link.
#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_left_in_its_place() {
    use std::os::unix::fs::FileTypeExt;
    let folder = tempfile::tempdir().unwrap();
    let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link.json"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap())
    };
    code(&tickline().arg("--json").arg(&pipe).output().unwrap());
    serde_json::from_str::<Value>(&reader.join().unwrap()).unwrap();
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());

    std::os::unix::fs::symlink("target.json", &link).unwrap();
    std::fs::write(folder.path().join("target.json"), "what was there before").unwrap();
    code(&tickline().arg("--json").arg(&link).output().unwrap());
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let target = std::fs::read(folder.path().join("target.json")).unwrap();
    serde_json::from_slice::<Value>(&target).unwrap();
}

#[test]
fn a_full_disk_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = tickline().args(["--json", "-"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).starts_with("tickline: "), "{}", text(&output.stderr));
}

/// A check that could not write its line exited with 2, which means critical.
#[test]
fn a_check_on_a_full_disk_is_unknown() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    for arguments in [&["--check"][..], &["--check", "--nonsense"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = tickline().args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert!(text(&output.stderr).starts_with("tickline: "), "{}", text(&output.stderr));
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [&[][..], &["--json", "-"]] {
        let mut child =
            tickline().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Without a reader every write fails, as behind `head -1` after its line.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        code(&output);
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn bad_arguments_are_named() {
    for (arguments, expected) in [(["--secs", "0"], "1 to 3600"), (["--secs", "x"], "1 to 3600")] {
        let output = Command::new(env!("CARGO_BIN_EXE_tickline")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_tickline")).arg("--nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_closed_gate_is_exit_code_1_with_its_reason() {
    let output = tickline().args(["--json", "-"]).env("TICKLINE", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["fast"], &value["reason"]), (&Value::Bool(false), &Value::from("switched_off")));
    assert!(value["verdict"].as_str().unwrap().contains("the environment variable TICKLINE is off"));
}

#[test]
fn help_documents_the_exit_codes() {
    let output = Command::new(env!("CARGO_BIN_EXE_tickline")).arg("--help").output().unwrap();
    let help = text(&output.stdout);
    assert!(help.contains("Exit codes:") && help.contains("Examples:") && help.contains("--json"), "{help}");
}
