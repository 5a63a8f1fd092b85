//! Counts of what happened to a clock.

use crate::primitive::{AtomicU64, Ordering};

/// Something that happened to a clock, counted since it was made.
///
/// ```
/// use tickline_core::shared::{Event, LineCell, Shared};
///
/// let clock = Shared::new(LineCell::new());
/// for event in Event::ALL.iter().copied() {
///     assert_eq!(clock.events(event), 0, "{}", event.name());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A line replaced a line.
    Publication,
    /// A line followed a time without one.
    Recovery,
    /// A reader or the writer found the line past its validity, or not vouched for, and retired
    /// it.
    Expiry,
    /// The counter was found before the start of the line: it was reset, or differs between CPUs.
    CounterReset,
    /// A reader found the writer preempted in the middle of a publication, and helped.
    Help,
    /// The clock was stepped forward to the reference.
    StepForward,
    /// The reference changed its rate by more than the samples allow; old samples were dropped.
    RateChange,
    /// The reference left the stated bounds.
    BoundViolation,
    /// The reference or the counter jumped.
    Disruption,
    /// Unix time was stepped.
    UnixStep,
    /// A gate was closed.
    GateClosed,
    /// A gate was opened again.
    GateOpened,
}

impl Event {
    /// Every event, in the order of their declaration.
    pub const ALL: &'static [Self] = &[
        Self::Publication,
        Self::Recovery,
        Self::Expiry,
        Self::CounterReset,
        Self::Help,
        Self::StepForward,
        Self::RateChange,
        Self::BoundViolation,
        Self::Disruption,
        Self::UnixStep,
        Self::GateClosed,
        Self::GateOpened,
    ];

    /// A stable name, in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publication => "publication",
            Self::Recovery => "recovery",
            Self::Expiry => "expiry",
            Self::CounterReset => "counter_reset",
            Self::Help => "help",
            Self::StepForward => "step_forward",
            Self::RateChange => "rate_change",
            Self::BoundViolation => "bound_violation",
            Self::Disruption => "disruption",
            Self::UnixStep => "unix_step",
            Self::GateClosed => "gate_closed",
            Self::GateOpened => "gate_opened",
        }
    }
}

/// A count for each event.
#[derive(Debug, Default)]
pub(crate) struct Events([AtomicU64; Event::ALL.len()]);

impl Events {
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
        self.0.get(event as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}
