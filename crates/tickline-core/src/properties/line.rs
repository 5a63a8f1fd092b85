//! Properties of `Line`, `Slope` and the units.

use crate::line::{Line, Slope};
use crate::units::{FixedNs, NS_PER_S};
use proptest::prelude::*;

use super::wide::{
    UNITS_PER_NS, bits, ceil_div, ceil_ns, clamped_fixed, clamped_i64, clamped_u64, exact_at,
    floor_div, floor_ns, units, wide,
};
use super::{CHEAP, config, fixed, number, signed_number, slope};

proptest! {
    #![proptest_config(config(CHEAP))]

    /// Ticks to nanoseconds: exact, or rounded down, or saturated. `at` wraps instead.
    #[test]
    fn conversion_is_exact_or_saturates_everywhere(
        (start_ticks, base_ns, slope, ticks) in (number(), signed_number(), slope(), number())
    ) {
        let line = Line { start_ticks, base_ns, slope };
        for ticks in [ticks, start_ticks.wrapping_sub(ticks), start_ticks.wrapping_add(ticks)] {
            let exact = exact_at(&line, ticks);
            assert_eq!(line.fixed_at(ticks), clamped_fixed(exact.clone()), "at {ticks}");
            assert_eq!(line.fixed_at(ticks).floor_ns(), clamped_i64(floor_ns(&exact)), "at {ticks}");
            if ticks.wrapping_sub(start_ticks) <= Line::MAX_DELTA_TICKS {
                let difference = floor_ns(&exact) - wide(line.ns_at(ticks));
                assert_eq!(difference % wide(1_u128 << 64), wide(0), "at {ticks}");
            }
        }
    }

    /// Frequencies to slopes (rounded down) and back (to the nearest).
    #[test]
    fn frequencies_convert_both_ways((hz, slope) in (number(), slope())) {
        let scale = wide(NS_PER_S) * UNITS_PER_NS;
        let expected = if hz == 0 { None } else { u64::try_from(&scale / hz).ok() };
        let from_hz = Slope::from_hz(hz);
        assert_eq!(from_hz.map(|slope| slope.bits), expected);
        for slope in [Some(slope), from_hz].into_iter().flatten() {
            let nearest = match slope.bits {
                0 => wide(0),
                some => floor_div(&(&scale * 2 + some), &(wide(some) * 2)),
            };
            assert_eq!(slope.to_hz(), clamped_u64(nearest), "{slope:?}");
        }
    }

    #[test]
    fn a_slope_turns_ticks_into_time((slope, ticks) in (slope(), signed_number())) {
        assert_eq!(slope.over(ticks), clamped_fixed(bits(slope) * ticks));
    }

    #[test]
    fn a_slope_turns_time_into_ticks_rounded_up((slope, ns) in (slope(), number())) {
        let expected = match slope.bits {
            0 => u64::MAX,
            some => clamped_u64(ceil_div(&(wide(ns) * UNITS_PER_NS), &wide(some))),
        };
        assert_eq!(slope.ticks_in_ceil(ns), expected);
    }

    #[test]
    fn a_slope_is_adjusted_by_a_part_rounded_toward_zero((slope, ppb) in (slope(), signed_number())) {
        let near = slope.adjusted_ppb(ppb);
        for (slope, ppb) in [(slope, ppb), (near, ppb % 1_000_000_000)] {
            let adjusted = bits(slope) + bits(slope) * ppb / NS_PER_S;
            assert_eq!(slope.adjusted_ppb(ppb).bits, clamped_u64(adjusted), "{slope:?} by {ppb}");
        }
    }

    #[test]
    fn a_difference_of_slopes_is_rounded_toward_zero((slope, other, ppb) in (slope(), slope(), signed_number())) {
        for (slope, other) in [(slope, other), (slope.adjusted_ppb(ppb), slope)] {
            let expected = match (slope.bits, other.bits) {
                (0, 0) => 0,
                (_, 0) => i64::MAX,
                (_, _) => clamped_i64((bits(slope) - bits(other)) * NS_PER_S / bits(other)),
            };
            assert_eq!(slope.ppb_above(other), expected, "{slope:?} above {other:?}");
        }
    }

    #[test]
    fn a_slope_from_a_number_out_of_range_saturates((raw, shift) in (any::<i128>(), 0..128_u32)) {
        for raw in [raw, raw >> shift] {
            assert_eq!(Slope::saturating_from(raw).bits, clamped_u64(wide(raw)), "{raw}");
        }
    }

    #[test]
    fn a_fixed_point_value_is_rounded_in_the_direction_of_the_name(fixed in fixed()) {
        let exact = units(fixed);
        let to_nearest = &exact + wide(UNITS_PER_NS / 2);
        assert_eq!(fixed.floor_ns(), clamped_i64(floor_ns(&exact)));
        assert_eq!(fixed.ceil_ns(), clamped_i64(ceil_ns(&exact)));
        assert_eq!(fixed.round_ns(), clamped_i64(floor_ns(&to_nearest)));
    }

    #[test]
    fn whole_nanoseconds_become_a_fixed_point_value_exactly(ns in signed_number()) {
        for ns in [ns, 1] {
            assert_eq!(units(FixedNs::from_ns(ns)), wide(ns) * UNITS_PER_NS);
        }
    }

    #[test]
    fn a_fixed_point_value_has_whole_nanoseconds_and_a_fraction_above_them(fixed in fixed()) {
        let exact = units(fixed);
        let (whole_ns, fraction) = fixed.parts();
        let expected = (fixed.floor_ns(), &exact - floor_ns(&exact) * UNITS_PER_NS);
        assert_eq!((whole_ns, wide(fraction)), expected);
    }

    #[test]
    fn a_fixed_point_value_is_made_of_its_parts_exactly((fixed, ns) in (fixed(), signed_number())) {
        let (_, fraction) = fixed.parts();
        for ns in [ns, 1] {
            assert_eq!(units(FixedNs::from_parts(ns, fraction)), wide(ns) * UNITS_PER_NS + fraction);
        }
    }

    #[test]
    fn sums_and_differences_of_fixed_point_values_saturate(
        (fixed, other, ns) in (fixed(), fixed(), signed_number())
    ) {
        for other in [other, FixedNs::from_bits(i128::from(ns))] {
            let exact = units(fixed);
            let other_exact = units(other);
            let expected = [&exact + &other_exact, &exact - &other_exact].map(clamped_fixed);
            let found = [fixed.saturating_add(other), fixed.saturating_sub(other)];
            assert_eq!(found, expected, "{other:?}");
        }
    }

    #[test]
    fn multiples_of_fixed_point_values_saturate((fixed, ns) in (fixed(), signed_number())) {
        for ns in [ns, 1] {
            assert_eq!(fixed.saturating_mul(ns), clamped_fixed(units(fixed) * ns), "times {ns}");
        }
    }

    #[test]
    fn the_size_of_a_fixed_point_value_saturates(fixed in fixed()) {
        let exact = units(fixed);
        assert_eq!(fixed.saturating_abs(), clamped_fixed(exact.clone().max(-exact)));
    }

    #[test]
    fn half_of_a_fixed_point_value_is_rounded_down(fixed in fixed()) {
        assert_eq!(units(fixed.half()), floor_div(&units(fixed), &wide(2)));
    }
}
