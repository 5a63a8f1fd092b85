//! What readers and the writer share, and every reading that is not the inlined one.
//!
//! The rules of order that the functions below keep are numbered as in `DESIGN.md`, section "Order":
//!
//! - a reading from a line counts if the word is the same after the counter was read (rule 1);
//! - whoever finds that a line is not valid any more, or the counter before it, makes the clock cold before anything else
//!   (rule 4), leaving a high-water mark that no earlier reading can have exceeded (rule 5);
//! - whoever finds `closing` for longer than two microseconds makes the clock cold too: nobody waits for a preempted
//!   writer (rule 3);
//! - a cold reading is the reference or the high-water mark, whichever is larger, and counts if the state is still the same after
//!   the reference was read (rule 6);
//! - a gate is a state of its own, so that no late writer can open it (rule 8);
//! - a stamp, whenever it is converted, is in order with the readings of its thread (rule 12).
//! - past the window the reference must vouch for a reading (rule 13): `floor.rs`.

use crate::cell::{State, StateCell};
use crate::counter::Counter;
use crate::primitive::{AtomicU64, Ordering};
use crate::sample::{Point, Reference};
use crate::timeline::{NoTimeline, Timeline};
use crate::units::ticks_between;
use crate::word::{Phase, Slot};

mod gauges;
mod high_water;
mod reading;
mod stamp;
mod suspends;

pub(crate) use gauges::Found;
pub use gauges::{BoundParts, Gauges};
pub use reading::{Kind, LineReading, Ordered, Plain, SlowReading, Source, Unix, WithBounds};

/// Something that happened to a clock, counted since it was made.
///
/// ```
/// use tickline_core::{cell::Latch, shared::{Event, Shared}};
///
/// let clock = Shared::new(Latch::new());
/// for event in Event::ALL.iter().copied() {
///     assert_eq!(clock.events(event), 0, "{}", event.name());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A line replaced a line.
    Publication,
    /// A line followed a cold spell.
    Recovery,
    /// A reader or the writer found the window passed, and made the clock cold.
    Expiry,
    /// The counter was found before the start of the line: it was reset, or differs between CPUs.
    CounterReset,
    /// A reader found the writer preempted in the middle, and made the clock cold.
    Help,
    /// The clock was stepped forward to the reference.
    StepForward,
    /// The reference changed its rate by more than the samples allow; old ones were dropped.
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

/// The memory that readers and the writer of one clock share. All zeros are a valid clock, cold, with high-water mark 0.
#[derive(Debug, Default)]
pub struct Shared<S, P = Timeline> {
    /// State, slopes and bounds.
    pub cell: S,
    /// Past lines, for stamps.
    pub(crate) timeline: P,
    /// What the control loop last found.
    pub gauges: Gauges,
    suspends: suspends::Suspends,
    events: [AtomicU64; Event::ALL.len()],
}

impl<S> Shared<S> {
    /// A clock that has no line yet, around `cell`.
    #[must_use]
    pub const fn new(cell: S) -> Self {
        Self::with(cell, Timeline::new())
    }
}

impl<S> Shared<S, NoTimeline> {
    /// As [`new`](Shared::new), without stamps: it keeps no past lines.
    #[must_use]
    pub const fn without_timeline(cell: S) -> Self {
        Self::with(cell, NoTimeline)
    }
}

impl<S, P> Shared<S, P> {
    const fn with(cell: S, timeline: P) -> Self {
        Self {
            cell,
            timeline,
            gauges: Gauges::new(),
            suspends: suspends::Suspends::new(),
            events: [const { AtomicU64::new(0) }; Event::ALL.len()],
        }
    }

    /// Notes for the line that is about to be published in `slot` how long the machine had been suspended before its samples.
    pub(crate) fn note_suspended(&self, slot: Slot, suspended_ns: Option<i64>) {
        self.suspends.note(slot, suspended_ns);
    }

    /// Counts an event.
    pub fn count(&self, event: Event) {
        if let Some(counter) = self.events.get(event as usize) {
            // ORDERING: Relaxed, a count that orders nothing.
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often `event` has happened.
    #[must_use]
    pub fn events(&self, event: Event) -> u64 {
        // ORDERING: Relaxed, a count that orders nothing.
        self.events.get(event as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

impl<S: StateCell, P> Shared<S, P> {
    /// Rules 4 and 5: makes the clock cold because the line of `state` does not count for `ticks`, which were read after it
    /// ([`is_over`](Self::is_over)). Closes it first: nobody reads it any more when the high-water mark is taken. `ticks` alone do not say
    /// so where the reference does not vouch for them yet, or where a writer's thread was moved to another CPU's counter.
    /// `newest` is as for [`high_water_ticks`](Self::high_water_ticks).
    pub(crate) fn expire(
        &self,
        state: &State,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) {
        let closing = State { word: state.word.replacing(), ..*state };
        if !self.cell.swap(state.word, closing.word) {
            return;
        }
        let reset = ticks_between(state.line.start_ticks, ticks) < 0;
        self.count(if reset { Event::CounterReset } else { Event::Expiry });
        // Within the window, other readers may have been later than this.
        let ticks = if reset { ticks } else { state.end_ticks() };
        self.help_at(&closing, ticks, newest, reference);
    }

    /// Rule 5: closing -> cold, with a tick read after `closing` was seen: no reading of the old line that counts was made
    /// later. An opening goes back to where it came from. Returns whether this call did it.
    pub fn help(&self, state: &State, counter: &impl Counter, reference: &impl Reference) -> bool {
        // While a clock is opening its counter is of no use here, and is left alone.
        let ticks = if state.word.phase() == Phase::FirstPublication { 0 } else { counter.now_ordered() };
        self.help_at(state, ticks, None, reference)
    }

    /// As [`help`](Self::help), with `ticks` from whoever has read the counter, and `newest` as for
    /// [`high_water_ticks`](Self::high_water_ticks).
    pub(crate) fn help_at(
        &self,
        state: &State,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) -> bool {
        if state.word.phase() == Phase::FirstPublication {
            return self.cell.swap(state.word, state.word.given_up());
        }
        self.cell
            .swap(state.word, state.word.without_line(self.high_water_ticks(state, ticks, newest, reference)))
    }

    /// Rule 8: closes the gate. When this returns, no reading that begins later uses the counter, until
    /// [`open_gate`](Self::open_gate). Returns whether the gate was open before.
    pub fn close_gate(&self, counter: &impl Counter, reference: &impl Reference) -> bool {
        let mut was_open = false;
        loop {
            let state = self.cell.load();
            match (state.word.phase(), state.word.is_gate_closed()) {
                (Phase::NoLine, true) => return was_open,
                (Phase::Replacing | Phase::FirstPublication, true) => {
                    self.help(&state, counter, reference);
                }
                (_, _) => {
                    if self.cell.swap(state.word, state.word.with_gate_closed()) {
                        self.count(Event::GateClosed);
                        was_open = true;
                    }
                }
            }
        }
    }

    /// Opens the gate again: the clock is cold until the next line. Returns whether the gate was closed before. Waits for
    /// nobody: a gate that somebody is still closing is closed first.
    pub fn open_gate(&self, counter: &impl Counter, reference: &impl Reference) -> bool {
        loop {
            let state = self.cell.load();
            match (state.word.phase(), state.word.is_gate_closed()) {
                (_, false) => return false,
                (Phase::NoLine, true) => {
                    if self.cell.swap(state.word, state.word.with_gate_open()) {
                        self.count(Event::GateOpened);
                        return true;
                    }
                }
                (_, true) => {
                    self.help(&state, counter, reference);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
