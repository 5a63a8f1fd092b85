//! The records under version control: the newest of each processor.

use std::path::Path;

use serde_json::Value;

use super::file;

/// Where records are kept, seen from the workspace's root.
pub(super) const FOLDER: &str = "benches/record";

/// Where the figures of harnesses are kept.
pub(super) const HARNESS_FOLDER: &str = "benches/record/harnesses";

/// The record of one processor.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Its file's name.
    pub(super) name: String,
    pub(super) json: Value,
}

impl Record {
    /// The processor, by name, family and model.
    pub(super) fn processor(&self) -> &str {
        self.json["processor"].as_str().unwrap_or("unknown")
    }
}

/// A processor's name in a table's head: without family and model where there is one of that name.
pub(super) fn title<'a>(record: &'a Record, records: &[Record]) -> &'a str {
    let name = |record: &'a Record| record.processor().split(", family").next().unwrap_or_default();
    let is_alone = records
        .iter()
        .filter(|other| other.processor().split(", family").next() == Some(name(record)))
        .count()
        < 2;
    if is_alone { name(record) } else { record.processor() }
}

/// The stored records, sorted by their processors.
pub(super) fn stored() -> Result<Vec<Record>, String> {
    stored_in(FOLDER)
}

/// The records of a folder, sorted by their processors.
pub(super) fn stored_in(folder: &str) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    let folder = root().join(folder);
    for entry in std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let json = serde_json::from_str(&file::read(&path)?)
                .map_err(|error| format!("{} is no JSON: {error}", path.display()))?;
            records.push(Record { name, json });
        }
    }
    records.sort_by(|one, other| one.processor().cmp(other.processor()));
    Ok(records)
}

/// The new record among the stored ones, and the files of those whose place it takes: one of each
/// processor is kept.
pub(super) fn with_new(mut records: Vec<Record>, new: Record) -> (Vec<Record>, Vec<String>) {
    let (replaced, mut kept): (Vec<Record>, Vec<Record>) =
        records.drain(..).partition(|record| record.processor() == new.processor());
    let replaced = replaced.into_iter().map(|record| record.name).filter(|name| *name != new.name).collect();
    kept.push(new);
    kept.sort_by(|one, other| one.processor().cmp(other.processor()));
    (kept, replaced)
}

/// The workspace's root.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
