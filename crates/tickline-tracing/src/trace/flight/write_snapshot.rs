//! Writes the content of a recorder, or of a black box's file, as a trace.

use core::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use super::contents::TraceContents;
use crate::trace::format::mark::Mark;
use crate::trace::format::perfetto::clocks::ClockReadings;
use crate::trace::format::summary::TraceSummary;
use crate::trace::format::trace_output::{TraceFormat, TraceOutput};
use crate::trace::readout::snapshot::Snapshot;
use crate::trace::readout::span_tracks::Attempt;

/// Writes the records of a snapshot from `since_ns` on.
pub(super) fn write_snapshot(
    snapshot: &Snapshot,
    output: impl Write,
    format: TraceFormat,
    since_ns: u64,
) -> io::Result<TraceSummary> {
    let mut contents = TraceContents::from_snapshot(snapshot);
    contents.leave_out_before(since_ns, snapshot);
    let is_own = snapshot.end_ns != 0;
    let readings = if is_own {
        ClockReadings::now
    } else {
        ClockReadings::unknown
    };
    let (process, name) = (snapshot.process, &snapshot.name);
    let unix = snapshot.unix_at(contents.end_ns);
    let mut trace = TraceOutput::begin(output, format, process, name, unix, readings)?;
    let threads = snapshot.threads.iter();
    for thread in threads.filter(|thread| !thread.name.is_empty()) {
        trace.write_name(thread.number, &thread.name)?;
    }
    mark_overwritten(&mut trace, snapshot, &contents, since_ns)?;
    trace.summary = contents.summary;
    trace.summary.unix_end = unix.map(|(_, unix)| unix);
    write_records(&mut trace, snapshot, &contents)?;
    mark_missing(&mut trace, snapshot, contents.end_ns)?;
    trace.finish()
}

/// Marks, for each thread that lost its oldest records, where its records begin.
fn mark_overwritten(
    trace: &mut TraceOutput<impl Write>,
    snapshot: &Snapshot,
    contents: &TraceContents<'_>,
    since_ns: u64,
) -> io::Result<()> {
    let lost = contents.lost.iter();
    for lost in lost.filter(|lost| lost.before_ns >= since_ns) {
        trace.write_mark(Mark {
            thread: snapshot.threads[lost.thread].number,
            ns: lost.before_ns,
            count: lost.records,
            label: "older records overwritten",
            argument: "overwritten",
        })?;
    }
    Ok(())
}

/// Writes the wanted records, and counts the callsites without names.
fn write_records(
    trace: &mut TraceOutput<impl Write>,
    snapshot: &Snapshot,
    contents: &TraceContents<'_>,
) -> io::Result<()> {
    // The address 0 is of records without a callsite.
    let without_names = RefCell::new(HashSet::new());
    let names = |address| -> Option<Arc<str>> {
        let names = snapshot.callsites.get(&address).cloned();
        if names.is_none() && address != 0 {
            without_names.borrow_mut().insert(address);
        }
        names
    };
    let mut refused = Vec::new();
    for item in contents.records.iter().filter(|item| item.is_wanted) {
        let number = snapshot.threads[item.thread].number;
        if !trace.write(number, &item.record, names, Attempt::First)? {
            refused.push((number, &item.record));
        }
    }
    for (number, record) in refused {
        // An end without a beginning is not wanted.
        _ = trace.write(number, record, names, Attempt::Last)?;
    }
    trace.summary.callsites_without_names = without_names.borrow().len() as u64;
    Ok(())
}

/// Marks, at the end, what the snapshot itself lacks.
fn mark_missing(
    trace: &mut TraceOutput<impl Write>,
    snapshot: &Snapshot,
    end_ns: u64,
) -> io::Result<()> {
    let missing = [
        (trace.summary.dropped_records, "records dropped", "dropped"),
        (
            snapshot.threads_without_ring,
            "threads had no ring in the file",
            "threads",
        ),
        (
            snapshot.missing_rings,
            "rings are missing at the end of the file",
            "rings",
        ),
    ];
    for (count, label, argument) in missing.into_iter().filter(|(count, ..)| *count > 0) {
        trace.write_mark(Mark {
            thread: 0,
            ns: end_ns,
            count,
            label,
            argument,
        })?;
    }
    Ok(())
}
