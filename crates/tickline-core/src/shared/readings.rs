//! The part of a clock that a program may use beside the clock's driver.

use super::{BoundedReading, Event, Figures, SharedClock, SlowReading};
use crate::cell::StateCell;
use crate::counter::Counter;
use crate::reference::Reference;
use crate::state::LineState;

/// The readings, the figures and the events of a clock. No [`Control`](crate::control::Control)
/// runs on this, and no method here bars or unbars the clock, or gives its cell away. The methods
/// are those of the [`SharedClock`], with the same counter and reference, and two that read the
/// state.
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
pub struct Readings<'a, S>(&'a SharedClock<S>);

impl<S> Clone for Readings<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Readings<'_, S> {}

impl<S> SharedClock<S> {
    /// The part that a program may use beside the clock's driver.
    #[inline(always)]
    #[must_use]
    pub const fn readings(&self) -> Readings<'_, S> {
        Readings(self)
    }
}

impl<S> Readings<'_, S> {
    /// See [`SharedClock::figures`].
    #[must_use]
    pub fn figures(self) -> Figures {
        self.0.figures()
    }

    /// See [`SharedClock::event_count`].
    #[must_use]
    pub fn event_count(self, event: Event) -> u64 {
        self.0.event_count(event)
    }
}

impl<S: StateCell> Readings<'_, S> {
    /// The state of the line: see [`StateCell::load`].
    #[inline]
    #[must_use]
    pub fn state(self) -> LineState {
        self.0.cell().load()
    }

    /// Whether the state is still `state`, which [`state`](Self::state) has returned: see
    /// [`StateCell::is_still`].
    #[inline]
    #[must_use]
    pub fn is_still(self, state: LineState) -> bool {
        self.0.cell().is_still(state)
    }

    /// See [`SharedClock::read_ns`].
    #[inline(always)]
    #[must_use]
    pub fn read_ns(self, counter: &impl Counter) -> Option<i64> {
        self.0.read_ns(counter)
    }

    /// See [`SharedClock::read_ordered_ns`].
    #[inline(always)]
    #[must_use]
    pub fn read_ordered_ns(self, counter: &impl Counter) -> Option<i64> {
        self.0.read_ordered_ns(counter)
    }

    /// See [`SharedClock::now_ordered_ns`].
    #[must_use]
    pub fn now_ordered_ns(self, counter: &impl Counter, reference: &impl Reference) -> i64 {
        self.0.now_ordered_ns(counter, reference)
    }

    /// See [`SharedClock::read_unix_ns`].
    #[inline(always)]
    #[must_use]
    pub fn read_unix_ns(self, counter: &impl Counter) -> Option<i64> {
        self.0.read_unix_ns(counter)
    }

    /// See [`SharedClock::read_ordered_ticks`].
    #[inline]
    #[must_use]
    pub fn read_ordered_ticks(self, counter: &impl Counter) -> Option<u64> {
        self.0.read_ordered_ticks(counter)
    }

    /// See [`SharedClock::read_ordered_bounded`].
    #[inline]
    #[must_use]
    pub fn read_ordered_bounded(self, counter: &impl Counter) -> Option<BoundedReading> {
        self.0.read_ordered_bounded(counter)
    }

    /// See [`SharedClock::read_ordered_bounded_while_valid`].
    #[must_use]
    pub fn read_ordered_bounded_while_valid(
        self,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Option<BoundedReading> {
        self.0.read_ordered_bounded_while_valid(counter, reference)
    }

    /// See [`SharedClock::read_ordered_in_any_state`].
    pub fn read_ordered_in_any_state(
        self,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> SlowReading {
        self.0.read_ordered_in_any_state(counter, reference)
    }
}
