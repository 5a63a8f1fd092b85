//! How long the machine had been suspended when a line was made. From this the thread that
//! retires the line knows whether there was a suspend since.

use crate::primitive::{AtomicI64, Ordering};
use crate::sample::{Reference, SUSPENDED_ERROR_NS};
use crate::word::Slot;

/// Stands for a reference that does not say.
const UNKNOWN: i64 = i64::MIN;

/// For the line in each slot, what the reference said before the samples that it rests on were
/// taken. Beside the cell, not in its slots, because readers have no use for it.
#[derive(Debug, Default)]
pub(super) struct Suspends([AtomicI64; 2]);

impl Suspends {
    pub(super) const fn new() -> Self {
        Self([AtomicI64::new(0), AtomicI64::new(0)])
    }

    const fn of(&self, slot: Slot) -> &AtomicI64 {
        let [a, b] = &self.0;
        match slot {
            Slot::A => a,
            Slot::B => b,
        }
    }

    /// Before a line is published in `slot`, by the holder of the clock's lock.
    pub(super) fn note(&self, slot: Slot, suspended_ns: Option<i64>) {
        // ORDERING: Release, pairs with the Acquire load below: whoever reads this value in the
        // place of an earlier line's also sees the swap that had taken that line out of use, and
        // its own swap fails.
        self.of(slot).store(suspended_ns.unwrap_or(UNKNOWN), Ordering::Release);
    }

    /// Whether the reference says that there was no suspend since the samples of the line in
    /// `slot`. Not if it says nothing.
    pub(super) fn is_none_since(&self, slot: Slot, reference: &impl Reference) -> bool {
        // ORDERING: Acquire, pairs with the Release store above.
        let then_ns = self.of(slot).load(Ordering::Acquire);
        // A reference that did not answer then is not asked now: the call may be forbidden.
        then_ns != UNKNOWN
            && reference
                .suspended_ns()
                .is_some_and(|now_ns| now_ns.abs_diff(then_ns) <= SUSPENDED_ERROR_NS.saturating_mul(2))
    }
}
