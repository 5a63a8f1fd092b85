//! Properties of brackets and histories whose samples come from a true line: their bounds never
//! exclude the truth.

use crate::estimate::{CAPACITY, Fit, History};
use crate::line::Slope;
use crate::sample::{Point, Resolutions, Sample};
use crate::units::FixedNs;
use num_bigint::BigInt;

use super::wide::{UNITS_PER_NS, bits, carried, clamped_i64, exact_at, floor_ns, signed_ticks, units, wide};

/// A reference and the counter it is sampled with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    /// The mean rate.
    pub(crate) slope: Slope,
    /// How far the rate may be from that, ppb.
    pub(crate) max_drift_ppb: u32,
    /// The counter at the beginning.
    pub(crate) ticks: u64,
    /// The reference at the beginning, ns.
    pub(crate) ns: i64,
    /// Steps of both; the reference's is 1 at least.
    pub(crate) resolutions: Resolutions,
}

/// One read of the reference, and the time before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    /// Ticks since the last read, beyond the counter's resolution.
    pub(crate) gap_ticks: u64,
    /// Ticks from the first read of the counter to that of the reference.
    pub(crate) before_ticks: u32,
    /// Ticks from there to the second read of the counter.
    pub(crate) after_ticks: u32,
    /// Chooses where in their steps counter and reference are seen.
    pub(crate) phases: [u16; 3],
    /// Chooses the rate since the last read.
    pub(crate) rate: u64,
}

/// Where the truth is now.
struct Now {
    ticks: u64,
    /// In units of 2^-48 ns.
    fixed: BigInt,
    /// The least and the most that the rate may be.
    rates: (u64, u64),
}

impl Now {
    fn of(truth: &Truth) -> Self {
        let (slope, max_drift, parts) =
            (u128::from(truth.slope.to_bits()), u128::from(truth.max_drift_ppb), 1_000_000_000_u128);
        let least = (slope * (parts - max_drift)).div_ceil(parts);
        let most = slope * (parts + max_drift) / parts;
        let rates = (u64::try_from(least), u64::try_from(most));
        Self {
            ticks: truth.ticks,
            fixed: wide(truth.ns) * UNITS_PER_NS,
            rates: (rates.0.expect("below the slope"), rates.1.unwrap_or(u64::MAX)),
        }
    }

    /// Lets `ticks` pass at a rate within the maximum drift that `choice` chooses: the extremes
    /// as often as the rates between.
    fn pass(&mut self, ticks: u64, choice: u64) {
        let (least, most) = self.rates;
        let rate = match choice % 4 {
            0 => least,
            1 => most,
            _ => least + (choice >> 2) % (most - least).saturating_add(1),
        };
        self.ticks = self.ticks.wrapping_add(ticks);
        self.fixed += wide(rate) * ticks;
    }

    /// The counter as it is seen now: its value at some earlier moment less than one step ago.
    fn counter(&self, step_ticks: u64, phase: u16) -> u64 {
        self.ticks.wrapping_sub(u64::from(phase) % step_ticks.max(1))
    }

    /// A bracket, seen with the given resolutions.
    fn read(&mut self, read: &Read, resolutions: Resolutions) -> Sample {
        self.pass(read.gap_ticks.saturating_add(resolutions.counter_ticks).saturating_add(1), read.rate);
        let [first, second, third] = read.phases;
        let before_ticks = self.counter(resolutions.counter_ticks, first);
        self.pass(read.before_ticks.into(), read.rate >> 8);
        let reference = floor_ns(&self.fixed) - i64::from(second) % resolutions.reference_ns;
        self.pass(read.after_ticks.into(), read.rate >> 16);
        // A counter that is seen at an earlier moment than before would have run backwards.
        let after_ticks = self.counter(resolutions.counter_ticks, third);
        let after_ticks =
            if signed_ticks(before_ticks, after_ticks) < wide(0) { before_ticks } else { after_ticks };
        let reference_ns = i64::try_from(reference).expect("moderate");
        let sample = Sample::of(before_ticks, reference_ns, after_ticks, resolutions);
        sample.expect("the counter did not run backwards")
    }
}

