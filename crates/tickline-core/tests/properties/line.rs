//! What holds for `Line`, `Slope` and the units.

use num_bigint::BigInt;
use tickline_core::unstable::line::{Line, MAX_DELTA_TICKS, Slope};
use tickline_core::unstable::units::{
    FixedNs, NS_PER_S, fixed_from_ns, fixed_to_ns_ceil, fixed_to_ns_floor, fixed_to_ns_round,
    ns_of_counts_floor,
};

use super::wide::{
    UNITS_PER_NS, bits, ceil_div, ceil_ns, clamped_fixed, clamped_i64, clamped_u64, exact_at, floor_div,
    floor_ns, signed_ticks, wide,
};

/// Ticks to nanoseconds: rounded down and exact, or saturating; by the fast path, wrapping.
pub(crate) fn check_conversion(line: &Line, ticks: u64) {
    let exact = exact_at(line, ticks);
    assert_eq!(line.fixed_at(ticks), clamped_fixed(exact.clone()), "{line:?} at {ticks}");
    assert_eq!(line.at_any(ticks), clamped_i64(floor_ns(&exact)), "{line:?} at {ticks}");
    if ticks.wrapping_sub(line.start_ticks) <= MAX_DELTA_TICKS {
        let around = wide(1_u128 << 64);
        let difference = floor_ns(&exact) - wide(line.at(ticks));
        assert_eq!(difference % around, wide(0), "{line:?} at {ticks}");
    }
}

/// Nanoseconds to ticks: the first tick at which the line is not below `ns`, at most 2^63 from
/// the start.
pub(crate) fn check_inverse(line: &Line, ns: i64) {
    let ticks = line.ticks_at(ns);
    if line.slope == Slope::default() {
        assert_eq!(ticks, line.start_ticks, "{line:?} reaches {ns}");
        return;
    }
    let first = ceil_div(&((wide(ns) - wide(line.base_ns)) * UNITS_PER_NS), &bits(line.slope));
    assert_eq!(
        signed_ticks(line.start_ticks, ticks),
        wide(clamped_i64(first.clone())),
        "{line:?} reaches {ns}"
    );
    // The same as its users see it, where the tick before is no further than 2^63 away.
    if wide(i64::MIN) < first && first <= wide(i64::MAX) {
        assert!(line.at_any(ticks) >= ns, "{line:?} reaches {ns}");
        assert!(ns == i64::MIN || line.at_any(ticks.wrapping_sub(1)) < ns, "{line:?} reaches {ns}");
    }
}

/// Frequencies to slopes (rounded down) and back (to the nearest).
pub(crate) fn check_frequency(hz: u64, slope: Slope) {
    let scale = wide(NS_PER_S) * UNITS_PER_NS;
    let expected = if hz == 0 { None } else { u64::try_from(&scale / hz).ok() };
    assert_eq!(Slope::from_hz(hz).map(Slope::to_bits), expected, "{hz} Hz");
    let nearest = match slope.to_bits() {
        0 => wide(0),
        some => floor_div(&(&scale * 2 + some), &(wide(some) * 2)),
    };
    assert_eq!(slope.to_hz(), clamped_u64(nearest), "{slope:?}");
}

/// Spans of ticks and of nanoseconds along a slope.
pub(crate) fn check_spans(slope: Slope, ticks: i64, ns: u64) {
    assert_eq!(slope.over(ticks), clamped_fixed(bits(slope) * ticks), "{slope:?} over {ticks}");
    let expected = match slope.to_bits() {
        0 => u64::MAX,
        some => clamped_u64(ceil_div(&(wide(ns) * UNITS_PER_NS), &wide(some))),
    };
    assert_eq!(slope.ticks_in(ns), expected, "{slope:?} in {ns} ns");
}

/// Relative changes of slopes: both rounded toward zero, both saturating.
pub(crate) fn check_ppb(slope: Slope, other: Slope, ppb: i64, raw: i128) {
    let adjusted = bits(slope) + bits(slope) * ppb / NS_PER_S;
    assert_eq!(slope.adjusted_ppb(ppb).to_bits(), clamped_u64(adjusted), "{slope:?} by {ppb}");
    let expected = match (slope.to_bits(), other.to_bits()) {
        (0, 0) => 0,
        (_, 0) => i64::MAX,
        (_, _) => clamped_i64((bits(slope) - bits(other)) * NS_PER_S / bits(other)),
    };
    assert_eq!(slope.ppb_above(other), expected, "{slope:?} above {other:?}");
    assert_eq!(Slope::saturating_from(raw).to_bits(), clamped_u64(wide(raw)), "{raw}");
}

/// Whole nanoseconds of a fixed-point value, in the three directions; and back.
pub(crate) fn check_rounding(fixed: FixedNs, ns: i64) {
    let half: BigInt = wide(UNITS_PER_NS / 2);
    assert_eq!(fixed_to_ns_floor(fixed), clamped_i64(floor_ns(&wide(fixed))), "{fixed}");
    assert_eq!(fixed_to_ns_ceil(fixed), clamped_i64(ceil_ns(&wide(fixed))), "{fixed}");
    assert_eq!(fixed_to_ns_round(fixed), clamped_i64(floor_ns(&(wide(fixed) + half))), "{fixed}");
    assert_eq!(wide(fixed_from_ns(ns)), wide(ns) * UNITS_PER_NS);
}

/// Counts of a clock in nanoseconds: rounded down and exact, or saturating.
pub(crate) fn check_counts(counts: u64, hz: u64) {
    let ns = ns_of_counts_floor(counts, hz);
    if hz == 0 {
        assert_eq!(ns, 0, "a clock that stands still");
    } else {
        let exact = floor_div(&(wide(counts) * wide(NS_PER_S)), &wide(hz));
        assert_eq!(ns, clamped_i64(exact), "{counts} at {hz} Hz");
    }
}
