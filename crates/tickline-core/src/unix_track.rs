//! Tracks Unix time minus monotonic time. A sample is a bracket as in `sample.rs`, of the
//! reference's two clocks, without the counter.

use crate::reference::Reference;

/// The number of samples of Unix time in one update, of which the narrowest counts. Loom's models
/// have one, because each sample is a step of the model.
const UNIX_SAMPLES: u32 = if cfg!(loom) { 1 } else { 3 };

/// Unix time minus monotonic time.
///
/// Both clocks have one rate (Linux `timekeeping`: `wall_to_monotonic` is constant between steps),
/// so the difference is constant until a program sets the clock. Each sample is a range that
/// contains the difference at its time. The offset is the middle of the part that all samples have
/// in common, so that Unix time does not follow the scatter of the samples. A sample outside of
/// that part shows a step, which Unix time follows at once. A smaller step may leave the common
/// part beside the difference for ever. So the bound reaches to both ends of the newest sample,
/// which alone proves where the difference is now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnixTrack {
    /// The samples so far.
    samples: Option<Samples>,
}

#[derive(Debug, Clone, Copy)]
struct Samples {
    /// The part that all samples since the last noticed step have in common.
    common: OffsetRange,
    newest: OffsetRange,
}

/// A range of Unix time minus monotonic time.
#[derive(Debug, Clone, Copy)]
struct OffsetRange {
    min_ns: i64,
    max_ns: i64,
}

impl OffsetRange {
    /// The range that contains the difference by one sample.
    #[inline(never)]
    fn sample(reference: &impl Reference) -> Self {
        let before_ns = reference.monotonic_ns();
        let unix_ns = reference.unix_ns();
        let after_ns = reference.monotonic_ns();
        // Both clocks round down to a nanosecond.
        Self {
            min_ns: unix_ns.saturating_sub(after_ns).saturating_sub(1),
            max_ns: unix_ns.saturating_sub(before_ns).saturating_add(1),
        }
    }

    /// Negative if the reference stepped back within the sample.
    fn width_ns(&self) -> i64 {
        self.max_ns.saturating_sub(self.min_ns)
    }

    /// The part that both ranges have in common; `None` if there is none.
    fn common(&self, other: &Self) -> Option<Self> {
        let common = Self {
            min_ns: self.min_ns.max(other.min_ns),
            max_ns: self.max_ns.min(other.max_ns),
        };
        (common.min_ns <= common.max_ns).then_some(common)
    }

    fn middle_ns(&self) -> i64 {
        let half_ns = i64::try_from(self.max_ns.abs_diff(self.min_ns) >> 1).unwrap_or(i64::MAX);
        self.min_ns.saturating_add(half_ns)
    }

    /// The distance of the farther end from `offset_ns`.
    fn farthest_ns(&self, offset_ns: i64) -> u64 {
        let below_ns = self.min_ns.abs_diff(offset_ns);
        below_ns.max(self.max_ns.abs_diff(offset_ns))
    }
}

impl UnixTrack {
    /// No sample yet.
    pub(crate) const UNKNOWN: Self = Self { samples: None };

    /// Takes samples. Returns whether they show that Unix time was stepped since the last ones.
    pub(crate) fn update(&mut self, reference: &impl Reference) -> bool {
        let mut newest = OffsetRange::sample(reference);
        for _ in 1..UNIX_SAMPLES {
            let sample = OffsetRange::sample(reference);
            if sample.width_ns() < newest.width_ns() {
                newest = sample;
            }
        }
        let common = self
            .samples
            .and_then(|samples| newest.common(&samples.common));
        let is_stepped = self.samples.is_some() && common.is_none();
        self.samples = Some(Samples {
            common: common.unwrap_or(newest),
            newest,
        });
        is_stepped
    }

    /// The offset: Unix time minus monotonic time, ns; 0 without a sample.
    pub(crate) fn offset_ns(&self) -> i64 {
        self.samples.map_or(0, |samples| samples.common.middle_ns())
    }

    /// The bound of the offset, ns: at the newest sample the difference was off by no more.
    pub(crate) fn bound_ns(&self) -> u64 {
        let offset_ns = self.offset_ns();
        self.samples
            .map_or(0, |samples| samples.newest.farthest_ns(offset_ns))
    }
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use super::*;
    use crate::testing::{FnClock, Machine};

    /// Updates `track`, whose range must then contain the truth, and returns whether Unix time
    /// has stepped, and the bound, ns.
    fn updated(track: &mut UnixTrack, machine: &Machine) -> (bool, u64) {
        let is_stepped = track.update(machine);
        let offset_ns = track.offset_ns();
        let bound_ns = track.bound_ns();
        let error_ns = offset_ns.abs_diff(machine.unix_offset_ns.get());
        assert!(error_ns <= bound_ns, "{error_ns} ns off, +- {bound_ns}");
        (is_stepped, bound_ns)
    }

    #[test]
    fn the_bound_of_unix_time_is_half_of_the_newest_sample() {
        let machine = Machine::new();
        let mut track = UnixTrack::UNKNOWN;
        for read_ns in [90, 20] {
            machine.reference_ticks.set((0, read_ns));
            let (is_stepped, bound_ns) = updated(&mut track, machine);
            assert!(!is_stepped && bound_ns <= read_ns + 2, "+- {bound_ns} ns");
        }
    }

    #[test]
    fn a_wider_sample_does_not_move_unix_time() {
        let mut track = UnixTrack::UNKNOWN;
        // Monotonic, Unix and monotonic time of each sample.
        for [before_ns, unix_ns, after_ns] in [[0, 1_010, 20], [0, 1_040, 100]] {
            let mut reads = [before_ns, unix_ns, after_ns].into_iter().cycle();
            let reads = RefCell::new(move || reads.next().unwrap());
            track.update(&FnClock(|| reads.borrow_mut()()));
            assert_eq!(track.offset_ns(), 1_000);
        }
    }

    /// Symptom: after a step within the sample, the bounds of Unix time were narrower than before
    /// and wrong.
    #[test]
    fn the_bounds_of_unix_time_hold_after_a_step_within_them() {
        for step_ns in [5, 15, 25, 35, 41] {
            let machine = Machine::new();
            let mut track = UnixTrack::UNKNOWN;
            updated(&mut track, machine); // +- 21 ns
            let before_ns = machine.unix_offset_ns.get();
            machine.unix_offset_ns.set(before_ns + step_ns);
            for _ in 0..2 {
                assert!(!updated(&mut track, machine).0, "{step_ns} ns");
            }
        }
    }

    #[test]
    fn a_step_of_unix_time_is_followed_at_once() {
        let machine = Machine::new();
        let mut track = UnixTrack::UNKNOWN;
        updated(&mut track, machine);
        for step_ns in [3_600_000_000_000, -3_600_000_000_000, 1_000] {
            let before_ns = machine.unix_offset_ns.get();
            machine.unix_offset_ns.set(before_ns + step_ns);
            assert!(updated(&mut track, machine).0, "{step_ns} ns");
            assert!(!updated(&mut track, machine).0, "{step_ns} ns, again");
        }
    }
}