/// Any bracket is two points, or nothing if the counter ran backwards in it.
pub(crate) fn check_bracket(
    before_ticks: u64,
    reference_ns: i64,
    after_ticks: u64,
    resolutions: Resolutions,
) {
    let Some(sample) = Sample::of(before_ticks, reference_ns, after_ticks, resolutions) else {
        assert!(signed_ticks(before_ticks, after_ticks) < wide(0), "{before_ticks} to {after_ticks}");
        return;
    };
    assert!(signed_ticks(before_ticks, after_ticks) >= wide(0), "{sample:?}");
    assert_eq!((sample.upper.ticks, sample.lower.ns), (before_ticks, reference_ns));
    assert_eq!(sample.upper.ns, clamped_i64(wide(reference_ns) + resolutions.reference_ns));
    let around = wide(1_u128 << 64);
    assert_eq!(wide(sample.lower.ticks), (wide(after_ticks) + resolutions.counter_ticks) % around);
}

/// A bracket's points are on their sides of the truth, and the bounds contain the truth at the
/// sample and `ahead_ticks` later. Where the rate is constant, nothing is dropped, the fit
/// contains the rate, and the target is within the fit.
pub(crate) fn check_history(truth: &Truth, reads: &[Read], ahead_ticks: u64, interval_ticks: u64) {
    let (mut now, mut history) = (Now::of(truth), History::new());
    for (index, read) in reads.iter().enumerate() {
        let sample = now.read(read, truth.resolutions);
        history.push(sample);
        let (fit, dropped) = history.fit();
        if truth.max_drift_ppb == 0 {
            let story = || format!("{truth:?}, {:?}", reads.get(..=index));
            assert_eq!(dropped, 0, "{}", story());
            assert_eq!(fit.is_some(), index > 0, "{}", story());
            if let Some(fit) = fit {
                assert!(fit.exact, "{fit:?} {}", story());
                assert!(fit.slope_min <= truth.slope && truth.slope <= fit.slope_max, "{fit:?} {}", story());
                check_extremes(&history, &fit);
            }
        }
        history.thin(truth.slope);
        // The counter may be seen up to one step later than it was at the sample.
        let behind = signed_ticks(now.ticks, sample.lower.ticks);
        now.pass(u64::try_from(behind).expect("the lower point is not in the past"), read.rate >> 24);
        if truth.max_drift_ppb == 0 {
            check_sides(truth, &sample, &now);
            if let Some(fit) = fit {
                check_target(&history, &fit, &now, truth.slope, interval_ticks);
            }
        }
        check_bounds(&history, truth, &now);
        let mut later = Now { fixed: now.fixed.clone(), ..now };
        later.pass(ahead_ticks, read.rate >> 32);
        check_bounds(&history, truth, &later);
    }
}

/// One point is not below the truth, the other not above it.
fn check_sides(truth: &Truth, sample: &Sample, now: &Now) {
    let truth_at = |ticks| &now.fixed + bits(truth.slope) * signed_ticks(now.ticks, ticks);
    let [upper, lower] = [sample.upper, sample.lower].map(|point| wide(point.ns) * UNITS_PER_NS);
    assert!(upper > truth_at(sample.upper.ticks), "{truth:?} {sample:?}");
    assert!(lower <= truth_at(sample.lower.ticks), "{truth:?} {sample:?}");
}

/// The fit's slopes are the smallest and the largest with which a line passes between all points.
fn check_extremes(history: &History, fit: &Fit) {
    let newest = history.newest().expect("there is a sample").lower.ticks;
    let passes = |slope| {
        let at = |ticks, ns| carried(ticks, &(wide(ns) * UNITS_PER_NS), slope, newest);
        let lowest = history.samples().iter().map(|sample| at(sample.lower.ticks, sample.lower.ns)).max();
        let highest = history.samples().iter().map(|sample| at(sample.upper.ticks, sample.upper.ns)).min();
        lowest <= highest
    };
    let (min, max) = (fit.slope_min.to_bits(), fit.slope_max.to_bits());
    assert!(passes(fit.slope_min) && passes(fit.slope_max), "{fit:?} {history:?}");
    assert!(min == 0 || !passes(Slope::from_bits(min - 1)), "too large a minimum: {fit:?} {history:?}");
    assert!(
        max == u64::MAX || !passes(Slope::from_bits(max + 1)),
        "too small a maximum: {fit:?} {history:?}"
    );
}

