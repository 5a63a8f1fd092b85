//! `warp`, `watch` and `bench` as users run them.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{code, text};

fn tickline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
    command.args(arguments).env_remove("TICKLINE").stdin(Stdio::null());
    command
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

#[test]
fn bad_arguments_are_named_with_their_limits() {
    for (arguments, parts) in [
        (&["warp", "--cpus", "3-1"][..], &["3-1", "0-3,8"][..]),
        (&["warp", "--cpus", ""], &["is not a list of CPUs"]),
        (&["warp", "--cpus", "9000"], &["9000", "8191"]),
        (&["warp", "--cpus", "8191"], &["cannot run on CPU 8191"]),
        (&["warp", "--pairs", "some"], &["some", "all", "star"]),
        (&["watch", "--cpus", "8191"], &["cannot run on CPU 8191"]),
        (&["watch", "--secs", "0"], &["0", "1 to 31536000"]),
        (&["watch", "--interval", "0.01"], &["0.01", "0.05 to 3600"]),
        (&["watch", "--interval", "NaN"], &["NaN", "0.05 to 3600"]),
        (&["watch", "--interval", "x"], &["x", "0.05 to 3600"]),
        (&["watch", "--csv", "no/such/folder/a.csv"], &["no/such/folder/a.csv: No such file"]),
        (&["watch", "--csv", "-", "--json", "-"], &["only one of them"]),
        (&["bench", "--json", "no/such/folder/a.json"], &["no/such/folder/a.json: No such file"]),
        (&["bench", "--rounds", "0"], &["0", "1 to 100000"]),
        (&["bench", "--rounds", "100001"], &["100001", "1 to 100000"]),
        (&["bench", "--calls", "1000000001"], &["1000000001", "1 to 1000000000"]),
        (&["bench", "--compare", "no/such.json"], &["no/such.json: No such file"]),
        (&["bench", "--compare", "Cargo.toml"], &["Cargo.toml: not the JSON of a run"]),
    ] {
        let output = tickline(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        let error = text(&output.stderr);
        assert!(parts.iter().all(|part| error.contains(part)), "{arguments:?}: {error}");
    }
}

#[test]
fn each_command_has_help_with_examples_and_exit_codes() {
    for command in ["warp", "watch", "bench"] {
        let help = text(&tickline(&[command, "--help"]).output().unwrap().stdout);
        for part in ["Exit codes:", "Examples:", &format!("tickline {command}"), "--json"] {
            assert!(help.contains(part), "no {part} in:\n{help}");
        }
    }
}

#[test]
fn warp_reports_every_pair() {
    let output = tickline(&["warp", "--json", "-"]).output().unwrap();
    let (code, value) = (code(&output), json(&output));
    assert_eq!((&value["schema"], &value["command"]), (&Value::from("tickline/2"), &Value::from("warp")));
    let warp = &value["warp"];
    let known = warp["synchronised"] == true && warp.get("untested_cpus").is_none();
    assert_eq!(code == 0, known, "{warp}");
    let (cpus, pairs) = (warp["cpus"].as_array().unwrap().len(), warp["pairs"].as_array().unwrap());
    if let Some(why) = warp["unknown"].as_str() {
        assert!(pairs.is_empty());
        return eprintln!("SKIPPED: {why}");
    }
    let expected = if cpus <= 64 { cpus * (cpus - 1) / 2 } else { cpus - 1 };
    assert_eq!(pairs.len(), expected);
    for pair in pairs {
        assert!(pair["from_cpu"].as_u64() < pair["to_cpu"].as_u64());
        let ends = (pair["offset_least_ns"].as_f64(), pair["offset_most_ns"].as_f64());
        assert_eq!(ends.0.is_some(), pair["synchronised"].is_boolean(), "{pair}");
        assert!(ends.0 <= ends.1, "{pair}");
    }
}

#[test]
fn warp_is_a_table_and_a_map_without_colours_where_there_is_no_terminal() {
    let output = tickline(&["warp"]).env("CLICOLOR", "1").output().unwrap();
    code(&output);
    let out = text(&output.stdout);
    assert!(!out.contains('\u{1b}'), "{out}");
    assert_eq!(text(&output.stderr), "");
    if out.contains("could not be compared:")
        || out.contains("nothing to compare")
        || out.starts_with("Untested")
    {
        return eprintln!("SKIPPED: {out}");
    }
    for part in ["Pairs: ", "exchanges", "largest warp", "! unsynchronised", "Largest possible difference"] {
        assert!(out.contains(part), "no {part} in:\n{out}");
    }
}

#[test]
fn watch_writes_a_line_a_sample_and_a_summary_where_there_is_no_terminal() {
    let output = tickline(&["watch", "--secs", "1", "--interval", "0.25"]).output().unwrap();
    code(&output);
    let out = text(&output.stdout);
    assert!(!out.contains('\u{1b}'), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("offset ns") && lines[0].contains("skew ppb"), "{out}");
    let at = lines[1..].iter().map_while(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let at: Vec<f64> = at.collect();
    assert!(at.len() >= 2 && at.windows(2).all(|pair| pair[0] < pair[1]), "{out}");
    for part in ["Watched for ", "as requested", "offset", "bound", "skew", "events"] {
        assert!(out.contains(part), "no {part} in:\n{out}");
    }
}

/// Every row has every column, and each figure is one.
fn check_csv(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("the table");
    assert_eq!(bytes.last(), Some(&b'\n'), "a half row: {}", text(&bytes));
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let heads = reader.headers().expect("headings").clone();
    let column = |name: &str| heads.iter().position(|head| head == name).expect("the column");
    let (at, cpu, offset, skew) = (column("at_s"), column("cpu"), column("offset_ns"), column("skew_ppb"));
    let (state, events) = (column("state"), column("publication_events"));
    let mut samples = 0;
    for row in reader.records() {
        let row = row.expect("a row as long as the headings");
        assert!(row[at].parse::<f64>().is_ok() && row[offset].parse::<f64>().is_ok(), "{row:?}");
        assert!(["fast", "calibrating", "disrupted", "fallback"].contains(&&row[state]), "{row:?}");
        assert!(row[skew].is_empty() || row[skew].parse::<f64>().is_ok(), "{row:?}");
        if row[cpu].is_empty() {
            samples += 1;
            assert!(row[events].parse::<u64>().is_ok(), "{row:?}");
        } else {
            assert!(row[cpu].parse::<u32>().is_ok(), "{row:?}");
        }
    }
    samples
}

#[test]
fn watch_writes_csv_to_a_file_and_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.csv");
    std::fs::write(&path, "what was there before").unwrap();
    let mut command = tickline(&["watch", "--secs", "1", "--interval", "0.2", "--csv"]);
    code(&command.arg(&path).output().unwrap());
    assert!(check_csv(&path) >= 2);

    let output = tickline(&["watch", "--secs", "1", "--interval", "0.2", "--csv", "-"]).output().unwrap();
    code(&output);
    assert!(text(&output.stderr).contains("Watched for"), "the summary goes elsewhere");
    std::fs::write(&path, &output.stdout).unwrap();
    assert!(check_csv(&path) >= 2);
}

#[test]
fn watch_as_json_has_the_samples_and_their_summary() {
    let output = tickline(&["watch", "--secs", "1", "--interval", "0.2", "--json", "-"]).output().unwrap();
    code(&output);
    let value = json(&output);
    assert_eq!(
        (&value["command"], &value["watch"]["ended_by"]),
        (&Value::from("watch"), &Value::from("time"))
    );
    let samples = value["watch"]["samples"].as_u64().unwrap();
    assert_eq!(value["track"]["points"].as_array().unwrap().len(), usize::try_from(samples).unwrap());
    assert!(value["watch"]["events"]["publication"].is_u64());
    assert!(value["watch"]["most_offset_ns"].as_f64() >= value["watch"]["least_offset_ns"].as_f64());
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Waits for the child, but not for ever.
fn ended(mut child: Child) -> (i32, String) {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > Duration::from_secs(30) {
            child.kill().expect("a child");
            panic!("it does not stop");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut rest = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut rest).expect("its output");
    }
    (status.code().unwrap_or(-1), rest)
}

/// `watch` writing rows to `path`, its output, and the first lines of that.
#[cfg(unix)]
fn watching(path: &Path, lines: usize) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut command = tickline(&["watch", "--interval", "0.05", "--csv"]);
    let mut child = command.arg(path).stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    for _ in 0..lines {
        output.read_line(&mut text).expect("its output is text");
    }
    (child, output, text)
}

