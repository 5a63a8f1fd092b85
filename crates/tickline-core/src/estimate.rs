//! The estimator: computes the lines that are consistent with every sample, and from these the
//! reference's present time.
//!
//! Each sample has a point above the true line and one below it. A line that passes between the two
//! points of each sample is feasible. The feasible lines form a polygon in the plane of slope and
//! offset. At a tick after the samples, the feasible line of the largest slope has the largest
//! value, and the one of the smallest slope has the smallest value. So these two slopes are enough
//! to bound the present:
//!
//! ```text
//! slope_max = min over (i older, j newer) of (upper_j - lower_i) / (ticks between)
//! slope_min = max over (i older, j newer) of (lower_j - upper_i) / (ticks between)
//! ```
//!
//! With at most [`CAPACITY`] samples there are under 600 fractions, which are compared without
//! division. The estimate is the middle between the two extremes, now and one interval later.
//! Nothing is averaged, so a long delay in one bracket does not move the estimate.
//!
//! The polygon proves **nothing** about the present: the reference may change its rate while the
//! set stays feasible. The proof is [`History::bounds`], which allows the rate to differ by the
//! maximum drift.
//!
//! - **The estimate checks a new sample against all others before it thins them out.** Thinning may
//!   drop the sample that contradicts the new one.
//! - **The bounds are the lines of slope `target +- maximum drift` around all samples**, widened by
//!   the dither. The maximum drift includes the uncertainty of the slope.
//! - **A half-width is half a bracket, dither, drift, and the reading's distance from the middle.**
//!   On Zen 5 half a bracket can't become less than 11 ns, because the counter moves by 10. Drift
//!   is the maximum drift times the age of the sample.
//! - **A first line needs three samples that agree** (`CONFIRMATIONS` in `stability.rs`).

use crate::cell::{PlannedBounds, UnroundedLine};
use crate::line::Slope;
use crate::sample::{Point, Sample};
use crate::units::{FRACTION_BITS, FixedNs, NS_PER_S, ticks_between, ticks_since};

/// The number of samples kept: one for each doubling of age. 23 doublings lead from 50 us to 7
/// minutes. Miri gets fewer, because comparing all samples with all takes long there.
pub(crate) const CAPACITY: usize = if cfg!(miri) { 8 } else { 24 };

/// Samples older than this are dropped, ns. NTP daemons poll every 16 to 1024 s and may alter the
/// rate each time. Older samples would not improve the slope: 30 ns in 300 s is 0.1 ppb.
pub(crate) const MAX_AGE_NS: u64 = 300 * NS_PER_S;

/// The contradiction between samples that is tolerated before samples are dropped, ppb. Kernels
/// steer by switching between two neighbouring slopes at their timer interrupts (Linux,
/// `timekeeping_adjust`). The two differ by 2^-24 ns a tick of the counter: at 0.38 ns a tick, by
/// 0.16 ppm.
pub(crate) const FIT_TOLERANCE_PPB: i64 = 200;

/// The longest gap between two samples for which this tolerance grows, ns: twice the longest time
/// between two of the kernel's ticks that `stability/dither.rs` assumes. So a fit tolerates a
/// distance of up to 40 ns from a line. The largest dither for which the bounds allow stays within
/// 24 ns of one, half of its `MAX_RANGE_NS`. With a longer gap more changes of the rate would pass
/// as dither.
const MAX_TOLERANCE_GAP_NS: i64 = 200_000_000;

/// The feasible slopes of a set of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Smallest feasible slope, rounded up.
    pub(crate) slope_min: Slope,
    /// Largest feasible slope, rounded down.
    pub(crate) slope_max: Slope,
    /// Whether the set was feasible without the tolerance of [`FIT_TOLERANCE_PPB`].
    pub(crate) is_exact: bool,
}

/// The result of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FitResult {
    /// The feasible slopes; `None` with fewer than two samples.
    pub(crate) fit: Option<Fit>,
    /// The number of samples that the fit dropped, because they contradicted newer ones.
    pub(crate) dropped: usize,
}

