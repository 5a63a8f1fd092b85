//! The clock behind the layer, for [`SpanTimingLayer::over`](crate::SpanTimingLayer::over).
//!
//! Programs use tickline's clock. The trait is for tests, which move a clock by hand. [`StdClock`]
//! is for measurements of the same layer over `std`.

use core::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock.
pub trait TimeSource: Send + Sync + 'static {
    /// The present monotonic time, ns. Later readings of one thread must not be smaller. The layer
    /// calls this while a span's slot is locked, so it must not enter a span.
    fn now_ns(&self) -> u64;

    /// Unix time, ns.
    fn unix_ns(&self) -> u64;
}

/// tickline's global clock. With tickline's feature `mock`, the mock clock that is active on the
/// thread.
///
/// [`tickline::now_ns`] converts each reading at once. The rejected option is to keep ticks, and to
/// convert them when the span is closed. It is wrong for spans older than the oldest line that
/// the clock remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GlobalClock;

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