/// The bounds contain the truth. Rounded to nanoseconds they contain the rounded truth.
fn check_bounds(history: &History, truth: &Truth, now: &Now) {
    let bounds = history
        .bounds(truth.slope, truth.max_drift_ppb, FixedNs::ZERO, FixedNs::ZERO)
        .expect("there is a sample");
    let (lower, upper) = (exact_at(&bounds.lower, now.ticks), exact_at(&bounds.upper, now.ticks));
    assert!(lower <= now.fixed && now.fixed <= upper, "{truth:?} at {}: {bounds:?}, {history:?}", now.ticks);
    let ns = floor_ns(&now.fixed);
    assert!(
        wide(bounds.lower.fixed_at(now.ticks).floor_ns()) <= ns
            && ns <= wide(bounds.upper.fixed_at(now.ticks).floor_ns())
    );
}

/// The target is in the middle of what is feasible, and so is the truth inside: now and one
/// interval later.
fn check_target(history: &History, fit: &Fit, now: &Now, slope: Slope, interval_ticks: u64) {
    let Some(target) = history.target(fit, interval_ticks) else {
        assert_eq!(interval_ticks, 0, "{history:?}");
        return;
    };
    assert!(fit.slope_min <= target.slope && target.slope <= fit.slope_max, "{target:?} {fit:?}");
    assert_eq!(target.ticks, now.ticks, "the newest sample's");
    for ahead_ticks in [0, interval_ticks] {
        let ticks = now.ticks.wrapping_add(ahead_ticks);
        let lowest: BigInt = history.lower_bound(ticks, fit.slope_min).map(units).expect("there is a sample");
        let highest: BigInt =
            history.upper_bound(ticks, fit.slope_max).map(units).expect("there is a sample");
        let true_now = &now.fixed + bits(slope) * ahead_ticks;
        assert!(lowest <= true_now && true_now <= highest, "{history:?} {fit:?} {ahead_ticks}");
        // The middle, up to what rounding the slope down costs.
        let twice_off: BigInt = units(target.at(ticks)) * 2 - lowest - highest;
        assert!(twice_off <= wide(0) && -twice_off <= wide(ahead_ticks) * 2 + 1, "{target:?} {ahead_ticks}");
    }
}

/// What may be done to a history.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Upper and lower point, anywhere.
    Push([u64; 2], [i64; 2]),
    /// The same after the newest sample.
    PushAfter {
        gap: u32,
        ns: i32,
        width: i16,
    },
    /// The newest sample again.
    PushAgain,
    Fit,
    Thin(u64),
    Bounds(u64, u32),
    Target(u64),
    Clear,
}

/// A history does not panic, whatever its samples are, and keeps its invariants.
pub(crate) fn check_hostile(steps: &[Step]) {
    let (mut history, mut last_fit) = (History::new(), None);
    for step in steps {
        let before = history.samples().len();
        match *step {
            Step::Push([upper_ticks, lower_ticks], [upper_ns, lower_ns]) => history.push(Sample {
                upper: Point { ticks: upper_ticks, ns: upper_ns },
                lower: Point { ticks: lower_ticks, ns: lower_ns },
            }),
            Step::PushAfter { gap, ns, width } => {
                let last = history.newest().unwrap_or_default().lower;
                let (ticks, ns) = (last.ticks.wrapping_add(gap.into()), last.ns.saturating_add(ns.into()));
                history.push(Sample {
                    upper: Point { ticks, ns: ns.saturating_add(width.into()) },
                    lower: Point { ticks, ns },
                });
            }
            Step::PushAgain => history.push(history.newest().unwrap_or_default()),
            Step::Fit => {
                let (fit, dropped) = history.fit();
                assert_eq!(history.samples().len() + dropped, before);
                assert!(fit.is_none_or(|fit| fit.slope_min <= fit.slope_max), "{fit:?}");
                assert!(fit.is_some() || history.samples().len() < 2, "{history:?}");
                last_fit = fit;
            }
            Step::Thin(slope) => {
                let newest = history.newest();
                history.thin(Slope::from_bits(slope));
                assert!(history.samples().len() <= before);
                assert_eq!(history.newest().is_some(), newest.is_some(), "the newest went");
            }
            Step::Bounds(slope, max_drift_ppb) => {
                let bounds =
                    history.bounds(Slope::from_bits(slope), max_drift_ppb, FixedNs::ZERO, FixedNs::ZERO);
                assert_eq!(bounds.is_some(), before > 0);
            }
            Step::Target(interval_ticks) => {
                if let Some(fit) = last_fit {
                    let target = history.target(&fit, interval_ticks);
                    assert!(target.is_none_or(|t| fit.slope_min <= t.slope && t.slope <= fit.slope_max));
                }
            }
            Step::Clear => history.clear(),
        }
        assert!(history.samples().len() <= CAPACITY);
    }
}
