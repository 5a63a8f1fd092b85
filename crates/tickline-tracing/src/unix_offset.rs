//! Unix time for spans: its offset from monotonic time.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::source::TimeSource;

/// How long an offset between Unix and monotonic time is used, ns. tickline's line changes every
/// 0.5 s, so the offset rarely changes meanwhile. The samples take twelve readings, whose cost is
/// negligible at this interval. The layer notices within this time that the clock was set.
const UNIX_OFFSET_LASTS_NS: u64 = 10_000_000;

/// Samples. A preemption is in one of them, rarely in two.
const SAMPLES: u32 = 4;

/// The offset of Unix time from monotonic time. It is sampled again when the last sample is old.
#[derive(Debug)]
pub(crate) struct UnixOffset {
    offset_ns: AtomicI64,
    /// When that was found, monotonic ns.
    found_ns: AtomicU64,
}

impl UnixOffset {
    pub(crate) const fn new() -> Self {
        Self { offset_ns: AtomicI64::new(0), found_ns: AtomicU64::new(u64::MAX) }
    }

    #[inline]
    pub(crate) fn get(&self, now_ns: u64, source: &(impl TimeSource + ?Sized)) -> i64 {
        // ORDERING: Acquire, pairs with the Release store in `find`: a thread that sees a fresh
        // offset's time sees the offset.
        let found_ns = self.found_ns.load(Ordering::Acquire);
        // The difference may have either sign: another thread's sample may be a little later than
        // this reading.
        if found_ns != u64::MAX && now_ns.abs_diff(found_ns) < UNIX_OFFSET_LASTS_NS {
            // ORDERING: Relaxed, behind the load above.
            return self.offset_ns.load(Ordering::Relaxed);
        }
        self.find(source)
    }

    /// Takes the offset from the narrowest of a few samples. The delay of a preemption would
    /// otherwise be in the times of all threads.
    #[cold]
    #[inline(never)]
    fn find(&self, source: &(impl TimeSource + ?Sized)) -> i64 {
        let samples = (0..SAMPLES).map(|_| (source.now_ns(), source.unix_ns(), source.now_ns()));
        let width_ns = |(before_ns, _, after_ns): &(u64, u64, u64)| after_ns.saturating_sub(*before_ns);
        let (before_ns, unix_ns, after_ns) = samples.min_by_key(width_ns).unwrap_or_default();
        let monotonic_ns = before_ns.midpoint(after_ns);
        // Two's complement: right for either sign.
        let offset_ns = i64::from_ne_bytes(unix_ns.wrapping_sub(monotonic_ns).to_ne_bytes());
        // ORDERING: Relaxed, published by the store below.
        self.offset_ns.store(offset_ns, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `get`.
        self.found_ns.store(monotonic_ns, Ordering::Release);
        offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX_AHEAD_NS: u64 = 1_000_000_000;

    /// Time advances by the next of these at each reading, ns.
    struct Preempted {
        steps_ns: &'static [u64],
        readings: AtomicU64,
        clock_ns: AtomicU64,
    }

    impl TimeSource for Preempted {
        fn now_ns(&self) -> u64 {
            // ORDERING: Relaxed for both, one thread.
            let reading =
                usize::try_from(self.readings.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
            let step_ns = self.steps_ns.get(reading).copied().unwrap_or(30);
            self.clock_ns.fetch_add(step_ns, Ordering::Relaxed) + step_ns
        }

        fn unix_ns(&self) -> u64 {
            self.now_ns() + UNIX_AHEAD_NS
        }
    }

    #[test]
    fn ordering_a_thread_that_sees_a_sample_sees_its_offset() {
        let source = Preempted { steps_ns: &[], readings: AtomicU64::new(0), clock_ns: AtomicU64::new(5) };
        for _ in 0..8 {
            let offset = UnixOffset::new();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| assert_ne!(offset.get(5, &source), 0));
                }
            });
        }
    }

    /// Symptom: spans of all threads were created 4 ms too late, because the thread that took the
    /// sample lost its CPU for 8 ms.
    #[test]
    fn a_preemption_between_two_clocks_is_not_in_the_times() {
        for steps_ns in [&[30, 30, 8_000_000][..], &[30, 8_000_000, 30], &[30, 30, 900, 30, 8_000_000, 30]] {
            let source = Preempted { steps_ns, readings: AtomicU64::new(0), clock_ns: AtomicU64::new(5) };
            let offset_ns = UnixOffset::new().get(5, &source);
            assert!(offset_ns.abs_diff(1_000_000_000) <= 100, "{steps_ns:?}: {offset_ns}");
        }
    }
}
