//! `cargo xtask record`: measures tickline and its peers, and stores the figures with a
//! description of the machine. The tables in `benches/README.md` and in the README show the
//! records of one code; a record of older code goes to a folder with tables of its own. During a
//! measurement nothing else should run on the machine.

#[cfg(test)]
mod claims;
mod file;
mod markdown;
mod tables;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use serde::de::DeserializeOwned;

use crate::changes::{Other, changed_files};
use crate::command::{command, command_of, must_succeed, output_of, words};
use crate::files::{entries, read, root, store, target, with_block};
use crate::outcome::SOME_SKIPPED;
use file::{Found, Record, SCHEMA};

/// The folder with the records of one code, at most one of each processor.
const FOLDER: &str = "benches/record";

/// The folder with the newest record of older code, of each other processor.
const OLDER: &str = "benches/record/older";

/// What decides the figures. A record is of the present code if no line of code in this has changed
/// since. The programs that measure link no tests.
const CODE: &str = "Cargo.lock crates machine/tickline-page benches/src :(exclude,glob)**/tests/** :(exclude,glob)**/tests.rs :(exclude,glob)**/*.md";

/// A function that writes a block from the records.
type Write = fn(&[Record]) -> String;

/// The stored records.
#[derive(Debug, Clone, Default)]
struct Stored {
    /// The records of one code, sorted by their processors.
    present: Vec<Record>,
    /// Records of older code, sorted by their processors.
    older: Vec<Record>,
}

/// A file with blocks between markers. Each new record rewrites the blocks.
struct Page {
    path: &'static str,
    /// Which records the blocks show.
    of: fn(&Stored) -> &[Record],
    blocks: &'static [(&'static str, Write)],
}

const PAGES: [Page; 3] = [
    Page {
        path: "README.md",
        of: |stored| &stored.present,
        blocks: &[("short", tables::short)],
    },
    Page {
        path: "benches/README.md",
        of: |stored| &stored.present,
        blocks: &[
            ("machine", tables::machines),
            ("clocks", tables::clocks),
            ("tickline", tables::tickline),
            ("spans", tables::spans),
            ("traces", tables::traces),
        ],
    },
    Page {
        path: "benches/record/older/README.md",
        of: |stored| &stored.older,
        blocks: &[
            ("machine", tables::older_machines),
            ("short", tables::short),
            ("clocks", tables::clocks),
            ("tickline", tables::tickline),
            ("spans", tables::spans),
        ],
    },
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
    /// Only says whether the tables' records are of the present code
    #[arg(long = "check", conflicts_with_all = ["secs", "smoke", "readme"])]
    only_compares: bool,
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
        return write_pages(&stored()?).map(|()| 0);
    }
    if arguments.only_compares {
        return compare_with_present_code(&stored()?.present);
    }
    rewritten(&stored()?)?; // fails at once if a file lacks its markers
    must_succeed(&mut command(
        "cargo build --release -q -p tickline-benches -p tickline-cli",
    ))?;
    let mut tickline = built("tickline");
    // It ends with 1 if the machine has a fault.
    let found: Found = run_for_json(tickline.args(["--duration", "1s", "--json", "-"]), &[0, 1])?;
    if let Some(why) = no_counter(&found) {
        println!("SKIPPED every measurement: {why}");
        return Ok(SOME_SKIPPED);
    }
    if arguments.smoke {
        let new = measure(Extent::Smoke, found)?;
        rewritten(&with_new(stored()?, new, is_of_same_code))?;
        println!("every measurement runs, and fits the tables; nothing is written");
        return Ok(0);
    }
    let secs = arguments.secs;
    let new = measure(Extent::Full { secs }, found)?;
    let name = new.file_name();
    let stored = with_new(stored()?, new, is_of_same_code);
    store_records(FOLDER, &stored.present)?;
    store_records(OLDER, &stored.older)?;
    write_pages(&stored)?;
    println!("{FOLDER}/{name} and the tables are written");
    Ok(0)
}

/// Says for each record of the tables whether it is of the present code.
fn compare_with_present_code(records: &[Record]) -> Result<u8, String> {
    let mut code = 0;
    for record in records {
        let is_present = is_unchanged(&record.commit, Other::PresentFiles);
        let word = if is_present { "of" } else { "FAILED: not of" };
        println!("{}: {word} the present code", record.file_name());
        code |= u8::from(!is_present);
    }
    Ok(code)
}

/// Whether two records are of one code.
fn is_of_same_code(one: &Record, other: &Record) -> bool {
    one.commit == other.commit || is_unchanged(&one.commit, Other::Commit(&other.commit))
}

/// Whether [`CODE`] is the same in a commit and the other. A commit that this clone does not have
/// counts as different.
fn is_unchanged(commit: &str, other: Other<'_>) -> bool {
    changed_files(root(), commit, other, CODE).is_some_and(|files| files.is_empty())
}

/// The text of a record's file.
fn text(record: &Record) -> Result<String, String> {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

/// The records with a new one, which replaces the present record of its processor. Records that are
/// not of the same code become older records, and replace the older record of their processor.
fn with_new(stored: Stored, new: Record, is_same: impl Fn(&Record, &Record) -> bool) -> Stored {
    let Stored { present, older } = stored;
    let others = present
        .into_iter()
        .filter(|one| one.processor != new.processor);
    let (present, older_now): (Vec<_>, Vec<_>) = others.partition(|one| is_same(one, &new));
    let mut stored = Stored {
        present,
        older: older_now,
    };
    stored.present.push(new);
    for one in older {
        let mut newer = stored.present.iter().chain(&stored.older);
        if newer.all(|newer| newer.processor != one.processor) {
            stored.older.push(one);
        }
    }
    for records in [&mut stored.present, &mut stored.older] {
        records.sort_by(|one, other| one.processor.cmp(&other.processor));
    }
    stored
}

/// Makes these the records of a folder.
fn store_records(folder: &str, records: &[Record]) -> Result<(), String> {
    for record in records {
        store(format!("{folder}/{}", record.file_name()), &text(record)?)?;
    }
    for path in record_files(folder) {
        let is_kept = |record: &Record| path.ends_with(record.file_name());
        if !records.iter().any(is_kept) {
            std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
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

/// The files of the records in a folder.
fn record_files(folder: &str) -> Vec<PathBuf> {
    let mut files = entries(&root().join(folder));
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files
}

/// The records of a folder, sorted by their processors.
fn stored_in(folder: &str) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for path in record_files(folder) {
        let record = parsed(&read(&path)?);
        records.push(record.map_err(|why| format!("{}: {why}", path.display()))?);
    }
    records.sort_by(|one: &Record, other| one.processor.cmp(&other.processor));
    Ok(records)
}

/// The stored records.
fn stored() -> Result<Stored, String> {
    Ok(Stored {
        present: stored_in(FOLDER)?,
        older: stored_in(OLDER)?,
    })
}

/// Each page, and its text with the records' blocks.
fn rewritten(stored: &Stored) -> Result<Vec<(&'static str, String)>, String> {
    let mut pages = Vec::new();
    for Page { path, of, blocks } in PAGES {
        let mut text = read(path)?;
        for (name, write) in blocks {
            text = with_block(&text, &format!("record:{name}"), &write(of(stored)))
                .map_err(|why| format!("{path}: {why}"))?;
        }
        pages.push((path, text));
    }
    Ok(pages)
}

fn write_pages(stored: &Stored) -> Result<(), String> {
    for (path, text) in rewritten(stored)? {
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
