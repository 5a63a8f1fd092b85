//! A backend serves a clock's readings in place of the counter and the OS clock. It is a page that
//! another process serves, or a mock.
//!
//! A clock with a backend has no thread and no line, and its engine stays disabled. So every
//! reading takes the slow path, which calls the backend, and the fast path needs no test for it.

use core::fmt;

use tickline_core::reference::Timescale;

use crate::reading::Reading;
use crate::status::ClockState;

/// See the [module](self).
pub(crate) trait ClockBackend: fmt::Debug + Send + Sync {
    /// The current time, ns; monotonic time is in order across threads.
    fn now_ns(&self, timescale: Timescale) -> u64;

    /// The current time with its bounds, ns.
    fn reading(&self, timescale: Timescale) -> Reading<u64>;

    /// The clock that readings come from now.
    fn state(&self) -> ClockState;

    fn disable(&self) {}

    fn enable(&self) {}
}
