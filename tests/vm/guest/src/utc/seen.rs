//! What the threads that read UTC have seen in a phase.

use serde_json::{Value, json};
use tickline::utc::{UtcReading, UtcUnknown};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Seen {
    readings: u64,
    /// Those with an interval.
    pub(super) answered: u64,
    /// Readings whose interval does not contain the true time, by how much the worst, and when the
    /// first and the last of them was made.
    missed: u64,
    missed_ns: i64,
    missed_ms: Option<[u64; 2]>,
    widest_ns: u64,
    narrowest_ns: Option<u64>,
    /// How many readings had a source, or failed for a reason, and when the last one was made, ms.
    kinds: Vec<(&'static str, u64, u64)>,
    /// When the kind of readings became another, ms: seen by one thread.
    changes: Vec<(u64, &'static str)>,
}

impl Seen {
    /// A reading at `at_ms`, between two true times.
    pub(super) fn count(
        &mut self,
        at_ms: u64,
        [before_ns, after_ns]: [i64; 2],
        reading: Result<UtcReading, UtcUnknown>,
    ) {
        self.readings += 1;
        let kind = reading.map_or_else(UtcUnknown::code, |reading| reading.source().code());
        self.kind(kind, 1, at_ms);
        if self.changes.last().is_none_or(|last| last.1 != kind) {
            self.changes.push((at_ms, kind));
        }
        let Ok(reading) = reading else { return };
        self.answered += 1;
        let [earliest_ns, latest_ns] =
            [reading.earliest(), reading.latest()].map(|time| time.as_nanos().cast_signed());
        let missed_ns = (earliest_ns - after_ns).max(before_ns - latest_ns);
        if missed_ns > 0 {
            self.miss(1, missed_ns, [at_ms; 2]);
        }
        let width_ns = (latest_ns - earliest_ns).unsigned_abs();
        self.widest_ns = self.widest_ns.max(width_ns);
        self.narrowest_ns = Some(self.narrowest_ns.unwrap_or(u64::MAX).min(width_ns));
    }

    fn kind(&mut self, name: &'static str, count: u64, at_ms: u64) {
        match self.kinds.iter_mut().find(|kind| kind.0 == name) {
            Some((_, counted, last_ms)) => (*counted, *last_ms) = (*counted + count, at_ms.max(*last_ms)),
            None => self.kinds.push((name, count, at_ms)),
        }
    }

    fn miss(&mut self, count: u64, ns: i64, [first_ms, last_ms]: [u64; 2]) {
        let [first, last] = self.missed_ms.unwrap_or([first_ms, last_ms]);
        self.missed_ms = Some([first.min(first_ms), last.max(last_ms)]);
        (self.missed, self.missed_ns) = (self.missed + count, self.missed_ns.max(ns));
    }

    /// Adds what another thread has seen.
    pub(super) fn add(&mut self, other: &Self) {
        self.readings += other.readings;
        self.answered += other.answered;
        if let Some(missed_ms) = other.missed_ms {
            self.miss(other.missed, other.missed_ns, missed_ms);
        }
        self.widest_ns = self.widest_ns.max(other.widest_ns);
        self.narrowest_ns = self.narrowest_ns.into_iter().chain(other.narrowest_ns).min();
        for &(name, count, last_ms) in &other.kinds {
            self.kind(name, count, last_ms);
        }
        if self.changes.len() < other.changes.len() {
            self.changes.clone_from(&other.changes);
        }
    }

    /// The report. `after_ms` is when each kind was last seen, after `marked_ms`.
    pub(super) fn report(&self, phase: &str, marked_ms: u64) -> Value {
        let by = |value: &dyn Fn(u64, u64) -> u64| -> Value {
            self.kinds.iter().map(|kind| (kind.0.to_owned(), Value::from(value(kind.1, kind.2)))).collect()
        };
        json!({
            "phase": phase,
            "readings": self.readings,
            "answered": self.answered,
            "missed": self.missed,
            "missed_ns": self.missed_ns,
            "missed_ms": self.missed_ms,
            "widest_ns": self.widest_ns,
            "narrowest_ns": self.narrowest_ns,
            "kinds": by(&|count, _| count),
            "after_ms": by(&|_, last_ms| last_ms.saturating_sub(marked_ms)),
            "changes": self.changes.iter().take(60).collect::<Vec<_>>(),
        })
    }
}
