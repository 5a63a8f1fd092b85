//! Tests of the bounds of handmade histories. The simulator checks at each reading that bounds
//! contain the reference.

use super::*;
use crate::testing::CONFIG;

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
    history.push(Sample::from_bracket(ticks - 15, ns, ticks + 15, CONFIG.resolutions).unwrap());
    let (_, dropped) = history.fit();
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
        let found = (bounds.lower.at(at)..=bounds.upper.at(at)).contains(&truth);
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
    let fit = history.fit().0.unwrap();
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
    assert!((bounds.lower.at(at)..=bounds.upper.at(at)).contains(&truth));
}

#[test]
fn old_samples_are_forgotten() {
    let mut history = History::new();
    let old = 1_000_000_000;
    add(&mut history, old, 5);
    add(&mut history, old + MAX_AGE_NS + 1_000, 6);
    assert_eq!(history.samples().len(), 1);
}
