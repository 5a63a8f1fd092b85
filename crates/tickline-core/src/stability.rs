//! The stability monitor. It tracks whether the samples agree, since when they have come without a
//! break, and how much change of the reference's rate to assume.
//!
//! The monitor compares each new sample with the bounds that were published before it:
//!
//! | the sample | means | consequence |
//! |---|---|---|
//! | is inside | the rate is as assumed | the assumed change of rate halves, once an interval |
//! | is inside, but no line passes through this and the older samples | the rate changed a little | the assumed change doubles, up to 200 ppb |
//! | is outside by little | the rate changed by more than was assumed | a bound violation is counted; the assumed change grows by twice the excess, to 200 ppb at least |
//! | is outside by much, or the counter ran backwards | a jump of the reference or the counter | the monitor starts anew |
//! | comes after a break of four intervals | the rate may have changed unseen | the monitor starts anew |
//!
//! The assumed change of rate is 5 ppb until something contradicts it. A change of `adjtimex`'s
//! frequency raises it at once to the size of the change plus 200 ppb, and shortens the next
//! interval to a sixteenth. What follows for the interval and the bounds of the next line is in
//! `stability/interval_and_bounds.rs`.

mod dither;
mod interval_and_bounds;

use crate::cell::Bounds;
use crate::estimate::{Fit, FitResult, History, Target};
use crate::line::Slope;
use crate::reference::MAX_KERNEL_SLEW_PPB;
use crate::sample::Sample;
use crate::shared::events::{Event, EventCounters};
use crate::units::{FixedNs, NS_PER_S, ticks_between, ticks_since};
use dither::{DITHER_RATE_PPB, Departure, Dither};

/// The number of consistent samples that a first line needs. Two samples always agree, and their
/// slope may be anything if a suspend lies between them, or the reference stood still. A third
/// sample contradicts such a slope.
const CONFIRMATIONS: u32 = 3;

/// The largest ratio of a bracket to its baseline, ppb: 2e-3. A choice, not a measurement. With a
/// smaller ratio a first line waits for a longer baseline, which is now 500 brackets. With a larger
/// one a first line may run further from the reference until its replacement.
const MAX_BRACKET_PPB: i64 = 2_000_000;

/// The largest spread of feasible slopes that makes a line, ppb: a bracket at either end of the
/// baseline.
const MAX_SPREAD_PPB: i64 = 2 * MAX_BRACKET_PPB;

/// The number of intervals without a sample after which the rate may have changed unseen. This is
/// the validity of a line whose thread comes when an iteration is due
/// ([`Cadence`](crate::control::Cadence)), so such a line has ended at each break. With a smaller
/// number a late thread would lose its knowledge of the rate.
const BREAK_INTERVALS: u64 = 4;

/// The assumed change of the reference's rate until a sample contradicts it, ppb. 5 ppb are 2.5 ns
/// over 0.5 s. Over 60 s CLOCK_MONOTONIC was seen to leave a line by 9 ns, or 0.15 ppb, most of
/// which is the counter's resolution.
const INITIAL_RATE_CHANGE_PPB: u64 = 5;

/// The least assumed change after a contradiction, ppb. The assumed change halves with each
/// interval that passes without a contradiction.
const CONTRADICTED_RATE_CHANGE_PPB: u64 = 200;

/// The largest change of rate that is ever assumed, ppb: 58.4 %, from a kernel's slowest rate to
/// its fastest.
const MAX_RATE_CHANGE_PPB: u64 = (2 * MAX_KERNEL_SLEW_PPB.cast_unsigned() * NS_PER_S)
    .div_ceil(NS_PER_S - MAX_KERNEL_SLEW_PPB.cast_unsigned());

/// The share of the gap above which a contradiction is a jump of the reference or the counter, not
/// a change of rate, ppb: twice the 500 ppm by which an NTP daemon or `adjtime` slews the clock
/// (`PLATFORM.md`). With a smaller value the monitor would start anew at such a slew. With a larger
/// one more jumps would count as changes of rate, after which bounds are wide for some intervals.
const MIN_JUMP_PPB: u128 = 1_000_000;

