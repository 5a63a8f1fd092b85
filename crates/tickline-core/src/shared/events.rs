//! Counts of a clock's events.

use crate::primitive::{AtomicU64, Ordering};

crate::named! {
    /// An event of a clock. The clock counts its events from its creation. The reference is the OS
    /// clock that it follows.
    ///
    /// ```
    /// use tickline_core::{cell::LineCell, shared::{Event, SharedClock}};
    ///
    /// let clock = SharedClock::new(LineCell::new());
    /// for event in Event::ALL.iter().copied() {
    ///     assert_eq!(clock.readings().event_count(event), 0, "{}", event.code());
    /// }
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Event {
        /// The clock was recalibrated while readings used the counter: a line replaced a line.
        Replacement => "replacement",
        /// Readings began to use the counter: a first line was published, at start-up or after a
        /// line had ended.
        FirstPublication => "first_publication",
        /// Readings went back to the reference, because nobody had renewed the line in time, or the
        /// reference did not vouch for it. A reader or the writer noticed this, and retired the
        /// line.
        Expiry => "expiry",
        /// Readings went back to the reference, because the counter was found before the start of
        /// the line: it was reset, or differs between CPUs.
        CounterReset => "counter_reset",
        /// Readings use the reference until the next recalibration, because the writer was
        /// preempted in the middle of a publication. A reader waited for it in vain, 2 us at most
        /// or, for a first line, longer, and then ended the publication.
        Help => "help",
        /// Readings jumped forward: the line was far behind the reference, and was stepped to it.
        StepForward => "step_forward",
        /// The reference changed its rate by more than the samples allow. The clock dropped the old
        /// samples, and measures the rate anew.
        RateChange => "rate_change",
        /// The reference left the bounds that the clock had stated.
        BoundViolation => "bound_violation",
        /// The reference or the counter jumped.
        Disruption => "disruption",
        /// Unix time was stepped.
        UnixStep => "unix_step",
        /// Readings stopped using the counter, because a gate was closed, or the gates had to be
        /// judged again. So this also counts a repeated judgement that finds every gate open.
        GateClosed => "gate_closed",
        /// Readings may use the counter from now on, because every gate was found open.
        GateOpened => "gate_opened",
    }
}

/// A count for each event.
#[derive(Debug, Default)]
pub(crate) struct EventCounters([AtomicU64; Event::ALL.len()]);

impl EventCounters {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Event::ALL.len()])
    }

    pub(crate) fn count(&self, event: Event) {
        if let Some(counter) = self.0.get(event as usize) {
            // ORDERING: Relaxed, a count that orders nothing.
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self, event: Event) -> u64 {
        // ORDERING: Relaxed, a count that orders nothing.
        self.0
            .get(event as usize)
            .map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_code_stands_for_two_events() {
        let codes: BTreeSet<_> = Event::ALL.iter().map(|event| event.code()).collect();
        assert_eq!(codes.len(), Event::ALL.len(), "{codes:?}");
    }
}
