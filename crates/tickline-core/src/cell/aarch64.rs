//! The aarch64 cell: `ldp` loads where FEAT_LSE2 makes them atomic, exclusive pairs for everything else.
//!
//! See the table in this folder's README for the sources. Exclusive pairs (`ldaxp`/`stlxp`) exist on every aarch64
//! processor; swaps are rare enough that `casp` would gain nothing.

use core::arch::asm;
use core::cell::UnsafeCell;

use super::{Envelope, Slots, State, StateCell, Support, slot_methods};
use crate::line::Line;
use crate::primitive::{AtomicU64, Ordering};
use crate::units::{signed, unsigned};
use crate::word::Word;

/// The native cell of aarch64. See the [module](super) for the protocol.
#[repr(C, align(64))]
pub struct NativeCell {
    state: StateWords,
    /// Nonzero unless `restrict` was told that 16-byte loads are atomic here.
    full: AtomicU64,
    slots: Slots,
}

/// The word, then the base: 16 bytes that are only ever accessed as one.
#[repr(C, align(16))]
struct StateWords(UnsafeCell<[u64; 2]>);

// SAFETY: the content is reached only through the instructions in this file, which are atomic where their results are
// used as a pair, and take a shared reference from any thread.
unsafe impl Sync for StateWords {}

impl core::fmt::Debug for NativeCell {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NativeCell")
            .field("word", &self.word())
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Default for NativeCell {
    fn default() -> Self {
        Self::new()
    }
}

impl NativeCell {
    /// A cell that is cold, with a floor of 0 ns.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: StateWords(UnsafeCell::new([0; 2])), full: AtomicU64::new(0), slots: Slots::new() }
    }

    /// What can be said without an operating system: user space cannot read the feature registers itself, so the
    /// answer is [`Support::Guarded`]; who knows of FEAT_LSE2 passes [`Support::Full`] to [`restrict`](Self::restrict).
    #[must_use]
    pub fn support() -> Support {
        if cfg!(target_feature = "lse2") { Support::Full } else { Support::Guarded }
    }

    /// Tells the cell what the processor offers, before the first line is published.
    pub fn restrict(&self, support: Support) {
        // ORDERING: Release, pairs with the Acquire load in `load_whole`; called before anything is published.
        self.full.store(u64::from(support == Support::Full), Ordering::Release);
    }

    /// Swaps `from` for `to` if the state is `from`; returns the state that was found, never torn.
    fn compare_exchange(&self, from: State, to: State) -> State {
        let (mut word, mut base): (u64, u64);
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16. The pair that was loaded is atomic because the
        // loop ends only when a store-exclusive to the same 16 bytes has succeeded (Arm ARM B2.9.5): on a mismatch the
        // loaded pair itself is stored back.
        // ORDERING: acquire (ldaxp) and release (stlxp), pairs with `load`.
        unsafe {
            asm!(
                "2:",
                "ldaxp {word}, {base}, [{state}]",
                "cmp {word}, {from_word}",
                "ccmp {base}, {from_base}, #0, eq",
                "csel {new_word}, {to_word}, {word}, eq",
                "csel {new_base}, {to_base}, {base}, eq",
                "stlxp {failed:w}, {new_word}, {new_base}, [{state}]",
                "cbnz {failed:w}, 2b",
                state = in(reg) self.state.0.get(),
                word = out(reg) word,
                base = out(reg) base,
                from_word = in(reg) from.word.to_bits(),
                from_base = in(reg) unsigned(from.base_ns),
                to_word = in(reg) to.word.to_bits(),
                to_base = in(reg) unsigned(to.base_ns),
                new_word = out(reg) _,
                new_base = out(reg) _,
                failed = out(reg) _,
                options(nostack),
            );
        }
        State { word: Word::from_bits(word), base_ns: signed(base) }
    }

    /// Both words by one `ldp`; atomic as a pair with FEAT_LSE2 only.
    #[inline(always)]
    fn load_pair(&self) -> (u64, u64) {
        let (word, base): (u64, u64);
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16.
        // ORDERING: acquire, by the barrier for loads that follows (Arm ARM B2.3.12); pairs with the `stlxp` of a swap.
        unsafe {
            asm!(
                "ldp {word}, {base}, [{state}]",
                "dmb ishld",
                state = in(reg) self.state.0.get(),
                word = out(reg) word,
                base = out(reg) base,
                options(nostack, preserves_flags),
            );
        }
        (word, base)
    }
}

impl StateCell for NativeCell {
    slot_methods!();

    #[inline(always)]
    fn load(&self) -> State {
        let (word, base) = self.load_pair();
        State { word: Word::from_bits(word), base_ns: signed(base) }
    }

    #[inline]
    fn load_whole(&self) -> State {
        // ORDERING: Acquire, pairs with the Release store in `restrict`.
        if self.full.load(Ordering::Acquire) != 0 {
            self.load()
        } else {
            self.compare_exchange(State::default(), State::default())
        }
    }

    #[inline(always)]
    fn word(&self) -> Word {
        // The barrier keeps this load after earlier loads; the counter's read ends with a load that depends on its
        // value (`counter/aarch64.rs`), so it is among them.
        let word: u64;
        // SAFETY: the pointer is valid for 8 bytes and aligned.
        // ORDERING: after the counter (barrier), before whatever uses the result (acquire); pairs with `stlxp`.
        unsafe {
            asm!(
                "dmb ishld",
                "ldar {word}, [{state}]",
                state = in(reg) self.state.0.get(),
                word = out(reg) word,
                options(nostack, preserves_flags),
            );
        }
        Word::from_bits(word)
    }

    #[inline]
    fn retire(&self, from: State, to: Word, floor_ns: i64) -> bool {
        let base_ns = if to.phase() == crate::word::Phase::Cold { floor_ns } else { from.base_ns };
        self.compare_exchange(from, State { word: to, base_ns }) == from
    }

    fn publish(&self, from: State, to: Word, line: &Line, envelope: &Envelope) -> bool {
        self.slots.get(to.slot()).fill(line.slope, envelope);
        self.compare_exchange(from, State { word: to, base_ns: line.base_ns }) == from
    }
}
