//! Properties of `correction_to`, `meet_old_line` and `first_line_above`, on which the order rests.
//!
//! The functions compare exact values where these fit. Saturated values of `FixedNs` or `i64` have
//! no promise.

use crate::discipline::{Correction, STEP_PPB, correction_to, first_line_above, meet_old_line};
use crate::estimate::Target;
use crate::line::{Line, Slope};
use crate::state::WRAP_MASK;
use crate::units::{FixedNs, NS_PER_S};
use num_bigint::BigInt;
use proptest::prelude::*;

use super::state::{Oracle, line_in_use, usual_slope};
use super::wide::{bits, carried, floor_ns, is_moderate, units, wide, wrapped_i64};
use super::{CHEAP, above, config, number, signed_number};

/// Rule 11: if the target is ahead by much, the line steps to it. Every other offset is slewed, and
/// no rate is below half.
fn check_correction(old: &Oracle, at_ticks: u64, target: &Target, window_ticks: u64) -> Correction {
    let correction = correction_to(&old.line, at_ticks, target, window_ticks);
    let ours = old.exact_at(at_ticks) >> 16;
    let theirs = carried(
        target.ticks,
        &units(target.reference_fixed),
        target.slope,
        at_ticks,
    );
    let window = wide(window_ticks.max(1));
    let story = || format!("{old:?} at {at_ticks} to {target:?} in {window_ticks}: {correction:?}");
    let rate = target.slope.bits;
    let slowest = rate - rate / 2;
    assert!(correction.slope.bits >= slowest, "{}", story());
    if i64::try_from(floor_ns(&ours)).is_err()
        || !is_moderate(&theirs)
        || window_ticks > Line::MAX_DELTA_TICKS
    {
        return correction;
    }

    let offset = &ours - &theirs;
    assert_eq!(units(correction.offset), offset, "{}", story());
    let scaled: BigInt = bits(target.slope) * window_ticks * STEP_PPB;
    if is_moderate(&scaled) {
        assert_eq!(
            correction.step_to.is_some(),
            -&offset > scaled / NS_PER_S,
            "{}",
            story()
        );
    }
    if let Some(step_to) = correction.step_to {
        assert!(
            units(step_to) == theirs && theirs > ours,
            "a step goes forward, to the target: {}",
            story()
        );
        assert_eq!(correction.slope, target.slope, "{}", story());
        return correction;
    }
    // The rest of the offset after one window.
    let left = &offset + (bits(correction.slope) - rate) * &window;
    let bent = correction.slope.bits;
    if bent == u64::MAX {
        assert!(left < window, "faster than was needed: {}", story());
    } else if bent == slowest {
        assert!(left > -&window, "slower than was needed: {}", story());
    } else {
        assert!(-&window < left && left < window, "{left} left: {}", story());
    }
    correction
}

/// The least `b` with which `next` is not below any of the points (ticks, units of 2^-64 ns).
/// `None` if the points need values so far apart that 64 bits don't show which one is larger.
fn least_b(next: &Oracle, points: &[(u64, BigInt)]) -> Option<i64> {
    let needed = || {
        points
            .iter()
            .map(|(ticks, exact)| next.b_not_below_time(exact.clone(), *ticks))
    };
    let least = needed().min()?;
    let most = needed().max()?;
    (&most - least < wide(1_u64 << 62)).then(|| wrapped_i64(&most))
}

fn is_exact(time: FixedNs) -> bool {
    i64::try_from(floor_ns(&units(time))).is_ok()
}

/// Whether `ticks << SHIFT` does not wrap between two ticks.
const fn is_in_one_turn(from_ticks: u64, to_ticks: u64) -> bool {
    from_ticks <= to_ticks && (from_ticks ^ to_ticks) & !WRAP_MASK == 0
}

/// Rules 2 and 9: the new line is nowhere below the old one where both may be used, and no higher
/// than necessary.
fn check_meeting(
    old: &Oracle,
    correction: &Correction,
    at_ticks: u64,
    margin_ticks: u64,
    probe: u64,
) {
    let Some(next) = old.next(correction.slope, true) else {
        return;
    };
    let replacement = meet_old_line(
        &old.line,
        next.line.state,
        correction,
        at_ticks,
        margin_ticks,
    );
    let early = at_ticks.wrapping_sub(margin_ticks);
    let late = at_ticks.wrapping_add(margin_ticks);
    let stepped = correction.step_to.map(|ns| (at_ticks, units(ns) << 16));
    let points: Vec<_> = [early, late]
        .map(|ticks| (ticks, old.exact_at(ticks)))
        .into_iter()
        .chain(stepped)
        .collect();
    if !correction.step_to.is_none_or(is_exact) {
        return;
    }
    let Some(b) = least_b(&next, &points) else {
        return;
    };
    let story =
        || format!("{old:?}, {correction:?} at {at_ticks} +- {margin_ticks}: {replacement:?}");
    assert_eq!(replacement, next.line.state.with_b(b), "{}", story());
    if margin_ticks > Line::MAX_DELTA_TICKS || !is_in_one_turn(early, late) {
        return;
    }
    // Readers see whole nanoseconds.
    let between = early + probe % (late - early).max(1);
    for ticks in [
        early,
        at_ticks,
        between,
        late.saturating_sub(1).max(early),
        late,
    ] {
        let above_ns = replacement.ns_at(ticks).wrapping_sub(old.line.ns_at(ticks));
        assert!(above_ns >= 0, "below the old line at {ticks}: {}", story());
    }
}

