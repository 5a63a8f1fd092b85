//! Where the layer's stamps come from.

use std::fmt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tickline::{Clock, Stamp};

/// A clock in two halves: taking a stamp, which is on the program's hot path, and turning it into ns, which need not be.
///
/// [`Nanos`] is what a program wants, and what [`SpanTimingLayer::new`](crate::SpanTimingLayer::new) takes. [`Std`] is there to
/// compare with; tests may bring a clock that they move by hand.
pub trait TimeSource: Send + Sync + 'static {
    /// A stamp of the present; its unit is the source's own. Called while what is known of a span is locked, so it must not
    /// enter one.
    fn stamp(&self) -> u64;

    /// A stamp of this source, in monotonic ns. Later stamps of one thread must not give smaller values.
    fn to_ns(&self, stamp: u64) -> u64;

    /// Unix time, ns.
    fn unix_ns(&self) -> u64;

    /// The present, in monotonic ns.
    fn now_ns(&self) -> u64 {
        self.to_ns(self.stamp())
    }
}

/// Nanoseconds by the counter, [`tickline::now_ns`]: each stamp is converted at once, by the line in use at that moment.
///
/// That takes 1 to 2 ns more at each stamp than [`Ticks`], and nothing later, which is less in all; and no span is too old
/// for its line to be remembered. With tickline's feature `mock`, a clock that is active on the thread is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nanos;

impl TimeSource for Nanos {
    #[inline(always)]
    fn stamp(&self) -> u64 {
        tickline::now_ns()
    }

    #[inline(always)]
    fn to_ns(&self, stamp: u64) -> u64 {
        stamp
    }

    #[inline]
    fn unix_ns(&self) -> u64 {
        tickline::unix_ns()
    }
}

/// Ticks of the counter, by tickline's global clock: [`Clock::ticks`], and [`Clock::ticks_to_ns`] when the span is closed or
/// entered again, by the line that was in use when the stamp was taken.
///
/// The least work between enter and exit. The clock remembers 128 lines, a minute at the default interval, some seconds while
/// lines are short (at the start, after a disturbance): the beginning of an older span is converted with the oldest of them,
/// so it is off by what the rate has changed since (some 0.1 ms an hour), and without meaning if the counter was reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks;

impl TimeSource for Ticks {
    #[inline(always)]
    fn stamp(&self) -> u64 {
        Clock::global().ticks().to_bits()
    }

    #[inline]
    fn to_ns(&self, stamp: u64) -> u64 {
        Clock::global().ticks_to_ns(Stamp::from_bits(stamp))
    }

    #[inline]
    fn unix_ns(&self) -> u64 {
        Clock::global().unix_ns()
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        Clock::global().now_ns()
    }
}

/// `std::time::Instant` and `SystemTime`: what the same layer costs without tickline.
#[derive(Clone, Copy)]
pub struct Std {
    start: Instant,
}

impl Std {
    /// Counts from now on.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for Std {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Std {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Std").finish_non_exhaustive()
    }
}

impl TimeSource for Std {
    #[inline]
    fn stamp(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[inline]
    fn to_ns(&self, stamp: u64) -> u64 {
        stamp
    }

    #[inline]
    fn unix_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}
