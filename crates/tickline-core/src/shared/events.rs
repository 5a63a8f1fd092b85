//! Counts of a clock's events.

use crate::primitive::{AtomicU64, Ordering};

crate::named! {
    /// An event of a clock. The clock counts its events from its creation.
    ///
    /// ```
    /// use tickline_core::{cell::LineCell, shared::{Event, SharedClock}};
    ///
    /// let clock = SharedClock::new(LineCell::new());
    /// for event in Event::ALL.iter().copied() {
    ///     assert_eq!(clock.event_count(event), 0, "{}", event.code());
    /// }
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Event {
        /// A line replaced a line.
        Replacement => "replacement",
        /// A first line was published: at start-up, or after a line had ended.
        FirstPublication => "first_publication",
        /// A reader or the writer found the line past its validity, or not vouched for, and retired
        /// it.
        Expiry => "expiry",
        /// The counter was found before the start of the line: it was reset, or differs between
        /// CPUs.
        CounterReset => "counter_reset",
        /// A reader found the writer preempted in the middle of a publication, and helped.
        Help => "help",
        /// The clock was stepped forward to the reference.
        StepForward => "step_forward",
        /// The reference changed its rate by more than the samples allow; old samples were dropped.
        RateChange => "rate_change",
        /// The reference left the stated bounds.
        BoundViolation => "bound_violation",
        /// The reference or the counter jumped.
        Disruption => "disruption",
        /// Unix time was stepped.
        UnixStep => "unix_step",
        /// The clock was barred: a gate was closed, or the gates had to be judged again. So this
        /// also counts a repeated judgement that finds every gate open.
        GateClosed => "gate_closed",
        /// The clock was unbarred: every gate was found open.
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
