//! A 128-bit atomic made of 64-bit atomics, for targets without native ones, and for Miri.
//!
//! A word names one of eight pairs, and counts the swaps, so no value of the word recurs. A swap
//! takes an unused pair, fills it, and swaps the word. No reader waits for a stopped thread; it
//! loads again if a swap came between its loads. Up to seven threads may be stopped in the middle
//! of a swap; with more, a swap fails because no pair is free. In the child of a fork, the pairs
//! that other threads of the parent were filling stay taken.
//!
//! Where there are no 64-bit atomics, [`primitive`](crate::primitive) has plain cells, and the
//! clock is not [`Sync`].

use super::LineState;
use crate::primitive::{AtomicI64, AtomicU64, Ordering, fence};

const PAIRS: usize = 8;
const INDEX_MASK: u64 = 7;

/// A state that changes atomically. See the [module](self).
#[derive(Debug)]
pub(crate) struct AtomicState {
    /// Swaps so far, and the index of the pair in use.
    word: AtomicU64,
    /// A bit for each pair that is in use or being filled. The bit of the first pair is inverted,
    /// so that memory of all zeros has this pair in use.
    taken: AtomicU64,
    pairs: [Pair; PAIRS],
}

#[derive(Debug)]
struct Pair {
    m: AtomicU64,
    b: AtomicI64,
}

/// Loads and swaps are atomic.
#[must_use]
pub const fn has_atomics() -> bool {
    true
}

impl AtomicState {
    /// No line, and a high-water mark of 0 ns.
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            pairs: [const {
                Pair {
                    m: AtomicU64::new(0),
                    b: AtomicI64::new(0),
                }
            }; PAIRS],
        }
    }

    /// The state.
    #[inline(always)]
    pub(crate) fn load(&self) -> LineState {
        loop {
            // ORDERING: Acquire, pairs with the swap of the word: this load sees the pair filled.
            let word = self.word.load(Ordering::Acquire);
            let state = self.pair(word);
            // ORDERING: the fence keeps the loads of the pair before the one below; it pairs with
            // the Release stores in `try_swap`.
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

    /// Swaps `from` for `to`. Fails if the state is not `from`, or has just changed, or no pair is
    /// free. Returns whether it swapped.
    pub(crate) fn try_swap(&self, from: LineState, to: LineState) -> bool {
        // ORDERING: Acquire, pairs with the swap of the word below.
        let word = self.word.load(Ordering::Acquire);
        if self.pair(word) != from {
            return false;
        }
        let Some(index) = self.take() else {
            return false;
        };
        let Some(pair) = self.pairs.get(index) else {
            return false;
        };
        // ORDERING: Release for both, pairs with the fence in `load`. A reader of the pair's
        // earlier state may see one of these stores. It then also sees that the word no longer
        // names this pair.
        pair.m.store(to.m, Ordering::Release);
        pair.b.store(to.b, Ordering::Release);
        let next = (word & !INDEX_MASK).wrapping_add(INDEX_MASK + 1) | index as u64;
        // ORDERING: acquire and release, pairs with the loads of the word. No test sees Release
        // without Acquire, as in `modelled.rs`. Relaxed on failure: the caller uses nothing then.
        let swapped = self
            .word
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        self.free(if swapped {
            word & INDEX_MASK
        } else {
            index as u64
        });
        swapped
    }

    /// The content of the pair that `word` names; a mixture if the word has changed meanwhile.
    #[inline(always)]
    fn pair(&self, word: u64) -> LineState {
        #[expect(clippy::indexing_slicing, reason = "three bits, and eight pairs")]
        let pair = &self.pairs[(word & INDEX_MASK) as usize];
        // ORDERING: Relaxed for both, between the two loads of the word.
        LineState {
            m: pair.m.load(Ordering::Relaxed),
            b: pair.b.load(Ordering::Relaxed),
        }
    }

    /// Takes an unused pair and returns its index; `None` if there is none.
    fn take(&self) -> Option<usize> {
        loop {
            // ORDERING: Relaxed, a guess that the exchange below verifies.
            let taken = self.taken.load(Ordering::Relaxed);
            let index = (taken ^ 1).trailing_ones();
            if index as usize >= PAIRS {
                return None;
            }
            let with = taken ^ (1 << index);
            // ORDERING: Acquire, pairs with the Release exchange in `free`. The thread that freed
            // the pair had swapped the word before. So this thread's stores to the pair come after
            // that swap.
            if self
                .taken
                .compare_exchange(taken, with, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Some(index as usize);
            }
        }
    }

    fn free(&self, index: u64) {
        loop {
            // ORDERING: Relaxed, a guess that the exchange below verifies.
            let taken = self.taken.load(Ordering::Relaxed);
            // ORDERING: Release, pairs with the Acquire exchange in `take`.
            if self
                .taken
                .compare_exchange(
                    taken,
                    taken ^ (1 << index),
                    Ordering::Release,
                    Ordering::Relaxed,
                )
                .is_ok()
            {
                return;
            }
        }
    }
}
