//! The clock behind the layer, for
//! [`SpanTimingLayer::from_source`](crate::SpanTimingLayer::from_source).
//!
//! Programs use tickline's clock. The trait is for tests, which move a clock by hand. [`StdClock`]
//! is for measurements of the same layer over `std`.

use core::fmt;
use std::time::{Instant as StdInstant, SystemTime, UNIX_EPOCH};

use tickline::{Anchor, Instant};

use crate::timing::as_ns;

/// A clock.
pub trait TimeSource: fmt::Debug + Send + Sync + 'static {
    /// The present monotonic time, ns. Later readings of one thread must not be smaller. The layer
    /// calls this while a span's slot is locked, so it must not enter a span.
    fn now_ns(&self) -> u64;

    /// Unix time less monotonic time, ns.
    fn unix_offset_ns(&self) -> i64;
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

    fn unix_offset_ns(&self) -> i64 {
        let (anchor, now) = (Anchor::unix(), Instant::now());
        anchor.to_unix(now).as_nanos().wrapping_sub(now.as_nanos()).cast_signed()
    }
}

/// `std::time::Instant` and `SystemTime`, to measure the same layer without tickline.
#[derive(Debug, Clone, Copy)]
pub struct StdClock {
    start: StdInstant,
}

impl StdClock {
    /// Counts from now on.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a start is no default")]
    pub fn new() -> Self {
        Self { start: StdInstant::now() }
    }
}

impl TimeSource for StdClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        as_ns(self.start.elapsed())
    }

    /// By one reading of each clock. If the thread is preempted in between, it is off by as much.
    fn unix_offset_ns(&self) -> i64 {
        let unix_ns = as_ns(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        unix_ns.wrapping_sub(self.now_ns()).cast_signed()
    }
}