/// The reference's present time and rate: the line to steer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// The tick of the newest sample.
    pub(crate) ticks: u64,
    /// The reference at that tick.
    pub(crate) reference_fixed: FixedNs,
    /// The reference's rate there.
    pub(crate) slope: Slope,
}

impl Target {
    /// The reference at `ticks`, as estimated.
    #[inline(never)]
    pub(crate) fn fixed_at(&self, ticks: u64) -> FixedNs {
        self.reference_fixed
            .saturating_add(self.slope.over(ticks_between(self.ticks, ticks)))
    }
}

/// The allowances of bounds besides the width of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// The maximum drift: the limit of the reference's rate around the target's slope, ppb.
    pub(crate) max_drift_ppb: u32,
    /// The range of the kernel's dither; 0 if the maximum drift allows for its rate instead.
    pub(crate) dither: FixedNs,
}

/// A fraction with a positive denominator.
#[derive(Debug, Clone, Copy)]
struct Fraction {
    ns: i128,
    ticks: i128,
}

impl Fraction {
    /// The slope from one point to a later one, and `tolerance_ns` more over the way. `None` if the
    /// second point is not later.
    fn new(from: Point, to: Point, tolerance_ns: i64) -> Option<Self> {
        let ticks = i128::from(ticks_between(from.ticks, to.ticks));
        let ns = i128::from(to.ns)
            .saturating_sub(i128::from(from.ns))
            .saturating_add(i128::from(tolerance_ns));
        (ticks > 0).then_some(Self { ns, ticks })
    }

    /// Whether this slope is smaller.
    // BOUND: time differences within a history are below 2^44 ns, and ticks below 2^63, so the
    // products are below 2^107. A reference that jumps may exceed that: |ns| < 2^65 makes
    // products of up to 2^128, which saturate at 2^127. Both sides then compare as equal at worst.
    #[inline(never)]
    fn less_than(self, other: Self) -> bool {
        self.ns.saturating_mul(other.ticks) < other.ns.saturating_mul(self.ticks)
    }

    #[inline(never)]
    fn floor(self) -> i128 {
        // BOUND: |ns| < 2^65, as in `less_than`, so the shifted numerator is below 2^113.
        (self.ns << FRACTION_BITS)
            .checked_div_euclid(self.ticks)
            .unwrap_or(0)
    }

    fn ceil(self) -> i128 {
        let negated = Self {
            ns: self.ns.saturating_neg(),
            ticks: self.ticks,
        };
        negated.floor().saturating_neg()
    }
}

impl Fit {
    /// The excess of the largest feasible slope over the smallest, ppb.
    pub(crate) fn spread_ppb(&self) -> i64 {
        self.slope_max.ppb_above(self.slope_min)
    }

    /// The slopes between two fractions; `None` if there is no such slope.
    fn between(min: Option<&Fraction>, max: Option<&Fraction>) -> Option<Self> {
        let (Some(min), Some(max)) = (min, max) else {
            return None;
        };
        if max.less_than(*min) {
            return None;
        }
        let slope_max = Slope::saturating_from(max.floor());
        // Rounding must not make the smaller slope the larger one.
        let slope_min = Slope::saturating_from(min.ceil()).min(slope_max);
        Some(Self {
            slope_min,
            slope_max,
            is_exact: true,
        })
    }
}

/// The samples, oldest first. After thinning they are the narrowest of each doubling of age.
#[derive(Debug, Clone, Copy)]
pub(crate) struct History {
    samples: [Sample; CAPACITY],
    len: usize,
}

impl History {
    /// An empty history.
    pub(crate) const fn new() -> Self {
        const EMPTY: Point = Point { ticks: 0, ns: 0 };
        Self {
            samples: [Sample {
                upper: EMPTY,
                lower: EMPTY,
            }; CAPACITY],
            len: 0,
        }
    }

    /// The samples, oldest first.
    pub(crate) fn samples(&self) -> &[Sample] {
        self.samples.get(..self.len).unwrap_or(&[])
    }

    /// The newest sample.
    pub(crate) fn newest(&self) -> Option<&Sample> {
        self.samples().last()
    }

    /// The width of the narrowest sample, seen along `slope`.
    pub(crate) fn narrowest(&self, slope: Slope) -> Option<FixedNs> {
        self.min(|sample| sample.width(slope))
    }

