//! The samples as CSV, in one table: a row for each sample of the main thread, and a row for each
//! sample on a single CPU.

use std::io::{self, Write};

use crate::document::utc_width_ns;
use crate::measure::track::Point;
use crate::measure::watch::{CpuSample, Sample, state_name};
use crate::output::Place;

/// One row.
struct Row<'a> {
    sample: &'a Sample,
    /// The sample on a single CPU; `None` for one of the main thread, which fills all columns.
    cpu: Option<&'a CpuSample>,
}

impl Row<'_> {
    fn point(&self) -> &Point {
        self.cpu.map_or(&self.sample.point, |sample| &sample.point)
    }

    fn state(&self) -> tickline::State {
        self.cpu.map_or(self.sample.state, |sample| sample.state)
    }

    /// A field that only samples of the main thread have.
    fn own(&self, figure: impl FnOnce(&Sample) -> Option<String>) -> String {
        if self.cpu.is_some() { String::new() } else { figure(self.sample).unwrap_or_default() }
    }
}

/// A column's heading, and a row's field.
type Column = (&'static str, fn(&Row<'_>) -> String);

/// The columns, without those of the events.
const COLUMNS: [Column; 18] = [
    ("at_s", |row| format!("{:.6}", row.point().at_s)),
    ("unix_s", |row| row.own(|sample| Some(format!("{:.6}", sample.unix_s)))),
    ("cpu", |row| row.cpu.map_or_else(String::new, |sample| sample.cpu.to_string())),
    ("state", |row| state_name(row.state()).to_owned()),
    ("reason", |row| match row.state() {
        tickline::State::Fallback(reason) => reason.code().to_owned(),
        _ => String::new(),
    }),
    ("offset_ns", |row| format!("{:.1}", row.point().offset_ns)),
    ("bracket_ns", |row| format!("{:.1}", row.point().bracket_ns)),
    ("bound_before_ns", |row| row.point().before_ns.to_string()),
    ("bound_after_ns", |row| row.point().after_ns.to_string()),
    ("inside_bracket", |row| row.point().inside.to_string()),
    ("bound_violated", |row| row.point().violated.to_string()),
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
    pub(crate) fn create(place: Place) -> io::Result<Self> {
        let name = place.name();
        let mut table = Self { writer: csv::Writer::from_writer(place.stream()?), name };
        let events = tickline::Event::ALL.iter().map(|event| format!("{}_events", event.code()));
        match table.record(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).chain(events)) {
            // The row of the first sample meets a broken pipe again, and ends the watch, as any
            // later row does.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(table),
        }
    }

    /// Writes the row of a sample, and those of the CPUs' samples since the last one.
    pub(crate) fn add(&mut self, sample: &Sample) -> io::Result<()> {
        self.row(&Row { sample, cpu: None })?;
        sample.new_cpus.iter().try_for_each(|cpu| self.row(&Row { sample, cpu: Some(cpu) }))
    }

    fn row(&mut self, row: &Row<'_>) -> io::Result<()> {
        let events = row.sample.events.iter().map(|(_, count)| row.own(|_| Some(count.to_string())));
        let fields: Vec<String> = COLUMNS.iter().map(|(_, field)| field(row)).chain(events).collect();
        self.record(fields)
    }

    fn record(&mut self, fields: impl IntoIterator<Item = String>) -> io::Result<()> {
        let written = self.writer.write_record(fields).map_err(io::Error::from);
        let flushed = written.and_then(|()| self.writer.flush());
        flushed.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name)))
    }
}
