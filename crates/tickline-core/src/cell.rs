//! The cell: the memory in which a writer publishes lines, and from which readers take them.
//!
//! It is a latch: two slots for a line each, and one 64-bit word that says which of them is in
//! use. The writer fills the slot that is *not* in use, then swaps the word. A reader loads the
//! word, takes what it needs from the slot, reads the counter, and loads the word again: if it is
//! the same, the slot was not written meanwhile, and the line was current when the counter was
//! read. Readers never wait and never write; the same code serves every target with 64-bit
//! atomics.
//!
//! # Protocol
//!
//! One writer at a time (it holds the clock's lock) calls [`StateCell::publish`]; anyone may call
//! [`StateCell::swap`].
//!
//! | access | ordering | pairs with |
//! |---|---|---|
//! | reader: first load of the word | acquire | the writer's swap: the slot's contents are seen |
//! | reader: loads from the slot | relaxed | ordered by the first load before them and the fence behind them |
//! | reader: second load of the word | relaxed, behind an acquire fence | the next writer's stores to the slot: a reader that has seen one of them also sees the swap before it |
//! | writer: stores to the slot | release | the reader's fence |
//! | anyone: swap of the word | acquire and release | both loads of the word |
//!
//! # What it cannot do
//!
//! Nobody but the writer stores to a slot, so a reader that ends a line cannot leave a high-water
//! mark there. The high-water mark of a word without a line is the old line's value at the word's
//! tick. That tick is up to [`START_GRANULARITY_TICKS`](crate::word::START_GRANULARITY_TICKS)
//! later than the one that was read, but not beyond the line's end.
//!
//! # Who may add a word
//!
//! Both cache lines of a slot are laid out for readers. The first has what every reading needs,
//! and three free words. The second has the bounds, and one free word. If every reading loads the
//! new word, the `disassembly` test of `tickline` must show that the inlined path gets no longer.
//! State that belongs to the clock and not to a line goes beside the cell, into
//! [`Shared`](crate::shared::Shared).

use crate::line::{Line, Slope};
use crate::primitive::{AtomicI64, AtomicU64, Ordering, fence};
use crate::sample::Point;
use crate::units::{FixedNs, fixed_from_ns, fixed_to_ns_ceil, fixed_to_ns_floor, ticks_between};
use crate::word::{Phase, SLOT_BYTES, Slot, Word};

/// The word, and what the slot that it names holds.
///
/// What was read from a slot is only a claim until a second load of the word has confirmed it, or
/// a swap that expects the word has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// What the clock may do.
    pub word: Word,
    /// The line in use; without a line, the last one.
    pub line: Line,
    /// The window: for how long the inlined path uses the line, ticks from its start.
    pub window_ticks: u64,
}

impl State {
    /// For how long the line is valid, ticks from its start: twice its window. Past the window
    /// readers take the slow path.
    #[must_use]
    pub const fn valid_ticks(&self) -> u64 {
        self.window_ticks << 1
    }

    /// Whether the line is valid at `ticks`. Two-sided: a tick before the start is not.
    #[must_use]
    pub const fn is_valid_at(&self, ticks: u64) -> bool {
        ticks.wrapping_sub(self.line.start_ticks) < self.valid_ticks()
    }

    /// The first tick at which the line is not valid any more.
    #[must_use]
    pub const fn end_ticks(&self) -> u64 {
        self.line.start_ticks.wrapping_add(self.valid_ticks())
    }

    /// Without a line: the high-water mark, ns, which no reading may be below. A clock that has
    /// had no line has the high-water mark 0.
    #[must_use]
    pub fn high_water_ns(&self) -> i64 {
        // A line of slope 0 was never published.
        if self.line.slope == Slope::default() {
            return 0;
        }
        // The word's tick was rounded up, and no reading was made beyond the end.
        let (ticks, end_ticks) = (self.word.start_ticks(), self.end_ticks());
        self.line.at_any(if ticks_between(end_ticks, ticks) > 0 { end_ticks } else { ticks })
    }
}

/// What the inlined path needs of a published line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The line. Its start is the published word itself.
    pub line: Line,
    /// For how long the inlined path uses it, ticks from its start.
    pub window_ticks: u64,
}

