//! The clock behind the layer.
//!
//! Programs have tickline's. The trait is there for tests, whose clock is moved by hand, and for the bench that compares the layer
//! with the same layer over `std`.

/// A clock.
pub trait TimeSource: Send + Sync + 'static {
    /// The present, in monotonic ns. Later readings of one thread must not be smaller. The layer calls this while what it knows of a
    /// span is locked, so it must not enter a span.
    fn now_ns(&self) -> u64;

    /// Unix time, ns.
    fn unix_ns(&self) -> u64;
}

/// tickline's global clock. With tickline's feature `mock`, the mock clock that is active on the thread.
///
/// [`tickline::now_ns`] converts each reading at once. Raw ticks that are converted when a span is closed cost more in all (162
/// ns a span in place of 145), and are off for spans that are older than the clock's memory of its lines.
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
