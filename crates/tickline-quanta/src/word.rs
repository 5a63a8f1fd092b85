//! A number that threads share.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that threads share. A thread that loads a value sees everything that the storing thread
/// did before.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline]
    pub(crate) fn load(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release of `store` and `update`. With a weaker
        // ordering, a test could see a mock's time before the earlier writes of the thread that
        // moved it.
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, value: u64) {
        // ORDERING: Release, pairs with the Acquire of `load`, which gives the reason.
        self.0.store(value, Ordering::Release);
    }

    /// Stores the result of `change`, unless it is `None`. Returns the value before.
    #[cfg(feature = "mock")]
    pub(crate) fn update(&self, change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        // ORDERING: Release, pairs with the Acquire of `load`, which sees the earlier writes of
        // all threads that have moved the clock. The load is Relaxed, because a thread that moves
        // the clock does not depend on the writes of other threads.
        self.0
            .fetch_update(Ordering::Release, Ordering::Relaxed, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_shows_earlier_writes(change: impl Fn(&Word) + Sync) {
        let (word, earlier) = (Word::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // ORDERING: Relaxed for both: the word orders them.
                earlier.store(1, Ordering::Relaxed);
                change(&word);
            });
            while word.load() == 0 {
                std::thread::yield_now();
            }
            // ORDERING: Relaxed: `word` must order this load after the store of `earlier`.
            assert_eq!(earlier.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn ordering_a_number_comes_with_its_past() {
        for _ in 0..8 {
            assert_shows_earlier_writes(|word| word.store(7));
            #[cfg(feature = "mock")]
            assert_shows_earlier_writes(|word| {
                assert_eq!(word.update(|ns| ns.checked_add(7)), Ok(0))
            });
        }
    }
}