/// The bounds between which the reference must be, and what turns the line into Unix time;
/// published with each line. Bounds from a slot start where the line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The reference is not below this line...
    pub lower: Line,
    /// ...nor above this one. Starts at the same tick as `lower`.
    pub upper: Line,
    /// Unix time minus the line, ns.
    pub unix_offset_ns: i64,
    /// Half-width of the interval that contains the true offset, ns.
    pub unix_bound_ns: u64,
    /// By how much the base of `lower` was rounded down, so that later arithmetic does not round
    /// the bound twice. 0 from a slot.
    pub lower_rounding: FixedNs,
    /// By how much the base of `upper` was rounded up. 0 from a slot.
    pub upper_rounding: FixedNs,
}

impl Bounds {
    /// Starts both bounds at `start_ticks`, at these values, rounded outwards.
    pub(crate) fn round_outwards(&mut self, start_ticks: u64, low: FixedNs, high: FixedNs) {
        (self.lower.start_ticks, self.upper.start_ticks) = (start_ticks, start_ticks);
        (self.lower.base_ns, self.upper.base_ns) = (fixed_to_ns_floor(low), fixed_to_ns_ceil(high));
        self.lower_rounding = low.saturating_sub(fixed_from_ns(self.lower.base_ns));
        self.upper_rounding = fixed_from_ns(self.upper.base_ns).saturating_sub(high);
    }

    /// Where both are at `start_ticks`, ns, rounded outwards. If the newest sample is later
    /// than that, the bounds widen towards the past by the difference of their rates, because the
    /// reference's rate was between the two.
    fn base_ns_at(&self, start_ticks: u64) -> (i64, i64) {
        let spread = self.spread(start_ticks);
        (self.lower_ns_at(start_ticks, spread), self.upper_ns_at(start_ticks, spread))
    }

    fn lower_ns_at(&self, start_ticks: u64, spread: FixedNs) -> i64 {
        let low = self.lower.fixed_at(start_ticks).saturating_add(self.lower_rounding);
        fixed_to_ns_floor(low.saturating_sub(spread))
    }

    fn upper_ns_at(&self, start_ticks: u64, spread: FixedNs) -> i64 {
        let high = self.upper.fixed_at(start_ticks).saturating_sub(self.upper_rounding);
        fixed_to_ns_ceil(high.saturating_add(spread))
    }

    /// By how much their rates move them apart from `start_ticks` to where they start.
    fn spread(&self, start_ticks: u64) -> FixedNs {
        let back_ticks = ticks_between(start_ticks, self.lower.start_ticks).max(0);
        self.upper.slope.over(back_ticks).saturating_sub(self.lower.slope.over(back_ticks))
    }
}

/// The shared memory of one clock. See the head of `cell.rs` for the protocol. [`Latch`] is its only
/// implementation; tests wrap it in their own.
pub trait StateCell {
    /// The word: the first load, before the slot is read.
    fn word(&self) -> Word;

    /// Whether the word is still `word`: the second load, after the slot and the counter were read.
    fn is_still(&self, word: Word) -> bool;

    /// The line that the published `word` names.
    fn published(&self, word: Word) -> Published;

    /// As [`published`](Self::published), the line in Unix time.
    fn published_unix(&self, word: Word) -> Published;

    /// The bounds of the line that the published `word` names.
    fn bounds(&self, word: Word) -> Bounds;

    /// The tick from which the line in `slot` counts: the bits of its published word.
    fn start_ticks(&self, slot: Slot) -> u64;

    /// A point below the reference from which the bounds in `slot` were published: the newest
    /// sample proves it.
    fn proven(&self, slot: Slot) -> Point;

    /// The word and all that its slot says about the line, whatever the phase.
    fn load(&self) -> State {
        let word = self.word();
        let Published { line, window_ticks } = self.published(word);
        State { word, line: Line { start_ticks: self.start_ticks(word.slot()), ..line }, window_ticks }
    }

    /// Swaps `from` for `to`, which is not published. Anyone may call this. Returns whether it
    /// happened.
    fn swap(&self, from: Word, to: Word) -> bool;

