//! The facts of the last judgement that may change while a clock runs.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use tickline_core::counter::HardwareCounter;
use tickline_core::gate::{Clocksource, Facts, NeededComparison, Switch, demand};

use crate::trust::{compare, facts};

/// What the last judgement found of the facts that may change at run time.
#[derive(Debug)]
pub(crate) struct TrustSnapshot {
    /// The place of the clocksource in `Clocksource::NAMED`, counted from 1; 0 for one that is not
    /// there.
    clocksource: AtomicU8,
    /// Whether the kernel would accept the counter, by [`available_code`].
    available: AtomicU8,
    /// [`changes`](compare::changes) of the comparison.
    comparisons: AtomicU32,
    /// Whether a comparison of the counters matters here.
    demand: AtomicU8,
}

const fn available_code(available: Option<bool>) -> u8 {
    match available {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    }
}

/// Whether the kernel would keep time with this target's counter.
#[inline(never)]
fn is_available() -> Option<bool> {
    facts::is_available(HardwareCounter::CLOCKSOURCE, &mut [0; facts::LIST_BYTES])
}

impl TrustSnapshot {
    pub(crate) const fn new() -> Self {
        Self {
            clocksource: AtomicU8::new(0),
            available: AtomicU8::new(0),
            comparisons: AtomicU32::new(0),
            demand: AtomicU8::new(NeededComparison::Idle as u8),
        }
    }

    fn code(clocksource: Clocksource) -> u8 {
        let place = Clocksource::NAMED.iter().position(|(_, named)| *named == clocksource);
        place.and_then(|place| u8::try_from(place).ok()).map_or(0, |place| place.saturating_add(1))
    }

    pub(crate) fn note(&self, facts: &Facts, comparisons: u32) {
        // ORDERING: Relaxed for all, written under the clock's lock or by the thread, figures on
        // their own.
        self.clocksource.store(Self::code(facts.clocksource), Ordering::Relaxed);
        // ORDERING: as above.
        self.available.store(available_code(facts.available), Ordering::Relaxed);
        // ORDERING: as above.
        self.comparisons.store(comparisons, Ordering::Relaxed);
        // A comparison reads the counter. That is a SIGSEGV where the process may not, and unwanted
        // where the program has switched the counter off.
        let usable = facts.readable && facts.counter_present && facts.switch == Switch::On;
        let demand = if usable { demand(facts) } else { NeededComparison::Idle };
        // ORDERING: as above.
        self.demand.store(demand as u8, Ordering::Relaxed);
    }

    /// Whether the facts are still the same. Reads one small file, or two.
    pub(crate) fn is_current(&self) -> bool {
        // ORDERING: as above.
        self.comparisons.load(Ordering::Relaxed) == compare::changes()
            && self.clocksource() == Self::code(facts::clocksource())
            && (!self.rests_on_availability() || {
                let available = is_available();
                // ORDERING: as above.
                self.available.load(Ordering::Relaxed) == available_code(available)
            })
    }

    /// Whether the verdict depends on the kernel's list of clocksources. A kernel that keeps time
    /// with the counter accepts it. Any other kernel may reject it later, because its watchdog
    /// runs on, or may accept it late.
    fn rests_on_availability(&self) -> bool {
        // ORDERING: as above.
        self.demand.load(Ordering::Relaxed) == NeededComparison::Needed as u8
    }

    /// A number that tells one clocksource from another.
    pub(crate) fn clocksource(&self) -> u8 {
        // ORDERING: as above.
        self.clocksource.load(Ordering::Relaxed)
    }

    /// Whether the CPUs' counters should be compared.
    pub(crate) fn wants_comparison(&self) -> bool {
        // ORDERING: as above.
        self.demand.load(Ordering::Relaxed) != NeededComparison::Idle as u8
    }
}

#[cfg(test)]
mod tests {
    use tickline_core::gate::Comparison;

    use super::*;
    use crate::options::{Policy, Probes};

    #[test]
    fn notices_that_the_kernel_rejects_a_counter_that_it_does_not_use() {
        let mut facts = facts::collect(&facts::OsClockFacts {
            disabled: false,
            probes: Probes::Full,
            policy: Policy::DEFAULT,
            comparison: Comparison::Pending,
            line_per_cpu: false,
            was_slow: false,
            unix_was_slow: false,
        });
        // Not collected where the kernel keeps time with the counter.
        facts.available = is_available();
        let was = facts.available;
        let is_current = |facts: &Facts| {
            let seen = TrustSnapshot::new();
            seen.note(facts, compare::changes());
            seen.is_current()
        };
        assert!(is_current(&facts));
        // As if the counter were usable, and no kernel kept time with it.
        (facts.readable, facts.counter_present, facts.switch) = (true, true, Switch::On);
        facts.counters_clocksource = Clocksource::Other;
        assert_eq!(demand(&facts), NeededComparison::Needed);
        assert!(is_current(&facts));
        facts.available = Some(was != Some(true));
        assert!(!is_current(&facts));
    }
}
