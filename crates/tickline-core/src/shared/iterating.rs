//! At most one control loop at a time iterates for a clock. Two would store to one slot, and publish
//! a line with parts of both.

use crate::primitive::{AtomicU64, Ordering};

/// The address of the control loop that is iterating; 0 if none is.
#[derive(Debug, Default)]
pub(crate) struct IteratingLoop(AtomicU64);

/// An iteration, until it is dropped.
pub(crate) struct IterationGuard<'a>(&'a AtomicU64);

impl IteratingLoop {
    pub(crate) const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins an iteration of `control`; `None` while another control loop iterates. The caller
    /// alone has borrowed `control`. So if its address is here already, the thread of its last
    /// iteration is gone, or this is a forked child.
    pub(crate) fn begin<C>(&self, control: &mut C) -> Option<IterationGuard<'_>> {
        let own = core::ptr::from_mut(control).addr() as u64;
        // ORDERING: Acquire, pairs with the store in `drop`: this iteration stores to a slot after
        // the last one has. Relaxed on failure: the caller uses nothing then. No test sees a weaker
        // one: it takes two control loops, and a publication that fails.
        let found = self
            .0
            .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
        (found.is_ok() || found == Err(own)).then(|| IterationGuard(&self.0))
    }
}

impl Drop for IterationGuard<'_> {
    fn drop(&mut self) {
        // ORDERING: Release, pairs with the compare-and-swap in `begin`. No test sees a weaker one,
        // as there.
        self.0.store(0, Ordering::Release);
    }
}
