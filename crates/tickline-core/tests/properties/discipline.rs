//! Properties of `steer`, `join` and `recover`: the order that `discipline` promises.
//!
//! Everything is compared in exact values where these fit; nothing is promised for a saturated
//! `FixedNs` or `i64`.

use num_bigint::BigInt;
use tickline_core::unstable::discipline::{STEP_PPB, Steering, join, recover, steer};
use tickline_core::unstable::estimate::Target;
use tickline_core::unstable::line::{Line, MAX_DELTA_TICKS, Slope};
use tickline_core::unstable::units::{FixedNs, NS_PER_S};

use super::wide::{
    UNITS_PER_NS, bits, carried, ceil_ns, exact_at, floor_ns, is_moderate, signed_ticks, wide,
};

/// Rule 11: ahead by much is stepped to, everything else is slewed, and no rate is below half.
pub(crate) fn check_steer(old: &Line, at_ticks: u64, target: &Target, horizon_ticks: u64) -> Steering {
    let steering = steer(old, at_ticks, target, horizon_ticks);
    let (ours, theirs) =
        (exact_at(old, at_ticks), carried(target.ticks, &wide(target.ns), target.slope, at_ticks));
    let horizon = wide(horizon_ticks.max(1));
    let story = || format!("{old:?} at {at_ticks} to {target:?} in {horizon_ticks}: {steering:?}");
    let rate = target.slope.to_bits();
    let slowest = rate - rate / 2;
    assert!(steering.slope.to_bits() >= slowest, "{}", story());
    if !is_moderate(&ours) || !is_moderate(&theirs) || horizon_ticks > MAX_DELTA_TICKS {
        return steering;
    }

    let offset = &ours - &theirs;
    assert_eq!(wide(steering.offset), offset, "{}", story());
    let scaled: BigInt = bits(target.slope) * horizon_ticks * STEP_PPB;
    if is_moderate(&scaled) {
        assert_eq!(steering.step_to.is_some(), -&offset > scaled / NS_PER_S, "{}", story());
    }
    if let Some(step_to) = steering.step_to {
        assert!(wide(step_to) == theirs && theirs > ours, "a step goes forward, to the target: {}", story());
        assert_eq!(steering.slope, target.slope, "{}", story());
        return steering;
    }
    // What is left of the offset after one horizon.
    let left = &offset + (bits(steering.slope) - rate) * &horizon;
    let bent = steering.slope.to_bits();
    if bent == u64::MAX {
        assert!(left < horizon, "faster than was needed: {}", story());
    } else if bent == slowest {
        assert!(left > -&horizon, "slower than was needed: {}", story());
    } else {
        assert!(-&horizon < left && left < horizon, "{left} left: {}", story());
    }
    steering
}

/// Rules 2 and 9: the new line is nowhere below the old one where both may be used, and no higher
/// than necessary.
pub(crate) fn check_meeting(
    old: &Line,
    steering: &Steering,
    start_ticks: u64,
    at_ticks: u64,
    margin_ticks: u64,
    probe: u64,
) {
    let new = join(old, steering, start_ticks, at_ticks, margin_ticks);
    assert_eq!((new.start_ticks, new.slope), (start_ticks, steering.slope));
    let since_start = at_ticks.wrapping_sub(start_ticks);
    if since_start > MAX_DELTA_TICKS || margin_ticks > MAX_DELTA_TICKS {
        return;
    }
    let early = at_ticks.wrapping_sub(since_start.min(margin_ticks));
    let late = at_ticks.wrapping_add(margin_ticks);
    let from_start = Line { base_ns: 0, ..new };
    let needed = |ticks| exact_at(old, ticks) - exact_at(&from_start, ticks);
    let stepped = steering.step_to.map(|step_to| wide(step_to) - exact_at(&from_start, at_ticks));
    let all: Vec<BigInt> = [early, late].map(needed).into_iter().chain(stepped).collect();
    let moderate = [early, at_ticks, late].iter().all(|&ticks| is_moderate(&exact_at(old, ticks)))
        && all.iter().all(is_moderate)
        && steering.step_to.is_none_or(|step_to| is_moderate(&wide(step_to)));
    let highest = all.into_iter().max().expect("two at least");
    if !moderate || i64::try_from(ceil_ns(&highest)).is_err() {
        return;
    }

    let story =
        || format!("{old:?}, {steering:?} from {start_ticks} at {at_ticks} +- {margin_ticks}: {new:?}");
    let between = early.wrapping_add(probe % late.wrapping_sub(early).max(1));
    for ticks in [early, at_ticks, between, late.wrapping_sub(1), late] {
        if signed_ticks(early, ticks) < wide(0) {
            continue; // one before the end of an overlap of one tick
        }
        let (before, after) = (exact_at(old, ticks), exact_at(&new, ticks));
        assert!(after >= before, "below the old line at {ticks}: {}", story());
        // As readers see it: rounded, by the fast path where that is exact.
        assert!(new.at_any(ticks) >= old.at_any(ticks), "at {ticks}: {}", story());
        if is_exact(&new, ticks) && is_exact(old, ticks) {
            assert!(new.at(ticks) >= old.at(ticks), "at {ticks}: {}", story());
        }
    }
    if let Some(step_to) = steering.step_to {
        assert!(exact_at(&new, at_ticks) >= wide(step_to), "below the step: {}", story());
    }
    let spare = wide(new.base_ns) * UNITS_PER_NS - highest;
    assert!(spare < wide(UNITS_PER_NS), "higher than needed: {}", story());
}

/// Whether [`Line::at`] gives the exact value at `ticks`.
fn is_exact(line: &Line, ticks: u64) -> bool {
    ticks.wrapping_sub(line.start_ticks) <= MAX_DELTA_TICKS
        && i64::try_from(floor_ns(&exact_at(line, ticks))).is_ok()
}

/// Rule 7: a first line is not below `most` where that was taken, nowhere below the high-water
/// mark, and no higher than necessary.
pub(crate) fn check_recover(
    most: FixedNs,
    high_water_ns: i64,
    slope: Slope,
    start_ticks: u64,
    at_ticks: u64,
    probe: u64,
) {
    let line = recover(most, high_water_ns, slope, start_ticks, at_ticks);
    assert_eq!((line.start_ticks, line.slope), (start_ticks, slope));
    let since_start = at_ticks.wrapping_sub(start_ticks);
    let from_start = Line { base_ns: 0, ..line };
    let needed = wide(most) - exact_at(&from_start, at_ticks);
    let high_water = wide(high_water_ns) * UNITS_PER_NS;
    let highest = needed.max(high_water.clone());
    if since_start > MAX_DELTA_TICKS || !is_moderate(&highest) || i64::try_from(ceil_ns(&highest)).is_err() {
        return;
    }
    let story = || format!("{most}, {high_water_ns}, {slope:?} from {start_ticks} at {at_ticks}: {line:?}");
    assert!(exact_at(&line, at_ticks) >= wide(most), "below `most`: {}", story());
    for ticks in [start_ticks, at_ticks, start_ticks.wrapping_add(probe & MAX_DELTA_TICKS)] {
        assert!(exact_at(&line, ticks) >= high_water, "below the high-water mark at {ticks}: {}", story());
    }
    assert!(exact_at(&line, start_ticks) - highest < wide(UNITS_PER_NS), "higher than needed: {}", story());
}
