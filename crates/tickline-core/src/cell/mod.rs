#![doc = include_str!("README.md")]
//!
//! # Protocol
//!
//! One writer at a time (it holds the clock's lock) calls [`StateCell::publish`]; anyone may call
//! [`StateCell::retire`]. The writer fills the slot that is *not* named by the current word, then swaps the state. A
//! reader that saw the same word before and after its loads has therefore read a slot that nobody wrote:
//!
//! | access | ordering | pairs with |
//! |---|---|---|
//! | reader: load of the state | acquire | the writer's swap: the slot's contents are seen |
//! | reader: loads from the slot | acquire | the next writer's slot stores: whoever sees one also sees the swap before it |
//! | reader: second load of the word | acquire, after the counter | as above |
//! | writer: stores to the slot | release | the reader's slot loads |
//! | anyone: swap of the state | acquire and release | the reader's state loads |

use crate::line::{Line, Slope};
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::word::{Slot, Word};

pub mod portable;

#[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
mod aarch64;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(any(miri, loom))))]
mod x86_64;

#[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
pub use aarch64::NativeCell;
#[cfg(not(all(
    any(all(target_arch = "x86_64", target_feature = "sse2"), target_arch = "aarch64"),
    not(any(miri, loom))
)))]
pub use portable::PortableCell as NativeCell;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(any(miri, loom))))]
pub use x86_64::NativeCell;

/// The 128-bit state: the word, and the nanoseconds that go with it.
///
/// A state read from a cell is only a claim until a second look at the word has confirmed it, or a swap that
/// expects it has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// What the clock may do.
    pub word: Word,
    /// Live or closing: ns at the word's tick. Cold: the floor, which no reading may be below.
    pub base_ns: i64,
}

/// The edges between which the reference must be, and what turns the line into Unix time; published with each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope {
    /// The reference is not below this line...
    pub lower: Line,
    /// ...nor above this one. Starts at the same tick as `lower`.
    pub upper: Line,
    /// Unix time minus the line, ns.
    pub unix_offset_ns: i64,
    /// Half-width of the interval that contains the true offset, ns.
    pub unix_slack_ns: u64,
}

/// What the processor can do for a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Atomic 16-byte loads: the inlined path may be used.
    Full,
    /// Only compare-and-swap: lines are published for the slow path alone.
    Guarded,
    /// Neither: no line may be published.
    Missing,
}

/// The shared memory of one clock. See the [module](self) for the protocol.
pub trait StateCell {
    /// The state, for the inlined path. May be torn on a processor without [`Support::Full`]; its word never is.
    fn load(&self) -> State;

    /// The state, never torn, for every other path. Not to be called with [`Support::Missing`].
    fn load_whole(&self) -> State;

    /// The word alone, not before earlier loads: the second look.
    fn word(&self) -> Word;

    /// The slope in `slot`.
    fn slope(&self, slot: Slot) -> Slope;

    /// The Unix offset in `slot`, ns.
    fn unix_offset_ns(&self, slot: Slot) -> i64;

    /// All bounds in `slot`.
    fn envelope(&self, slot: Slot) -> Envelope;

    /// Swaps `from` for `to`, which is not live; `floor_ns` is the floor if `to` is cold, and is ignored otherwise.
    /// Anyone may call this. Returns whether it happened.
    fn retire(&self, from: State, to: Word, floor_ns: i64) -> bool;

    /// Fills the slot named by `to`, which must not be the one named by `from`, then swaps `from` for `to` and `line`.
    /// Only the holder of the clock's lock may call this. Returns whether it happened.
    fn publish(&self, from: State, to: Word, line: &Line, envelope: &Envelope) -> bool;
}

/// What belongs to a line and does not fit into the state: one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct SlotWords {
    slope: AtomicU64,
    unix_offset_ns: AtomicI64,
    envelope_start_ticks: AtomicU64,
    lower_base_ns: AtomicI64,
    lower_slope: AtomicU64,
    upper_base_ns: AtomicI64,
    upper_slope: AtomicU64,
    unix_slack_ns: AtomicU64,
}

