//! `cargo xtask record`: measures tickline and its peers, and stores the figures with a
//! description of the machine. The tables in `benches/README.md` and in the README show the
//! newest record of each processor. During a measurement nothing else should run on the machine.

mod file;
mod markdown;
mod tables;

use std::time::Instant;

use clap::Args;
use serde::de::DeserializeOwned;

use crate::files::{built, entries, read, root, store, with_block};
use crate::step::{SOME_SKIPPED, command, must_succeed, output_of};
use file::{Found, Record, SCHEMA};

/// The folder with the newest record of each processor.
const FOLDER: &str = "benches/record";

/// A function that writes a block from the records.
type Write = fn(&[Record]) -> String;

/// Files with blocks between markers. Each new record rewrites the blocks.
const FILES: [(&str, &[(&str, Write)]); 2] = [
    ("README.md", &[("short", tables::short)]),
    (
        "benches/README.md",
        &[
            ("machine", tables::machines),
            ("clocks", tables::clocks),
            ("tickline", tables::tickline),
            ("spans", tables::spans),
            ("traces", tables::traces),
        ],
    ),
];

/// The number of further processes that measure drift, because clocks calibrate anew in each
/// process.
const DRIFT_PROCESSES: u64 = 8;

/// The length of each long measurement, s.
const DEFAULT_SECS: u64 = 60;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The length of each long measurement, s
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SECS)]
    secs: u64,
    /// Makes all measurements as short as possible, and writes nothing
    #[arg(long, conflicts_with = "secs")]
    smoke: bool,
    /// Only writes the tables from the stored records
    #[arg(long, conflicts_with_all = ["secs", "smoke"])]
    readme: bool,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
enum Extent {
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

/// Measures, stores the record, and writes the tables.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    if arguments.readme {
        return write_files(&stored()?).map(|()| 0);
    }
    rewritten(&stored()?)?; // fails at once if a file lacks its markers
    must_succeed("cargo build --release -q -p tickline-benches -p tickline-cli")?;
    let found: Found = json_of(&format!("{} --secs 1 --json -", built("release/tickline")))?;
    if let Some(why) = no_counter(&found) {
        println!("SKIPPED every measurement: {why}");
        return Ok(SOME_SKIPPED);
    }
    if arguments.smoke {
        let (records, _) = with_new(stored()?, measure(Extent::Smoke, found)?);
        rewritten(&records)?;
        println!("every measurement runs, and fits the tables; nothing is written");
        return Ok(0);
    }
    let secs = arguments.secs;
    let new = measure(Extent::Full { secs }, found)?;
    let name = new.file_name();
    let text = text(&new)?;
    let (records, replaced) = with_new(stored()?, new);
    store(format!("{FOLDER}/{name}"), &text)?;
    write_files(&records)?;
    for old in replaced {
        let old = old.file_name();
        if old != name {
            std::fs::remove_file(root().join(FOLDER).join(old))
                .map_err(|error| error.to_string())?;
        }
    }
    println!("{FOLDER}/{name} and the tables are written");
    Ok(0)
}

/// The text of a record's file.
fn text(record: &Record) -> Result<String, String> {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

/// The records with a new one, and those of the same processor, which it replaces.
fn with_new(mut records: Vec<Record>, new: Record) -> (Vec<Record>, Vec<Record>) {
    let is_replaced = |old: &mut Record| old.processor == new.processor;
    let replaced = records.extract_if(.., is_replaced).collect();
    records.push(new);
    records.sort_by(|one, other| one.processor.cmp(&other.processor));
    (records, replaced)
}

/// Runs the programs of `benches/`. `found` is the output of the program `tickline`.
fn measure(extent: Extent, found: Found) -> Result<Record, String> {
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
    let cost = measured(&format!("ratios --rounds {rounds}"))?;
    let runs = extent.choose(101, 3);
    let startup = measured(&format!("startup --runs {runs}"))?;
    let drift = measured(&format!("drift --secs {long_s} --settle {settle_s}"))?;
    let mut drift_in_other_processes = Vec::new();
    for _ in 0..extent.choose(DRIFT_PROCESSES, 1) {
        let settle_s = extent.choose(2, 0);
        let drift = measured(&format!("drift --secs {short_s} --settle {settle_s}"))?;
        drift_in_other_processes.push(drift);
    }
    let clock_ms = extent.choose(4_000, 40);
    let order = measured(&format!("order --secs {long_s} --clock-ms {clock_ms}"))?;
    let accuracy = format!("accuracy --secs {long_s} --settle {settle_s} --driver");
    let accuracy_thread = measured(&format!("{accuracy} thread"))?;
    let accuracy_reader = measured(&format!("{accuracy} reader"))?;
    let rounds = extent.choose(600, 5);
    let spans = measured(&format!("spans --rounds {rounds}"))?;
    let rounds = extent.choose(5, 1);
    let records = extent.choose(100_000, 1_000);
    let traces = measured(&format!("traces --rounds {rounds} --records {records}"))?;
    Ok(Record {
        schema: SCHEMA.to_owned(),
        date: output_of("date -u +%F")?,
        command: extent.command(),
        commit: output_of("git rev-parse HEAD")?,
        tree_clean: output_of("git status --porcelain")?.is_empty(),
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
fn measured<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let line = format!("{}/{line}", built("release"));
    println!("=== {line}");
    json_of(&line)
}

/// The JSON that a command prints. The program `tickline` exits with 1 if a gate is closed, and
/// `order` exits with 77 if it has skipped a part. Such a result counts, too.
fn json_of<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let output = command(line)
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    let codes = [0, 1, i32::from(SOME_SKIPPED)];
    if !output
        .status
        .code()
        .is_some_and(|code| codes.contains(&code))
    {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "`{line}` ended with {}: nothing is recorded\n{errors}",
            output.status
        ));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`{line}` printed another JSON: {error}"))
}

/// Why there is no bare counter to compare with, from the output of the program `tickline`; `None`
/// if there is a counter.
fn no_counter(found: &Found) -> Option<String> {
    let is_closed = |name: &&str| {
        let mut gates = found.gates.iter();
        gates.any(|gate| gate.gate == *name && !gate.open)
    };
    let gate = ["supported", "readable"].into_iter().find(is_closed)?;
    Some(format!(
        "there is no counter that can be read, the gate {gate} is closed"
    ))
}

/// The record in the text of a file.
fn parsed(text: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if record.schema != SCHEMA {
        return Err(format!("its schema is {}, not {SCHEMA}", record.schema));
    }
    Ok(record)
}

/// The stored records, sorted by their processors.
fn stored() -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for path in entries(&root().join(FOLDER)) {
        if path.extension().is_some_and(|end| end == "json") {
            let record = parsed(&read(&path)?);
            records.push(record.map_err(|why| format!("{}: {why}", path.display()))?);
        }
    }
    records.sort_by(|one, other| one.processor.cmp(&other.processor));
    Ok(records)
}

/// Each file, and its text with the records' blocks.
fn rewritten(records: &[Record]) -> Result<Vec<(&'static str, String)>, String> {
    let mut files = Vec::new();
    for (path, blocks) in FILES {
        let mut text = read(path)?;
        for (name, write) in blocks {
            text = with_block(&text, &format!("record:{name}"), &write(records))
                .map_err(|why| format!("{path}: {why}"))?;
        }
        files.push((path, text));
    }
    Ok(files)
}

fn write_files(records: &[Record]) -> Result<(), String> {
    for (path, text) in rewritten(records)? {
        store(path, &text)?;
    }
    Ok(())
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
mod tests;