    /// Fills the slot named by `to`, which must not be the one named by `from`, then swaps `from`
    /// for `to`. The line's start is that of the word, [`Word::to_bits`]. Only the holder of the
    /// clock's lock may call this. Returns whether it happened.
    fn publish(&self, from: Word, to: Word, published: &Published, bounds: &Bounds) -> bool;
}

/// The cell. See the head of `cell.rs` for the protocol.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Latch {
    word: AtomicU64,
    slots: [SlotWords; 2],
}

/// A line's parameters: one cache line with what every reading needs, one with the bounds.
#[derive(Debug)]
#[repr(C, align(128))]
struct SlotWords {
    line: LineWords,
    bounds: BoundsWords,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct LineWords {
    slope: AtomicU64,
    base_ns: AtomicI64,
    window_ticks: AtomicU64,
    /// The base in Unix time: a reading in it costs no more than another.
    unix_base_ns: AtomicI64,
    /// The published word's bits, for readers that find another word.
    start_ticks: AtomicU64,
}

/// The bounds, from the start of the line on.
#[derive(Debug)]
#[repr(C, align(64))]
struct BoundsWords {
    lower_base_ns: AtomicI64,
    lower_slope: AtomicU64,
    upper_base_ns: AtomicI64,
    upper_slope: AtomicU64,
    unix_bound_ns: AtomicU64,
    /// [`StateCell::proven`].
    proven_ticks: AtomicU64,
    proven_ns: AtomicI64,
}

const _: () =
    assert!(size_of::<SlotWords>() == SLOT_BYTES || cfg!(loom), "a reader finds its slot by one mask");
const _: () = assert!(
    size_of::<LineWords>() == 64 && size_of::<BoundsWords>() == 64 || cfg!(loom),
    "a reading without bounds loads one cache line of its slot"
);

// ORDERING for loads from a slot: Relaxed. The first load of the word acquires, which keeps them
// behind it; the fence in `is_still` keeps them before the second load.
const SLOT: Ordering = Ordering::Relaxed;

impl LineWords {
    #[inline(always)]
    fn published(&self, word: Word, base: impl FnOnce(&Self) -> &AtomicI64) -> Published {
        Published {
            line: Line {
                start_ticks: word.to_bits(),
                // ORDERING: see `SLOT`.
                base_ns: base(self).load(SLOT),
                // ORDERING: see `SLOT`.
                slope: Slope::from_bits(self.slope.load(SLOT)),
            },
            // ORDERING: see `SLOT`.
            window_ticks: self.window_ticks.load(SLOT),
        }
    }
}

impl SlotWords {
    const fn new() -> Self {
        Self {
            line: LineWords {
                slope: AtomicU64::new(0),
                base_ns: AtomicI64::new(0),
                window_ticks: AtomicU64::new(0),
                unix_base_ns: AtomicI64::new(0),
                start_ticks: AtomicU64::new(0),
            },
            bounds: BoundsWords {
                lower_base_ns: AtomicI64::new(0),
                lower_slope: AtomicU64::new(0),
                upper_base_ns: AtomicI64::new(0),
                upper_slope: AtomicU64::new(0),
                unix_bound_ns: AtomicU64::new(0),
                proven_ticks: AtomicU64::new(0),
                proven_ns: AtomicI64::new(0),
            },
        }
    }

