//! The content of a recorder at one moment.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tickline::{Instant, UnixTime};
use tracing_core::Metadata;

use crate::trace::rings::record::Word;
use crate::trace::rings::ring::{ControlWord, Ring};

/// The names of callsites, by the address of their metadata. An entry has the name, the target, the
/// source location, such as `src/main.rs:7`, and the names of all fields, separated by NULs. The
/// location is empty unless the settings ask for it.
pub(crate) type Callsites = HashMap<usize, Arc<str>>;

/// The names of a callsite, as in [`Callsites`].
pub(crate) fn names_of(metadata: &Metadata<'_>, location: &str) -> Arc<str> {
    let fields = metadata.fields();
    let names = [metadata.name(), metadata.target(), location]
        .into_iter()
        .chain(fields.iter().map(|field| field.name()))
        .map(|name| name.replace('\0', "\u{FFFD}"));
    names.collect::<Vec<_>>().join("\0").into()
}

/// The number of open spans of requests, by time of creation and address of the callsite.
pub(crate) type OpenRequests = HashMap<(u64, usize), u64>;

/// The content of a recorder at one moment, or of the file of another process.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) process: u32,
    pub(crate) name: String,
    pub(crate) callsites: Callsites,
    pub(crate) threads: Vec<ThreadSnapshot>,
    /// The number of records in rings that were removed.
    pub(crate) removed_records: u64,
    /// The number of records that no ring has taken; 0 for a file.
    pub(crate) dropped_records: u64,
    /// The time when the rings were copied, ns of `CLOCK_MONOTONIC`; 0 for a file.
    pub(crate) end_ns: u64,
    /// The offset of Unix time from `CLOCK_MONOTONIC`, ns, when the rings were copied; for a file,
    /// when it was created. `None` if the file does not have it.
    pub(crate) unix_offset_ns: Option<i64>,
    /// The open requests; `None` if requests are not recorded, or not all are known.
    pub(crate) open_requests: Option<OpenRequests>,
    /// The time, ns of `CLOCK_MONOTONIC`, before which ends may be lost in addition to those that
    /// the rings themselves count as lost.
    pub(crate) ends_lost_before_ns: u64,
    /// The number of threads that got no ring in the file.
    pub(crate) threads_without_ring: u64,
    /// The number of rings that are missing at the end of a file.
    pub(crate) missing_rings: u64,
}

impl Snapshot {
    /// The time of the trace's end, ns of `CLOCK_MONOTONIC`, with its Unix time, if both are known.
    /// A file may have any numbers; one without records has the end 0.
    pub(crate) fn unix_at(&self, end_ns: u64) -> Option<(Instant, UnixTime)> {
        if end_ns == 0 {
            return None;
        }
        let unix_ns = end_ns.checked_add_signed(self.unix_offset_ns?)?;
        Some((Instant::from_nanos(end_ns), UnixTime::from_nanos(unix_ns)))
    }
}

pub(crate) struct ThreadSnapshot {
    pub(crate) number: u64,
    pub(crate) name: String,
    /// The number of records written before the ring was copied, including overwritten records.
    pub(crate) written: u64,
    pub(crate) words: Vec<Word>,
}

impl ThreadSnapshot {
    pub(crate) fn from_ring(ring: &Ring) -> Self {
        let [number, written] =
            [ControlWord::Number, ControlWord::Records].map(|word| ring.get(word));
        Self {
            number,
            name: ring.name(),
            written,
            words: ring.snapshot(),
        }
    }
}

/// The name of this process's program.
pub(crate) fn program_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    Path::new(&name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::registry;

    use super::*;

    /// Symptom: the fields of a span whose name has a NUL had each other's names.
    #[test]
    fn a_nul_in_a_spans_name_does_not_separate_names() {
        let names = tracing::subscriber::with_default(registry(), || {
            let span = tracing::info_span!(target: "tar\0get", "na\0me", field = 1);
            names_of(span.metadata().expect("a registry enables all"), "")
        });
        assert_eq!(&*names, "na\u{FFFD}me\0tar\u{FFFD}get\0\0field");
    }
}
