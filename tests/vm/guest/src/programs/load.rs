//! A running load, which gets a number of calls, makes them, and answers with its readings.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Deserialize;
use serde_json::Value;
use tickline_observe::monotonic_ns;

use crate::agreed::{Mode, Program};
use crate::lab::wait_for;
use crate::phase::{Counted, Figures, Measured, Readings};
use crate::system::{Killed, realtime_ns, send};

/// The longest wait for a load, after which it counts as hung. Java needs 20 s to start, and
/// Postgres as long for its table.
const PATIENCE: Duration = Duration::from_secs(180);

/// The output file of strace.
const TRACE: &str = "/tmp/trace";

/// The system calls that strace shows: those that the page may serve.
const TRACED: &str = "trace=clock_gettime,gettimeofday";

impl Mode {
    /// The words before a command.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Native => "",
            Self::Run => "/usr/bin/tickline run --",
            Self::Preload => "env LD_PRELOAD=/usr/lib/libtickline_preload.so",
        }
    }
}

impl Program {
    pub(super) fn is_built(&self) -> bool {
        Path::new("/opt").join(&self.file).exists()
    }

    fn start(&self, mode: Mode) -> Command {
        if self.is_server {
            let mut command = super::command(&self.command);
            command.env("RUN", mode.prefix());
            return command;
        }
        super::command(&format!("{} {}", mode.prefix(), self.command))
    }
}

impl Readings {
    /// Adds the readings of a clock in an answer, and returns the last one, ns. `returned_ns` is a
    /// reading from before the answer.
    pub(super) fn add(&mut self, clock: &Value, returned_ns: Option<u64>) -> Option<u64> {
        let number = |index: usize| clock[index].as_u64();
        let calls = number(0)?;
        let back = number(1)?;
        let first_ns = number(2)?;
        let last_ns = number(3)?;
        let resolution_ns = number(4)?;
        let before_ns = number(5)?;
        let after_ns = number(6)?;
        self.calls += calls;
        self.backward += back;
        self.below_others +=
            u64::from(returned_ns.is_some_and(|returned_ns| first_ns < returned_ns));
        self.below_os_ns = self
            .below_os_ns
            .max(before_ns.saturating_sub(first_ns + resolution_ns));
        self.above_os_ns = self.above_os_ns.max(last_ns.saturating_sub(after_ns));
        Some(last_ns)
    }
}

impl Measured {
    /// Adds an answer, which must be for this number of calls.
    pub(super) fn add(&mut self, answer: &Value, calls: u64) -> Result<()> {
        for (clock, readings) in [
            ("monotonic", &mut self.monotonic),
            ("realtime", &mut self.realtime),
        ] {
            if readings.add(&answer[clock], None).is_some() && answer[clock][0] != calls {
                return Err(format!("{clock}: {} calls of {calls}", answer[clock][0]).into());
            }
        }
        let batch = answer["batch"][0].as_f64().zip(answer["batch"][1].as_f64());
        let time = |index: usize| answer["realtime"][index].as_u64();
        // A server has no batches, and returns only the time of day.
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let server = || Some((calls as f64, time(3)?.saturating_sub(time(2)?) as f64));
        let (calls, ns) = batch.or_else(server).ok_or("it says no times")?;
        lower(&mut self.ns, Some(ns / calls));
        let figures = Figures::deserialize(&answer["figures"]).unwrap_or_default();
        lower(
            &mut self.figures.pg_test_timing_ns,
            figures.pg_test_timing_ns,
        );
        lower(&mut self.figures.explain_on_ms, figures.explain_on_ms);
        lower(&mut self.figures.explain_off_ms, figures.explain_off_ms);
        Ok(())
    }
}

/// Lowers the smallest figure so far to the next one.
fn lower(smallest: &mut Option<f64>, next: Option<f64>) {
    *smallest = (*smallest).into_iter().chain(next).reduce(f64::min);
}

/// A result whose error goes into the report.
pub(super) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A running load.
pub(super) struct Load {
    child: Killed,
    answers: Receiver<String>,
    errors: String,
    pids: Vec<String>,
}

