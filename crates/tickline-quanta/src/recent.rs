//! The coarse time.

use crate::instant::Instant;
use crate::platform::Word;

/// ns; 0: none.
static RECENT_NS: Word = Word::new(0);

/// The coarse time, as it was stored; the instant 0 if it was not.
#[inline]
pub(crate) fn stored() -> Instant {
    Instant::from_ns(RECENT_NS.load())
}

/// Stores the coarse time, for all threads. An [`Upkeep`](crate::Upkeep) does so in an interval; a
/// program with timers of its own may do it in their place. The instant 0, which a new mock clock
/// shows, is as if none had been stored.
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