    /// The least `value` of all samples.
    fn min(&self, value: impl Fn(&Sample) -> FixedNs) -> Option<FixedNs> {
        self.samples().iter().map(value).min()
    }

    /// Drops all samples.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds `sample`, which is newer than all others. A full history drops its oldest sample first;
    /// [`thin`](Self::thin) makes room.
    pub(crate) fn push(&mut self, sample: Sample) {
        if self.len == CAPACITY {
            self.drop_oldest();
        }
        if let Some(free) = self.samples.get_mut(self.len) {
            *free = sample;
            self.len = self.len.saturating_add(1);
        }
    }

    /// Keeps the narrowest sample of each doubling of age, and drops samples that are too old. Call
    /// this after [`fit`](Self::fit) has used all samples, because this call may drop the very
    /// sample that contradicts the newest one. `slope` serves to compare widths; it need not be
    /// exact.
    pub(crate) fn thin(&mut self, slope: Slope) {
        let Some(newest) = self.newest() else { return };
        let newest_ticks = newest.lower.ticks;
        let age_ticks = |other: &Sample| ticks_since(other.lower.ticks, newest_ticks);
        let max_age_ticks = slope.ticks_in_ceil(MAX_AGE_NS);
        let doubling = |sample: &Sample| age_ticks(sample).leading_zeros();
        // The loop works in place: it writes each kept sample at or before the index from which it
        // read the sample.
        let mut kept: usize = 0;
        for index in 0..self.len {
            let Some(sample) = self
                .samples
                .get(index)
                .copied()
                .filter(|sample| age_ticks(sample) <= max_age_ticks)
            else {
                continue;
            };
            let last = kept.checked_sub(1).and_then(|last| self.samples.get(last));
            match last {
                Some(last) if doubling(last) == doubling(&sample) => {
                    // Of two samples in one doubling of age the narrower one stays; if they tie,
                    // the older one, for its longer baseline. Widths that differ by less than the
                    // reference's rounding count as a tie. Otherwise a series of samples, each
                    // minimally narrower than the last, would keep the baseline short for ever.
                    if sample.width(slope).saturating_add(FixedNs::from_ns(1)) >= last.width(slope)
                    {
                        continue;
                    }
                }
                _ => kept = kept.saturating_add(1),
            }
            if let Some(target) = self.samples.get_mut(kept.saturating_sub(1)) {
                *target = sample;
            }
        }
        self.len = kept;
    }

    fn drop_oldest(&mut self) {
        self.samples.copy_within(1.., 0);
        self.len = self.len.saturating_sub(1);
    }

    /// The feasible slopes. If there are none, the reference has changed its rate. The call then
    /// drops the oldest samples until there are feasible slopes.
    pub(crate) fn fit(&mut self) -> FitResult {
        let mut dropped: usize = 0;
        loop {
            if self.len < 2 {
                return FitResult { fit: None, dropped };
            }
            for tolerance_ns in [0, self.fit_tolerance_ns()] {
                if let Some(fit) = self.slopes_within(tolerance_ns) {
                    let fit = Some(Fit {
                        is_exact: tolerance_ns == 0,
                        ..fit
                    });
                    return FitResult { fit, dropped };
                }
            }
            self.drop_oldest();
            dropped = dropped.saturating_add(1);
        }
    }

    /// The tolerance of a fit: for the kernel's dither over the last gap between samples, ns.
    fn fit_tolerance_ns(&self) -> i64 {
        const BILLION: i64 = NS_PER_S.cast_signed();
        let [.., before, last] = self.samples() else {
            return 1;
        };
        let gap_ns = last
            .lower
            .ns
            .saturating_sub(before.lower.ns)
            .clamp(0, MAX_TOLERANCE_GAP_NS);
        (gap_ns.saturating_mul(FIT_TOLERANCE_PPB) / BILLION).max(1)
    }

