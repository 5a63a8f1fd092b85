//! Properties of `steer`, `meet_old_line` and `recover`, on which the order rests.
//!
//! The functions compare exact values where these fit. Saturated values of `FixedNs` or `i64` have
//! no promise.

use crate::discipline::{STEP_PPB, Steering, meet_old_line, recover, steer};
use crate::estimate::Target;
use crate::line::Line;
use crate::units::{FixedNs, NS_PER_S};
use num_bigint::BigInt;

use super::state::{Oracle, is_in_one_turn};
use super::wide::{bits, carried, floor_ns, is_moderate, units, wide, wrapped_i64};

/// Rule 11: if the target is ahead by much, the line steps to it. Every other offset is slewed, and
/// no rate is below half.
pub(crate) fn check_steer(old: &Oracle, at_ticks: u64, target: &Target, window_ticks: u64) -> Steering {
    let steering = steer(&old.line, at_ticks, target, window_ticks);
    let ours = old.exact_at(at_ticks) >> 16;
    let theirs = carried(target.ticks, &units(target.ns), target.slope, at_ticks);
    let window = wide(window_ticks.max(1));
    let story = || format!("{old:?} at {at_ticks} to {target:?} in {window_ticks}: {steering:?}");
    let rate = target.slope.bits;
    let slowest = rate - rate / 2;
    assert!(steering.slope.bits >= slowest, "{}", story());
    if i64::try_from(floor_ns(&ours)).is_err()
        || !is_moderate(&theirs)
        || window_ticks > Line::MAX_DELTA_TICKS
    {
        return steering;
    }

    let offset = &ours - &theirs;
    assert_eq!(units(steering.offset), offset, "{}", story());
    let scaled: BigInt = bits(target.slope) * window_ticks * STEP_PPB;
    if is_moderate(&scaled) {
        assert_eq!(steering.step_to.is_some(), -&offset > scaled / NS_PER_S, "{}", story());
    }
    if let Some(step_to) = steering.step_to {
        assert!(units(step_to) == theirs && theirs > ours, "a step goes forward, to the target: {}", story());
        assert_eq!(steering.slope, target.slope, "{}", story());
        return steering;
    }
    // The rest of the offset after one window.
    let left = &offset + (bits(steering.slope) - rate) * &window;
    let bent = steering.slope.bits;
    if bent == u64::MAX {
        assert!(left < window, "faster than was needed: {}", story());
    } else if bent == slowest {
        assert!(left > -&window, "slower than was needed: {}", story());
    } else {
        assert!(-&window < left && left < window, "{left} left: {}", story());
    }
    steering
}

/// The least `b` with which `next` is not below any of the points (ticks, units of 2^-64 ns).
/// `None` if the points need values so far apart that 64 bits don't show which one is larger.
fn least_b(next: &Oracle, points: &[(u64, BigInt)]) -> Option<i64> {
    let needed = || points.iter().map(|(ticks, exact)| next.b_not_below_ns(exact.clone(), *ticks));
    let (least, most) = (needed().min()?, needed().max()?);
    (&most - least < wide(1_u64 << 62)).then(|| wrapped_i64(&most))
}

fn is_exact(ns: FixedNs) -> bool {
    i64::try_from(floor_ns(&units(ns))).is_ok()
}

/// Rules 2 and 9: the new line is nowhere below the old one where both may be used, and no higher
/// than necessary.
pub(crate) fn check_meeting(old: &Oracle, steering: &Steering, at_ticks: u64, margin_ticks: u64, probe: u64) {
    let Some(next) = old.next(steering.slope, true) else { return };
    let shift = old.line.shift;
    let joined = meet_old_line(&old.line, next.line.state, steering, at_ticks, margin_ticks);
    let (early, late) = (at_ticks.wrapping_sub(margin_ticks), at_ticks.wrapping_add(margin_ticks));
    let stepped = steering.step_to.map(|ns| (at_ticks, units(ns) << 16));
    let points: Vec<_> =
        [early, late].map(|ticks| (ticks, old.exact_at(ticks))).into_iter().chain(stepped).collect();
    let Some(b) = least_b(&next, &points).filter(|_| steering.step_to.is_none_or(is_exact)) else { return };
    let story = || format!("{old:?}, {steering:?} at {at_ticks} +- {margin_ticks}: {joined:?}");
    assert_eq!(joined, next.line.state.with_b(b), "{}", story());
    if margin_ticks > Line::MAX_DELTA_TICKS || !is_in_one_turn(shift, early, late) {
        return;
    }
    // Readers see whole nanoseconds.
    let between = early + probe % (late - early).max(1);
    for ticks in [early, at_ticks, between, late.saturating_sub(1).max(early), late] {
        let above_ns = joined.at(shift, ticks).wrapping_sub(old.line.at(ticks));
        assert!(above_ns >= 0, "below the old line at {ticks}: {}", story());
    }
}

/// Rule 7: a first line is not below `from` at `at_ticks`, nowhere below the high-water mark, and
/// no higher than necessary.
pub(crate) fn check_recover(
    next: &Oracle,
    from: FixedNs,
    high_water_ns: i64,
    start_ticks: u64,
    at_ticks: u64,
    probe: u64,
) {
    let shift = next.line.shift;
    let line = recover(next.line.state, shift, start_ticks, high_water_ns, at_ticks, from);
    let points = [(start_ticks, wide(high_water_ns) << 64), (at_ticks, units(from) << 16)];
    let Some(b) = least_b(next, &points).filter(|_| is_exact(from)) else { return };
    let story = || format!("{from:?}, {high_water_ns}, {next:?} from {start_ticks} at {at_ticks}: {line:?}");
    assert_eq!(line, next.line.state.with_b(b), "{}", story());
    assert!(line.at(shift, at_ticks).wrapping_sub(from.floor_ns()) >= 0, "below `from`: {}", story());
    for ticks in [start_ticks, start_ticks.wrapping_add(probe & Line::MAX_DELTA_TICKS)] {
        let above_ns = line.at(shift, ticks).wrapping_sub(high_water_ns);
        let is_above = above_ns >= 0 || !is_in_one_turn(shift, start_ticks, ticks);
        assert!(is_above, "below the high-water mark at {ticks}: {}", story());
    }
}
