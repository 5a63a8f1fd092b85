//! The recent time.

use crate::instant::Instant;
use crate::word::Word;

/// The recent time, ns; 0 if none is stored.
static RECENT_NS: Word = Word::new(0);

/// The stored recent time; the instant 0 if none is stored.
#[inline]
pub(crate) fn stored() -> Instant {
    Instant::from_ns(RECENT_NS.load())
}

/// Stores the recent time for all threads. An [`Upkeep`](crate::Upkeep) calls this at an interval.
/// A program with timers of its own may call this instead. The instant 0, which a new mock clock
/// shows, counts as no time.
///
/// ```
/// use quanta::{Clock, Instant, set_recent};
///
/// let now = Clock::new().now();
/// set_recent(now);
/// assert_eq!(Instant::recent(), now);
/// ```
pub fn set_recent(instant: Instant) {
    RECENT_NS.store(instant.as_ns());
}
