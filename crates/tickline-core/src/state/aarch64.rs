//! aarch64: `ldp` loads a state. Exclusive pairs, which every processor has, swap it. Swaps are so
//! rare that `casp` would gain nothing.

use core::arch::asm;
use core::cell::UnsafeCell;

use super::LineState;

/// The 16 bytes of a state. The [module](super) says what a split load can do.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct AtomicState(UnsafeCell<[u64; 2]>);

// SAFETY: only `load`, `is_still` and `try_swap` reach the content, and any thread may call them. A
// load may be split: it is then a mixture of two states, and no undefined behaviour.
unsafe impl Sync for AtomicState {}

/// Every processor has exclusive pairs.
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
        Self(UnsafeCell::new([0, high_water_ns.cast_unsigned()]))
    }

    /// The state, by one load.
    #[inline(always)]
    pub(crate) fn load(&self) -> LineState {
        let (m, b): (u64, u64);
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16.
        // ORDERING: acquire, by the barrier for loads that follows (Arm ARM B2.3.12). Pairs with
        // the `stlxp` of a swap.
        unsafe {
            asm!(
                "ldp {m}, {b}, [{state}]",
                "dmb ishld",
                state = in(reg) self.0.get(),
                m = out(reg) m,
                b = out(reg) b,
                options(nostack, preserves_flags),
            );
        }
        LineState {
            m,
            b: b.cast_signed(),
        }
    }

    /// Whether the state is `state`, after every earlier load.
    #[inline(always)]
    pub(crate) fn is_still(&self, state: LineState) -> bool {
        let (m, b): (u64, u64);
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16.
        // ORDERING: the barrier keeps this load behind every earlier load. The counter's read ends
        // with a load that depends on its value (`counter/aarch64.rs`), so the barrier orders the
        // counter as well. Pairs with the Release stores of a slot.
        unsafe {
            asm!(
                "dmb ishld",
                "ldp {m}, {b}, [{state}]",
                state = in(reg) self.0.get(),
                m = out(reg) m,
                b = out(reg) b,
                options(nostack, preserves_flags),
            );
        }
        LineState {
            m,
            b: b.cast_signed(),
        } == state
    }

    /// Swaps `from` for `to`, unless the state is not `from`. Returns whether it swapped.
    pub(crate) fn try_swap(&self, from: LineState, to: LineState) -> bool {
        let (m, b): (u64, u64);
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16. The loop ends only when a
        // store-exclusive to the same 16 bytes has succeeded, so the pair that was loaded is atomic
        // (Arm ARM B2.9.5). On a mismatch the loop stores back the loaded pair itself.
        // ORDERING: acquire (`ldaxp`) and release (`stlxp`); the store is complete at `dsb ish`,
        // before a later `isb` and the counter behind that. Pairs with `load`.
        unsafe {
            asm!(
                "2:",
                "ldaxp {m}, {b}, [{state}]",
                "cmp {m}, {from_m}",
                "ccmp {b}, {from_b}, #0, eq",
                "csel {new_m}, {to_m}, {m}, eq",
                "csel {new_b}, {to_b}, {b}, eq",
                "stlxp {failed:w}, {new_m}, {new_b}, [{state}]",
                "cbnz {failed:w}, 2b",
                "dsb ish",
                state = in(reg) self.0.get(),
                m = out(reg) m,
                b = out(reg) b,
                from_m = in(reg) from.m,
                from_b = in(reg) from.b.cast_unsigned(),
                to_m = in(reg) to.m,
                to_b = in(reg) to.b.cast_unsigned(),
                new_m = out(reg) _,
                new_b = out(reg) _,
                failed = out(reg) _,
                options(nostack),
            );
        }
        LineState {
            m,
            b: b.cast_signed(),
        } == from
    }
}

impl core::panic::RefUnwindSafe for AtomicState {}
