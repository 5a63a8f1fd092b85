//! The data that the readers of a [`Utc`](crate::Utc) and its thread share, and the reading by the
//! counter.

use tickline::Clock;

use crate::latch::ClaimLatch;
use crate::reading::UtcReading;
use crate::vmclock::VMCLOCK;

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

    /// UTC by the newest claim; `None` if the counter does not serve, or the claim does not hold
    /// now.
    #[inline(always)]
    pub(crate) fn by_counter(&self) -> Option<UtcReading> {
        self.latch
            .by_counter(|| self.clock.ticks_ordered(), || VMCLOCK.marker())
    }
}
