//! The estimator against brute force, and against references that change their rate.

use super::*;
use crate::sample::Resolutions;
use crate::units::FixedNs;

const RESOLUTIONS: Resolutions = Resolutions { counter_ticks: 1, reference_ns: 1, resolution_ticks: 0 };

fn ghz() -> Slope {
    Slope::from_hz(1_000_000_000).unwrap()
}

/// A bracket around `ticks` with the reference at `ns`, `before` and `after` ticks wide.
fn sample(ticks: u64, ns: i64, before: u64, after: u64) -> Sample {
    Sample::of(ticks - before, ns, ticks + after, RESOLUTIONS).unwrap()
}

/// As in the control loop: the new sample is compared with all others before these are thinned
/// out.
fn add(history: &mut History, sample: Sample) -> usize {
    history.push(sample);
    let (_, dropped) = history.fit();
    history.thin(ghz());
    dropped
}

#[test]
fn a_rate_change_drops_the_old_samples() {
    let mut history = History::new();
    let mut ns = 0.0_f64;
    let mut dropped = 0;
    for step in 1..=40_u64 {
        ns += if step <= 20 { 1e9 } else { 1e9 + 5_000.0 }; // 5 ppm faster from the 21st second on
        #[expect(clippy::cast_possible_truncation, reason = "a test value of 40 s")]
        let gone = add(&mut history, sample(step * 1_000_000_000, ns as i64, 15, 15));
        dropped += gone;
        if step == 40 {
            assert!(history.samples().len() <= 8, "one for each doubling of age");
            let fit = history.fit().0.unwrap();
            let new_slope = ghz().adjusted_ppb(5_000);
            assert!(fit.slope_min <= new_slope && new_slope <= fit.slope_max, "{fit:?}");
        }
    }
    assert!(dropped > 0, "the change went unnoticed");
}

#[test]
fn dither_is_not_a_rate_change() {
    // The kernel's slope alternates by 0.2 ppm each 100 ms: 20 ns up, 20 ns down, on top of
    // narrow brackets.
    let mut history = History::new();
    for step in 1..=if cfg!(miri) { 20 } else { 200_u64 } {
        let ticks = step * 100_000_000;
        let ns = i64::try_from(ticks).unwrap() + if step % 2 == 0 { 20 } else { 0 };
        let dropped = add(&mut history, sample(ticks, ns, 5, 5));
        assert_eq!(dropped, 0, "at step {step}");
    }
}

#[test]
fn the_bounds_hold_while_the_rate_stays_within_the_maximum_drift_and_not_beyond() {
    let mut history = History::new();
    for second in 1..=10_u64 {
        let ticks = second * 1_000_000_000;
        add(&mut history, sample(ticks, i64::try_from(ticks).unwrap(), 15, 15));
    }
    let bounds = history.bounds(ghz(), 1_000, FixedNs::ZERO, FixedNs::ZERO).unwrap();
    let at = 11_000_000_000;
    for (ppb, inside) in [(-1_000, true), (0, true), (1_000, true), (1_100, false), (-1_100, false)] {
        let truth = 10_000_000_000 + ghz().adjusted_ppb(ppb).over(1_000_000_000).round_ns();
        let found = (bounds.lower.at(at)..=bounds.upper.at(at)).contains(&truth);
        assert_eq!(found, inside, "{ppb} ppb, {bounds:?}");
    }
}

/// The polygon proves nothing: the reference changes its rate, the set stays feasible, and the
/// polygon is below the truth. The bounds with a sufficient maximum drift contain it.
#[test]
fn the_bounds_hold_through_a_change_of_rate_that_the_polygon_misses() {
    let mut history = History::new();
    for second in 1..=60_u64 {
        let ticks = second * 1_000_000_000;
        add(&mut history, sample(ticks, i64::try_from(ticks).unwrap(), 15, 15));
    }
    // 20 ppb faster for the last second and the coming one.
    let last = 61_000_000_000_u64;
    let dropped = add(&mut history, sample(last, i64::try_from(last).unwrap() + 12, 15, 15));
    assert_eq!(dropped, 0, "the set stays feasible");
    let fit = history.fit().0.unwrap();
    let at = last + 2_000_000_000;
    let truth = i64::try_from(at).unwrap() + 12 + 40;
    let polygon_top = history.upper_bound(at, fit.slope_max).unwrap();
    assert!(polygon_top < FixedNs::from_ns(truth), "the polygon claims to know better");
    let bounds = history.bounds(ghz(), 25, FixedNs::ZERO, FixedNs::ZERO).unwrap();
    assert!((bounds.lower.at(at)..=bounds.upper.at(at)).contains(&truth));
}

#[test]
fn old_samples_are_forgotten() {
    let mut history = History::new();
    let old = 1_000_000_000;
    add(&mut history, sample(old, 5, 5, 5));
    let now = old + MAX_AGE_NS + 1_000;
    add(&mut history, sample(now, 6, 5, 5));
    assert_eq!(history.samples().len(), 1);
}
