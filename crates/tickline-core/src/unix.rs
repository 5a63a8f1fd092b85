//! Unix time minus monotonic time.
//!
//! Both clocks have one rate (Linux `timekeeping`: `wall_to_monotonic` is constant between
//! steps), so the difference is constant until somebody sets the clock. Each sample narrows the
//! interval that contains the difference. A sample outside the interval shows a step, which Unix
//! time follows at once.

use crate::sample::Reference;

/// Samples of Unix time in one update; the narrowest counts. A model by loom has one, because
/// each sample is a step of the model.
const SAMPLES: u32 = if cfg!(loom) { 1 } else { 3 };

/// The interval that contains the difference.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UnixTrack {
    /// Least and most, ns.
    limits_ns: Option<(i64, i64)>,
}

impl UnixTrack {
    pub(crate) const fn new() -> Self {
        Self { limits_ns: None }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.limits_ns = None;
    }

    /// Takes samples. Returns whether Unix time was stepped since the last ones.
    pub(crate) fn update(&mut self, reference: &impl Reference) -> bool {
        let mut narrowest: Option<(i64, i64)> = None;
        let width = |(least, most): (i64, i64)| most.saturating_sub(least);
        for _ in 0..SAMPLES {
            let before_ns = reference.monotonic_ns();
            let unix_ns = reference.realtime_ns();
            let after_ns = reference.monotonic_ns();
            // Both clocks round down to a nanosecond.
            let limits = (
                unix_ns.saturating_sub(after_ns).saturating_sub(1),
                unix_ns.saturating_sub(before_ns).saturating_add(1),
            );
            if narrowest.is_none_or(|narrowest| width(limits) < width(narrowest)) {
                narrowest = Some(limits);
            }
        }
        let Some((least, most)) = narrowest else { return false };
        let known = self.limits_ns;
        let both = known.map(|(known_least, known_most)| (least.max(known_least), most.min(known_most)));
        match both {
            Some((least, most)) if least <= most => {
                self.limits_ns = Some((least, most));
                false
            }
            _ => {
                self.limits_ns = Some((least, most));
                known.is_some()
            }
        }
    }

    /// The difference, ns, and the half-width of the interval that contains it, ns.
    pub(crate) fn offset(&self) -> (i64, u64) {
        let (least, most) = self.limits_ns.unwrap_or((0, 0));
        let half = most.abs_diff(least) >> 1;
        let middle = least.saturating_add(i64::try_from(half).unwrap_or(i64::MAX));
        (middle, most.abs_diff(middle).max(half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct Clocks {
        monotonic_ns: Cell<i64>,
        offset_ns: Cell<i64>,
        cost_ns: Cell<i64>,
    }

    impl Reference for Clocks {
        fn monotonic_ns(&self) -> i64 {
            self.monotonic_ns.set(self.monotonic_ns.get() + self.cost_ns.get());
            self.monotonic_ns.get()
        }
        fn realtime_ns(&self) -> i64 {
            self.monotonic_ns() + self.offset_ns.get()
        }
    }

    #[test]
    fn the_interval_narrows_and_contains_the_truth() {
        let clocks = Clocks {
            monotonic_ns: Cell::new(5),
            offset_ns: Cell::new(1_000_000_007),
            cost_ns: Cell::new(90),
        };
        let mut track = UnixTrack::new();
        assert!(!track.update(&clocks));
        let (offset, bound) = track.offset();
        assert!(offset.abs_diff(1_000_000_007) <= bound && bound <= 92, "{offset} +- {bound}");
        clocks.cost_ns.set(20);
        assert!(!track.update(&clocks));
        let (offset, bound) = track.offset();
        assert!(offset.abs_diff(1_000_000_007) <= bound && bound <= 22, "{offset} +- {bound}");
    }

    #[test]
    fn a_step_is_followed_at_once() {
        let clocks = Clocks {
            monotonic_ns: Cell::new(5),
            offset_ns: Cell::new(1_000_000_007),
            cost_ns: Cell::new(20),
        };
        let mut track = UnixTrack::new();
        track.update(&clocks);
        for step_ns in [3_600_000_000_000, -3_600_000_000_000, 1_000] {
            clocks.offset_ns.set(clocks.offset_ns.get() + step_ns);
            assert!(track.update(&clocks), "{step_ns}");
            let (offset, bound) = track.offset();
            assert!(offset.abs_diff(clocks.offset_ns.get()) <= bound && bound <= 22);
            assert!(!track.update(&clocks));
        }
    }
}
