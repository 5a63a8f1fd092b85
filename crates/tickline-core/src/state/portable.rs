//! A state made of 64-bit atomics, for targets without an atomic of 128 bits, and for Miri.
//!
//! ```text
//! 63   48 47      6 5      4 3  0
//! [ tag  | swaps   | entry  |    ]      the word, which a swap replaces
//! [ 0 | high-water mark, ns ]           entry 0: the mark, which only rises
//! [ m | b ] [ m | b ]                   entries 1 and 2: the line of each slot, `m` without a tag
//! ```
//!
//! The state's `m` is the entry's with the word's tag, and its `b` is the entry's. Without a line
//! the word names entry 0.
//!
//! A word of all zeros is a clock without a line. The word counts the swaps, modulo 2^42. So a
//! value of it may recur only after 2^42 swaps: 5 days of nothing but swaps, at 10 million a
//! second, or 1,400 years at 100 a second. Only a thread that is stopped for exactly as many
//! swaps, between two loads of the word or before its own swap, could take the one for the other.
//!
//! **A swap that publishes no line takes nothing that another thread could hold.** It stores the
//! mark, if it sets one, and swaps the word. So threads that are stopped within a swap, or that a
//! fork left behind, stop nobody. Only the writer fills a pair, and never the one that the word
//! names, as it fills the slots (`cell.rs`). No reader waits for a stopped thread; it loads again
//! if a swap came between its loads.
//!
//! **The mark is not swapped with the word**, so two threads that retire one line may both raise
//! it, and a thread that was stopped before its store may raise the mark of a later line. That
//! keeps the order, because a mark that is too high only makes readings stand still until the
//! reference has passed it. The thread computed it before it found its line in the word, so it
//! could have left this mark at that time (rule 5). The reference has come closer to it since. A
//! writer that starts a line above the mark must not miss such a rise. So it checks the mark again
//! after it has announced the line: no reading counts from then on until the line is published.
//!
//! Where there are no 64-bit atomics, [`primitive`](crate::primitive) has plain cells, and the
//! clock is not [`Sync`].
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | A pair for each swap, of eight | Seven threads that are stopped within a swap stop all others: a reading that must help, and the call that bars the clock, then never return. In the child of a fork, the pairs that other threads were filling stay taken |
//! | The mark in the word, as ticks | It is rounded up, by 11 us at 24 MHz |

use super::{LineState, TAG_BITS, TAG_MASK};
use crate::primitive::{AtomicI64, AtomicU64, Ordering, fence};

/// An entry's index is at this bit, and its distance in memory the same, bytes, so that a reader
/// computes its address by one mask.
const ENTRY_SHIFT: u32 = 4;
const ENTRY_MASK: u64 = 3 << ENTRY_SHIFT;
/// One swap more.
const SWAP: u64 = 1 << 6;
const TAG_SHIFT: u32 = 64 - TAG_BITS;
const SWAPS_MASK: u64 = (1 << TAG_SHIFT) - SWAP;

const _: () = assert!(cfg!(loom) || size_of::<Pair>() == 1 << ENTRY_SHIFT);

/// A state that changes atomically, by a compare-and-swap of 64 bits.
#[derive(Debug)]
pub(crate) struct AtomicState {
    word: AtomicU64,
    /// The last entry is unused: an index of two bits needs no check.
    entries: [Pair; 4],
}

#[derive(Debug)]
struct Pair {
    m: AtomicU64,
    b: AtomicI64,
}

impl Pair {
    const fn new(b: i64) -> Self {
        Self {
            m: AtomicU64::new(0),
            b: AtomicI64::new(b),
        }
    }
}

/// Loads and swaps are atomic.
#[must_use]
pub fn has_atomics() -> bool {
    true
}

/// Returns `value`. `state/x86_64.rs` also puts its address into a register.
#[inline(always)]
pub(crate) const fn in_register<T>(value: &T) -> &T {
    value
}

impl AtomicState {
    /// No line, and this high-water mark.
    pub(crate) const fn new(high_water_ns: i64) -> Self {
        Self {
            word: AtomicU64::new(0),
            entries: [
                Pair::new(high_water_ns),
                Pair::new(0),
                Pair::new(0),
                Pair::new(0),
            ],
        }
    }

