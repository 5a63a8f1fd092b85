//! What readers and the writer share: retiring a line, and gates.
//!
//! The rules of order that the functions below keep are numbered as in `DESIGN.md`, section
//! "Order":
//!
//! - a reading from a line counts if the word is the same after the counter was read (rule 1);
//! - whoever finds that a line is no longer valid, or that the counter is before its start, first
//!   retires the line (rule 4), and leaves a high-water mark that no earlier reading can have
//!   exceeded (rule 5);
//! - a reader that finds a line being replaced for longer than two microseconds retires it as
//!   well: nobody waits for a preempted writer (rule 3);
//! - a reading without a line is the reference or the high-water mark, whichever is larger, and
//!   counts if the state is still the same after the reference was read (rule 6);
//! - a gate is a state of its own, so that no late writer can open it (rule 8);
//! - past the window the reference must vouch for a reading (rule 13): `high_water.rs`.

pub use crate::cell::Latch;
use crate::cell::{State, StateCell};
use crate::counter::Counter;
use crate::sample::{Point, Reference};
use crate::units::ticks_between;
use crate::word::{Phase, Slot};

pub(crate) mod events;
mod gauges;
mod high_water;
mod reading;
mod suspends;

pub use events::Event;
use events::Events;
pub(crate) use gauges::Found;
pub use gauges::{BoundParts, Gauges};
pub use reading::{Kind, LineReading, Ordered, Plain, SlowReading, Source, Unix, WithBounds};

/// The memory that readers and the writer of one clock share. All zeros are a valid clock without
/// a line, with high-water mark 0.
#[derive(Debug, Default)]
pub struct Shared<S> {
    /// State, slopes and bounds.
    pub cell: S,
    /// What the control loop last found.
    pub gauges: Gauges,
    suspends: suspends::Suspends,
    pub(crate) events: Events,
}

impl<S> Shared<S> {
    /// A clock that has no line yet, around `cell`.
    #[must_use]
    pub const fn new(cell: S) -> Self {
        Self { cell, gauges: Gauges::new(), suspends: suspends::Suspends::new(), events: Events::new() }
    }

    /// Stores, for the line that is about to be published in `slot`, how long the machine had
    /// been suspended before its samples.
    pub(crate) fn note_suspended(&self, slot: Slot, suspended_ns: Option<i64>) {
        self.suspends.note(slot, suspended_ns);
    }

    /// Counts an event.
    pub fn count(&self, event: Event) {
        self.events.count(event);
    }

    /// How often `event` has happened.
    #[must_use]
    pub fn events(&self, event: Event) -> u64 {
        self.events.get(event)
    }
}

impl<S: StateCell> Shared<S> {
    /// Rules 4 and 5: retires the line of `state`, which does not count for `ticks` that were
    /// read after it ([`is_over`](Self::is_over)). It changes the word first, so that nobody
    /// reads the line any more when the high-water mark is taken. `ticks` alone do not show that
    /// the line is over where the reference does not vouch for them yet, or where a writer's
    /// thread was moved to another CPU's counter. `newest` is as for
    /// [`high_water_ticks`](Self::high_water_ticks).
    pub(crate) fn expire(
        &self,
        state: &State,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) {
        let replacing = State { word: state.word.replacing(), ..*state };
        if !self.cell.swap(state.word, replacing.word) {
            return;
        }
        let reset = ticks_between(state.line.start_ticks, ticks) < 0;
        self.count(if reset { Event::CounterReset } else { Event::Expiry });
        // Otherwise other readers may have been later than this.
        let ticks = if reset { ticks } else { state.end_ticks() };
        self.help_at(&replacing, ticks, newest, reference);
    }

    /// Rule 5: retires a line that is being replaced, with a tick that was read after the word
    /// was seen: no reading of the old line that counts is later than that. A first publication
    /// goes back to the word before it. Returns whether this call did it.
    pub fn help(&self, state: &State, counter: &impl Counter, reference: &impl Reference) -> bool {
        // During a first publication the counter is of no use here.
        let ticks = if state.word.phase() == Phase::FirstPublication { 0 } else { counter.now_ordered() };
        self.help_at(state, ticks, None, reference)
    }

    /// As [`help`](Self::help), with `ticks` that the caller has read, and `newest` as for
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

    /// Rule 8: closes the gate. When this returns, no reading that begins later uses the counter,
    /// until [`open_gate`](Self::open_gate). Returns whether the gate was open before.
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

    /// Opens the gate again: the clock has no line until the next one is published. Returns
    /// whether the gate was closed before. Waits for nobody: if another thread is still closing
    /// the gate, this finishes that first.
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