/// The largest contradiction that is no jump, ns. A choice, not a measurement. Over the shortest
/// interval 50 ns of noise exceed [`MIN_JUMP_PPB`], and without this limit the monitor would start
/// anew at each such sample. With a larger value, larger jumps would count as changes of rate.
const MIN_JUMP_NS: u128 = 1_000;

/// The time of watching after which samples show dither, ns: a tick of a kernel at 100 Hz.
const DITHER_AFTER_NS: u64 = 10_000_000;

/// The contradiction between a sample and the bounds published before it.
#[derive(Debug)]
struct Contradiction {
    /// The proven distance of the reference from the bounds, ns; at least 1.
    excess_ns: u128,
    /// The age of the bounds, ns; at least 1.
    age_ns: u128,
}

impl Contradiction {
    /// The change of the reference's rate that would explain the distance, ppb.
    fn rate_ppb(&self) -> u128 {
        self.excess_ns
            .saturating_mul(u128::from(NS_PER_S))
            .checked_div(self.age_ns)
            .unwrap_or(u128::MAX)
    }

    /// Whether only a jump of the reference or the counter explains the distance.
    fn is_jump(&self) -> bool {
        self.rate_ppb() > MIN_JUMP_PPB && self.excess_ns > MIN_JUMP_NS
    }
}

/// The change of the reference's rate to assume.
#[derive(Debug, Clone, Copy)]
struct AssumedChange {
    ppb: u64,
    /// The tick since which nothing has contradicted it.
    since_ticks: u64,
}

impl AssumedChange {
    const fn initial(now_ticks: u64) -> Self {
        Self {
            ppb: INITIAL_RATE_CHANGE_PPB,
            since_ticks: now_ticks,
        }
    }

    /// Assumes a change of at least `ppb`, because something has contradicted a smaller one.
    fn raise_to(&mut self, ppb: u64, now_ticks: u64) {
        self.ppb = self.ppb.max(ppb).min(MAX_RATE_CHANGE_PPB);
        self.since_ticks = now_ticks;
    }

    /// Assumes half the change, if nothing has contradicted it for `interval_ticks`.
    fn halve_if_steady(&mut self, interval_ticks: u64, now_ticks: u64) {
        if ticks_since(self.since_ticks, now_ticks) >= interval_ticks {
            self.ppb = (self.ppb >> 1).max(INITIAL_RATE_CHANGE_PPB);
            self.since_ticks = now_ticks;
        }
    }
}

/// What the line published last promises and aims at.
#[derive(Debug, Clone, Copy)]
struct Published {
    bounds: Bounds,
    target: Target,
}

/// Judges each sample by the bounds published before it, and says how much drift to assume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StabilityMonitor {
    pub(crate) history: History,
    /// `None` if no line was published since the monitor began anew.
    published: Option<Published>,
    /// The tick since which the reference counts as watched without a break. Three events set it:
    ///
    /// - a first sample, also after the monitor has begun anew (`check_sample`, `forget`): to the
    ///   sample's tick;
    /// - a change of the kernel's steering (`add_steering`): to an eighth of the interval before
    ///   the newest sample, unless it is later already;
    /// - a fit that drops samples (`add_fit`): to the oldest sample that is left, unless it is
    ///   later already.
    ///
    /// So after a change of steering, `good_for_ns` and `knows_slope_at` see an eighth of the
    /// interval at most, although the monitor keeps older samples. The next interval is a
    /// sixteenth, and samples show no dither until the gap between two of them is at most a
    /// sixteenth of this time.
    since_ticks: u64,
    /// The number of successive samples that were consistent with each other.
    confirmations: u32,
    assumed_change: AssumedChange,
    /// The kernel's steering at the newest sample, ppb; `None` if it was unknown.
    last_steering_ppb: Option<i64>,
    pub(crate) dither: Dither,
    /// The last fit.
    fit: Option<Fit>,
    /// The largest distance of the reference's rate from the middle of the fit that samples and
    /// dither allow, ppb.
    rate_uncertainty_ppb: u64,
}

