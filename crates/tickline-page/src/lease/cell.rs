//! The memory of a page: the word, and eight slots of eight words.
//!
//! | access | ordering | pairs with |
//! |---|---|---|
//! | reader: first look at the word | relaxed, before an acquire fence | the writer's swap: the slots' contents are seen |
//! | reader: loads from slots | relaxed | ordered by the fence before them and the one behind them |
//! | reader: second look at the word | relaxed, behind an acquire fence | the next writer's stores to the slot: a reader that has seen one of them also sees the swap before it |
//! | writer: stores to a slot | release | the fence before a reader's second look |
//! | writer: swap of the word | acquire and release | both looks; the swap of the writer before |
//! | writer: look at the word behind a swap | sequentially consistent fence, then relaxed | what the writer reads next, the counter or the OS clock, is read when readers see the new word |
//!
//! All loads are relaxed: only those are defined on memory that a process has mapped read-only
//! (`core::sync::atomic`, "Atomic accesses to read-only memory"). On x86-64 the fences cost
//! nothing.

use super::slot::{SLOT_WORDS, SLOTS};
use super::{Field, LeaseMemory, LeaseStore, LeaseWord, SlotNumber};
use crate::primitive::{AtomicU64, Ordering, fence};

const WORDS: usize = SLOTS * SLOT_WORDS;

/// The word in a cache line of its own, and the slots behind it. All zeros is a page that is off.
/// Restartable sequences rely on it that the word is first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LeaseWords {
    word: AtomicU64,
    _reserved: [AtomicU64; 7],
    slots: [AtomicU64; WORDS],
}

const _: () = assert!(core::mem::offset_of!(LeaseWords, word) == 0);
const _: () = assert!(size_of::<LeaseWords>() == 64 * (1 + SLOTS) || cfg!(loom));

impl Default for LeaseWords {
    fn default() -> Self {
        Self::new()
    }
}

impl LeaseWords {
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
    #[expect(clippy::indexing_slicing, reason = "masked: below 64 of 64, so that no panic is compiled")]
    const fn slot_word(&self, slot: SlotNumber, place: usize) -> &AtomicU64 {
        &self.slots[(slot.index() << 3 | place) & (WORDS - 1)]
    }
}

impl LeaseMemory for LeaseWords {
    #[inline(always)]
    fn word(&self) -> LeaseWord {
        // ORDERING: Relaxed, before the fence.
        let bits = self.word.load(Ordering::Relaxed);
        // ORDERING: Acquire, pairs with the swap of a writer: the slots that the word names are
        // seen as that writer filled them.
        fence(Ordering::Acquire);
        LeaseWord::from_bits(bits)
    }

    #[inline(always)]
    fn field(&self, slot: SlotNumber, field: Field) -> u64 {
        // ORDERING: Relaxed. The fence in `word` keeps the load behind the first look, the one in
        // `is_still` before the second.
        self.slot_word(slot, field as usize).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn is_still(&self, word: LeaseWord) -> bool {
        // ORDERING: Acquire, pairs with the Release stores in `fill`.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, behind the fence.
        self.word.load(Ordering::Relaxed) == word.to_bits()
    }
}

impl LeaseStore for LeaseWords {
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]) {
        for (place, value) in words.iter().enumerate() {
            // ORDERING: Release, pairs with the fence in `is_still`. A reader may want the earlier
            // content of the slot, and may see this value. It then also sees the swap that had
            // taken the slot out of the word, and its second look finds another word. No test sees
            // a weaker one: in the models the fence behind that swap orders the stores already. A
            // restartable sequence has no such fence.
            self.slot_word(slot, place).store(*value, Ordering::Release);
        }
    }

    fn swap(&self, from: LeaseWord, to: LeaseWord) -> bool {
        let (from, to) = (from.to_bits(), to.to_bits());
        // Three things must hold. A reader that sees the new word sees the slots that the word
        // names. The next writer fills no slot before its own swap. The writer's next read of the
        // counter comes after this swap.
        // ORDERING: acquire and release, pairs with both looks of readers, and with the swap of the
        // writer before. No test sees Release without Acquire: the modelled counter is never read
        // early. Relaxed on failure: this writer ends.
        if self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        // ORDERING: sequentially consistent, between the store and the load below. Otherwise a
        // processor may hold the store back (x86-64 does not) while this thread goes on to read the
        // counter and the OS clock. A reader that still finds the old word may then have asked the
        // OS later than a first publication's writer did. No test sees a weaker one: the modelled
        // clocks are never read early, and loom has no `SeqCst`.
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed, behind the fence. An ordered read of the counter waits for this load
        // (point 3 of the counter's contract), and so for the store.
        self.word.load(Ordering::Relaxed) == to
    }
}