    /// The state.
    #[inline(always)]
    pub(crate) fn load(&self) -> LineState {
        loop {
            // ORDERING: Acquire, pairs with the swap of the word: this load sees the pair filled,
            // and the mark stored.
            let word = self.word.load(Ordering::Acquire);
            let state = self.state_of(word);
            // ORDERING: the fence keeps the loads of pair and mark before the one below; it pairs
            // with the Release accesses in `begin_swap`.
            fence(Ordering::Acquire);
            // ORDERING: Relaxed, behind the fence.
            if self.word.load(Ordering::Relaxed) == word {
                return state;
            }
        }
    }

    /// Whether the state is `state`, after every earlier load.
    #[inline(always)]
    pub(crate) fn is_still(&self, state: LineState) -> bool {
        // ORDERING: Acquire keeps earlier loads before it; pairs with the Release stores of a slot.
        // No test sees a weaker one: `load` has a fence of its own before its second load of the
        // word.
        fence(Ordering::Acquire);
        self.load() == state
    }

    /// Swaps `from` for `to`, unless the state is not `from`, or has just changed. Returns whether
    /// it swapped. Only the holder of the clock's lock may swap in a published line, and not into
    /// the slot of `from`. Every other `to` has the line of `from`, or none; a mark that is below
    /// an earlier one does not lower it.
    pub(crate) fn try_swap(&self, from: LineState, to: LineState) -> bool {
        self.begin_swap(from, to)
            .is_some_and(|(word, next)| self.end_swap(word, next))
    }

    pub(super) fn end_swap(&self, word: u64, next: u64) -> bool {
        // ORDERING: acquire and release, pairs with the loads of the word. No test sees Release
        // without Acquire, as in `modelled.rs`. Relaxed on failure: the caller uses nothing then.
        self.word
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Everything before the swap of the word. Returns the word, and the next one; `None` if the
    /// state is not `from`.
    pub(super) fn begin_swap(&self, from: LineState, to: LineState) -> Option<(u64, u64)> {
        // ORDERING: Acquire, pairs with the Release stores of a slot. A thread that has computed a
        // mark from a slot that was refilled sees below that its state is gone, and raises nothing.
        fence(Ordering::Acquire);
        // ORDERING: Acquire, pairs with the swap of the word.
        let word = self.word.load(Ordering::Acquire);
        if self.state_of(word) != from {
            return None;
        }
        if to.is_published() {
            // ORDERING: Release, pairs with the fence in `load`. Another thread may raise the mark
            // after this access. A reader of that mark then also sees that the line is announced,
            // so its reading does not count. This is not a load, because a load could miss a mark
            // that a reader had seen before the announcement.
            let is_marked =
                from.has_line() || self.mark().fetch_max(i64::MIN, Ordering::Release) == from.b;
            if !is_marked {
                return None;
            }
            let pair = self.entry(entry_of(to));
            // ORDERING: Release for both, pairs with the fence in `load`. A reader of the pair's
            // earlier line may see one of these stores. It then also sees that the word no longer
            // names this pair.
            pair.m.store(to.m & !TAG_MASK, Ordering::Release);
            pair.b.store(to.b, Ordering::Release);
        } else if to.has_line() {
            debug_assert!(
                (to.slope(), to.slot(), to.b) == (from.slope(), from.slot(), from.b),
                "only a publication has another line"
            );
        } else {
            // ORDERING: Relaxed: the swap of the word, behind it, publishes it.
            self.mark().fetch_max(to.b, Ordering::Relaxed);
        }
        let tag = (to.m & TAG_MASK) << TAG_SHIFT;
        let swaps = word.wrapping_add(SWAP) & SWAPS_MASK;
        Some((word, tag | swaps | entry_of(to) << ENTRY_SHIFT))
    }

    /// The state that `word` names; a mixture if the word has changed meanwhile.
    #[inline(always)]
    fn state_of(&self, word: u64) -> LineState {
        let entry = self.entry((word & ENTRY_MASK) >> ENTRY_SHIFT);
        // ORDERING: Relaxed for both, between the two loads of the word.
        LineState {
            m: entry.m.load(Ordering::Relaxed) | word >> TAG_SHIFT,
            b: entry.b.load(Ordering::Relaxed),
        }
    }

    /// The high-water mark, ns.
    pub(super) fn mark(&self) -> &AtomicI64 {
        &self.entry(0).b
    }

    #[inline(always)]
    fn entry(&self, index: u64) -> &Pair {
        #[expect(clippy::indexing_slicing, reason = "two bits, and four entries")]
        &self.entries[(index & 3) as usize]
    }
}

/// The index of the entry that has the line of `state`, or the mark.
const fn entry_of(state: LineState) -> u64 {
    if state.has_line() {
        (state.slot() as u64).wrapping_add(1)
    } else {
        0
    }
}