impl StabilityMonitor {
    pub(crate) const fn new() -> Self {
        Self {
            history: History::new(),
            published: None,
            since_ticks: 0,
            confirmations: 0,
            assumed_change: AssumedChange::initial(0),
            last_steering_ppb: None,
            dither: Dither::new(),
            fit: None,
            rate_uncertainty_ppb: MAX_RATE_CHANGE_PPB,
        }
    }

    /// Records the bounds and the target of a published line.
    pub(crate) fn record_publication(&mut self, bounds: Bounds, target: Target) {
        self.published = Some(Published { bounds, target });
    }

    /// Adds a sample, and the kernel's steering at that time. `slope` is the best known slope.
    /// Returns whether the sample is the first, or is consistent with the earlier samples. If it
    /// contradicts them, the monitor forgets them.
    pub(crate) fn add_sample(
        &mut self,
        sample: &Sample,
        steering_ppb: Option<i64>,
        slope: Slope,
        interval_ns: u64,
        events: &EventCounters,
    ) -> bool {
        let departure = self.departure(sample, slope);
        let contradiction = self.contradiction(sample);
        let is_consistent =
            self.check_sample(sample, contradiction.as_ref(), slope, interval_ns, events);
        if let Some(departure) = departure
            && contradiction.is_none()
            && is_consistent
        {
            self.dither.add(&departure, slope);
        }
        self.add_steering(steering_ppb, slope, interval_ns, sample.lower.ticks);
        self.history.push(*sample);
        self.confirmations = self.confirmations.saturating_add(1);
        is_consistent
    }

    /// Whether `sample` is consistent with the earlier samples. If not, forgets these. In both
    /// cases adapts the assumed change of rate.
    fn check_sample(
        &mut self,
        sample: &Sample,
        contradiction: Option<&Contradiction>,
        slope: Slope,
        interval_ns: u64,
        events: &EventCounters,
    ) -> bool {
        let Some(last) = self.history.newest() else {
            self.since_ticks = sample.lower.ticks;
            self.assumed_change.since_ticks = sample.lower.ticks;
            return true;
        };
        let gap_ticks = ticks_between(last.lower.ticks, sample.lower.ticks);
        if gap_ticks < 0 {
            self.disrupt(sample, events);
            return false;
        }
        let is_break = gap_ticks.cast_unsigned()
            > slope.ticks_in_ceil(interval_ns.saturating_mul(BREAK_INTERVALS));
        if let Some(contradiction) = contradiction {
            events.count(Event::BoundViolation);
            if contradiction.is_jump() {
                self.disrupt(sample, events);
                return false;
            }
            let doubled =
                u64::try_from(contradiction.rate_ppb().saturating_mul(2)).unwrap_or(u64::MAX);
            let grown = self.assumed_change.ppb.saturating_add(doubled);
            self.assumed_change
                .raise_to(grown.max(CONTRADICTED_RATE_CHANGE_PPB), sample.lower.ticks);
            self.dither.forget();
        }
        if is_break {
            // After a break the samples are forgotten even if the newest one contradicts the
            // bounds: a slope across the break is an average of two rates.
            self.forget(sample.lower.ticks);
            return false;
        }
        self.assumed_change
            .halve_if_steady(slope.ticks_in_ceil(interval_ns), sample.lower.ticks);
        true
    }

    /// A change of the kernel's steering raises the assumed change of rate to its size plus 200
    /// ppb, and shortens the next interval to a sixteenth.
    fn add_steering(
        &mut self,
        steering_ppb: Option<i64>,
        slope: Slope,
        interval_ns: u64,
        now_ticks: u64,
    ) {
        if let (Some(before), Some(now)) = (self.last_steering_ppb, steering_ppb)
            && before != now
        {
            let widened = before
                .abs_diff(now)
                .saturating_add(CONTRADICTED_RATE_CHANGE_PPB);
            self.assumed_change.raise_to(widened, now_ticks);
            self.dither.forget();
            // The next interval is half of the time watched: a sixteenth of this one.
            let short_ticks = slope.ticks_in_ceil(interval_ns >> 3);
            if ticks_since(self.since_ticks, now_ticks) > short_ticks {
                self.since_ticks = now_ticks.wrapping_sub(short_ticks);
            }
        }
        self.last_steering_ppb = steering_ppb;
    }

