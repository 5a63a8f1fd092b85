//! The offset of Unix time from monotonic time, for the times of closed spans.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tickline::{Anchor, Instant, UnixTime};

/// The time for which an offset between Unix and monotonic time is used, ns. tickline's line
/// changes every 0.5 s, so the offset rarely changes meanwhile. A measurement of the offset takes
/// up to twelve readings, whose cost is negligible at this interval. If the clock is set, the layer
/// notices it within this time.
const UNIX_OFFSET_LASTS_NS: u64 = 10_000_000;

/// The present moment, and its Unix time.
pub(crate) fn unix_now() -> (Instant, UnixTime) {
    let (anchor, now) = (Anchor::unix(), Instant::now());
    (now, anchor.to_unix(now))
}

/// The present offset of Unix time from monotonic time, ns.
pub(crate) fn unix_offset_ns() -> i64 {
    let (now, unix) = unix_now();
    unix.as_nanos().wrapping_sub(now.as_nanos()).cast_signed()
}

/// The offset of Unix time from monotonic time, measured again when it is old.
#[derive(Debug, Default)]
pub(crate) struct UnixOffset {
    offset_ns: AtomicI64,
    /// The time of the measurement, monotonic ns, at least 1; 0 before the first measurement.
    measured_ns: AtomicU64,
}

impl UnixOffset {
    /// The offset at `now_ns`. Calls `measure` if the offset is old.
    #[inline]
    pub(crate) fn get(&self, now_ns: u64, measure: impl FnOnce() -> i64) -> i64 {
        // ORDERING: Acquire, pairs with the Release store in `measure`: a thread that sees the time
        // of a measurement sees its offset.
        let measured_ns = self.measured_ns.load(Ordering::Acquire);
        // The difference may have either sign: another thread may have measured the offset a little
        // later than this reading.
        if measured_ns != 0 && now_ns.abs_diff(measured_ns) < UNIX_OFFSET_LASTS_NS {
            // ORDERING: Relaxed, after the Acquire load of `measured_ns`.
            return self.offset_ns.load(Ordering::Relaxed);
        }
        self.measure(now_ns, measure)
    }

    #[cold]
    #[inline(never)]
    fn measure(&self, now_ns: u64, measure: impl FnOnce() -> i64) -> i64 {
        let offset_ns = measure();
        // ORDERING: Relaxed, published by the Release store of `measured_ns`.
        self.offset_ns.store(offset_ns, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `get`.
        self.measured_ns.store(now_ns.max(1), Ordering::Release);
        offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordering_a_thread_that_sees_a_measurement_sees_its_offset() {
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
