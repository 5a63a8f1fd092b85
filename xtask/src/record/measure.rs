//! Runs the programs of `benches/`, and describes the machine.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde::de::DeserializeOwned;

use super::file::{Found, Record, SCHEMA};
use super::is_unchanged;
use crate::changes::Other;
use crate::command::{command, command_of, must_succeed, output_of, words};
use crate::files::{read, target};
use crate::outcome::SOME_SKIPPED;

/// The number of further processes that measure drift, because clocks calibrate anew in each
/// process.
const DRIFT_PROCESSES: u64 = 8;

/// The length of each long measurement, s.
pub(super) const DEFAULT_SECS: u64 = 60;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    /// Long measurements take so many seconds.
    Full { secs: u64 },
    /// As little as possible, to test the commands.
    Smoke,
}

impl Extent {
    fn choose(self, full: u64, smoke: u64) -> u64 {
        match self {
            Self::Full { .. } => full,
            Self::Smoke => smoke,
        }
    }

    /// The length of a long measurement, but at most `most_s`.
    fn secs(self, most_s: u64) -> u64 {
        match self {
            Self::Full { secs } => secs.min(most_s),
            Self::Smoke => 1,
        }
    }

    /// The command, for the record.
    fn command(self) -> String {
        match self {
            Self::Full { secs: DEFAULT_SECS } => "cargo xtask record".to_owned(),
            Self::Full { secs } => format!("cargo xtask record --secs {secs}"),
            Self::Smoke => "cargo xtask record --smoke".to_owned(),
        }
    }
}

/// Builds the programs. Runs the program `tickline`, which describes the machine.
pub(super) fn describe_machine() -> Result<Found, String> {
    must_succeed(&mut command(
        "cargo build --release -q -p tickline-benches -p tickline-cli",
    ))?;
    let mut tickline = built("tickline");
    // It ends with 1 if the machine has a fault.
    run_for_json(tickline.args(["--duration", "1s", "--json", "-"]), &[0, 1])
}

/// Runs the programs of `benches/`. `found` is the output of the program `tickline`.
pub(super) fn measure(extent: Extent, found: Found) -> Result<Record, String> {
    let start = Instant::now();
    let mut machine = found.machine;
    let cpu = machine.cpu.as_deref().unwrap_or_default();
    let processor = processor(cpu, &read("/proc/cpuinfo")?);
    machine.cpus = std::thread::available_parallelism().map_or(1, usize::from);
    machine.result = found.result;
    let long_s = extent.secs(u64::MAX);
    let short_s = extent.secs(5);
    // The time for clocks to settle before a measurement.
    let settle_s = extent.secs(10);
    let rounds = extent.choose(200, 5);
    let cost = run_measurement(&format!("ratios --rounds {rounds}"))?;
    let runs = extent.choose(101, 3);
    let startup = run_measurement(&format!("startup --runs {runs}"))?;
    let drift = run_measurement(&format!("drift --secs {long_s} --settle {settle_s}"))?;
    let mut drift_in_other_processes = Vec::new();
    for _ in 0..extent.choose(DRIFT_PROCESSES, 1) {
        let settle_s = extent.choose(2, 0);
        let drift = run_measurement(&format!("drift --secs {short_s} --settle {settle_s}"))?;
        drift_in_other_processes.push(drift);
    }
    let clock_ms = extent.choose(4_000, 40);
    let order = run_measurement(&format!("order --secs {long_s} --clock-ms {clock_ms}"))?;
    let accuracy = format!("accuracy --secs {long_s} --settle {settle_s} --driver");
    let accuracy_thread = run_measurement(&format!("{accuracy} thread"))?;
    let accuracy_reader = run_measurement(&format!("{accuracy} reader"))?;
    let rounds = extent.choose(600, 5);
    let spans = run_measurement(&format!("spans --rounds {rounds}"))?;
    let rounds = extent.choose(5, 1);
    let records = extent.choose(100_000, 1_000);
    let traces = run_measurement(&format!("traces --rounds {rounds} --records {records}"))?;
    let commit = output_of("git rev-parse HEAD")?;
    Ok(Record {
        schema: SCHEMA.to_owned(),
        date: output_of("date -u +%F")?,
        command: extent.command(),
        tree_clean: is_unchanged(&commit, Other::PresentFiles),
        commit,
        rustc: output_of("rustc --version")?,
        processor,
        took_s: start.elapsed().as_secs(),
        machine,
        cost,
        startup,
        drift,
        drift_in_other_processes,
        order,
        accuracy_thread,
        accuracy_reader,
        spans,
        traces: Some(traces),
    })
}