    /// The departure of `sample` from the last target, which shows the dither. `None` while the
    /// slope is too uncertain.
    fn departure(&self, sample: &Sample, slope: Slope) -> Option<Departure> {
        let ticks = sample.lower.ticks;
        if !self.knows_slope_at(ticks, slope) {
            return None;
        }
        Some(Departure {
            ticks,
            distance: self.distance(sample, slope)?,
            width: sample.width(slope),
            narrowest_before: self.history.narrowest(slope)?,
            uncertainty: self.uncertainty_at(ticks)?,
        })
    }

    /// Whether the slope is certain enough: over the gap before `ticks`, its error must not move
    /// the line by more than a sixteenth of a bracket. That holds if the gap is at most a sixteenth
    /// of the time for which the reference counts as watched (`since_ticks`).
    fn knows_slope_at(&self, ticks: u64, slope: Slope) -> bool {
        let Some(last) = self.history.samples().last() else {
            return false;
        };
        let gap_ticks = ticks_since(last.lower.ticks, ticks);
        let watched_ticks = ticks_since(self.since_ticks, ticks);
        // If samples have come for less than a kernel's tick, they show no dither, only the
        // uncertainty of the slope.
        watched_ticks >= slope.ticks_in_ceil(DITHER_AFTER_NS) && gap_ticks <= watched_ticks >> 4
    }

    /// The distance of `sample`'s middle from the last target.
    fn distance(&self, sample: &Sample, slope: Slope) -> Option<FixedNs> {
        let target = &self.published.as_ref()?.target;
        Some(
            sample
                .middle(slope)
                .saturating_sub(target.fixed_at(sample.lower.ticks))
                .saturating_abs(),
        )
    }

    /// The width of the range that the samples allow at `ticks`.
    fn uncertainty_at(&self, ticks: u64) -> Option<FixedNs> {
        let fit = self.fit?;
        let lower = self.history.lower_bound(ticks, fit.slope_min)?;
        Some(
            self.history
                .upper_bound(ticks, fit.slope_max)?
                .saturating_sub(lower)
                .max(FixedNs::ZERO),
        )
    }

    /// How `sample` contradicts the last bounds; `None` if it does not.
    fn contradiction(&self, sample: &Sample) -> Option<Contradiction> {
        let bounds = &self.published.as_ref()?.bounds;
        let below = bounds
            .lower
            .fixed_at(sample.upper.ticks)
            .saturating_sub(FixedNs::from_ns(sample.upper.ns));
        let above = FixedNs::from_ns(sample.lower.ns)
            .saturating_sub(bounds.upper.fixed_at(sample.lower.ticks));
        let excess = below.max(above);
        let age = bounds
            .lower
            .slope
            .over(ticks_between(bounds.lower.start_ticks, sample.lower.ticks));
        let whole_ns = |fixed: FixedNs| u128::from(fixed.floor_ns().max(1).cast_unsigned());
        (excess > FixedNs::ZERO).then(|| Contradiction {
            excess_ns: whole_ns(excess),
            age_ns: whole_ns(age),
        })
    }

    /// Counts a disruption, and forgets the samples before `sample`.
    pub(crate) fn disrupt(&mut self, sample: &Sample, events: &EventCounters) {
        events.count(Event::Disruption);
        self.forget(sample.lower.ticks);
    }

    fn forget(&mut self, now_ticks: u64) {
        self.history.clear();
        self.published = None;
        self.fit = None;
        self.dither.forget();
        self.since_ticks = now_ticks;
        self.confirmations = 0;
        self.assumed_change = AssumedChange::initial(now_ticks);
    }

