//! The clock behind the layer, for
//! [`SpanTimingLayer::from_source`](crate::SpanTimingLayer::from_source).
//!
//! Programs use tickline's clock. The trait is for tests, which move a clock by hand, and for
//! measurements of the same layer over another clock.

use core::fmt;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tickline::{Anchor, Instant};

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

/// How long an offset between Unix and monotonic time is used, ns. tickline's line changes every
/// 0.5 s, so the offset rarely changes meanwhile. To ask for it takes up to twelve readings, whose
/// cost is negligible at this interval. The layer notices within this time that the clock was set.
const UNIX_OFFSET_LASTS_NS: u64 = 10_000_000;

/// The offset of Unix time from monotonic time. It is asked for again when it is old.
#[derive(Debug, Default)]
pub(crate) struct UnixOffset {
    offset_ns: AtomicI64,
    /// When that was found, monotonic ns, at least 1; 0 if it was not.
    found_ns: AtomicU64,
}

impl UnixOffset {
    /// The offset at `now_ns`. If it is old, `ask` tells the present one.
    #[inline]
    pub(crate) fn get(&self, now_ns: u64, ask: impl FnOnce() -> i64) -> i64 {
        // ORDERING: Acquire, pairs with the Release store in `find`: a thread that sees a fresh
        // offset's time sees the offset.
        let found_ns = self.found_ns.load(Ordering::Acquire);
        // The difference may have either sign: another thread may have found the offset a little
        // later than this reading.
        if found_ns != 0 && now_ns.abs_diff(found_ns) < UNIX_OFFSET_LASTS_NS {
            // ORDERING: Relaxed, behind the load above.
            return self.offset_ns.load(Ordering::Relaxed);
        }
        self.find(now_ns, ask)
    }

    #[cold]
    #[inline(never)]
    fn find(&self, monotonic_ns: u64, ask: impl FnOnce() -> i64) -> i64 {
        let offset_ns = ask();
        // ORDERING: Relaxed, published by the store below.
        self.offset_ns.store(offset_ns, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `get`.
        self.found_ns.store(monotonic_ns.max(1), Ordering::Release);
        offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordering_a_thread_that_sees_a_sample_sees_its_offset() {
        for _ in 0..8 {
            let offset = UnixOffset::default();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| assert_eq!(offset.get(5, || 7), 7));
                }
            });
        }
    }
}
