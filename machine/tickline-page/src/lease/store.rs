//! The memory of a page: a reader's loads, and the writer's stores.

use core::ops::Range;

use tickline_core::counter::Counter;

use super::is_before;
use super::slot::{Field, SLOT_WORDS};
use super::word::{LeaseWord, SlotNumber};

/// The memory of a page, as a reader loads it. No method stores, waits or fails.
pub trait LeaseMemory {
    /// Loads the word first. Later loads see the slots that the word names as its writer filled
    /// them.
    fn word(&self) -> LeaseWord;

    /// Loads a field of a slot. The value counts only if the second load finds the word unchanged.
    fn field(&self, slot: SlotNumber, field: Field) -> u64;

    /// Whether the word is still `word`: the second load, after every earlier load.
    fn is_still(&self, word: LeaseWord) -> bool;
}

/// The memory of a page, as its writer changes it.
///
/// A server only passes its memory to a [`Writer`](super::Writer), which calls these methods. The
/// trait is for simulators and tests, which wrap a [`LeaseCell`](super::memory::LeaseCell) in a
/// type of their own. So a later minor release adds only methods that have a body.
pub trait LeaseStore: LeaseMemory {
    /// Fills a slot that the word does not name.
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]);

    /// Replaces the word `from` by `to` (rule W1). Returns whether the word was `from`.
    fn try_swap(&self, from: LeaseWord, to: LeaseWord) -> bool;

    /// Swaps the word if the counter is in this range of `ticks`, also if it wraps there (rule W2).
    ///
    /// Little time should pass between the read of the counter and the swap. Where the system
    /// supports it, `page_file::LockedPageFile` does both in one restartable sequence, which no
    /// preemption, stop or suspend can divide. That sequence reads this target's counter itself,
    /// which `counter` must then be.
    fn try_swap_between(
        &self,
        from: LeaseWord,
        to: LeaseWord,
        counter: &impl Counter,
        ticks: Range<u64>,
    ) -> SwapResult {
        let now_ticks = counter.now_ordered();
        if is_before(now_ticks, ticks.start) || !is_before(now_ticks, ticks.end) {
            SwapResult::OutOfTime
        } else if self.try_swap(from, to) {
            SwapResult::Done
        } else {
            SwapResult::OtherWord
        }
    }
}

/// The result of a swap that has a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapResult {
    /// The word was replaced.
    Done,
    /// The counter was too early or too late; the word is unchanged.
    OutOfTime,
    /// The word was not the expected one, and is unchanged.
    OtherWord,
}
