//! The part of a clock that a program may use beside the clock's driver.

use super::events::EventCounters;
use super::{AtomicFigures, Event, Figures};
use crate::cell::StateCell;
use crate::primitive::AtomicI64;
use crate::state::LineState;

/// The readings, the figures and the events of a clock. No [`Control`](crate::control::Control)
/// runs on this, and no method here bars or unbars the clock, or gives its cell away. Every call
/// MUST get the counter and the reference that [`SharedClock`](super::SharedClock) demands.
///
/// ```
/// use tickline_core::cell::LineCell;
/// use tickline_core::driver::DrivenClock;
/// use tickline_core::shared::SharedClock;
///
/// static CLOCK: DrivenClock = DrivenClock::new(SharedClock::new(LineCell::new()));
/// assert_eq!(CLOCK.readings().figures().last_line, None);
/// ```
#[derive(Debug)]
pub struct Readings<S> {
    /// State, slots and bounds.
    pub(crate) cell: S,
    pub(crate) figures: AtomicFigures,
    pub(crate) events: EventCounters,
    /// The latest time of the reference that has vouched for a line past its window, ns.
    pub(super) vouched_ns: AtomicI64,
}

impl<S> Readings<S> {
    pub(super) const fn new(cell: S) -> Self {
        Self {
            cell,
            figures: AtomicFigures::new(),
            events: EventCounters::new(),
            vouched_ns: AtomicI64::new(i64::MIN),
        }
    }

    /// The control loop's latest figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures.load()
    }

    /// The number of times that `event` has happened.
    #[must_use]
    pub fn event_count(&self, event: Event) -> u64 {
        self.events.get(event)
    }
}

impl<S: StateCell> Readings<S> {
    /// The state of the line: see [`StateCell::load`].
    #[inline]
    #[must_use]
    pub fn state(&self) -> LineState {
        self.cell.load()
    }

    /// Whether the state is still `state`, which [`state`](Self::state) has returned: see
    /// [`StateCell::is_still`].
    #[inline]
    #[must_use]
    pub fn is_still(&self, state: LineState) -> bool {
        self.cell.is_still(state)
    }
}