/// Runs a program of `benches/`.
fn run_measurement<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let (program, options) = line.split_once(' ').unwrap_or((line, ""));
    let mut measurement = built(program);
    measurement.args(options.split_whitespace());
    println!("=== {}", words(&measurement));
    run_for_json(&mut measurement, &[0, SOME_SKIPPED])
}

/// The command of an optimised program; options follow.
fn built(program: &str) -> Command {
    command_of([target().join("release").join(program)])
}

/// Runs a command that must end with one of these codes. Returns the JSON that it prints. Shows
/// what it prints on the standard error stream: why it has skipped a part, or has failed.
fn run_for_json<T: DeserializeOwned>(command: &mut Command, codes: &[u8]) -> Result<T, String> {
    let line = words(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    let code = output.status.code();
    if !codes.iter().any(|known| code == Some((*known).into())) {
        return Err(format!(
            "`{line}` ended with {}: nothing is recorded",
            output.status
        ));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`{line}` printed another JSON: {error}"))
}

/// Why there is no bare counter to compare with, from the output of the program `tickline`; `None`
/// if there is a counter.
pub(super) fn no_counter(found: &Found) -> Option<String> {
    let is_closed = |name: &&str| {
        let mut gates = found.gates.iter();
        gates.any(|gate| gate.gate == *name && !gate.open)
    };
    let gate = ["supported", "readable"].into_iter().find(is_closed)?;
    Some(format!(
        "there is no counter that can be read, the gate {gate} is closed"
    ))
}

/// The processor's name in a record, without trade marks and clock rate. On x86 it includes family
/// and model, because many processors show the same name to guests.
fn processor(name: &str, cpuinfo: &str) -> String {
    let value = |key: &str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut lines = lines.map(|(found, value)| (found.trim(), value.trim()));
        lines
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value)
    };
    let mut name = name.split('@').next().unwrap_or_default().to_owned();
    for mark in ["(R)", "(TM)", "(r)", "(tm)"] {
        name = name.replace(mark, "");
    }
    let words: Vec<&str> = name
        .split_whitespace()
        .filter(|word| !["CPU", "Processor"].contains(word))
        .collect();
    let name = if words.is_empty() {
        "unknown".into()
    } else {
        words.join(" ")
    };
    match value("cpu family").zip(value("model")) {
        Some((family, model)) => format!("{name}, family {family}, model {model}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_of_the_counter_skips_the_measurements() {
        let found = |supported: bool, invariant: bool| -> Found {
            let gates = serde_json::json!({ "machine": {}, "result": null, "gates": [
                { "gate": "supported", "open": supported },
                { "gate": "invariant", "open": invariant },
            ] });
            serde_json::from_value(gates).unwrap()
        };
        assert_eq!(no_counter(&found(true, false)), None);
        let why = no_counter(&found(false, true)).unwrap();
        assert!(why.contains("the gate supported is closed"), "{why}");
    }

    #[test]
    fn a_processor_is_known_by_its_name_family_and_model() {
        let cpuinfo = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: x\n";
        let name = "Intel(R) Xeon(R) Processor @ 2.10GHz";
        assert_eq!(processor(name, cpuinfo), "Intel Xeon, family 6, model 207");
        assert_eq!(processor("Neoverse-N1", "processor\t: 0\n"), "Neoverse-N1");
        assert_eq!(processor("", ""), "unknown");
    }

    #[test]
    fn the_command_of_a_record_measures_as_long_again() {
        assert_eq!(Extent::Full { secs: 60 }.command(), "cargo xtask record");
        assert_eq!(
            Extent::Full { secs: 30 }.command(),
            "cargo xtask record --secs 30"
        );
    }
}