    fn fill(&self, published: &Published, bounds: &Bounds) {
        let (lower_ns, upper_ns) = bounds.base_ns_at(published.line.start_ticks);
        let (line, words) = (&self.line, &self.bounds);
        // ORDERING: Release for all, pairs with the fence in `is_still`: a reader of the slot's
        // earlier line that has seen one of these values also sees the swap that had taken that
        // line out of use, and its second load of the word differs.
        let order = Ordering::Release;
        line.slope.store(published.line.slope.to_bits(), order);
        line.base_ns.store(published.line.base_ns, order);
        line.window_ticks.store(published.window_ticks, order);
        line.unix_base_ns.store(published.line.base_ns.wrapping_add(bounds.unix_offset_ns), order);
        line.start_ticks.store(published.line.start_ticks, order);
        words.lower_base_ns.store(lower_ns, order);
        words.lower_slope.store(bounds.lower.slope.to_bits(), order);
        words.upper_base_ns.store(upper_ns, order);
        words.upper_slope.store(bounds.upper.slope.to_bits(), order);
        words.unix_bound_ns.store(bounds.unix_bound_ns, order);
        words.proven_ticks.store(bounds.lower.start_ticks, order);
        words.proven_ns.store(bounds.lower.base_ns, order);
    }
}

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

impl Latch {
    /// A cell without a line, with a high-water mark of 0 ns.
    #[must_use]
    pub const fn new() -> Self {
        Self { word: AtomicU64::new(0), slots: [SlotWords::new(), SlotWords::new()] }
    }

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "0 or 1 of two; a match would compile to a branch in the hot path"
    )]
    const fn slot(&self, slot: Slot) -> &SlotWords {
        &self.slots[slot as usize]
    }

    fn exchange(&self, from: Word, to: Word) -> bool {
        // ORDERING: acquire and release, pairs with both loads of the word: weaker would let a
        // reader see the new word without the slot it names, or let the writer read the counter
        // before others see the word that takes the old line out of use. Relaxed on failure: the
        // caller then loads the word again.
        self.word.compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl StateCell for Latch {
    #[inline(always)]
    fn word(&self) -> Word {
        // ORDERING: Acquire, pairs with the swap of a writer: the slot that the word names is
        // seen as that writer filled it.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn is_still(&self, word: Word) -> bool {
        // ORDERING: the fence keeps the loads from the slot, and on aarch64 the load that depends
        // on the counter, before the load below; it pairs with the Release stores in `fill`.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, behind the fence.
        self.word.load(Ordering::Relaxed) == word.to_bits()
    }

    #[inline(always)]
    fn published(&self, word: Word) -> Published {
        self.slot(word.slot()).line.published(word, |line| &line.base_ns)
    }

    #[inline(always)]
    fn published_unix(&self, word: Word) -> Published {
        self.slot(word.slot()).line.published(word, |line| &line.unix_base_ns)
    }

    #[inline]
    fn bounds(&self, word: Word) -> Bounds {
        let SlotWords { line, bounds: words } = self.slot(word.slot());
        let start_ticks = word.to_bits();
        // ORDERING: see `SLOT`, for all.
        let bound = |base: &AtomicI64, slope: &AtomicU64| Line {
            start_ticks,
            // ORDERING: as above.
            base_ns: base.load(SLOT),
            // ORDERING: as above.
            slope: Slope::from_bits(slope.load(SLOT)),
        };
        Bounds {
            lower: bound(&words.lower_base_ns, &words.lower_slope),
            upper: bound(&words.upper_base_ns, &words.upper_slope),
            // ORDERING: as above, for both.
            unix_offset_ns: line.unix_base_ns.load(SLOT).wrapping_sub(line.base_ns.load(SLOT)),
            // ORDERING: as above.
            unix_bound_ns: words.unix_bound_ns.load(SLOT),
            ..Bounds::default()
        }
    }

    fn start_ticks(&self, slot: Slot) -> u64 {
        // ORDERING: see `SLOT`.
        self.slot(slot).line.start_ticks.load(SLOT)
    }

    fn proven(&self, slot: Slot) -> Point {
        let bounds = &self.slot(slot).bounds;
        // ORDERING: see `SLOT`, for both.
        Point { ticks: bounds.proven_ticks.load(SLOT), ns: bounds.proven_ns.load(SLOT) }
    }

    fn swap(&self, from: Word, to: Word) -> bool {
        debug_assert!(to.phase() != Phase::Published, "a line is published, not swapped in");
        self.exchange(from, to)
    }

    fn publish(&self, from: Word, to: Word, published: &Published, bounds: &Bounds) -> bool {
        debug_assert!(published.line.start_ticks == to.to_bits(), "a line counts from its word");
        self.slot(to.slot()).fill(published, bounds);
        self.exchange(from, to)
    }
}

#[cfg(test)]
mod tests;