impl Load {
    /// Starts the load, and waits until it is ready.
    pub(super) fn start(program: &Program, mode: Mode) -> Result<Self> {
        let errors = format!("/tmp/{}.{mode}", program.name.replace(['/', ' '], "_"));
        let mut child = program
            .start(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?)
            .spawn()?;
        let output = child.stdout.take().ok_or("no standard output")?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(io::Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut load = Self {
            child: Killed(child),
            answers,
            errors,
            pids: Vec::new(),
        };
        let ready = load.answer()?;
        let pids = ready
            .strip_prefix("ready")
            .ok_or_else(|| format!("it says '{ready}'"))?;
        load.pids = pids.split_whitespace().map(str::to_owned).collect();
        if load.pids.is_empty() {
            load.pids.push(load.child.0.id().to_string());
        }
        Ok(load)
    }

    fn answer(&self) -> Result<String> {
        Ok(self
            .answers
            .recv_timeout(PATIENCE)
            .map_err(|error| format!("no answer: {error}; {}", self.messages()))?)
    }

    /// Whether a page is mapped in the memory of the load, or of the server that it has started.
    pub(super) fn has_page(&self) -> bool {
        let maps = |pid| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        self.pids
            .iter()
            .all(|pid| maps(pid).contains("/run/tickline/page.v1"))
    }

    /// The last lines that the load has written on standard error.
    pub(super) fn messages(&self) -> String {
        super::last_lines(&fs::read(&self.errors).unwrap_or_default(), 8)
    }

    /// Makes the load call each clock this many times. Adds the OS clock before and after the calls
    /// to the answer.
    pub(super) fn ask(&mut self, calls: u64) -> Result<Value> {
        let before_ns = [monotonic_ns(), realtime_ns()];
        let input = self.child.0.stdin.as_mut().ok_or("no standard input")?;
        input.write_all(format!("{calls}\n").as_bytes())?;
        let answer = self.answer()?;
        let after_ns = [monotonic_ns(), realtime_ns()];
        let mut answer: Value = serde_json::from_str(&answer)
            .map_err(|error| format!("{error}: it says '{answer}'"))?;
        for (clock, (before_ns, after_ns)) in ["monotonic", "realtime"]
            .into_iter()
            .zip(before_ns.into_iter().zip(after_ns))
        {
            if let Value::Array(entry) = &mut answer[clock] {
                entry.extend([before_ns.into(), after_ns.into()]);
            }
        }
        Ok(answer)
    }

    /// Calls [`ask`](Self::ask) under strace, and counts the system calls for the served clocks.
    /// Strace attaches to the running load, because `tickline run` can't start a traced program.
    pub(super) fn count_system_calls(&mut self, calls: u64) -> Result<Counted> {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", TRACED, "-e", "signal=none", "-o", TRACE]);
        for pid in &self.pids {
            strace.args(["-p", pid]);
        }
        let errors = "/tmp/strace.errors";
        let mut strace = strace.stderr(File::create(errors)?).spawn()?;
        let mut has_ended = false;
        wait_for(PATIENCE, || {
            thread::sleep(Duration::from_millis(20));
            has_ended = strace.try_wait().is_ok_and(|status| status.is_some());
            has_ended || self.pids.iter().all(|pid| is_traced(pid))
        });
        if has_ended || !self.pids.iter().all(|pid| is_traced(pid)) {
            return Err(
                format!("strace: {}", fs::read_to_string(errors).unwrap_or_default()).into(),
            );
        }
        let answer = self.ask(calls);
        send(&strace, Signal::SIGINT)?;
        strace.wait()?;
        answer?;
        let trace = fs::read_to_string(TRACE)?;
        let served = trace.lines().filter(|line| is_served(line)).count();
        Ok(Counted {
            calls,
            served_clocks: u64::try_from(served).unwrap_or(u64::MAX),
            server: String::new(),
        })
    }

    /// Ends the load by closing its input. Returns its exit code, and its messages on standard
    /// error.
    pub(super) fn end(mut self) -> Result<(Option<i32>, String)> {
        self.child.0.stdin.take();
        wait_for(PATIENCE, || {
            thread::sleep(Duration::from_millis(10));
            self.child.0.try_wait().is_ok_and(|status| status.is_some())
        });
        let status = self.child.0.try_wait()?.ok_or("it does not end")?;
        Ok((status.code(), self.messages()))
    }
}

/// Whether a process has a tracer.
fn is_traced(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| {
        line.strip_prefix("TracerPid:")
            .is_some_and(|pid| pid.trim() != "0")
    })
}

/// Whether a line of strace reports a call that the page could have served.
fn is_served(line: &str) -> bool {
    ["(CLOCK_MONOTONIC,", "(CLOCK_REALTIME,", "gettimeofday("]
        .iter()
        .any(|name| line.contains(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer() -> Value {
        let clock = [50_000, 0, 1_000, 5_001_000, 1, 900, 5_000_900];
        json!({ "monotonic": clock, "realtime": clock, "batch": [1_000, 90_000] })
    }

    /// The measurements of an answer with this value at `pointer`.
    fn measured(pointer: &str, value: u64) -> Result<Measured> {
        let mut answer = answer();
        let mut measured = Measured::default();
        *answer.pointer_mut(pointer).unwrap() = value.into();
        measured.add(&answer, 50_000).map(|()| measured)
    }

    #[test]
    fn times_that_step_back_or_are_outside_of_the_os_clock_are_counted() {
        let good = measured("/monotonic/1", 0).unwrap().monotonic;
        assert_eq!(
            (good.backward, good.below_os_ns, good.above_os_ns),
            (0, 0, 100)
        );
        assert_eq!(measured("/monotonic/1", 1).unwrap().monotonic.backward, 1);
        assert_eq!(
            measured("/monotonic/5", 1_100)
                .unwrap()
                .monotonic
                .below_os_ns,
            99
        );
        assert_eq!(
            measured("/realtime/6", 5_000_899)
                .unwrap()
                .realtime
                .above_os_ns,
            101
        );
        assert!(measured("/realtime/0", 49_999).is_err());
    }

    #[test]
    fn the_fastest_batch_counts_and_the_smallest_figure() {
        let mut measured = Measured::default();
        let mut add = |answer: &Value| {
            measured.add(answer, 50_000).unwrap();
            (measured.ns, measured.figures.explain_on_ms)
        };
        let mut answer = answer();
        assert_eq!(add(&answer), (Some(90.0), None));
        answer["batch"][1] = 80_000.into();
        answer["figures"]["explain_on_ms"] = 7.5.into();
        assert_eq!(add(&answer), (Some(80.0), Some(7.5)));
        answer["batch"][1] = 85_000.into();
        answer["figures"]["explain_on_ms"] = 8.5.into();
        assert_eq!(add(&answer), (Some(80.0), Some(7.5)));
        // A server's answer.
        let server = json!({ "realtime": [50_000, 0, 1_000, 3_501_000, 1_000, 900, 5_000_900] });
        assert_eq!(add(&server).0, Some(70.0));
    }
}
