//! A mock clock's time, which tests move.

use std::sync::Arc;
use std::time::Duration;

use crate::word::Word;

/// An amount of time by which a [`Mock`] can be moved: a [`Duration`], or a number of nanoseconds.
pub trait IntoNanoseconds {
    /// The time, ns.
    fn into_nanos(self) -> u64;
}

impl IntoNanoseconds for u64 {
    fn into_nanos(self) -> u64 {
        self
    }
}

impl IntoNanoseconds for Duration {
    /// The time, ns; 2^64 - 1 for one of 584 years or more.
    fn into_nanos(self) -> u64 {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Moves the time of a mock clock, forwards and backwards, from any thread.
/// [`Clock::mock`](crate::Clock::mock) makes one, at 0. A clone moves the same clock.
///
/// ```
/// use std::time::Duration;
///
/// let (clock, mock) = quanta::Clock::mock();
/// mock.increment(Duration::from_micros(1));
/// mock.decrement(1_u64);
/// assert_eq!((mock.value(), clock.raw()), (999, 999));
/// ```
#[derive(Debug, Clone)]
pub struct Mock {
    ns: Arc<Word>,
}

/// The time that all clones of a mock clock share.
pub(crate) type Shared = Arc<Mock>;

impl Mock {
    pub(crate) fn new() -> Self {
        Self {
            ns: Arc::new(Word::new(0)),
        }
    }

    /// Moves the time forwards.
    ///
    /// # Panics
    ///
    /// If the time would pass 2^64 - 1 ns. It then stays unchanged.
    pub fn increment<N: IntoNanoseconds>(&self, amount: N) {
        let amount = amount.into_nanos();
        if let Err(ns) = self.ns.update(|ns| ns.checked_add(amount)) {
            panic!(
                "a mock clock at {ns} ns can't be moved forwards by {amount} ns: its end is 2^64 - 1 ns"
            );
        }
    }

    /// Moves the time backwards.
    ///
    /// # Panics
    ///
    /// If the time would pass 0. It then stays unchanged.
    pub fn decrement<N: IntoNanoseconds>(&self, amount: N) {
        let amount = amount.into_nanos();
        if let Err(ns) = self.ns.update(|ns| ns.checked_sub(amount)) {
            panic!(
                "a mock clock at {ns} ns can't be moved backwards by {amount} ns: its start is 0"
            );
        }
    }

    /// The time, ns.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.ns.load()
    }
}
