//! Writes the samples as CSV, in one table: a row for each sample of the main thread, and a row for
//! each sample on a single CPU.

use std::io::{self, Write};

use tickline::{ClockState, Event};

use crate::document::utc_width_ns;
use crate::measure::track::OffsetSample;
use crate::measure::watch::WatchSample;
use crate::output::Destination;

/// The headings and the fields of a row. A row of the main thread, for which `sample` is given, has
/// a value in every column.
fn row(offset: &OffsetSample, sample: Option<&WatchSample>) -> Vec<(String, String)> {
    let main_thread =
        |figure: fn(&WatchSample) -> Option<String>| sample.and_then(figure).unwrap_or_default();
    let reason = match offset.state {
        ClockState::Fallback(reason) => reason.code(),
        _ => "",
    };
    let fields = [
        ("at_s", format!("{:.6}", offset.at_s)),
        (
            "unix_s",
            main_thread(|sample| Some(format!("{:.6}", sample.unix_s))),
        ),
        (
            "cpu",
            offset.cpu.map(|cpu| cpu.to_string()).unwrap_or_default(),
        ),
        ("state", offset.state.code().to_owned()),
        ("reason", reason.to_owned()),
        ("offset_ns", format!("{:.1}", offset.offset_ns)),
        ("bracket_ns", format!("{:.1}", offset.bracket_ns)),
        ("bound_before_ns", offset.bound_before_ns.to_string()),
        ("bound_after_ns", offset.bound_after_ns.to_string()),
        ("inside_bracket", offset.inside_bracket.to_string()),
        ("bound_violated", offset.bound_violated.to_string()),
        (
            "skew_ppb",
            main_thread(|sample| Some(format!("{:.2}", sample.skew_ppb?))),
        ),
        (
            "max_drift_ppb",
            main_thread(|sample| Some(sample.status.max_drift_ppb?.to_string())),
        ),
        (
            "frequency_hz",
            main_thread(|sample| Some(sample.status.frequency_hz?.to_string())),
        ),
        (
            "utc_width_ns",
            main_thread(|sample| Some(utc_width_ns(sample.utc.as_ref().ok()?).to_string())),
        ),
        (
            "utc_source",
            main_thread(|sample| Some(sample.utc.ok()?.source().code().to_owned())),
        ),
        (
            "utc_unknown",
            main_thread(|sample| Some(sample.utc.err()?.code().to_owned())),
        ),
        (
            "interval_ns",
            main_thread(|sample| Some(sample.status.interval_ns?.to_string())),
        ),
    ];
    let events = Event::ALL.iter().map(|event| {
        let count = sample.and_then(|sample| sample.events.get(event.code()));
        (
            format!("{}_events", event.code()),
            count.map(u64::to_string).unwrap_or_default(),
        )
    });
    fields
        .map(|(head, field)| (head.to_owned(), field))
        .into_iter()
        .chain(events)
        .collect()
}

/// A table that grows row by row. Each row is one write, so a killed program leaves no half row.
/// The fields are figures and codes, which need no quotation marks.
pub(crate) struct Table {
    out: Box<dyn Write>,
    name: String,
    has_heads: bool,
}

impl Table {
    pub(crate) fn create(destination: Destination) -> io::Result<Self> {
        let name = destination.name();
        Ok(Self {
            out: destination.stream()?,
            name,
            has_heads: false,
        })
    }

    /// Writes the row of a sample, and the rows of the CPUs' samples since the sample before.
    /// Writes the headings before the first row.
    pub(crate) fn add(&mut self, sample: &WatchSample) -> io::Result<()> {
        let cpus = sample.cpus.iter().map(|offset| row(offset, None));
        for row in [row(&sample.offset, Some(sample))].into_iter().chain(cpus) {
            let (heads, fields): (Vec<_>, Vec<_>) = row.into_iter().unzip();
            if !std::mem::replace(&mut self.has_heads, true) {
                self.write(&heads)?;
            }
            self.write(&fields)?;
        }
        Ok(())
    }

    fn write(&mut self, fields: &[String]) -> io::Result<()> {
        let line = fields.join(",") + "\n";
        let written = self
            .out
            .write_all(line.as_bytes())
            .and_then(|()| self.out.flush());
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use tickline::Reason;

    use super::*;

    fn reason_in_row(state: ClockState) -> String {
        let offset = OffsetSample {
            at_s: 0.0,
            offset_ns: 0.0,
            bracket_ns: 0.0,
            bound_before_ns: 0,
            bound_after_ns: 0,
            inside_bracket: true,
            bound_violated: false,
            state,
            cpu: Some(1),
        };
        let (_, reason) = row(&offset, None)
            .into_iter()
            .find(|(head, _)| head == "reason")
            .expect("the column");
        reason
    }

    #[test]
    fn a_row_of_the_os_clock_has_the_reason() {
        let state = ClockState::Fallback(Reason::Slow);
        assert_eq!(reason_in_row(state), Reason::Slow.code());
    }

    #[test]
    fn a_row_of_the_counter_has_no_reason() {
        assert_eq!(reason_in_row(ClockState::Fast), "");
    }
}
