//! The measurements, and how long each of them takes.

use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::step;

/// A program of `benches/` and its arguments; its output is stored under `key`.
#[derive(Debug)]
pub(super) struct Measurement {
    pub(super) key: &'static str,
    /// Run so often, for a list of their outputs; once if `None`.
    processes: Option<u32>,
    command: String,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Of each long measurement, s.
    long_s: u64,
    /// Before a clock is watched, s.
    settle_s: u64,
    /// Rounds of readings, and of spans.
    rounds: u32,
    span_rounds: u32,
    /// Fresh processes for each clock's start-up.
    runs: u32,
    /// More processes in which drift is watched, since clocks calibrate anew in each, and how
    /// long, s.
    drift_processes: u32,
    drift_s: u64,
    /// For intervals of each length, s.
    intervals_s: u64,
    /// Exchanges of each clock, ms.
    clock_ms: u64,
}

impl Effort {
    /// Whether everything runs, in a third of a minute.
    pub(super) const SMOKE: Self = Self {
        long_s: 1,
        settle_s: 0,
        rounds: 5,
        span_rounds: 5,
        runs: 3,
        drift_processes: 1,
        drift_s: 1,
        intervals_s: 0,
        clock_ms: 40,
    };

    /// With 60 s: some nine minutes.
    pub(super) fn full(long_s: u64) -> Self {
        Self {
            long_s,
            settle_s: long_s.min(10),
            rounds: 200,
            span_rounds: 600,
            runs: 101,
            drift_processes: 8,
            drift_s: long_s.min(5),
            intervals_s: long_s.min(10),
            clock_ms: long_s.min(4) * 1_000,
        }
    }
}

/// Everything, in the order in which it is measured.
pub(super) fn suite(effort: Effort) -> Vec<Measurement> {
    let Effort { long_s, settle_s, .. } = effort;
    // Meanwhile the program learns how narrow brackets get.
    let accuracy_settle_s = settle_s.max(1);
    let once = |key, command: String| Measurement { key, processes: None, command };
    vec![
        once("cost", format!("ratios --rounds {}", effort.rounds)),
        once("startup", format!("startup --runs {}", effort.runs)),
        once("drift", format!("drift --secs {long_s} --settle {settle_s}")),
        Measurement {
            key: "drift_in_other_processes",
            processes: Some(effort.drift_processes),
            command: format!("drift --secs {} --settle {}", effort.drift_s, settle_s.min(2)),
        },
        once("intervals", format!("intervals --secs {}", effort.intervals_s)),
        once("order", format!("order --secs {long_s} --clock-ms {}", effort.clock_ms)),
        once(
            "accuracy_thread",
            format!("accuracy --secs {long_s} --settle {accuracy_settle_s} --driver thread"),
        ),
        once(
            "accuracy_reader",
            format!("accuracy --secs {long_s} --settle {accuracy_settle_s} --driver reader"),
        ),
        once("spans", format!("spans --rounds {}", effort.span_rounds)),
    ]
}

impl Measurement {
    /// What the program says.
    pub(super) fn run(&self) -> Result<Value, String> {
        let start = Instant::now();
        let line = format!("target/release/{} --json", self.command);
        println!("=== {}: {line}", self.key);
        let said = match self.processes {
            None => json(&line, &[0]),
            Some(times) => (0..times).map(|_| json(&line, &[0])).collect(),
        };
        println!("    {:.1} s", start.elapsed().as_secs_f64());
        said
    }
}

/// Builds whatever is run.
pub(super) fn build() -> Result<(), String> {
    let line = "cargo build --release -q -p tickline-benches -p tickline-cli";
    let status = step::command(line).and_then(|mut command| command.status().ok());
    if status.is_some_and(|status| status.success()) { Ok(()) } else { Err(format!("`{line}` failed")) }
}

/// The JSON that a command prints; it must end with one of these codes.
pub(super) fn json(line: &str, codes: &[i32]) -> Result<Value, String> {
    let mut command = step::command(line).ok_or("an empty command")?;
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("`{line}`: {error}"))?;
    if !output.status.code().is_some_and(|code| codes.contains(&code)) {
        return Err(format!("`{line}` ended with {}: nothing is recorded", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("`{line}` printed no JSON: {error}"))
}
