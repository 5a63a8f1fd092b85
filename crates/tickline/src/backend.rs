//! What serves a clock's readings in place of the counter and the OS clock: a page, which another
//! process serves, or a mock.
//!
//! Such a clock has no thread and no line, and its engine stays disabled. So every reading takes
//! the slow path, which asks the substitute, and the fast path knows nothing of it.

use core::fmt;

use tickline_core::sample::Timescale;

use crate::reading::Reading;
use crate::status::State;

/// See the [module](self).
pub(crate) trait ClockBackend: fmt::Debug + Send + Sync {
    /// The present, ns; monotonic time is in order across threads.
    fn now_ns(&self, timescale: Timescale) -> u64;

    /// The present with its bounds.
    fn reading(&self, timescale: Timescale) -> Reading<u64>;

    /// How readings are served now.
    fn state(&self) -> State;

    /// What the page says, if this is one.
    #[cfg(all(feature = "page", target_os = "linux", not(miri)))]
    fn page_status(&self) -> Option<crate::page::PageStatus> {
        None
    }

    fn disable(&self) {}

    fn enable(&self) {}

    /// UTC, which a page says nothing about.
    #[cfg(feature = "utc")]
    fn utc(&self) -> Result<crate::utc::UtcReading, crate::utc::UtcUnknown> {
        Err(crate::utc::UtcUnknown::NoThread)
    }

    /// Waits until this much time has passed by this clock.
    #[cfg(feature = "utc")]
    fn sleep(&self, time: core::time::Duration) {
        std::thread::sleep(time);
    }
}
