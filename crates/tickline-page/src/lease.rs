//! Leases: one process publishes lines for readers that cannot write to its memory. Every release
//! may change this module.
//!
//! The writer of a page calibrates; every other process maps the page read-only. Such readers leave
//! no trace: they can neither retire a line nor help a writer that was stopped. So a line carries
//! its own end. The writer publishes the next line a lease ahead. Each line is at or above the
//! upper bound of the OS clock. `docs/lease.md` has the rules, R1 to R10 for readers and W1 to W10
//! for the writer, with the reasons.
//!
//! | word | meaning | in DESIGN.md |
//! |---|---|---|
//! | lease | the window of a line, to its end E | validity |
//! | published | readers take the time from a line | published |
//! | doubted | readers take the larger of line and OS clock (R5) | none: such a line is retired (rule 4) |
//! | no line | readers take the larger of OS clock and high-water mark (R6) | no line (rule 6) |
//! | first publication | readers wait for the line that is being made (R7, W5) | first publication (rule 7) |
//! | off | readers take only the OS clock | gate closed (rule 8) |
//! | high-water mark, F | the least that a reading without a line returns: the line's value at E, so that it is known before the line ends | high-water mark (rule 5), which is taken when the line is retired |
//! | a process's high-water mark | the most that one process has had from the OS clock (R8) | none: a first line begins above what was returned (rule 7) |
//! | deadline, D | the tick at which nobody waits for a first publication any more | none |
//! | lead | the most by which a line may be above the OS clock | none: a line is between its bounds |
//! | bounds | the two lines between which the OS clock must be ([`Estimate`]) | bounds |
//! | look | a load of the word; an attempt has two (R1) | second look (rule 1) |
//! | attempt | a reading is one, or more if the word changes or a first publication lasts (R1, R7) | attempt of the slow path |
//! | doubt, end | to store `Doubted`; to store `NoLine` (W3, W4) | retire |
//!
//! ```text
//!              W5                           W2, again and again
//! NoLine(F) -------> FirstPublication(F, D) -----> Published(n) ----> Published(n, n+1) ----> ...
//!    ^                    | too late                   |                   |   late, or in doubt
//!    |<-------------------+                            v                   v
//!    +<------------- past the last end ---------- Published, or Doubted(n, n+1)
//! ```
//!
//! - [`LeaseWord`]: the state, 8 bytes that no page has twice;
//! - [`LeaseLine`] and [`HighWater`]: what a slot holds;
//! - [`LeaseMemory`] and [`LeaseStore`]: how a reader loads, and how the writer stores;
//!   [`LeaseWords`] is the memory itself;
//! - [`read`]: a reading, the same code for programs, the simulator, models, and the page;
//! - [`Writer`]: the writer's side, driven by a [`Basis`] for each step;
//! - [`Line`]: from ticks to nanoseconds, in integers. Layout version 1 fixes its arithmetic.

mod cell;
mod estimate;
#[cfg(all(test, loom))]
mod loom_tests;
mod reader;
mod slot;
#[cfg(test)]
pub(crate) mod testing;
mod word;
mod writer;

pub use cell::LeaseWords;
pub use estimate::Estimate;
pub(crate) use reader::read_first_line;
pub use reader::{PageReading, PageSource, ProcessHighWater, ReaderOs, read};
pub use slot::{Field, HighWater, LeaseLine, LowerLimit, SLOT_WORDS, SLOTS, UNIX_BY_OS, UnixOffset};
pub use word::{LeasePhase, LeaseWord, SlotNumber};
pub use writer::{Basis, FAST_SLEW_PPB, PageTaken, Writer, WriterAction, WriterConfig, WriterStep};

pub use tickline_core::cell::{Line, Slope};
use tickline_core::counter::{Counter, ticks_between};
pub use tickline_core::sample::Timescale;

/// What a reader loads. Nothing here stores, waits or fails.
pub trait LeaseMemory {
    /// The word: the first look. What the slots that it names hold is seen by later loads.
    fn word(&self) -> LeaseWord;

    /// A word of a slot. It counts only if the second look finds the same word.
    fn field(&self, slot: SlotNumber, field: Field) -> u64;

    /// Whether the word is still `word`: the second look, after every earlier load.
    fn is_still(&self, word: LeaseWord) -> bool;
}

/// What the writer does besides.
pub trait LeaseStore: LeaseMemory {
    /// Fills a slot, which the word does not name.
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]);

    /// Swaps the word (rule W1). Returns whether it was `from`.
    fn swap(&self, from: LeaseWord, to: LeaseWord) -> bool;

    /// Swaps the word if the counter is at `least_ticks` or later, and before `limit_ticks` (rule
    /// W2). Little time should pass between the read of the counter and the swap. A program
    /// therefore does both in one restartable sequence. No preemption, stop or suspend can divide
    /// such a sequence.
    fn swap_between(
        &self,
        from: LeaseWord,
        to: LeaseWord,
        counter: &impl Counter,
        least_ticks: u64,
        limit_ticks: u64,
    ) -> SwapResult {
        let ticks = counter.now_ordered();
        if is_before(ticks, least_ticks) || !is_before(ticks, limit_ticks) {
            SwapResult::OutOfTime
        } else if self.swap(from, to) {
            SwapResult::Done
        } else {
            SwapResult::OtherWord
        }
    }
}

/// What came of a swap that has a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapResult {
    /// The word is the new one.
    Done,
    /// The counter was too early or too late; the word is as it was.
    OutOfTime,
    /// The word was another one.
    OtherWord,
}

/// Whether `ticks` is before `other`, on a counter that wraps.
#[inline(always)]
pub(crate) const fn is_before(ticks: u64, other: u64) -> bool {
    ticks_between(other, ticks) < 0
}