#[cfg(unix)]
#[test]
fn watch_stops_by_a_signal_with_a_whole_table_and_a_summary() {
    for name in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.csv");
        let (child, mut lines, mut text) = watching(&path, 4);
        signal(&child, name);
        let (code, _) = ended(child);
        lines.read_to_string(&mut text).unwrap();
        assert!(code == 0 || code == 1, "{name}: exit code {code}");
        assert!(text.contains("until stopped") && text.contains("Watched for"), "{name}: {text}");
        assert!(check_csv(&path) >= 3);
    }
}

#[cfg(unix)]
#[test]
fn watch_that_is_killed_leaves_whole_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.csv");
    let (mut child, _lines, _) = watching(&path, 5);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(check_csv(&path) >= 4, "each row is there before its line is");
}

/// The rows were written, and then replaced by the document.
#[test]
fn rows_and_document_are_not_written_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), "of value").unwrap();
    let mut command = tickline(&["watch", "--secs", "3600", "--csv", "x", "--json", "./x"]);
    let output = command.current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("one place for two documents"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(folder.path().join("x")).unwrap(), b"of value");
}

/// `nohup` makes the program ignore hangups, but one ended the watch all the same.
#[cfg(target_os = "linux")]
#[test]
fn an_ignored_signal_does_not_end_the_watch() {
    let program = env!("CARGO_BIN_EXE_tickline");
    let script = format!("trap '' HUP; exec '{program}' watch --interval 0.05 --secs 2 --json -");
    let mut child = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let killed = Command::new("sh").args(["-c", &format!("kill -HUP {}", child.id())]).status().unwrap();
    assert!(killed.success());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["watch"]["ended_by"], "time");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_watch() {
    for arguments in [&["watch", "--interval", "0.05"][..], &["watch", "--interval", "0.05", "--csv", "-"]] {
        let mut child = tickline(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("offset"), "{line}");
        let (code, _) = ended(child);
        assert!(code == 0 || code == 1, "{arguments:?}: exit code {code}");
    }
}

