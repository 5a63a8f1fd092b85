//! An exact model of a 128-bit atomic, for loom: an atomic index into a list of all states that
//! there have ever been. So a load or a swap is one step, as on the machine.

use std::sync::Mutex;

use super::LineState;
use crate::primitive::{AtomicU64, Ordering, fence};

/// All states so far. The first one is all zeros.
static STATES: Mutex<Vec<LineState>> = Mutex::new(Vec::new());

fn index_of(state: LineState) -> u64 {
    let mut states = STATES.lock().expect("no model panics in here");
    if states.is_empty() {
        states.push(LineState::default());
    }
    let index = states
        .iter()
        .position(|known| *known == state)
        .unwrap_or_else(|| {
            states.push(state);
            states.len().saturating_sub(1)
        });
    u64::try_from(index).expect("few states")
}

/// The index of the current state. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct AtomicState(AtomicU64);

/// Loads and swaps are atomic.
#[must_use]
pub const fn has_atomics() -> bool {
    true
}

impl AtomicState {
    /// No line, and a high-water mark of 0 ns.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The state.
    pub(crate) fn load(&self) -> LineState {
        // ORDERING: Acquire, as the machine's load; pairs with `try_swap`.
        let index = usize::try_from(self.0.load(Ordering::Acquire)).expect("few states");
        STATES
            .lock()
            .expect("no model panics in here")
            .get(index)
            .copied()
            .unwrap_or_default()
    }

    /// Whether the state is `state`, after every earlier load.
    pub(crate) fn is_still(&self, state: LineState) -> bool {
        // ORDERING: Acquire keeps earlier loads before it; pairs with the Release stores of a slot.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, behind the fence.
        self.0.load(Ordering::Relaxed) == index_of(state)
    }

    /// Swaps `from` for `to`, unless the state is not `from`. Returns whether it swapped.
    pub(crate) fn try_swap(&self, from: LineState, to: LineState) -> bool {
        // ORDERING: acquire and release, as the machine's swap; pairs with the loads. Acquire also
        // keeps the read of the counter that follows the announcement of a replacement behind the
        // announcement. No test sees Release without Acquire: the modelled counter is never read
        // early. Relaxed on failure: the caller uses nothing then.
        self.0
            .compare_exchange(
                index_of(from),
                index_of(to),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}
