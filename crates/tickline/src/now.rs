//! The readings without a [`Clock`](crate::Clock), of the clock behind the free functions: these
//! functions, and the constructors of [`Instant`] and [`UnixTime`] that read it.

use core::time::Duration;
use std::time::SystemTimeError;

use crate::engine::{Engine, GLOBAL};
use crate::instant::Instant;
use crate::unix_time::UnixTime;

/// Calls `read` with the clock behind the free functions: the global one, or a mock that is active
/// on this thread.
#[inline(always)]
pub(crate) fn current<T>(read: impl Fn(&Engine) -> T) -> T {
    #[cfg(feature = "mock")]
    if let Some(time) = crate::mock::active(&read) {
        return time;
    }
    read(&GLOBAL)
}

/// [`Instant::now`] as a number: ns of `CLOCK_MONOTONIC` of this process's time namespace.
///
/// A reading of another thread or another CPU may be later than this one ([Order](crate#order)).
/// Subtract with `saturating_sub`, as the operators of [`Instant`] do:
///
/// ```
/// let start_ns = tickline::now_ns();
/// let spent_ns = tickline::now_ns().saturating_sub(start_ns);
/// println!("{spent_ns} ns");
/// ```
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    current(Engine::now).as_nanos_of_reading()
}

/// [`Instant::now_ordered`] as a number: ns of `CLOCK_MONOTONIC`. Subtract with `saturating_sub`,
/// because on some machines the [order](crate#order) holds on one CPU only.
#[inline]
#[must_use]
pub fn now_ordered_ns() -> u64 {
    current(Engine::now_ordered).as_nanos_of_reading()
}

/// [`Instant::recent`] as a number: ns of `CLOCK_MONOTONIC`.
#[inline]
#[must_use]
pub fn recent_ns() -> u64 {
    current(Engine::recent).as_nanos_of_reading()
}

/// [`UnixTime::now`] as a number: ns since 1970.
#[inline]
#[must_use]
pub fn unix_ns() -> u64 {
    current(Engine::unix_now).as_nanos()
}

impl Instant {
    /// The current time, by a plain read of the counter: in order within a thread (with a [line for
    /// each CPU](crate::LinePerCpu), while it stays on its CPU, and the line lasts). Instants that
    /// two threads took may be out of order by nanoseconds, rarely by microseconds: where threads
    /// compare times, use [`now_ordered`](Self::now_ordered) ([Order](crate#order)).
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        current(Engine::now)
    }

    /// The current time, in order across threads: if one call was complete before another began,
    /// the later call returns no smaller instant. [Order](crate#order) tells where this holds on
    /// one CPU only.
    #[inline]
    #[must_use]
    pub fn now_ordered() -> Self {
        current(Engine::now_ordered)
    }

    /// The recent time that the global clock's thread stored at its last wake-up
    /// ([`ClockBuilder::recent_every`](crate::ClockBuilder::recent_every)). The call makes a few
    /// loads, and does not read the counter. With minimal probes it also calls `getpid`. Without a
    /// thread in this process, it is the same as [`now`](Self::now).
    #[inline]
    #[must_use]
    pub fn recent() -> Self {
        current(Engine::recent)
    }

    /// Time from this instant to [`Instant::now`]; zero if this instant is later. For an instant
    /// that another thread took, write `Instant::now_ordered() - start`: a plain reading may be
    /// earlier by nanoseconds, rarely by microseconds.
    ///
    /// The instant should be one of the same clock: the global one, or the mock that is active on
    /// this thread. For an instant of a [`Clock`](crate::Clock) that follows `CLOCK_MONOTONIC`, the
    /// result is exact to the two clocks' bounds. For an instant of a mock's clock, or of
    /// a [`Backend`](crate::backend::Backend) with a time of its own, the result means nothing:
    /// [`Clock::elapsed`](crate::Clock::elapsed) measures with the clock that made the instant.
    #[inline]
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }
}

impl UnixTime {
    /// The current time of `CLOCK_REALTIME`. When that clock is set, readings follow at the next
    /// recalibration: at once with [`start`](crate::start) on Linux and full probes, otherwise
    /// within half a second of use.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        current(Engine::unix_now)
    }

    /// Time from this time to [`UnixTime::now`]. On Windows both are rounded as by
    /// [`duration_since`](Self::duration_since).
    ///
    /// # Errors
    ///
    /// std's error, if this time is in the future, which is possible after the clock was set.
    #[inline]
    pub fn elapsed(&self) -> Result<Duration, SystemTimeError> {
        Self::now().duration_since(*self)
    }
}
