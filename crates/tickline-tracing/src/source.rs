//! The clock behind the layer.
//!
//! Programs use tickline's. The trait is there for tests, which move their clock by hand, and
//! [`StdClock`] for measurements that compare the layer with the same layer over `std`.

use core::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock.
pub trait TimeSource: Send + Sync + 'static {
    /// The present, in monotonic ns. Later readings of one thread must not be smaller. The layer
    /// calls this while a span's slot is locked, so it must not enter a span.
    fn now_ns(&self) -> u64;

    /// Unix time, ns.
    fn unix_ns(&self) -> u64;
}

/// tickline's global clock. With tickline's feature `mock`, the mock clock that is active on the
/// thread.
///
/// [`tickline::now_ns`] converts each reading at once. Raw ticks that are converted when a span
/// is closed cost more in all (195 ns a span in place of 159, AMD EPYC, family 26, record of the
/// benches), and are off for spans that are older than the oldest line that the clock remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GlobalClock;

impl TimeSource for GlobalClock {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        tickline::now_ns()
    }

    #[inline]
    fn unix_ns(&self) -> u64 {
        tickline::unix_ns()
    }
}

/// `std::time::Instant` and `SystemTime`, to measure the same layer without tickline.
#[derive(Debug, Clone, Copy)]
pub struct StdClock {
    start: Instant,
}

impl StdClock {
    /// Counts from now on.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a start is no default")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl TimeSource for StdClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        whole_ns(self.start.elapsed())
    }

    #[inline]
    fn unix_ns(&self) -> u64 {
        whole_ns(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

#[inline]
fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