/// The write of the headings failed, and that was an error.
#[cfg(unix)]
#[test]
fn a_reader_that_leaves_before_the_first_row_is_no_error() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    for arguments in [&["watch"][..], &["watch", "--csv", "-"], &["watch", "--secs", "1", "--json", "-"]] {
        let (reader, writer) = UnixStream::pair().unwrap();
        drop(reader);
        let writer = OwnedFd::from(writer);
        let (code, _) = ended(tickline(arguments).stdout(writer).stderr(Stdio::null()).spawn().unwrap());
        assert!(code == 0 || code == 1, "{arguments:?}: exit code {code}");
    }
}

#[test]
fn watch_and_bench_work_without_the_counter() {
    let off = |arguments: &[&str]| tickline(arguments).env("TICKLINE", "off").output().unwrap();
    let output = off(&["watch", "--secs", "1", "--interval", "0.3"]);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    assert!(out.contains(" fallback") && out.contains("TICKLINE is off"), "{out}");
    assert!(out.contains(" 0 served by the counter") && out.contains("skew     unknown"), "{out}");
    let output = off(&["bench", "--rounds", "2", "--calls", "1000", "--json", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["reason"], "switched_off");
}

#[test]
fn bench_compares_with_its_own_earlier_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("before.json");
    let few = ["bench", "--rounds", "5", "--calls", "1000"];
    let output = tickline(&few).arg("--json").arg(&path).output().unwrap();
    code(&output);
    let out = text(&output.stdout);
    for part in ["5 rounds", "median", "clock_gettime MONOTONIC_COARSE", "Long run: 1000 calls"] {
        assert!(cfg!(not(target_os = "linux")) || out.contains(part), "no {part} in:\n{out}");
    }
    let before: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let costs = before["costs"].as_array().unwrap();
    for cost in costs.iter().filter(|cost| cost["cost_ns"].is_number()) {
        let figure = |name: &str| cost[name].as_f64().unwrap();
        assert!(
            figure("cost_ns") <= figure("median_ns") && figure("median_ns") <= figure("p90_ns"),
            "{cost}"
        );
    }

    let output = tickline(&few).arg("--compare").arg(&path).args(["--json", "-"]).output().unwrap();
    code(&output);
    let compared = &json(&output)["bench"]["compared"];
    let had = costs.iter().filter(|cost| cost["cost_ns"].is_number()).count();
    assert_eq!(compared["clocks"].as_array().unwrap().len(), had, "{compared}");
    assert_eq!(compared["differences"].as_array().unwrap().len(), 0, "{compared}");
    for row in compared["clocks"].as_array().unwrap() {
        let ratio = row["now_ns"].as_f64().unwrap() / row["then_ns"].as_f64().unwrap();
        assert!((row["ratio_to_then"].as_f64().unwrap() - ratio).abs() < 1e-9, "{row}");
    }

    // A clock that is missing is named; a run that has no costs is refused.
    let mut other = before.clone();
    other["costs"][0]["clock"] = Value::from("a sundial");
    std::fs::write(&path, other.to_string()).unwrap();
    let output = tickline(&few).arg("--compare").arg(&path).output().unwrap();
    code(&output);
    let out = text(&output.stdout);
    assert!(out.contains("a sundial") && out.contains("then only"), "{out}");
    assert!(out.lines().any(|line| line.contains("tickline::now_ns") && line.contains("now only")), "{out}");
    other["costs"] = Value::Array(Vec::new());
    std::fs::write(&path, other.to_string()).unwrap();
    let output = tickline(&few).arg("--compare").arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("it has no costs"), "{}", text(&output.stderr));
}

