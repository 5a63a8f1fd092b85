//! What the stability monitor allows the next line: for how long it is good, and how wide its
//! bounds are.
//!
//! The maximum drift of a line is the sum of the assumed change of rate, the uncertainty of the
//! rate, and the rate of the dither if that is smaller than its range. `control/schedule.rs` makes
//! the interval of the two times here.

use super::dither::DITHER_RATE_PPB;
use super::{MAX_RATE_CHANGE_PPB, StabilityMonitor};
use crate::estimate::{Allowance, Fit};
use crate::units::{FixedNs, NS_PER_S, ticks_since};

/// Every bound may grow by this share of the interval, ppb: 5 ns over 0.5 s.
const NARROW_PPB: u64 = 10;

/// Within an interval an uncertain slope may move every line by this much, ns. The newest sample's
/// width can't be the only limit, because a folded sample may have almost no width. A choice, not a
/// measurement. With a smaller one, intervals are shorter after such a sample. With a larger one,
/// bounds grow by more until the next line.
const MIN_GROWTH_NS: u64 = 20;

impl StabilityMonitor {
    /// The time for which the next line is good, ns: half of the time for which the reference
    /// counts as watched (`since_ticks`). It ends before the uncertainty of the slope could grow to
    /// twice the newest sample's width.
    pub(crate) fn good_for_ns(&self, fit: &Fit) -> u64 {
        let Some(newest) = self.history.newest() else {
            return 0;
        };
        let watched_ticks = ticks_since(self.since_ticks, newest.lower.ticks);
        let watched_for_ns = fit
            .slope_min
            .over((watched_ticks >> 1).cast_signed())
            .round_ns()
            .max(0)
            .cast_unsigned();
        let width_ns = newest
            .width(fit.slope_max)
            .round_ns()
            .max(0)
            .cast_unsigned();
        let growth_ns = width_ns.saturating_mul(2).saturating_add(MIN_GROWTH_NS);
        let uncertainty_ppb = fit.spread_ppb().max(0).cast_unsigned().div_ceil(2);
        let certain_for_ns = growth_ns
            .saturating_mul(NS_PER_S)
            .checked_div(uncertainty_ppb)
            .unwrap_or(u64::MAX);
        watched_for_ns.min(certain_for_ns)
    }

    /// The time for which the bound stays narrow, ns. In this time the bound grows by no more than
    /// a quarter of the newest sample's width, or by [`NARROW_PPB`] over `interval_ns`. While the
    /// range of the kernel's dither is unknown, its rate widens the bound with time. So lines are
    /// short then, and the monitor learns the range soon. Once the range is known, every bound
    /// includes it, for lines of any length.
    pub(crate) fn narrow_for_ns(&self, fit: &Fit, interval_ns: u64) -> u64 {
        let Some(newest) = self.history.newest() else {
            return 0;
        };
        let width_ns = newest
            .width(fit.slope_max)
            .round_ns()
            .max(0)
            .cast_unsigned();
        // BOUND: the interval is below 2^34 ns, so the product is below 2^38.
        let min_ns_ppb = interval_ns.saturating_mul(NARROW_PPB);
        let growth_ns_ppb = (width_ns >> 2).saturating_mul(NS_PER_S).max(min_ns_ppb);
        let dither_ppb = if self.dither.is_known() {
            0
        } else {
            DITHER_RATE_PPB
        };
        let drift_ppb = self.rate_drift_ppb(Some(fit)).saturating_add(dither_ppb);
        growth_ns_ppb.checked_div(drift_ppb).unwrap_or(u64::MAX)
    }

    /// The assumed change of rate plus the uncertainty of the rate, ppb. Without a fit the rate may
    /// be anything; otherwise the next sample would look like a jump.
    fn rate_drift_ppb(&self, fit: Option<&Fit>) -> u64 {
        let uncertainty_ppb = if fit.is_some() {
            self.rate_uncertainty_ppb
        } else {
            MAX_RATE_CHANGE_PPB
        };
        self.assumed_change.ppb.saturating_add(uncertainty_ppb)
    }

    /// The allowances of bounds that are to hold for `over_ns`.
    pub(crate) fn allowance(&self, fit: Option<&Fit>, over_ns: u64) -> Allowance {
        let range = self.dither.range();
        let by_rate =
            FixedNs::from_ns((over_ns.saturating_mul(DITHER_RATE_PPB) / NS_PER_S).cast_signed());
        let (dither_ppb, dither) = if by_rate < range {
            (DITHER_RATE_PPB, FixedNs::ZERO)
        } else {
            (0, range)
        };
        let max_drift_ppb = self.rate_drift_ppb(fit).saturating_add(dither_ppb);
        Allowance {
            max_drift_ppb: u32::try_from(max_drift_ppb).unwrap_or(u32::MAX),
            dither,
        }
    }
}
