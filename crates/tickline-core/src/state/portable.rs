//! A 128-bit atomic of 64-bit ones, for targets that have no other, and for Miri.
//!
//! A word names one of eight pairs, and counts the swaps, so no value of the word comes again. A
//! swap takes a pair that nobody uses, fills it, and swaps the word. Readers never wait. Up to
//! seven threads may be stopped in the middle of a swap; if more are, a swap fails because no pair
//! is free. In the child of a fork, the pairs that other threads of the parent were filling stay
//! taken.
//!
//! Where there are no 64-bit atomics, [`primitive`](crate::primitive) has plain cells, and the
//! clock is not [`Sync`].

use super::LineState;
use crate::primitive::{AtomicI64, AtomicU64, Ordering, fence};

const PAIRS: usize = 8;
const INDEX_MASK: u64 = 7;

/// A state that changes as one. See the [module](self).
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
pub const fn is_supported() -> bool {
    true
}

impl AtomicState {
    /// No line, and a high-water mark of 0 ns.
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            pairs: [const { Pair { m: AtomicU64::new(0), b: AtomicI64::new(0) } }; PAIRS],
        }
    }

    /// The state.
    #[inline(always)]
    pub(crate) fn load(&self) -> LineState {
        loop {
            // ORDERING: Acquire, pairs with the swap of the word: the pair is seen as filled.
            let word = self.word.load(Ordering::Acquire);
            let state = self.pair(word);
            // ORDERING: the fence keeps the loads of the pair before the one below; it pairs with
            // the Release stores in `swap`.
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
        // ORDERING: keeps earlier loads before it; pairs with the Release stores of a slot. No test
        // sees a weaker one: `load` has a fence of its own before its last look at the word.
        fence(Ordering::Acquire);
        self.load() == state
    }

    /// Swaps `from` for `to`. Returns whether it happened: not if the state is another one, or has
    /// just been changed.
    pub(crate) fn swap(&self, from: LineState, to: LineState) -> bool {
        // ORDERING: Acquire, pairs with the swap of the word below.
        let word = self.word.load(Ordering::Acquire);
        if self.pair(word) != from {
            return false;
        }
        let Some(place) = self.take() else { return false };
        let Some(pair) = self.pairs.get(place) else { return false };
        // ORDERING: Release for both, pairs with the fence in `load`. A reader may see one of these
        // stores in the place of an earlier state. It then also sees the word that had left this
        // pair.
        pair.m.store(to.m, Ordering::Release);
        pair.b.store(to.b, Ordering::Release);
        let next = (word & !INDEX_MASK).wrapping_add(INDEX_MASK + 1) | place as u64;
        // ORDERING: acquire and release, pairs with the loads of the word. No test sees Release
        // without Acquire, as in `modelled.rs`. Relaxed on failure, after which nothing is used.
        let swapped = self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.free(if swapped { word & INDEX_MASK } else { place as u64 });
        swapped
    }

    /// What the pair that `word` names holds. Torn if the word has changed meanwhile.
    #[inline(always)]
    fn pair(&self, word: u64) -> LineState {
        #[expect(clippy::indexing_slicing, reason = "three bits, and eight pairs")]
        let pair = &self.pairs[(word & INDEX_MASK) as usize];
        // ORDERING: Relaxed for both, between the two loads of the word.
        LineState { m: pair.m.load(Ordering::Relaxed), b: pair.b.load(Ordering::Relaxed) }
    }

    /// Takes a pair that nobody uses; `None` if there is none.
    fn take(&self) -> Option<usize> {
        loop {
            // ORDERING: Relaxed, only decides what the exchange expects.
            let taken = self.taken.load(Ordering::Relaxed);
            let place = (taken ^ 1).trailing_ones();
            if place as usize >= PAIRS {
                return None;
            }
            let with = taken ^ (1 << place);
            // ORDERING: Acquire, pairs with the Release exchange in `free`. The thread that left
            // the pair has swapped the word before its exchange. Stores to the pair come after that
            // swap.
            if self.taken.compare_exchange(taken, with, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(place as usize);
            }
        }
    }

    fn free(&self, place: u64) {
        loop {
            // ORDERING: Relaxed, only decides what the exchange expects.
            let taken = self.taken.load(Ordering::Relaxed);
            // ORDERING: Release, pairs with the Acquire exchange in `take`.
            if self
                .taken
                .compare_exchange(taken, taken ^ (1 << place), Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }
}
