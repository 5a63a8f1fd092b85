//! The data that the readers of a [`Utc`](crate::Utc) and its thread share.

use tickline::Clock;

use crate::latch::ClaimLatch;

/// The data that readers and the thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) latch: ClaimLatch,
    pub(crate) clock: Clock,
}

impl Shared {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            latch: ClaimLatch::new(),
            clock: clock.clone(),
        }
    }
}
