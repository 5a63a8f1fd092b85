//! The oracle: the arithmetic in integers of unlimited size, slow and obviously right.

use crate::line::{Line, Slope};
use crate::units::FixedNs;
use num_bigint::BigInt;

/// Parts of a nanosecond in one unit of a slope: 2^48.
pub(super) const UNITS_PER_NS: u64 = 1 << 48;

pub(super) fn wide(value: impl Into<BigInt>) -> BigInt {
    value.into()
}

/// In units of 2^-48 ns.
pub(super) fn units(fixed: FixedNs) -> BigInt {
    wide(fixed.to_bits())
}

pub(super) fn floor_div(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let quotient = numerator / denominator;
    let rest = numerator % denominator;
    if rest == wide(0) || (rest < wide(0)) == (*denominator < wide(0)) {
        quotient
    } else {
        quotient - 1
    }
}

pub(super) fn ceil_div(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    -floor_div(&-numerator, denominator)
}

/// `value`, or the nearest that fits.
pub(super) fn clamped<T: TryFrom<BigInt>>(value: BigInt, least: T, most: T) -> T {
    let negative = value < wide(0);
    T::try_from(value).unwrap_or(if negative { least } else { most })
}

pub(super) fn clamped_i64(value: BigInt) -> i64 {
    clamped(value, i64::MIN, i64::MAX)
}

pub(super) fn clamped_u64(value: BigInt) -> u64 {
    clamped(value, u64::MIN, u64::MAX)
}

pub(super) fn clamped_fixed(value: BigInt) -> FixedNs {
    FixedNs::from_bits(clamped(value, i128::MIN, i128::MAX))
}

/// `value` in 64 bits, wrapped.
pub(super) fn wrapped_i64(value: &BigInt) -> i64 {
    clamped_u64(value - (value >> 64_u32 << 64_u32)).cast_signed()
}

/// Whether `value` leaves room in fixed-point nanoseconds for a few more like it.
pub(super) fn is_moderate(value: &BigInt) -> bool {
    let limit = wide(1_i128 << 124);
    -&limit < *value && *value < limit
}

pub(super) fn bits(slope: Slope) -> BigInt {
    wide(slope.bits)
}

/// `to - from` on a counter that wraps at 2^64, the shorter way round.
pub(super) fn signed_ticks(from: u64, to: u64) -> BigInt {
    let around = wide(1_u128 << 64);
    let ahead = (wide(to) - wide(from) + &around) % &around;
    if ahead >= wide(1_u64 << 63) {
        ahead - around
    } else {
        ahead
    }
}

/// A line through (`from_ticks`, `fixed_ns`) at `ticks`, in units of 2^-48 ns.
pub(super) fn carried(from_ticks: u64, fixed_ns: &BigInt, slope: Slope, ticks: u64) -> BigInt {
    fixed_ns + bits(slope) * signed_ticks(from_ticks, ticks)
}

/// `line` at `ticks`, in units of 2^-48 ns.
pub(super) fn exact_at(line: &Line, ticks: u64) -> BigInt {
    carried(
        line.start_ticks,
        &(wide(line.base_ns) * UNITS_PER_NS),
        line.slope,
        ticks,
    )
}

pub(super) fn floor_ns(fixed: &BigInt) -> BigInt {
    floor_div(fixed, &wide(UNITS_PER_NS))
}

pub(super) fn ceil_ns(fixed: &BigInt) -> BigInt {
    ceil_div(fixed, &wide(UNITS_PER_NS))
}