// ORDERING for all of `SlotWords`: loads acquire and stores release, as in the table of the module's documentation.
// Weaker would let a reader combine the new slot's words with the old state word on aarch64 and RISC-V. On x86_64
// both are plain moves.
impl SlotWords {
    const fn new() -> Self {
        Self {
            slope: AtomicU64::new(0),
            unix_offset_ns: AtomicI64::new(0),
            envelope_start_ticks: AtomicU64::new(0),
            lower_base_ns: AtomicI64::new(0),
            lower_slope: AtomicU64::new(0),
            upper_base_ns: AtomicI64::new(0),
            upper_slope: AtomicU64::new(0),
            unix_slack_ns: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn slope(&self) -> Slope {
        // ORDERING: Acquire, pairs with the Release store in `fill`.
        Slope::from_bits(self.slope.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn unix_offset_ns(&self) -> i64 {
        // ORDERING: Acquire, pairs with the Release store in `fill`.
        self.unix_offset_ns.load(Ordering::Acquire)
    }

    #[inline]
    fn envelope(&self) -> Envelope {
        // ORDERING: Acquire, pairs with the Release stores in `fill`.
        let (start_ticks, order) = (self.envelope_start_ticks.load(Ordering::Acquire), Ordering::Acquire);
        let edge = |base: &AtomicI64, slope: &AtomicU64| Line {
            start_ticks,
            base_ns: base.load(order),
            slope: Slope::from_bits(slope.load(order)),
        };
        Envelope {
            lower: edge(&self.lower_base_ns, &self.lower_slope),
            upper: edge(&self.upper_base_ns, &self.upper_slope),
            unix_offset_ns: self.unix_offset_ns(),
            unix_slack_ns: self.unix_slack_ns.load(order),
        }
    }

    fn fill(&self, slope: Slope, envelope: &Envelope) {
        // ORDERING: Release, pairs with the Acquire loads above: whoever reads one of these values also sees the swap
        // that had taken this slot out of use, so its second look fails.
        let order = Ordering::Release;
        self.slope.store(slope.to_bits(), order);
        self.unix_offset_ns.store(envelope.unix_offset_ns, order);
        self.envelope_start_ticks.store(envelope.lower.start_ticks, order);
        self.lower_base_ns.store(envelope.lower.base_ns, order);
        self.lower_slope.store(envelope.lower.slope.to_bits(), order);
        self.upper_base_ns.store(envelope.upper.base_ns, order);
        self.upper_slope.store(envelope.upper.slope.to_bits(), order);
        self.unix_slack_ns.store(envelope.unix_slack_ns, order);
    }
}

/// The two slots, indexed by [`Slot`].
#[derive(Debug)]
struct Slots([SlotWords; 2]);

impl Slots {
    const fn new() -> Self {
        Self([SlotWords::new(), SlotWords::new()])
    }

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "0 or 1 of two; a match would compile to a branch in the hot path"
    )]
    const fn get(&self, slot: Slot) -> &SlotWords {
        &self.0[slot as usize]
    }
}

/// The cell methods that only concern the slots, the same for every backend.
macro_rules! slot_methods {
    () => {
        #[inline(always)]
        fn slope(&self, slot: crate::word::Slot) -> crate::line::Slope {
            self.slots.get(slot).slope()
        }

        #[inline(always)]
        fn unix_offset_ns(&self, slot: crate::word::Slot) -> i64 {
            self.slots.get(slot).unix_offset_ns()
        }

        #[inline]
        fn envelope(&self, slot: crate::word::Slot) -> crate::cell::Envelope {
            self.slots.get(slot).envelope()
        }
    };
}
use slot_methods;

#[cfg(test)]
mod tests;
