//! `cargo xtask record`: measures tickline and its peers, and stores the figures with a
//! description of the machine. The tables in `benches/README.md` and in the README show the
//! newest record of each processor. During a measurement nothing else should run on the machine.

mod markdown;
mod tables;

use std::time::Instant;

use serde_json::{Value, json};

use crate::files::{built, entries, read, root, store, with_block};
use crate::step::{SOME_SKIPPED, command, must_succeed, output_of};
use tables::Record;

/// The version of the record's fields. It changes when a field gets another name or another
/// meaning, but not when a field that no table shows comes or goes; see `benches/record/README.md`.
const SCHEMA: &str = "tickline-record/3";

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
        ],
    ),
];

/// The key of each output in the record, and the program of `benches/` that makes it. `LONG` is the
/// length of each long measurement, s, `SHORT` that of a short one, and `SETTLE` the time for
/// clocks to settle before. The argument behind a slash is for a smoke run, which only tests the
/// command.
const SUITE: [(&str, &str); 8] = [
    ("cost", "ratios --rounds 200/5"),
    ("startup", "startup --runs 101/3"),
    ("drift", "drift --secs LONG/1 --settle SETTLE/0"),
    (
        "drift_in_other_processes",
        "drift --secs SHORT/1 --settle 2/0",
    ),
    ("order", "order --secs LONG/1 --clock-ms 4000/40"),
    (
        "accuracy_thread",
        "accuracy --secs LONG/1 --settle SETTLE/1 --driver thread",
    ),
    (
        "accuracy_reader",
        "accuracy --secs LONG/1 --settle SETTLE/1 --driver reader",
    ),
    ("spans", "spans --rounds 600/5"),
];

/// The number of further processes that measure drift, because clocks calibrate anew in each
/// process.
const DRIFT_PROCESSES: u32 = 8;

/// Measures, stores the record, and writes the tables. With `--secs N` long measurements take N
/// seconds. `--smoke` makes all measurements as short as possible, and writes nothing. `--readme`
/// only writes the tables from the stored records.
pub(crate) fn run(arguments: &[&str]) -> Result<u8, String> {
    let secs: Option<u64> = match arguments {
        ["--readme"] => return write_files(&stored()?).map(|()| 0),
        [] => Some(60),
        ["--smoke"] => None,
        ["--secs", text] => Some(
            text.parse()
                .map_err(|error| format!("--secs {text}: {error}"))?,
        ),
        _ => return Err("takes --smoke, --secs N or --readme".into()),
    };
    rewritten(&stored()?)?; // fails at once if a file lacks its markers
    must_succeed("cargo build --release -q -p tickline-benches -p tickline-cli")?;
    let found = json_of(&format!("{} --secs 1 --json -", built("release/tickline")))?;
    if let Some(why) = no_counter(&found) {
        println!("SKIPPED every measurement: {why}");
        return Ok(SOME_SKIPPED);
    }
    let record = measure(secs, arguments, &found)?;
    let name = format!(
        "{}-{}.json",
        tables::text(&record, "date"),
        sanitised(tables::text(&record, "processor"))
    );
    let new = Record {
        name: name.clone(),
        json: record,
    };
    let mut records = stored()?;
    let replaced: Vec<Record> = records
        .extract_if(.., |old| old.processor() == new.processor())
        .collect();
    records.push(new.clone());
    records.sort_by(|one, other| one.processor().cmp(other.processor()));
    if secs.is_none() {
        rewritten(&records)?;
        println!("every measurement runs, and fits the tables; nothing is written");
        return Ok(0);
    }
    let text = serde_json::to_string_pretty(&new.json).map_err(|error| error.to_string())?;
    store(format!("{FOLDER}/{name}"), &format!("{text}\n"))?;
    write_files(&records)?;
    for old in replaced.iter().filter(|old| old.name != name) {
        std::fs::remove_file(root().join(FOLDER).join(&old.name))
            .map_err(|error| error.to_string())?;
    }
    println!("{FOLDER}/{name} and the tables are written");
    Ok(0)
}

