//! What the last judgement saw of the facts that may change at run time, packed so that it can be read without a lock.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use tickline_core::counter::HardwareCounter;
use tickline_core::gate::{Clocksource, Demand, Facts, demand};

use crate::{facts, warp};

/// What the last judgement saw.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What the kernel keeps time with: its place in `Clocksource::NAMED` plus one; 0 for one without a name there.
    reference: AtomicU8,
    /// Whether the kernel would accept the counter, by [`available_code`].
    available: AtomicU8,
    /// [`warp::changes`].
    comparisons: AtomicU32,
    /// A `Demand`, as a number.
    demand: AtomicU8,
}

fn reference_code(clocksource: Clocksource) -> u8 {
    let place = Clocksource::NAMED.iter().position(|(_, named)| *named == clocksource);
    place.and_then(|place| u8::try_from(place).ok()).map_or(0, |place| place.saturating_add(1))
}

const fn available_code(available: Option<bool>) -> u8 {
    match available {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    }
}

impl Seen {
    pub(crate) const fn new() -> Self {
        Self {
            reference: AtomicU8::new(0),
            available: AtomicU8::new(0),
            comparisons: AtomicU32::new(0),
            demand: AtomicU8::new(Demand::Idle as u8),
        }
    }

    /// Remembers what a judgement goes by. `comparisons` is what [`warp::changes`] said before these facts.
    pub(crate) fn note(&self, facts: &Facts, comparisons: u32) {
        // ORDERING: Relaxed for all, written under the clock's lock or by the thread, figures on their own.
        self.reference.store(reference_code(facts.clocksource), Ordering::Relaxed);
        // ORDERING: as above.
        self.available.store(available_code(facts.available), Ordering::Relaxed);
        // ORDERING: as above.
        self.comparisons.store(comparisons, Ordering::Relaxed);
        // ORDERING: as above.
        self.demand.store(demand(facts) as u8, Ordering::Relaxed);
    }

    /// What the kernel kept time with, as a number.
    pub(crate) fn reference(&self) -> u8 {
        // ORDERING: Relaxed, as in `note`.
        self.reference.load(Ordering::Relaxed)
    }

    /// How much a comparison of the counters matters.
    pub(crate) fn demand(&self) -> Demand {
        // ORDERING: Relaxed, a hint.
        let demand = self.demand.load(Ordering::Relaxed);
        [Demand::Needed, Demand::Welcome].into_iter().find(|one| *one as u8 == demand).unwrap_or(Demand::Idle)
    }

    /// Whether the facts are still what they were. Reads one small file, or two.
    pub(crate) fn is_current(&self) -> bool {
        // ORDERING: Relaxed for both, as in `note`.
        self.comparisons.load(Ordering::Relaxed) == warp::changes()
            && self.reference() == reference_code(facts::clocksource())
            // A kernel that keeps time with the counter accepts it; one that does not may come to reject it meanwhile
            // (its watchdog goes on watching), or may have been slow to accept it.
            && (self.demand() != Demand::Needed || {
                let available = facts::is_available(HardwareCounter::CLOCKSOURCE);
                // ORDERING: as above.
                self.available.load(Ordering::Relaxed) == available_code(available)
            })
    }
}
