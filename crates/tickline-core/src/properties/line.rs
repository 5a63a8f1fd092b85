//! Properties of `Line`, `Slope` and the units.

use crate::line::{Line, Slope};
use crate::units::{FixedNs, NS_PER_S};

use super::wide::{
    UNITS_PER_NS, bits, ceil_div, ceil_ns, clamped_fixed, clamped_i64, clamped_u64, exact_at, floor_div,
    floor_ns, units, wide,
};

/// Ticks to nanoseconds: exact, or rounded down, or saturated. `at` wraps instead.
pub(crate) fn check_conversion(line: &Line, ticks: u64) {
    let exact = exact_at(line, ticks);
    assert_eq!(line.fixed_at(ticks), clamped_fixed(exact.clone()), "{line:?} at {ticks}");
    assert_eq!(line.fixed_at(ticks).floor_ns(), clamped_i64(floor_ns(&exact)), "{line:?} at {ticks}");
    if ticks.wrapping_sub(line.start_ticks) <= Line::MAX_DELTA_TICKS {
        let around = wide(1_u128 << 64);
        let difference = floor_ns(&exact) - wide(line.at(ticks));
        assert_eq!(difference % around, wide(0), "{line:?} at {ticks}");
    }
}

/// Frequencies to slopes (rounded down) and back (to the nearest).
pub(crate) fn check_frequency(hz: u64, slope: Slope) {
    let scale = wide(NS_PER_S) * UNITS_PER_NS;
    let expected = if hz == 0 { None } else { u64::try_from(&scale / hz).ok() };
    assert_eq!(Slope::from_hz(hz).map(|slope| slope.bits), expected, "{hz} Hz");
    let nearest = match slope.bits {
        0 => wide(0),
        some => floor_div(&(&scale * 2 + some), &(wide(some) * 2)),
    };
    assert_eq!(slope.to_hz(), clamped_u64(nearest), "{slope:?}");
}

/// Spans of ticks and of nanoseconds along a slope.
pub(crate) fn check_spans(slope: Slope, ticks: i64, ns: u64) {
    assert_eq!(slope.over(ticks), clamped_fixed(bits(slope) * ticks), "{slope:?} over {ticks}");
    let expected = match slope.bits {
        0 => u64::MAX,
        some => clamped_u64(ceil_div(&(wide(ns) * UNITS_PER_NS), &wide(some))),
    };
    assert_eq!(slope.ticks_in(ns), expected, "{slope:?} in {ns} ns");
}

/// Relative changes of slopes: both rounded toward zero, both saturating.
pub(crate) fn check_ppb(slope: Slope, other: Slope, ppb: i64, raw: i128) {
    let adjusted = bits(slope) + bits(slope) * ppb / NS_PER_S;
    assert_eq!(slope.adjusted_ppb(ppb).bits, clamped_u64(adjusted), "{slope:?} by {ppb}");
    let expected = match (slope.bits, other.bits) {
        (0, 0) => 0,
        (_, 0) => i64::MAX,
        (_, _) => clamped_i64((bits(slope) - bits(other)) * NS_PER_S / bits(other)),
    };
    assert_eq!(slope.ppb_above(other), expected, "{slope:?} above {other:?}");
    assert_eq!(Slope::saturating_from(raw).bits, clamped_u64(wide(raw)), "{raw}");
}

/// Fixed-point values: whole nanoseconds in the three directions, and sums; saturating.
pub(crate) fn check_fixed(fixed: FixedNs, other: FixedNs, ns: i64) {
    let (exact, other_exact) = (units(fixed), units(other));
    let (floor, half) = (floor_ns(&exact), wide(UNITS_PER_NS / 2));
    assert_eq!(fixed.floor_ns(), clamped_i64(floor.clone()), "{fixed:?}");
    assert_eq!(fixed.ceil_ns(), clamped_i64(ceil_ns(&exact)), "{fixed:?}");
    assert_eq!(fixed.round_ns(), clamped_i64(floor_ns(&(&exact + half))), "{fixed:?}");
    assert_eq!(units(FixedNs::from_ns(ns)), wide(ns) * UNITS_PER_NS);
    let (whole_ns, fraction) = fixed.parts();
    assert_eq!((whole_ns, wide(fraction)), (fixed.floor_ns(), &exact - &floor * UNITS_PER_NS), "{fixed:?}");
    assert_eq!(units(FixedNs::from_parts(ns, fraction)), wide(ns) * UNITS_PER_NS + fraction);
    let sum_difference = [&exact + &other_exact, &exact - &other_exact].map(clamped_fixed);
    assert_eq!([fixed.plus(other), fixed.minus(other)], sum_difference, "{fixed:?}, {other:?}");
    assert_eq!(fixed.times(ns), clamped_fixed(&exact * ns), "{fixed:?} times {ns}");
    assert_eq!(fixed.abs(), clamped_fixed(exact.clone().max(-&exact)), "{fixed:?}");
    assert_eq!(units(fixed.half()), floor_div(&exact, &wide(2)), "{fixed:?}");
}
