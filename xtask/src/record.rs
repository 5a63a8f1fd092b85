//! `cargo xtask record`: measures tickline and its peers, and stores the figures with a
//! description of the machine. The tables in `benches/README.md` and in the README show the
//! records of one code; a record of older code goes to a folder with tables of its own. During a
//! measurement nothing else should run on the machine.

#[cfg(test)]
mod claims;
mod file;
mod markdown;
mod measure;
mod tables;

use std::path::PathBuf;

use clap::Args;

use crate::changes::{Other, changed_files};
use crate::files::{entries, read, root, store, with_block};
use crate::outcome::SOME_SKIPPED;
use file::{Record, SCHEMA};
use measure::{DEFAULT_SECS, Extent, describe_machine, measure, no_counter};

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

/// Measures, stores the record, and writes the tables.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    if arguments.readme {
        return write_pages(&stored()?).map(|()| 0);
    }
    if arguments.only_compares {
        return compare_with_present_code(&stored()?.present);
    }
    rewritten(&stored()?)?; // fails at once if a file lacks its markers
    let found = describe_machine()?;
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

/// Whether [`CODE`] is the same in `commit` and in `other`. A commit that this clone does not have
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

/// The record in the text of a file.
fn parsed(text: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if record.schema != SCHEMA {
        return Err(format!("its schema is {}, not {SCHEMA}", record.schema));
    }
    Ok(record)
}

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

#[cfg(test)]
mod tests;