/// Tests on a pseudo-terminal: the program draws the view, a key ends it, and the terminal is
/// restored.
#[cfg(unix)]
mod terminal {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

    use super::*;

    struct Terminal {
        ours: std::fs::File,
        theirs: std::fs::File,
    }

    impl Terminal {
        fn open(ws_col: u16, ws_row: u16) -> Self {
            let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
            grantpt(&ours).expect("a pseudo-terminal");
            unlockpt(&ours).expect("a pseudo-terminal");
            tcsetwinsize(&ours, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })
                .expect("a pseudo-terminal");
            let name = ptsname(&ours, Vec::new()).expect("a pseudo-terminal");
            let theirs = std::fs::File::options()
                .read(true)
                .write(true)
                .open(name.to_str().expect("a pseudo-terminal"))
                .expect("a pseudo-terminal");
            Self { ours: ours.into(), theirs }
        }

        fn run(&self, arguments: &[&str], no_color: Option<&str>) -> Child {
            let end = || Stdio::from(self.theirs.try_clone().expect("a pseudo-terminal"));
            let mut command = tickline(arguments);
            command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
            command.envs(no_color.map(|value| ("NO_COLOR", value)));
            command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("a child")
        }

        fn modes(&self) -> Termios {
            tcgetattr(&self.theirs).expect("a pseudo-terminal")
        }

        /// What is written until it contains `part`.
        fn until(&mut self, part: &str) -> String {
            let (mut all, mut some) = (Vec::new(), [0; 4096]);
            while !text(&all).contains(part) {
                let length = self.ours.read(&mut some).expect("a pseudo-terminal");
                all.extend_from_slice(&some[..length]);
            }
            text(&all)
        }