/// Slopes near `slope`, as the next line has them, and distant slopes.
fn next_slope(slope: Slope) -> impl Strategy<Value = Slope> {
    prop_oneof![
        (-1_000_000..1_000_000_i64).prop_map(move |ppb| slope.adjusted_ppb(ppb)),
        (-2_000..2_000_i128)
            .prop_map(move |more| Slope::saturating_from(i128::from(slope.bits) + more)),
        Just(Slope {
            bits: slope.bits >> 1
        }),
        usual_slope(14.0),
    ]
}

/// An old line, a tick on it, and a target around there.
fn meeting() -> impl Strategy<Value = (Oracle, u64, Target)> {
    line_in_use().prop_flat_map(|(old, at)| {
        let target = (
            next_slope(old.slope()),
            signed_number(),
            0..64_u32,
            0..1_u64 << 34,
        )
            .prop_map(move |(slope, ahead, shift, age)| {
                let ticks = at.wrapping_sub(age);
                Target {
                    ticks,
                    reference_fixed: above(old.line.fixed_at(ticks), i128::from(ahead) << shift),
                    slope,
                }
            });
        (Just(old), Just(at), target)
    })
}

proptest! {
    #![proptest_config(config(CHEAP))]

    #[test]
    fn rule_11_steering_goes_forward_and_never_below_half_the_rate(
        ((old, at, target), window) in (meeting(), number())
    ) {
        check_correction(&old, at, &target, window);
        check_correction(&old, at, &target, window & 0xffff_ffff);
    }

    #[test]
    fn rule_2_the_next_line_is_not_below_the_old_one(
        ((old, at, target), window, margin, probe)
            in (meeting(), 0..1_u64 << 36, 0..1_u64 << 20, any::<u64>())
    ) {
        let correction = check_correction(&old, at, &target, window);
        check_meeting(&old, &correction, at, margin, probe);
        // The slopes differ minimally or not at all. With the old slope the old line must result,
        // also for a step to below it, and a line a nanosecond higher for the smallest step up.
        let step_by = |units| (old.slope(), Some(above(old.line.fixed_at(at), units)));
        for (slope, step_to) in [(target.slope, None), (old.slope(), None), step_by(-5_000 << 48), step_by(1)] {
            let correction = Correction { slope, step_to, offset: FixedNs::ZERO };
            check_meeting(&old, &correction, at, margin, probe);
        }
    }

    /// A first line is not below `from` at `at`, nowhere below the high-water mark, and no higher
    /// than necessary.
    #[test]
    fn rule_7_a_first_line_is_above_reference_and_high_water_mark(
        ((oracle, at, target), since_start, high_water, probe)
            in (meeting(), number(), signed_number(), any::<u64>())
    ) {
        let start = at.wrapping_sub(since_start & (Line::MAX_DELTA_TICKS >> 8));
        let Some(next) = oracle.next(target.slope, true) else { return Ok(()) };
        let state = next.line.state;
        let near = oracle.line.ns_at(at).saturating_add(high_water >> 32);
        // A whole `b` meets this limit exactly, but not the next larger limit.
        let exact = next.line.fixed_at(at);
        for (from, high_water) in [
            (target.fixed_at(at), high_water),
            (target.fixed_at(at), near),
            (exact, i64::MIN),
            (above(exact, 1), i64::MIN),
        ] {
            let line = first_line_above(state, start, high_water, at, from);
            let points = [(start, wide(high_water) << 64), (at, units(from) << 16)];
            if !is_exact(from) {
                continue;
            }
            let Some(b) = least_b(&next, &points) else { continue };
            let story = || format!("{from:?}, {high_water}, {next:?}: {line:?}");
            assert_eq!(line, state.with_b(b), "{}", story());
            assert!(line.ns_at(at).wrapping_sub(from.floor_ns()) >= 0, "below `from`: {}", story());
            for ticks in [start, start.wrapping_add(probe & Line::MAX_DELTA_TICKS)] {
                let is_above = line.ns_at(ticks).wrapping_sub(high_water) >= 0;
                let is_comparable = is_in_one_turn(start, ticks);
                assert!(is_above || !is_comparable, "below the high-water mark at {ticks}: {}", story());
            }
        }
    }
}
