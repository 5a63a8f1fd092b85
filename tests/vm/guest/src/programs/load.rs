//! One running load. It gets a number of calls, makes them, and answers with its readings.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Deserialize;
use serde_json::{Value, json};
use tickline_observe::monotonic_ns;

use crate::brackets::name;
use crate::lab::wait_for;
use crate::system::{realtime_ns, send};

/// A load that takes longer than this hangs. Java needs 20 s to start, and Postgres as long for its
/// table.
const PATIENCE: Duration = Duration::from_secs(180);

const LIBRARY: &str = "/usr/lib/libtickline_preload.so";
const RUN: &str = "/usr/bin/tickline run --";

/// Where strace writes.
const TRACE: &str = "/tmp/trace";

/// The system calls that strace counts. The page does not serve `time`, which is a system call of
/// its own.
const TRACED: &str = "trace=clock_gettime,gettimeofday,time";

/// The way in which a program gets tickline's clock, if at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Native,
    Run,
    Preload,
}

impl Mode {
    /// The words that this mode puts before a command.
    pub(super) fn prefix(self) -> String {
        match self {
            Self::Native => String::new(),
            Self::Run => RUN.to_owned(),
            Self::Preload => format!("env LD_PRELOAD={LIBRARY}"),
        }
    }
}

/// A program of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) command: String,
    /// The command starts a server, with the words of `RUN` before it.
    #[serde(rename = "server")]
    pub(super) is_server: bool,
    #[serde(rename = "static")]
    pub(super) is_static: bool,
    #[serde(rename = "handed_over")]
    pub(super) is_handed_over: bool,
}

impl Program {
    /// The ways in which this program can be run. A static program preloads nothing.
    pub(super) fn modes(&self) -> impl Iterator<Item = Mode> {
        [Mode::Native, Mode::Run, Mode::Preload].into_iter().take(if self.is_static { 2 } else { 3 })
    }

    fn start(&self, mode: Mode) -> Command {
        let prefix = mode.prefix();
        if self.is_server {
            let mut command = super::command(&self.command);
            command.env("RUN", prefix);
            return command;
        }
        super::command(&format!("{prefix} {}", self.command))
    }
}

/// A running load; killed when dropped.
pub(super) struct Load {
    child: Child,
    answers: Receiver<String>,
    errors: String,
    pids: Vec<String>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Load {
    /// Starts the load, and waits until it is ready.
    pub(super) fn start(program: &Program, mode: Mode) -> io::Result<Self> {
        let errors = format!("/tmp/{}.{}", program.name.replace(['/', ' '], "_"), name(mode));
        let mut child = program
            .start(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?)
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut load = Self { child, answers, errors, pids: Vec::new() };
        let ready = load.answer()?;
        let pids =
            ready.strip_prefix("ready").ok_or_else(|| io::Error::other(format!("it says '{ready}'")))?;
        load.pids = pids.split_whitespace().map(str::to_owned).collect();
        if load.pids.is_empty() {
            load.pids.push(load.child.id().to_string());
        }
        Ok(load)
    }

    fn answer(&self) -> io::Result<String> {
        let answer = self.answers.recv_timeout(PATIENCE);
        answer.map_err(|error| io::Error::other(format!("no answer: {error}; {}", self.said())))
    }

    /// Whether a page is mapped in the load's memory, or in that of a server that it has started.
    pub(super) fn has_page(&self) -> bool {
        let maps = |pid| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        self.pids.iter().all(|pid| maps(pid).contains("/run/tickline/page.v1"))
    }

    /// The last lines that the load has written on standard error.
    pub(super) fn said(&self) -> String {
        super::last_lines(&fs::read(&self.errors).unwrap_or_default(), 8)
    }

    /// Makes the load call each clock this many times. Adds the OS clock before and after the calls
    /// to the answer.
    pub(super) fn ask(&mut self, calls: u64) -> io::Result<Value> {
        let before_ns = [monotonic_ns(), realtime_ns()];
        let input = self.child.stdin.as_mut().ok_or_else(|| io::Error::other("no standard input"))?;
        input.write_all(format!("{calls}\n").as_bytes())?;
        let answer = self.answer()?;
        let after_ns = [monotonic_ns(), realtime_ns()];
        let mut seen: Value = serde_json::from_str(&answer)
            .map_err(|error| io::Error::other(format!("{error}: it says '{answer}'")))?;
        for (clock, (before_ns, after_ns)) in
            ["monotonic", "realtime"].into_iter().zip(before_ns.into_iter().zip(after_ns))
        {
            if let Value::Array(entry) = &mut seen[clock] {
                entry.extend([before_ns.into(), after_ns.into()]);
            }
        }
        Ok(seen)
    }

    /// As [`ask`](Self::ask), under strace. Strace attaches to the running load, because `tickline
    /// run` can't start a traced program. Counts the calls of the served clocks, and other calls.
    pub(super) fn counted(&mut self, calls: u64) -> io::Result<Value> {
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
            let said = fs::read_to_string(errors).unwrap_or_default();
            return Err(io::Error::other(format!("strace: {said}")));
        }
        let seen = self.ask(calls);
        send(strace.id(), Signal::SIGINT)?;
        strace.wait()?;
        seen?;
        let trace = fs::read_to_string(TRACE)?;
        let count = |wanted: fn(&str) -> bool| trace.lines().filter(|line| wanted(line)).count();
        let (all, served) = (count(is_call), count(is_served));
        Ok(json!({ "calls": calls, "served_clocks": served, "others": all - served }))
    }

    /// Ends the load by closing its input. Returns its exit code, and its messages on standard
    /// error.
    pub(super) fn end(mut self) -> io::Result<(Option<i32>, String)> {
        self.child.stdin.take();
        wait_for(PATIENCE, || {
            thread::sleep(Duration::from_millis(10));
            self.child.try_wait().is_ok_and(|status| status.is_some())
        });
        let status = self.child.try_wait()?.ok_or_else(|| io::Error::other("it does not end"))?;
        Ok((status.code(), self.said()))
    }
}

/// Whether a process has a tracer.
fn is_traced(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
}

/// Whether a line of strace reports a call, and not a call's end or a signal.
fn is_call(line: &str) -> bool {
    ["clock_gettime(", "gettimeofday(", " time("].iter().any(|name| line.contains(name))
}

/// Whether the page could have served this call.
fn is_served(line: &str) -> bool {
    ["(CLOCK_MONOTONIC,", "(CLOCK_REALTIME,", "gettimeofday("].iter().any(|name| line.contains(name))
}
