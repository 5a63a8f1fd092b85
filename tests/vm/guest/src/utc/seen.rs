//! What the threads that read UTC have seen in a phase.

use serde::Serialize;
use serde_json::{Value, json};
use tickline::utc::{UtcReading, UtcUnknown};

/// See the [module](self).
#[derive(Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) readings: u64,
    /// Those with an interval.
    pub(super) answered: u64,
    /// Readings whose interval does not contain the true time, and by how much the worst.
    missed: u64,
    missed_ns: i64,
    narrowest_ns: Option<u64>,
    /// How many readings had a source, or failed for a reason, and when the last one was made, ns;
    /// in the order in which they came.
    #[serde(skip)]
    kinds: Vec<(&'static str, u64, i64)>,
    /// From when on the report counts.
    #[serde(skip)]
    pub(super) marked_ns: i64,
}

impl Seen {
    /// A reading between two true times.
    pub(super) fn count(&mut self, [before_ns, after_ns]: [i64; 2], reading: Result<UtcReading, UtcUnknown>) {
        self.readings += 1;
        self.kind(reading.map_or_else(UtcUnknown::code, |reading| reading.source().code()), 1, before_ns);
        let Ok(reading) = reading else { return };
        self.answered += 1;
        let [earliest_ns, latest_ns] =
            [reading.earliest(), reading.latest()].map(|time| time.as_nanos().cast_signed());
        let missed_ns = (earliest_ns - after_ns).max(before_ns - latest_ns);
        self.missed += u64::from(missed_ns > 0);
        self.missed_ns = self.missed_ns.max(missed_ns);
        self.narrow((latest_ns - earliest_ns).unsigned_abs());
    }

    fn kind(&mut self, name: &'static str, count: u64, at_ns: i64) {
        match self.kinds.iter_mut().find(|kind| kind.0 == name) {
            Some((_, counted, last_ns)) => (*counted, *last_ns) = (*counted + count, at_ns.max(*last_ns)),
            None => self.kinds.push((name, count, at_ns)),
        }
    }

    fn narrow(&mut self, width_ns: u64) {
        self.narrowest_ns = self.narrowest_ns.into_iter().chain([width_ns]).min();
    }

    /// Adds what another thread has seen.
    pub(super) fn add(&mut self, other: &Self) {
        self.readings += other.readings;
        self.answered += other.answered;
        self.missed += other.missed;
        self.missed_ns = self.missed_ns.max(other.missed_ns);
        other.narrowest_ns.into_iter().for_each(|width_ns| self.narrow(width_ns));
        for &(name, count, last_ns) in &other.kinds {
            self.kind(name, count, last_ns);
        }
    }

    /// The report. `after_ms` is when each kind was last seen.
    pub(super) fn report(&self, phase: &str) -> Value {
        let mut report = json!(self);
        report["phase"] = phase.into();
        for &(name, count, last_ns) in &self.kinds {
            report["kinds"][name] = count.into();
            report["after_ms"][name] = ((last_ns - self.marked_ns).max(0) / 1_000_000).into();
        }
        report["in_order"] = self.kinds.iter().map(|kind| kind.0).collect();
        report
    }
}
