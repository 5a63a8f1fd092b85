//! Tracks Unix time minus monotonic time. A sample is a bracket as in `sample.rs`, of the
//! reference's two clocks, without the counter.

use crate::reference::Reference;

/// The number of samples of Unix time in one update, of which the narrowest counts. Loom's models
/// have one, because each sample is a step of the model.
const UNIX_SAMPLES: u32 = if cfg!(loom) { 1 } else { 3 };

/// The interval that contains Unix time minus monotonic time.
///
/// Both clocks have one rate (Linux `timekeeping`: `wall_to_monotonic` is constant between steps),
/// so the difference is constant until a program sets the clock. Each sample narrows the interval.
/// A sample outside the interval shows a step, which Unix time follows at once. A step that is
/// smaller than the interval and the sample together may leave the two overlapping. Then their
/// common part may miss the difference by less than the sample's width, until a later sample lies
/// outside of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnixTrack {
    /// The ends of the interval, lower and upper, ns.
    bounds_ns: Option<(i64, i64)>,
}

impl UnixTrack {
    /// The interval before the first sample.
    pub(crate) const UNKNOWN: Self = Self { bounds_ns: None };

    /// Takes samples. Returns whether Unix time was stepped since the last ones.
    pub(crate) fn update(&mut self, reference: &impl Reference) -> bool {
        let mut narrowest: Option<(i64, i64)> = None;
        let width = |(lower, upper): (i64, i64)| upper.saturating_sub(lower);
        for _ in 0..UNIX_SAMPLES {
            let bounds = unix_bounds_ns(reference);
            if narrowest.is_none_or(|narrowest| width(bounds) < width(narrowest)) {
                narrowest = Some(bounds);
            }
        }
        let known = self.bounds_ns;
        let both = narrowest
            .zip(known)
            .map(|(new, known)| (new.0.max(known.0), new.1.min(known.1)));
        let agree = both.filter(|(lower, upper)| lower <= upper);
        self.bounds_ns = agree.or(narrowest);
        known.is_some() && agree.is_none()
    }

    /// The difference, ns, and the half-width of the interval that contains it, ns.
    pub(crate) fn offset(&self) -> (i64, u64) {
        let (lower, upper) = self.bounds_ns.unwrap_or((0, 0));
        let half = upper.abs_diff(lower) >> 1;
        let middle = lower.saturating_add(i64::try_from(half).unwrap_or(i64::MAX));
        (middle, upper.abs_diff(middle).max(half))
    }
}

/// The interval that contains Unix time minus monotonic time by one sample, ns.
#[inline(never)]
fn unix_bounds_ns(reference: &impl Reference) -> (i64, i64) {
    let before_ns = reference.monotonic_ns();
    let unix_ns = reference.unix_ns();
    let after_ns = reference.monotonic_ns();
    // Both clocks round down to a nanosecond.
    (
        unix_ns.saturating_sub(after_ns).saturating_sub(1),
        unix_ns.saturating_sub(before_ns).saturating_add(1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Machine;

    /// Updates `track`, whose interval must then contain the truth, and returns whether Unix time
    /// has stepped, and the bound, ns.
    fn updated(track: &mut UnixTrack, machine: &Machine) -> (bool, u64) {
        let is_stepped = track.update(machine);
        let (offset_ns, bound_ns) = track.offset();
        let error_ns = offset_ns.abs_diff(machine.unix_offset_ns.get());
        assert!(error_ns <= bound_ns, "{error_ns} ns off, +- {bound_ns}");
        (is_stepped, bound_ns)
    }

    #[test]
    fn the_interval_of_unix_time_narrows_with_the_reads() {
        let machine = Machine::new();
        let mut track = UnixTrack::UNKNOWN;
        for read_ns in [90, 20] {
            machine.reference_ticks.set((0, read_ns));
            let (is_stepped, bound_ns) = updated(&mut track, machine);
            assert!(!is_stepped && bound_ns <= read_ns + 2, "+- {bound_ns} ns");
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
