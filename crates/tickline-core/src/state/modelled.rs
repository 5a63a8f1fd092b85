//! An exact model of a 128-bit atomic, for loom: an atomic index into a list of all states that
//! there have ever been. So a load or a swap is one step, as on the machine.

use std::sync::Mutex;

use super::LineState;
use crate::primitive::{AtomicU64, Ordering, fence};

/// All states so far.
static STATES: Mutex<Vec<LineState>> = Mutex::new(Vec::new());

/// A state that changes atomically, as a model for loom.
#[derive(Debug)]
pub(crate) struct AtomicState {
    /// The index of the current state, plus 1. 0 is the first state.
    index: AtomicU64,
    first: LineState,
}

/// Loads and swaps are atomic.
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
        let first = LineState {
            m: 0,
            b: high_water_ns,
        };
        Self {
            index: AtomicU64::new(0),
            first,
        }
    }

    fn index_of(&self, state: LineState) -> u64 {
        if state == self.first {
            return 0;
        }
        let mut states = STATES.lock().expect("no model panics in here");
        let index = states
            .iter()
            .position(|known| *known == state)
            .unwrap_or_else(|| {
                states.push(state);
                states.len().saturating_sub(1)
            });
        u64::try_from(index).expect("few states").saturating_add(1)
    }

    /// The state.
    pub(crate) fn load(&self) -> LineState {
        // ORDERING: Acquire, as the machine's load; pairs with `try_swap`.
        let index = usize::try_from(self.index.load(Ordering::Acquire)).expect("few states");
        let Some(index) = index.checked_sub(1) else {
            return self.first;
        };
        let states = STATES.lock().expect("no model panics in here");
        states.get(index).copied().expect("a state that was stored")
    }

    /// Whether the state is `state`, after every earlier load.
    pub(crate) fn is_still(&self, state: LineState) -> bool {
        // ORDERING: Acquire keeps earlier loads before it; pairs with the Release stores of a slot.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, behind the fence.
        self.index.load(Ordering::Relaxed) == self.index_of(state)
    }

    /// Swaps `from` for `to`, unless the state is not `from`. Returns whether it swapped.
    pub(crate) fn try_swap(&self, from: LineState, to: LineState) -> bool {
        let [from, to] = [from, to].map(|state| self.index_of(state));
        // ORDERING: acquire and release, as the machine's swap; pairs with the loads. Acquire also
        // keeps the read of the counter that follows the announcement of a replacement behind the
        // announcement. No test sees Release without Acquire: the modelled counter is never read
        // early. Relaxed on failure: the caller uses nothing then.
        self.index
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}
