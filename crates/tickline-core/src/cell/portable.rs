//! The portable cell: a latch of two slots under one 64-bit state word, without 128-bit instructions.
//!
//! A line's base and start live in its slot beside the slope, and the word alone is swapped. Nobody but the writer
//! ever stores to a slot, so a reader that retires a line cannot leave a floor there: the floor of a cold word is the
//! old line's value at the word's tick, which is rounded up to a granule.
//!
//! What the 128-bit cells have and this one has not: a state is told from an earlier one by its word alone. Words
//! repeat only if the counter was reset and a line was published in the very granule of an earlier one, with the same
//! exponent and slot, while a writer or a reader of that earlier line is still stopped between its load and its swap.

use super::{Envelope, Slots, State, StateCell, Support, slot_methods};
use crate::line::{Line, Slope};
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::word::{Phase, Slot, Word};

/// The portable cell. See the [module](self) for how it works.
#[derive(Debug)]
pub struct PortableCell {
    word: AtomicU64,
    lines: [LineWords; 2],
    slots: Slots,
}

#[derive(Debug)]
struct LineWords {
    start_ticks: AtomicU64,
    base_ns: AtomicI64,
}

impl LineWords {
    const fn new() -> Self {
        Self { start_ticks: AtomicU64::new(0), base_ns: AtomicI64::new(0) }
    }
}

impl Default for PortableCell {
    fn default() -> Self {
        Self::new()
    }
}

impl PortableCell {
    /// A cell that is cold, with a floor of 0 ns.
    #[must_use]
    pub const fn new() -> Self {
        Self { word: AtomicU64::new(0), lines: [LineWords::new(), LineWords::new()], slots: Slots::new() }
    }

    /// Always [`Support::Full`]: 64-bit loads are atomic wherever this cell compiles.
    #[must_use]
    pub fn support() -> Support {
        Support::Full
    }

    /// Nothing to restrict.
    pub fn restrict(&self, _: Support) {}

    const fn line_words(&self, slot: Slot) -> &LineWords {
        let [a, b] = &self.lines;
        match slot {
            Slot::A => a,
            Slot::B => b,
        }
    }

    fn swap(&self, from: Word, to: Word) -> bool {
        // ORDERING: acquire and release, pairs with the loads in `load` and `word`. Weaker would let a reader see the
        // new word without the slot it names.
        self.word.compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl StateCell for PortableCell {
    slot_methods!();

    #[inline]
    fn load(&self) -> State {
        let word = self.word();
        let words = self.line_words(word.slot());
        // ORDERING: Acquire, pairs with the Release stores in `publish`.
        let base_ns = words.base_ns.load(Ordering::Acquire);
        if word.phase() != Phase::Cold {
            return State { word, base_ns };
        }
        // ORDERING: Acquire, pairs with the Release stores in `publish`.
        let start_ticks = words.start_ticks.load(Ordering::Acquire);
        let line = Line { start_ticks, base_ns, slope: self.slope(word.slot()) };
        // A line of slope 0 was never published: the floor of a clock that has had no line is 0 ns.
        let floor_ns = if line.slope == Slope::default() { 0 } else { line.at_any(word.ticks()) };
        State { word, base_ns: floor_ns }
    }

    fn load_whole(&self) -> State {
        self.load()
    }

    #[inline]
    fn word(&self) -> Word {
        // ORDERING: Acquire, pairs with the swap; also keeps this load before the slot loads that follow it. As a second
        // look it comes after the slot loads because those acquire.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    fn retire(&self, from: State, to: Word, _floor_ns: i64) -> bool {
        self.swap(from.word, to)
    }

    fn publish(&self, from: State, to: Word, line: &Line, envelope: &Envelope) -> bool {
        let words = self.line_words(to.slot());
        // ORDERING: Release, pairs with the Acquire loads in `load`: a reader of the slot's earlier line that sees one of
        // these also sees the swap that took it out of use, and its second look fails.
        words.start_ticks.store(line.start_ticks, Ordering::Release);
        // ORDERING: Release, as above.
        words.base_ns.store(line.base_ns, Ordering::Release);
        self.slots.get(to.slot()).fill(line.slope, envelope);
        self.swap(from.word, to)
    }
}