        /// What is written until the child has gone.
        fn rest(self) -> String {
            let Self { mut ours, theirs } = self;
            drop(theirs);
            let (mut all, mut some) = (Vec::new(), [0; 4096]);
            // Linux reports the closed other end by an error.
            while let Ok(length @ 1..) = ours.read(&mut some) {
                all.extend_from_slice(&some[..length]);
            }
            text(&all)
        }
    }

    #[test]
    fn watch_draws_on_a_terminal_and_leaves_it_as_it_was() {
        const LEFT: &str = "\u{1b}[?1049l";
        for (columns, rows) in [(100, 30), (20, 4)] {
            for stop in ["key", "signal"] {
                let mut terminal = Terminal::open(columns, rows);
                let before = terminal.modes();
                let child = terminal.run(&["watch", "--interval", "0.1"], None);
                let mut shown = terminal.until("offset");
                if stop == "key" {
                    terminal.ours.write_all(b"q").unwrap();
                } else {
                    signal(&child, "INT");
                }
                shown += &terminal.until("until stopped");
                let (code, _) = ended(child);
                assert!(code == 0 || code == 1, "exit code {code}");
                assert!(shown.contains("\u{1b}[?1049h") && shown.contains(LEFT), "{shown:?}");
                assert!(
                    shown.find(LEFT) < shown.find("Watched for"),
                    "the summary stays to be seen: {shown:?}"
                );
                let after = terminal.modes();
                assert_eq!(before.local_modes, after.local_modes);
                assert_eq!(before.input_modes, after.input_modes);
            }
        }
    }

    #[test]
    fn warp_is_coloured_on_a_terminal_without_no_color() {
        for (no_color, coloured) in [(None, true), (Some("1"), false)] {
            let terminal = Terminal::open(100, 30);
            let child = terminal.run(&["warp"], no_color);
            let shown = terminal.rest();
            let (code, _) = ended(child);
            // 3: kept from some CPUs.
            assert!([0, 1, 3].contains(&code), "exit code {code}");
            if !shown.contains("Largest possible difference") {
                return eprintln!("SKIPPED: {shown}");
            }
            assert_eq!(shown.contains("\u{1b}[48;5;"), coloured, "{shown:?}");
        }
    }

    /// Ctrl-Z was taken for any key, since the terminal is in raw mode.
    #[cfg(target_os = "linux")]
    #[test]
    fn watch_can_be_suspended_and_continued() {
        const LEFT: &str = "\u{1b}[?1049l";
        const ENTERED: &str = "\u{1b}[?1049h";
        let mut terminal = Terminal::open(100, 30);
        let before = terminal.modes();
        let child = terminal.run(&["watch", "--interval", "0.1"], None);
        terminal.until("offset");
        for by_key in [true, false] {
            if by_key {
                terminal.ours.write_all(b"\x1a").unwrap();
            } else {
                signal(&child, "TSTP");
            }
            terminal.until(LEFT);
            let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            while !stat().contains(") T ") {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(before.local_modes, terminal.modes().local_modes, "the shell's");
            signal(&child, "CONT");
            // One read may bring this together with the figures.
            terminal.until(ENTERED);
        }
        terminal.ours.write_all(b"q").unwrap();
        terminal.until("until stopped");
        let (code, _) = ended(child);
        assert!(code == 0 || code == 1, "exit code {code}");
    }

    /// Tables of 80 to 100 columns were broken by the terminal, in the middle of words.
    #[test]
    fn each_command_fits_a_terminal_of_40_and_of_80_columns() {
        for columns in [40, 80] {
            for arguments in [
                &["bench", "--rounds", "2", "--calls", "100"][..],
                &["warp"],
                &["doctor"],
                &["who", "--secs", "1"],
            ] {
                let terminal = Terminal::open(columns, 30);
                let child = terminal.run(arguments, Some("1"));
                let shown = terminal.rest();
                ended(child);
                // Lines of the progress bar steer the cursor. Commands stay whole, to be copied.
                let is_text = |line: &&str| !line.contains('\u{1b}') && !line.contains("sudo ");
                let long = |line: &&str| line.trim_end().chars().count() > usize::from(columns);
                let long: Vec<&str> = shown.lines().filter(is_text).filter(long).collect();
                assert!(long.is_empty(), "{arguments:?} on {columns} columns: {long:?}");
            }
        }
    }

    #[test]
    fn the_doctor_fits_a_terminal_of_40_columns_in_colour() {
        let facts = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/numa-watchdog.json");
        for (no_color, coloured) in [(None, true), (Some("1"), false)] {
            let terminal = Terminal::open(40, 30);
            let child = terminal.run(&["--facts", facts], no_color);
            let shown = terminal.rest();
            assert_eq!(ended(child).0, 1);
            assert_eq!(shown.contains("\u{1b}["), coloured, "{shown}");
            if !coloured {
                // A word that is longer than a line has a line of its own.
                let long = |line: &&str| line.trim_end().chars().count() > 40;
                assert!(shown.lines().filter(long).all(|line| !line.trim().contains(' ')), "{shown}");
            }
        }
    }
}
