//! The samples as CSV, in one table. Each sample of the main thread has a row, and each sample on a
//! single CPU has a row.

use std::io::{self, Write};

use tickline::{Event, State};

use crate::document::utc_width_ns;
use crate::measure::track::Point;
use crate::measure::watch::{CpuSample, Sample};
use crate::output::Destination;

/// One row.
struct Row<'a> {
    point: &'a Point,
    /// `None` for a sample of the main thread.
    cpu: Option<u32>,
    /// The sample of the main thread, which fills all columns.
    sample: Option<&'a Sample>,
}

impl Row<'_> {
    /// A field that only samples of the main thread have.
    fn own(&self, figure: impl FnOnce(&Sample) -> Option<String>) -> String {
        self.sample.and_then(figure).unwrap_or_default()
    }
}

/// A column's heading, and a row's field.
type Column = (&'static str, fn(&Row<'_>) -> String);

/// The columns, without those of the events.
const COLUMNS: [Column; 18] = [
    ("at_s", |row| format!("{:.6}", row.point.at_s)),
    ("unix_s", |row| row.own(|sample| Some(format!("{:.6}", sample.unix_s)))),
    ("cpu", |row| row.cpu.map_or_else(String::new, |cpu| cpu.to_string())),
    ("state", |row| row.point.state.code().to_owned()),
    ("reason", |row| match row.point.state {
        State::Fallback(reason) => reason.code().to_owned(),
        _ => String::new(),
    }),
    ("offset_ns", |row| format!("{:.1}", row.point.offset_ns)),
    ("bracket_ns", |row| format!("{:.1}", row.point.bracket_ns)),
    ("bound_before_ns", |row| row.point.bound_before_ns.to_string()),
    ("bound_after_ns", |row| row.point.bound_after_ns.to_string()),
    ("inside_bracket", |row| row.point.inside_bracket.to_string()),
    ("bound_violated", |row| row.point.bound_violated.to_string()),
    ("skew_ppb", |row| row.own(|sample| Some(format!("{:.2}", sample.skew_ppb?)))),
    ("max_drift_ppb", |row| row.own(|sample| Some(sample.status.max_drift_ppb.to_string()))),
    ("frequency_hz", |row| row.own(|sample| Some(sample.status.frequency_hz?.to_string()))),
    ("utc_width_ns", |row| row.own(|sample| Some(utc_width_ns(sample.utc.as_ref().ok()?).to_string()))),
    ("utc_source", |row| row.own(|sample| Some(sample.utc.ok()?.source().code().to_owned()))),
    ("utc_unknown", |row| row.own(|sample| Some(sample.utc.err()?.code().to_owned()))),
    ("interval_ns", |row| row.own(|sample| Some(sample.status.interval_ns.to_string()))),
];

/// A table that grows row by row. Each row is written at once, so that a killed program leaves no
/// half row.
pub(crate) struct Table {
    writer: csv::Writer<Box<dyn Write>>,
    name: String,
}

impl Table {
    /// Creates the table with the row of headings.
    pub(crate) fn create(destination: Destination) -> io::Result<Self> {
        let name = destination.name();
        let mut table = Self { writer: csv::Writer::from_writer(destination.stream()?), name };
        let events = Event::ALL.iter().map(|event| format!("{}_events", event.code()));
        match table.record(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).chain(events)) {
            // The row of the first sample meets a broken pipe again, and ends the watch, as any
            // later row does.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(table),
        }
    }

    /// Writes the row of a sample, and those of the CPUs' samples since the last one.
    pub(crate) fn add(&mut self, sample: &Sample) -> io::Result<()> {
        self.row(&Row { point: &sample.point, cpu: None, sample: Some(sample) })?;
        sample
            .cpus
            .iter()
            .try_for_each(|CpuSample { cpu, point }| self.row(&Row { point, cpu: Some(*cpu), sample: None }))
    }

    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        let count = |event: &Event| row.own(|sample| Some(sample.events.get(event.code())?.to_string()));
        let events = Event::ALL.iter().map(count);
        let fields: Vec<String> = COLUMNS.iter().map(|(_, field)| field(row)).chain(events).collect();
        self.record(fields)
    }

    fn record(&mut self, fields: impl IntoIterator<Item = String>) -> io::Result<()> {
        let written = self.writer.write_record(fields).map_err(io::Error::from);
        let flushed = written.and_then(|()| self.writer.flush());
        flushed.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name)))
    }
}
