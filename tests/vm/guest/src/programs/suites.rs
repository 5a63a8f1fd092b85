//! The tests for time that programs of Debian bring along: which of them pass natively, under
//! `tickline run` and with the library in LD_PRELOAD.
//!
//! `/opt/suites.json` lists them. A suite reports each test in a line, see `result`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Child, Command, Output};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::load::{MODES, Mode};
use crate::{machine, report};

/// Where the suites are, and where they may write.
const ORIGINAL: &str = "/opt/suites";
const COPY: &str = "/tmp/suites";

/// Where a suite reports its tests, unless on its standard output.
const RESULTS: &str = "/tmp/results";

/// `timeout` ends a suite that hangs. Go's takes 45 s here, or 170 on a busy host.
const TIMEOUT: &str = "timeout -k 5 900";

/// How often the guest says that it runs: a suite takes longer than the host waits for a silent
/// one.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// How often a server is started: on a busy host it may be unable to compare the counters, and then
/// does not serve.
const STARTS: u32 = 3;

/// For how long a page may have no line.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a test that has failed in some mode is repeated alone, in each mode, until it passes:
/// the emulated machine is slow, and tests have limits of time.
const REPEATS: u32 = 3;

/// More failed tests than these are not repeated.
const MOST_REPEATED: usize = 20;

/// A suite of the list.
#[derive(Deserialize)]
struct Suite {
    name: String,
    folder: String,
    command: String,
    /// The command for `TEST` alone.
    alone: String,
    #[serde(rename = "static")]
    is_static: bool,
}

/// Each test's name, and `passed`, `failed` or `skipped`.
type Results = BTreeMap<String, &'static str>;

/// Runs every suite in every mode.
///
/// # Errors
///
/// If the list cannot be read, or nothing serves.
pub(crate) fn run() -> io::Result<()> {
    report::line(&machine::facts());
    let suites: Vec<Suite> = serde_json::from_slice(&fs::read("/opt/suites.json")?)?;
    super::install()?;
    let _server = serve()?;
    thread::spawn(|| {
        loop {
            thread::sleep(SIGN_OF_LIFE);
            report::line(&json!({ "phase": "running" }));
        }
    });
    report::line(&json!({ "phase": "serve", "status": super::status() }));
    for suite in &suites {
        let mut failed = Vec::new();
        for mode in MODES.into_iter().filter(|mode| suite.has(*mode)) {
            // What an earlier run has left is no matter of this one's.
            copy()?;
            let (results, mut seen) = suite.run(mode, &suite.command);
            failed.extend(
                results.iter().filter(|(_, result)| **result == "failed").map(|(name, _)| name.clone()),
            );
            seen["phase"] = "suite".into();
            seen["suite"] = suite.name.as_str().into();
            seen["mode"] = mode.name().into();
            seen["serving"] = super::is_served(PATIENCE).into();
            seen["results"] = json!(results);
            report::line(&seen);
        }
        failed.sort_unstable();
        failed.dedup();
        for test in failed.iter().take_while(|_| failed.len() <= MOST_REPEATED) {
            suite.repeat(test);
        }
    }
    report::line(&json!({ "phase": "end", "server": fs::read_to_string(super::LOG).unwrap_or_default() }));
    Ok(())
}

/// Starts a server until one serves.
fn serve() -> io::Result<Child> {
    for _ in 0..STARTS {
        let mut server = super::serve()?;
        if super::is_served(PATIENCE) {
            return Ok(server);
        }
        server.kill()?;
        server.wait()?;
    }
    let log = fs::read_to_string(super::LOG).unwrap_or_default();
    Err(io::Error::other(format!("no page is served after {STARTS} starts: {log}")))
}

/// A fresh copy of the suites.
fn copy() -> io::Result<()> {
    fs::remove_dir_all(COPY).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let copied = Command::new("cp").args(["-r", ORIGINAL, COPY]).status()?;
    if copied.success() { Ok(()) } else { Err(io::Error::other("the suites cannot be copied")) }
}

impl Suite {
    fn has(&self, mode: Mode) -> bool {
        mode != Mode::Preload || !self.is_static
    }

