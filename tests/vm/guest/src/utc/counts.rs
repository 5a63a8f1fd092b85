//! The counts of the threads that read UTC in a phase.

use tickline_utc::{UtcReading, UtcSource, UtcUnknown};

use crate::agreed::NARROW_NS;
use crate::phase::{Kinds, Utc};

/// The counts of a thread, or of all threads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) readings: u64,
    /// The number of readings with a range.
    pub(super) answered: u64,
    /// The number of readings whose range does not contain the true time, and the largest
    /// distance.
    missed: u64,
    missed_ns: i64,
    narrowest_ns: Option<u64>,
    /// The kinds of readings, in the order of their first readings.
    kinds: Vec<Kind>,
    /// The zero for the times in the report, ns.
    pub(super) marked_ns: i64,
}

/// The readings from one source, or with one error.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    count: u64,
    /// The time of the last one.
    last_ns: i64,
}

impl Counts {
    /// Counts a reading between two true times.
    pub(super) fn count(
        &mut self,
        [before_ns, after_ns]: [i64; 2],
        reading: Result<UtcReading, UtcUnknown>,
    ) {
        self.readings += 1;
        self.count_kind(Kind {
            name: reading.map_or_else(UtcUnknown::code, |reading| reading.source().code()),
            count: 1,
            last_ns: before_ns,
        });
        let Ok(reading) = reading else { return };
        self.answered += 1;
        let [earliest_ns, latest_ns] =
            [reading.earliest(), reading.latest()].map(|time| time.as_nanos().cast_signed());
        let missed_ns = (earliest_ns - after_ns).max(before_ns - latest_ns);
        self.missed += u64::from(missed_ns > 0);
        self.missed_ns = self.missed_ns.max(missed_ns);
        self.narrow((latest_ns - earliest_ns).unsigned_abs());
    }

    /// Whether a range was narrow: the rule `utc_narrow` of `guests.toml`.
    pub(super) fn is_narrow(&self) -> bool {
        self.narrowest_ns
            .is_some_and(|width_ns| width_ns <= NARROW_NS)
    }

    fn count_kind(&mut self, more: Kind) {
        match self.kinds.iter_mut().find(|kind| kind.name == more.name) {
            Some(kind) => {
                kind.count += more.count;
                kind.last_ns = kind.last_ns.max(more.last_ns);
            }
            None => self.kinds.push(more),
        }
    }

    fn narrow(&mut self, width_ns: u64) {
        self.narrowest_ns = self.narrowest_ns.into_iter().chain([width_ns]).min();
    }

    /// Adds the counts of another thread.
    pub(super) fn add(&mut self, other: &Self) {
        self.readings += other.readings;
        self.answered += other.answered;
        self.missed += other.missed;
        self.missed_ns = self.missed_ns.max(other.missed_ns);
        if let Some(width_ns) = other.narrowest_ns {
            self.narrow(width_ns);
        }
        for kind in &other.kinds {
            self.count_kind(*kind);
        }
    }

    /// The report of a phase.
    pub(super) fn report(&self) -> Utc {
        let after_ns = |kind: &Kind| (kind.last_ns - self.marked_ns).max(0).unsigned_abs();
        Utc {
            readings: self.readings,
            answered: self.answered,
            missed: self.missed,
            missed_ns: self.missed_ns.max(0).unsigned_abs(),
            narrowest_ns: self.narrowest_ns,
            kinds: self.of_kinds(|kind| kind.count),
            after_ms: self.of_kinds(|kind| after_ns(kind) / 1_000_000),
            in_order: self.kinds.iter().map(|kind| kind.name.to_owned()).collect(),
        }
    }

    /// A figure of each kind that a rule is about.
    fn of_kinds(&self, figure: impl Fn(&Kind) -> u64) -> Kinds {
        let of = |code: &str| {
            let mut kinds = self.kinds.iter();
            kinds.find(|kind| kind.name == code).map(&figure)
        };
        Kinds {
            chronyd: of(UtcSource::Chronyd.code()),
            clock_bound: of(UtcSource::ClockBound.code()),
            kernel: of(UtcSource::Kernel.code()),
            leap_second: of(UtcUnknown::LeapSecond.code()),
            disrupted: of(UtcUnknown::Disrupted.code()),
        }
    }
}
