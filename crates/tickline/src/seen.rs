//! What the gates were judged by, as far as it may change while a clock runs.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use tickline_core::gate::{Clocksource, Demand, Facts, demand};

/// What a judgement has seen of the facts that may change at run time.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The place of the clocksource in `Clocksource::NAMED` plus one; 0 for one without a name there.
    clocksource: AtomicU8,
    /// [`changes`](crate::warp::changes) of the comparison.
    comparisons: AtomicU32,
    /// Whether a comparison of the counters matters here.
    demand: AtomicU8,
}

impl Seen {
    pub(crate) const fn new() -> Self {
        Self {
            clocksource: AtomicU8::new(0),
            comparisons: AtomicU32::new(0),
            demand: AtomicU8::new(Demand::Idle as u8),
        }
    }

    fn code(clocksource: Clocksource) -> u8 {
        let place = Clocksource::NAMED.iter().position(|(_, named)| *named == clocksource);
        place.and_then(|place| u8::try_from(place).ok()).map_or(0, |place| place.saturating_add(1))
    }

    pub(crate) fn note(&self, facts: &Facts, comparisons: u32) {
        // ORDERING: Relaxed for all, written under the clock's lock or by the thread, figures on their own.
        self.clocksource.store(Self::code(facts.clocksource), Ordering::Relaxed);
        // ORDERING: as above.
        self.comparisons.store(comparisons, Ordering::Relaxed);
        // ORDERING: as above.
        self.demand.store(demand(facts) as u8, Ordering::Relaxed);
    }

    pub(crate) fn is_same(&self, clocksource: Clocksource, comparisons: u32) -> bool {
        // ORDERING: as above.
        self.clocksource.load(Ordering::Relaxed) == Self::code(clocksource)
            // ORDERING: as above.
            && self.comparisons.load(Ordering::Relaxed) == comparisons
    }

    /// A number that tells one clocksource from another.
    pub(crate) fn clocksource(&self) -> u8 {
        // ORDERING: as above.
        self.clocksource.load(Ordering::Relaxed)
    }

    /// Whether the CPUs' counters should be compared.
    pub(crate) fn wants_comparison(&self) -> bool {
        // ORDERING: as above.
        self.demand.load(Ordering::Relaxed) != Demand::Idle as u8
    }
}