    /// Runs a command in a mode. Returns the tests' results, and what else there is to say.
    fn run(&self, mode: Mode, line: &str) -> (Results, Value) {
        fs::remove_file(RESULTS).ok();
        let output = match self.output(mode, line) {
            Ok(output) => output,
            Err(error) => return (Results::new(), json!({ "error": error.to_string() })),
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        let told = fs::read_to_string(RESULTS).unwrap_or_default();
        let text = String::from_utf8_lossy(&output.stdout) + told.as_str();
        // PHP names a file by its whole path if it is the only one.
        let folder = format!("{COPY}/{}/", self.name);
        let results: Results = text
            .lines()
            .filter_map(result)
            .map(|(name, result)| (name.trim_start_matches(&folder).to_owned(), result))
            .collect();
        let tickline: Vec<&str> = errors.lines().filter(|line| line.starts_with("tickline:")).collect();
        let mut seen = json!({ "exit_code": output.status.code(), "tickline": tickline.join("\n") });
        // A whole suite says too much. A test that fails is repeated alone.
        if results.len() <= 1 && results.values().all(|result| *result == "failed") {
            seen["said"] = super::last_lines(&[output.stdout, output.stderr].concat(), 30).into();
        }
        (results, seen)
    }

    fn output(&self, mode: Mode, line: &str) -> io::Result<Output> {
        super::command(&[TIMEOUT, &mode.prefix(), line].join(" ").replace("RESULTS", RESULTS))
            .current_dir(format!("{COPY}/{}", self.folder))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LANG", "C.UTF-8")
            .env("GOROOT", format!("{COPY}/Go"))
            .output()
    }

    /// Runs one test alone, in each mode until it passes.
    fn repeat(&self, test: &str) {
        let line = self.alone.replace("TEST", test);
        for mode in MODES.into_iter().filter(|mode| self.has(*mode)) {
            let (mut outcomes, mut said) = (Vec::new(), Value::Null);
            while outcomes.len() < REPEATS as usize && outcomes.last() != Some(&"passed") {
                let (results, seen) = self.run(mode, &line);
                outcomes.push(results.get(test).copied().unwrap_or("missing"));
                said = seen["said"].clone();
            }
            report::line(&json!({
                "phase": "repeat", "suite": self.name, "test": test, "mode": mode.name(),
                "outcomes": outcomes, "said": said,
            }));
        }
    }
}

/// A test's name and result, if the line reports one: `PASSED`, a tab and the name, as PHP's
/// `run-tests.php -W` has it, and the runners in `tests/vm/programs`; or as Go's `-test.v` has it.
fn result(line: &str) -> Option<(String, &'static str)> {
    let (word, name) = match line.strip_prefix("--- ") {
        Some(told) => {
            let (word, rest) = told.split_once(": ")?;
            (word, rest.split(' ').next()?)
        }
        None => line.split_once('\t')?,
    };
    let result = match word {
        // XFAILED: it is expected to fail, and does.
        "PASS" | "PASSED" | "XFAILED" => "passed",
        "SKIP" | "SKIPPED" => "skipped",
        "FAIL" => "failed",
        // PHP has several words for it.
        _ if !word.is_empty() && word.chars().all(|letter| letter.is_ascii_uppercase()) => "failed",
        _ => return None,
    };
    Some((name.to_owned(), result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_tell_of_a_test_are_found() {
        for (line, expected) in [
            ("--- PASS: TestSleep (0.10s)", Some(("TestSleep", "passed"))),
            ("--- FAIL: TestSleep (0.10s)", Some(("TestSleep", "failed"))),
            ("--- SKIP: TestSleep (0.00s)", Some(("TestSleep", "skipped"))),
            // A part of a test: the test reports it.
            ("    --- FAIL: TestSleep/short (0.10s)", None),
            ("=== RUN   TestSleep", None),
            ("PASS", None),
            (
                "PASSED\text/standard/tests/time/001.phpt",
                Some(("ext/standard/tests/time/001.phpt", "passed")),
            ),
            ("XFAILED\tone.phpt", Some(("one.phpt", "passed"))),
            ("SKIPPED\tone.phpt", Some(("one.phpt", "skipped"))),
            ("FAILED\tone.phpt", Some(("one.phpt", "failed"))),
            ("WARNED\tone.phpt", Some(("one.phpt", "failed"))),
            ("BORKED\tone.phpt", Some(("one.phpt", "failed"))),
            ("PASS microtime() function [one.phpt] ", None),
            ("\tsomething else", None),
        ] {
            assert_eq!(result(line), expected.map(|(name, result)| (name.to_owned(), result)), "{line}");
        }
    }
}
