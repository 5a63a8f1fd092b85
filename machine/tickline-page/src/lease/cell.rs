//! The memory of a page: the word, and eight slots of eight words.
//!
//! | access | ordering | pairs with |
//! |---|---|---|
//! | reader: first load of the word | relaxed, before an acquire fence | the writer's swap: the reader sees the contents of the slots |
//! | reader: loads from slots | relaxed | ordered by the fence before them and the fence after them |
//! | reader: second load of the word | relaxed, after an acquire fence | the next writer's stores to the slot: a reader that has seen one of these stores also sees the swap before it |
//! | writer: stores to a slot | release | the fence before a reader's second load |
//! | writer: swap of the word | acquire and release | both loads; the previous writer's swap |
//! | writer: load of the word after a swap | sequentially consistent fence, then relaxed | the writer reads counter and OS clock only after readers can see the new word |
//!
//! All loads are relaxed, because on memory that a process has mapped read-only no other atomic
//! load is defined (`core::sync::atomic`, "Atomic accesses to read-only memory"). On x86-64 the
//! acquire fences cost nothing.

use super::memory::{Field, LeaseMemory, LeaseStore, LeaseWord, SlotNumber};
use super::slot::{SLOT_WORDS, SLOTS};
use crate::primitive::{AtomicU64, Ordering, fence};

const WORDS: usize = SLOTS * SLOT_WORDS;

/// The word, in a cache line of its own, and the slots after it. All zeros is a page that is off.
/// Restartable sequences require that the word is first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LeaseCell {
    word: AtomicU64,
    _reserved: [AtomicU64; 7],
    slots: [AtomicU64; WORDS],
}

const _: () = assert!(core::mem::offset_of!(LeaseCell, word) == 0);
const _: () = assert!(size_of::<LeaseCell>() == 64 * (1 + SLOTS) || cfg!(loom));

impl Default for LeaseCell {
    fn default() -> Self {
        Self::new()
    }
}

impl LeaseCell {
    /// A page that is off.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            _reserved: [const { AtomicU64::new(0) }; 7],
            slots: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "the mask keeps the index below 64, so no panic is compiled"
    )]
    const fn slot_word(&self, slot: SlotNumber, index: usize) -> &AtomicU64 {
        &self.slots[(slot.index() << 3 | index) & (WORDS - 1)]
    }
}

impl LeaseMemory for LeaseCell {
    #[inline(always)]
    fn word(&self) -> LeaseWord {
        // ORDERING: Relaxed, before the fence.
        let bits = self.word.load(Ordering::Relaxed);
        // ORDERING: Acquire, pairs with a writer's swap: later loads see the slots that the word
        // names as that writer filled them.
        fence(Ordering::Acquire);
        LeaseWord::from_bits(bits)
    }

    #[inline(always)]
    fn field(&self, slot: SlotNumber, field: Field) -> u64 {
        // ORDERING: Relaxed. The fence in `word` keeps this load after the first load of the word,
        // and the fence in `is_still` keeps it before the second.
        self.slot_word(slot, field as usize).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn is_still(&self, word: LeaseWord) -> bool {
        // ORDERING: Acquire, pairs with the Release stores in `fill`.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, after the fence.
        self.word.load(Ordering::Relaxed) == word.to_bits()
    }
}

impl LeaseStore for LeaseCell {
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]) {
        for (index, value) in words.iter().enumerate() {
            // ORDERING: Release, pairs with the fence in `is_still`. A reader whose word names the
            // slot's earlier contents may load this value. It then also sees the swap that took the
            // slot out of the word, so its second load finds another word. No test sees a weaker
            // one, because in the models the fence after that swap already orders the stores. A
            // restartable sequence has no such fence.
            self.slot_word(slot, index).store(*value, Ordering::Release);
        }
    }

    fn try_swap(&self, from: LeaseWord, to: LeaseWord) -> bool {
        let (from, to) = (from.to_bits(), to.to_bits());
        // Three things must hold. A reader that sees the new word sees the slots that the word
        // names. The next writer fills no slot before its own swap. This writer reads the counter
        // again only after this swap.
        // ORDERING: acquire and release, pairs with both loads of readers, and with the previous
        // writer's swap. No test sees Release without Acquire, because the modelled counter is
        // never read early. Relaxed on failure, because this writer then ends.
        if self
            .word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // ORDERING: sequentially consistent, between the store and the load below. Without this
        // fence a processor (not x86-64) may delay the store while this thread already reads the
        // counter and the OS clock. A reader that still finds the old word may then have read the
        // OS clock later than the writer of a first publication. No test sees a weaker one, because
        // the modelled clocks are never read early, and loom has no `SeqCst`.
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed, after the fence. An ordered read of the counter waits for this load
        // (point 3 of the counter's contract), and so for the store.
        self.word.load(Ordering::Relaxed) == to
    }
}
