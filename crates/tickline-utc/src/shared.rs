//! The data that the readers of a [`Utc`](crate::Utc) and its thread share.

use core::sync::atomic::{AtomicUsize, Ordering};

use tickline::Clock;

use crate::latch::ClaimLatch;
use crate::source::chronyd::Channel;

/// The data that readers and the thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) latch: ClaimLatch,
    pub(crate) clock: Clock,
    /// How chronyd answered the last request: an index of [`Channel::ALL`], or none if it did not.
    chronyd_channel: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            latch: ClaimLatch::new(),
            clock: clock.clone(),
            chronyd_channel: AtomicUsize::new(usize::MAX),
        }
    }

    pub(crate) fn set_chronyd_channel(&self, channel: Option<Channel>) {
        let index = Channel::ALL.iter().position(|one| Some(*one) == channel);
        // ORDERING: Relaxed: the index orders no memory.
        self.chronyd_channel
            .store(index.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    pub(crate) fn chronyd_channel(&self) -> Option<Channel> {
        // ORDERING: Relaxed: the index orders no memory.
        let index = self.chronyd_channel.load(Ordering::Relaxed);
        Channel::ALL.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_is_that_of_the_last_answer() {
        let shared = Shared::new(tickline::Clock::global());
        for channel in [None, Some(Channel::Socket), Some(Channel::Udp), None] {
            shared.set_chronyd_channel(channel);
            assert_eq!(shared.chronyd_channel(), channel);
        }
    }
}