    /// The feasible slopes, if they are certain enough to be used. Old samples that contradict the
    /// newest are dropped, and the others are thinned out; `slope` is the best known slope.
    pub(crate) fn refit(&mut self, slope: Slope, events: &EventCounters) -> Option<Fit> {
        let FitResult { fit, dropped } = self.history.fit();
        self.history.thin(slope);
        let within = self.slopes_within_dither();
        self.add_fit(fit.as_ref(), within.as_ref(), dropped, events);
        // A reference that ran backwards makes a slope of 0, which says nothing about the counter.
        // If a later step refused this slope, the counter would be reported as too slow.
        match fit {
            Some(fit) if fit.slope_min > Slope::default() && fit.spread_ppb() <= MAX_SPREAD_PPB => {
                Some(fit)
            }
            _ => None,
        }
    }

    fn slopes_within_dither(&self) -> Option<Fit> {
        self.history
            .slopes_within(self.dither.range().half().ceil_ns())
    }

    /// Records the result of a fit. `dropped` is the number of samples that contradicted the newest
    /// one.
    fn add_fit(
        &mut self,
        fit: Option<&Fit>,
        within: Option<&Fit>,
        dropped: usize,
        events: &EventCounters,
    ) {
        self.fit = fit.copied();
        let newest_ticks = self.history.newest().map(|newest| newest.lower.ticks);
        self.rate_uncertainty_ppb =
            fit.map_or(MAX_RATE_CHANGE_PPB, |fit| rate_uncertainty_ppb(fit, within));
        let no_line_fits = dropped > 0 || fit.is_some_and(|fit| !fit.is_exact && within.is_none());
        if no_line_fits && let Some(now_ticks) = newest_ticks {
            // No line, not even with dither, passes between the samples. This shows long before a
            // sample leaves the bounds.
            let doubled = self.assumed_change.ppb.saturating_mul(2);
            self.assumed_change
                .raise_to(doubled.min(CONTRADICTED_RATE_CHANGE_PPB), now_ticks);
        }
        if dropped > 0 {
            self.dither.forget();
            events.count(Event::RateChange);
            self.confirmations = u32::try_from(self.history.samples().len()).unwrap_or(u32::MAX);
            if let (Some(oldest), Some(newest)) =
                (self.history.samples().first(), self.history.newest())
            {
                let watched_ticks = ticks_between(self.since_ticks, newest.lower.ticks);
                let kept_ticks =
                    ticks_between(oldest.lower.ticks, newest.lower.ticks).min(watched_ticks);
                self.since_ticks = newest
                    .lower
                    .ticks
                    .wrapping_sub(kept_ticks.max(0).cast_unsigned());
            }
        }
    }

    /// Whether enough samples agree for a first line.
    pub(crate) const fn is_confirmed(&self) -> bool {
        self.confirmations >= CONFIRMATIONS
    }
}

/// The largest distance of the rate from the middle of `fit`, ppb. A fit ignores dither. If the
/// reference dithers about its intended line, the slope of that line is among the slopes `within`
/// the range of the dither, and differs from the fit's slopes by at most the rate of the dither.
fn rate_uncertainty_ppb(fit: &Fit, within: Option<&Fit>) -> u64 {
    let within = within.unwrap_or(fit);
    let rate_ppb = DITHER_RATE_PPB.cast_signed();
    let slope_min = within
        .slope_min
        .max(fit.slope_min.adjusted_ppb(rate_ppb.saturating_neg()))
        .min(fit.slope_min);
    let slope_max = within
        .slope_max
        .min(fit.slope_max.adjusted_ppb(rate_ppb))
        .max(fit.slope_max);
    let twice = |slope: Slope| u128::from(slope.bits).saturating_mul(2);
    let middle = u128::from(fit.slope_min.bits).saturating_add(u128::from(fit.slope_max.bits));
    let twice_off = middle
        .saturating_sub(twice(slope_min))
        .max(twice(slope_max).saturating_sub(middle));
    // BOUND: a slope is below 2^64, so the product is below 2^96.
    let ppb = twice_off
        .saturating_mul(u128::from(NS_PER_S))
        .checked_div(middle)
        .map_or(u128::MAX, |ppb| ppb.saturating_add(1));
    u64::try_from(ppb).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