    /// The slopes of all straight lines from which the reference can have stayed within
    /// `tolerance_ns`. `None` if there is no such line.
    pub(crate) fn slopes_within(&self, tolerance_ns: i64) -> Option<Fit> {
        let (mut min, mut max): (Option<Fraction>, Option<Fraction>) = (None, None);
        let tolerance_ns = tolerance_ns.saturating_mul(2); // once at each end
        let mut rest = self.samples();
        while let Some((older, later)) = rest.split_first() {
            for newer in later {
                if let Some(upper) = Fraction::new(older.lower, newer.upper, tolerance_ns)
                    && max.is_none_or(|max| upper.less_than(max))
                {
                    max = Some(upper);
                }
                if let Some(lower) =
                    Fraction::new(older.upper, newer.lower, tolerance_ns.saturating_neg())
                    && min.is_none_or(|min| min.less_than(lower))
                {
                    min = Some(lower);
                }
            }
            rest = later;
        }
        Fit::between(min.as_ref(), max.as_ref())
    }

    /// The lowest upper point of all samples, each carried to `ticks` at `slope`.
    pub(crate) fn upper_bound(&self, ticks: u64, slope: Slope) -> Option<FixedNs> {
        self.min(|sample| sample.upper.carried(ticks, slope))
    }

    /// The highest lower point of all samples, each carried to `ticks` at `slope`.
    pub(crate) fn lower_bound(&self, ticks: u64, slope: Slope) -> Option<FixedNs> {
        let below = |ns| FixedNs::ZERO.saturating_sub(ns);
        self.min(|sample| below(sample.lower.carried(ticks, slope)))
            .map(below)
    }

    /// The middle of the feasible set at the newest sample and `interval_ticks` later.
    pub(crate) fn target(&self, fit: &Fit, interval_ticks: u64) -> Option<Target> {
        let ticks = self.samples().last()?.lower.ticks;
        let reference_fixed = self.middle(ticks, fit)?;
        let later = self.middle(ticks.wrapping_add(interval_ticks), fit)?;
        let bits = later
            .saturating_sub(reference_fixed)
            .to_bits()
            .checked_div_euclid(i128::from(interval_ticks))?;
        // The feasible slope nearest to the middle's slope.
        let slope = Slope::saturating_from(bits).clamp(fit.slope_min, fit.slope_max);
        Some(Target {
            ticks,
            reference_fixed,
            slope,
        })
    }

    /// The middle of the feasible set at `ticks`.
    fn middle(&self, ticks: u64, fit: &Fit) -> Option<FixedNs> {
        let lower = self.lower_bound(ticks, fit.slope_min)?;
        Some(
            lower
                .saturating_add(self.upper_bound(ticks, fit.slope_max)?)
                .half(),
        )
    }

    /// The proven bounds, rounded outwards. The reference is between them on three conditions:
    ///
    /// - Its rate has stayed within the maximum drift of `slope` since each sample.
    /// - It stays within the range of the dither about its intended line.
    /// - It runs on for at most `unseen` after the tick that a read of the counter returns.
    ///
    /// The Unix fields are left at 0.
    pub(crate) fn bounds(
        &self,
        slope: Slope,
        allowed: &Allowance,
        unseen: FixedNs,
    ) -> Option<PlannedBounds> {
        let newest = self.samples().last()?;
        let ticks = newest.lower.ticks;
        let max_drift_ppb = i64::from(allowed.max_drift_ppb);
        let slowest = slope.adjusted_ppb(max_drift_ppb.saturating_neg());
        let fastest = slope.adjusted_ppb(max_drift_ppb);
        let mut lower = self.lower_bound(ticks, slowest)?;
        let mut upper = self.upper_bound(ticks, fastest)?;
        if lower > upper {
            // An older sample needs a larger maximum drift. The newest sample suffices to bound the
            // present.
            lower = newest.lower.carried(ticks, slowest);
            upper = newest.upper.carried(ticks, fastest);
        }
        upper = upper.saturating_add(allowed.dither).saturating_add(unseen);
        let lower = UnroundedLine {
            base_fixed: lower.saturating_sub(allowed.dither),
            slope: slowest,
        };
        let upper = UnroundedLine {
            base_fixed: upper,
            slope: fastest,
        };
        Some(PlannedBounds::new(ticks, lower, upper))
    }
}

#[cfg(test)]
mod tests;
