//! Tests of the bounds of handmade histories. The simulator checks at each reading that bounds
//! contain the reference.

use super::*;
use crate::testing::RESOLUTIONS;

fn ghz() -> Slope {
    Slope::from_hz(1_000_000_000).unwrap()
}

/// Samples of a reference that agrees with the counter, one a second.
fn agreeing(seconds: u64) -> History {
    let mut history = History::new();
    for second in 1..=seconds {
        let ticks = second * 1_000_000_000;
        add(&mut history, ticks, i64::try_from(ticks).unwrap());
    }
    history
}

/// Adds a bracket of 30 ns like the control loop, which compares it with all others before it thins
/// these out.
fn add(history: &mut History, ticks: u64, ns: i64) -> usize {
    history.push(Sample::from_bracket(ticks - 15, ns, ticks + 15, RESOLUTIONS).unwrap());
    let FitResult { dropped, .. } = history.fit();
    history.thin(ghz());
    dropped
}

#[test]
fn the_bounds_hold_while_the_rate_stays_within_the_maximum_drift_and_not_beyond() {
    let history = agreeing(10);
    let allowance = Allowance {
        max_drift_ppb: 1_000,
        dither: FixedNs::ZERO,
    };
    let bounds = history
        .bounds(ghz(), &allowance, FixedNs::ZERO)
        .unwrap()
        .rounded;
    let at = 11_000_000_000;
    for (ppb, inside) in [
        (-1_000, true),
        (0, true),
        (1_000, true),
        (1_100, false),
        (-1_100, false),
    ] {
        let truth = 10_000_000_000 + ghz().adjusted_ppb(ppb).over(1_000_000_000).round_ns();
        let found = (bounds.lower.ns_at(at)..=bounds.upper.ns_at(at)).contains(&truth);
        assert_eq!(found, inside, "{ppb} ppb, {bounds:?}");
    }
}

/// The polygon proves nothing: the reference changes its rate, the set stays feasible, and the
/// polygon is below the truth. The bounds with a sufficient maximum drift contain it.
#[test]
fn the_bounds_hold_through_a_change_of_rate_that_the_polygon_misses() {
    let mut history = agreeing(60);
    // 20 ppb faster for the last second and the coming one.
    let last = 61_000_000_000_u64;
    let dropped = add(&mut history, last, i64::try_from(last).unwrap() + 12);
    assert_eq!(dropped, 0, "the set stays feasible");
    let fit = history.fit().fit.unwrap();
    let at = last + 2_000_000_000;
    let truth = i64::try_from(at).unwrap() + 12 + 40;
    let polygon_top = history.upper_bound(at, fit.slope_max).unwrap();
    assert!(
        polygon_top < FixedNs::from_ns(truth),
        "the polygon claims to know better"
    );
    let allowance = Allowance {
        max_drift_ppb: 25,
        dither: FixedNs::ZERO,
    };
    let bounds = history
        .bounds(ghz(), &allowance, FixedNs::ZERO)
        .unwrap()
        .rounded;
    assert!((bounds.lower.ns_at(at)..=bounds.upper.ns_at(at)).contains(&truth));
}

#[test]
fn old_samples_are_forgotten() {
    let mut history = History::new();
    let old = 1_000_000_000;
    add(&mut history, old, 5);
    add(&mut history, old + MAX_AGE_NS + 1_000, 6);
    assert_eq!(history.samples().len(), 1);
}

const NO_SLOPES: FitResult = FitResult {
    fit: None,
    dropped: 0,
};

#[test]
fn an_empty_history_gives_no_slope() {
    assert_eq!(History::new().fit(), NO_SLOPES);
}

#[test]
fn one_sample_gives_no_slope() {
    let mut history = History::new();
    add(&mut history, 1_000_000, 1_000);
    assert_eq!(history.fit(), NO_SLOPES);
}

/// A slope on a fine grid is feasible if it is between the two extremes, and only then.
#[test]
fn the_extremes_are_those_of_all_feasible_slopes() {
    let mut history = History::new();
    for (ticks, ns) in [
        (10_000, 10_003),
        (20_000, 19_998),
        (30_000, 30_010),
        (50_000, 50_001),
    ] {
        add(&mut history, ticks, ns);
    }
    let fit = history.fit().fit.unwrap();
    let samples = history.samples();
    for ppm in (-3_000..3_000_i64).step_by(if cfg!(miri) { 97 } else { 1 }) {
        let slope = ghz().adjusted_ppb(ppm * 1_000);
        let lower = samples.iter().map(|sample| sample.lower.carried(0, slope));
        let upper = samples.iter().map(|sample| sample.upper.carried(0, slope));
        let is_feasible = lower.max() <= upper.min();
        let is_between = fit.slope_min <= slope && slope <= fit.slope_max;
        assert_eq!(is_feasible, is_between, "{ppm} ppm: {fit:?}");
    }
}

#[test]
fn a_change_of_rate_drops_the_samples_from_before_it() {
    let mut history = agreeing(20);
    let mut dropped = 0;
    for second in 21..=40_u64 {
        // 5 ppm faster from the 21st second on.
        let ticks = second * 1_000_000_000;
        let ahead_ns = i64::try_from(second - 20).unwrap() * 5_000;
        dropped += add(
            &mut history,
            ticks,
            i64::try_from(ticks).unwrap() + ahead_ns,
        );
    }
    assert!(dropped > 0, "the change went unnoticed");
    let fit = history.fit().fit.unwrap();
    let slope = ghz().adjusted_ppb(5_000);
    assert!(
        fit.slope_min <= slope && slope <= fit.slope_max,
        "{fit:?} without {slope:?}"
    );
}

/// Adds samples of a kernel whose slope alternates by 0.2 ppm each 100 ms: 20 ns up, 20 ns down.
/// That is more than the brackets leave open. Returns the number of samples that were dropped.
fn add_dither(history: &mut History) -> usize {
    let steps = if cfg!(miri) { 20 } else { 200_u64 };
    let add_step = |step| {
        let ticks = step * 100_000_000;
        let dither_ns = if step % 2 == 0 { 40 } else { 0 };
        add(history, ticks, i64::try_from(ticks).unwrap() + dither_ns)
    };
    (1..=steps).map(add_step).sum()
}

#[test]
fn dither_is_no_change_of_rate() {
    assert_eq!(add_dither(&mut History::new()), 0);
}

#[test]
fn a_fit_to_samples_with_dither_needs_the_tolerance() {
    let mut history = History::new();
    add_dither(&mut history);
    assert!(!history.fit().fit.unwrap().is_exact);
}

/// Ages of 2^38 ns (275 s) down to 1 ns are more doublings than there are places.
#[test]
fn a_full_history_goes_on() {
    let mut history = History::new();
    let end = 1_u64 << 40;
    for age in (0..=38).rev().map(|doubling| 1_u64 << doubling) {
        add(&mut history, end - age, i64::try_from(end - age).unwrap());
    }
    assert_eq!(history.samples().len(), CAPACITY);
    let FitResult { fit, dropped } = history.fit();
    assert_eq!((fit.is_some(), dropped), (true, 0));
}