/// Runs the suite, whose long measurements take `secs`; `None` for a smoke run. Returns the record.
/// `found` is the output of the program `tickline`.
fn measure(secs: Option<u64>, arguments: &[&str], found: &Value) -> Result<Value, String> {
    let start = Instant::now();
    let mut record = json!({
        "schema": SCHEMA,
        "date": output_of("date -u +%F")?,
        "command": format!("cargo xtask record {}", arguments.join(" ")).trim_end(),
        "commit": output_of("git rev-parse HEAD")?,
        "tree_clean": output_of("git status --porcelain")?.is_empty(),
        "rustc": output_of("rustc --version")?,
        "processor": processor(found["machine"]["cpu"].as_str().unwrap_or_default(), &read("/proc/cpuinfo")?),
        "machine": found["machine"],
    });
    record["machine"]["cpus"] = json!(std::thread::available_parallelism().map_or(1, usize::from));
    record["machine"]["result"] = found["result"].clone();
    for (key, program) in SUITE {
        let word = |word: &str| {
            let (full, smoke) = word.split_once('/').unwrap_or((word, word));
            let Some(secs) = secs else {
                return smoke.to_owned();
            };
            let lengths = [
                ("LONG", secs),
                ("SETTLE", secs.min(10)),
                ("SHORT", secs.min(5)),
            ];
            lengths.iter().fold(full.to_owned(), |word, (name, secs)| {
                word.replace(name, &secs.to_string())
            })
        };
        let words: Vec<String> = program.split(' ').map(word).collect();
        let line = format!("{}/{}", built("release"), words.join(" "));
        println!("=== {key}: {line}");
        record[key] = if key == "drift_in_other_processes" {
            (0..if secs.is_some() { DRIFT_PROCESSES } else { 1 })
                .map(|_| json_of(&line))
                .collect::<Result<_, _>>()?
        } else {
            json_of(&line)?
        };
    }
    record["took_s"] = start.elapsed().as_secs().into();
    Ok(record)
}

/// The JSON that a command prints. The program `tickline` exits with 1 if a gate is closed, and
/// `order` exits with 77 if it has skipped a part. Such a result counts, too.
fn json_of(line: &str) -> Result<Value, String> {
    let output = command(line)
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    if ![0, 1, i32::from(SOME_SKIPPED)]
        .map(Some)
        .contains(&output.status.code())
    {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "`{line}` ended with {}: nothing is recorded\n{errors}",
            output.status
        ));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`{line}` printed no JSON: {error}"))
}

/// Why there is no bare counter to compare with, from the output of the program `tickline`; `None`
/// if there is a counter.
fn no_counter(found: &Value) -> Option<String> {
    let gates = found["gates"].as_array()?;
    let closed = |name: &str| {
        gates
            .iter()
            .any(|gate| gate["gate"] == name && gate["open"] == false)
    };
    let gate = ["supported", "readable"]
        .into_iter()
        .find(|name| closed(name))?;
    Some(format!(
        "there is no counter that can be read, the gate {gate} is closed"
    ))
}

/// The stored records, sorted by their processors.
fn stored() -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    for path in entries(&root().join(FOLDER))
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
    {
        let json = serde_json::from_str(&read(path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        records.push(Record { name, json });
    }
    records.sort_by(|one, other| one.processor().cmp(other.processor()));
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
    rewritten(records)?
        .into_iter()
        .try_for_each(|(path, text)| store(path, &text))
}

/// The processor's name in a record, without trade marks and clock rate. On x86 it includes family
/// and model, because many processors show the same name to guests.
fn processor(name: &str, cpuinfo: &str) -> String {
    let value = |key: &str| {
        let line = cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| found.trim() == key);
        line.map(|(_, value)| value.trim())
    };
    let name = name.split('@').next().unwrap_or_default();
    let plain = ["(R)", "(TM)", "(r)", "(tm)"]
        .iter()
        .fold(name.to_owned(), |name, mark| name.replace(mark, ""));
    let words: Vec<&str> = plain
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

/// `text` as a part of a file name: small letters and digits, with one hyphen for any run of other
/// characters.
fn sanitised(text: &str) -> String {
    let words = text
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files' tables agree with the stored records, and no two records have the same processor.
    #[test]
    fn the_files_say_what_the_records_say() {
        let records = stored().unwrap();
        for pair in records.windows(2) {
            assert_ne!(
                pair[0].processor(),
                pair[1].processor(),
                "{} and {}",
                pair[0].name,
                pair[1].name
            );
        }
        for record in &records {
            let date = tables::text(&record.json, "date");
            assert_eq!(
                record.name,
                format!("{date}-{}.json", sanitised(record.processor()))
            );
        }
        for (path, text) in rewritten(&records).unwrap() {
            assert!(
                read(path).unwrap() == text,
                "{path}: run `cargo xtask record --readme`"
            );
        }
    }
}
