//! Fixed-point units and the few constants that more than one module needs.
//!
//! Suffixes used throughout: `_ticks` counts of the counter, `_ns` nanoseconds, `_hz` per second,
//! `_ppb` parts per billion. Ticks wrap at 2^64; differences are taken with [`ticks_between`]. A
//! value of type [`FixedNs`] is never called `_ns`. It ends in `_fixed` where its name does not say
//! what it measures, as "offset" and "width" do.
//!
//! Every program that reads the time contains the control loop, whose arithmetic has 128 bits and a
//! hundred callers. Its functions, here and in `line.rs`, `sample.rs` and `estimate.rs`, are
//! therefore `#[inline(never)]`: inlined, they would take 7 KB more. No fast path of a reading
//! calls one.

/// Binary places of [`FixedNs`] and of [`Slope`](crate::line::Slope).
///
/// 48 is one constant for every clock. At 5 GHz it quantises the rate to 1.8e-14, which is 0.001 ns
/// over a minute.
pub(crate) const FRACTION_BITS: u32 = 48;

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds with 48 binary places. All arithmetic saturates.
///
/// ```
/// use tickline_core::line::Slope;
///
/// let slope = Slope::from_hz(2_000_000_000).unwrap();
/// let (three_ticks, one_tick) = (slope.over(3), slope.over(1));
/// assert_eq!((three_ticks.floor_ns(), three_ticks.ceil_ns()), (1, 2)); // 1.5 ns
/// assert_eq!(three_ticks.saturating_sub(one_tick).floor_ns(), 1);
/// ```
///
/// BOUND: an `i64` of nanoseconds shifted left by 48 stays below 2^111, so sums of a few never
/// overflow 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FixedNs(i128);

impl FixedNs {
    /// 0 ns.
    pub(crate) const ZERO: Self = Self(0);

    /// More than any time.
    pub(crate) const MAX: Self = Self(i128::MAX);

    /// From units of 2^-48 ns.
    pub(crate) const fn from_bits(bits: i128) -> Self {
        Self(bits)
    }

    /// In units of 2^-48 ns.
    pub(crate) const fn to_bits(self) -> i128 {
        self.0
    }

    /// Whole nanoseconds.
    pub(crate) const fn from_ns(ns: i64) -> Self {
        Self((ns as i128) << FRACTION_BITS)
    }

    /// `ns`, and a fraction above that in units of 2^-48 ns.
    pub(crate) const fn from_parts(ns: i64, fraction: u64) -> Self {
        Self::from_ns(ns).saturating_add(Self(fraction as i128))
    }

    /// The largest whole nanosecond not above this, and the fraction above that in units of 2^-48
    /// ns.
    #[expect(clippy::cast_sign_loss, reason = "the mask leaves 48 bits")]
    pub(crate) const fn parts(self) -> (i64, u64) {
        (
            self.floor_ns(),
            (self.0 & ((1 << FRACTION_BITS) - 1)) as u64,
        )
    }

    /// The nearest whole nanosecond (halves are rounded up), saturating at the ends of `i64`.
    #[inline(never)]
    pub(crate) const fn round_ns(self) -> i64 {
        saturate(self.0.saturating_add(1 << (FRACTION_BITS - 1)) >> FRACTION_BITS)
    }

    /// The largest whole nanosecond not above this, saturating at the ends of `i64`.
    #[must_use]
    #[inline(never)]
    pub const fn floor_ns(self) -> i64 {
        saturate(self.0 >> FRACTION_BITS)
    }

    /// The smallest whole nanosecond not below this, saturating at the ends of `i64`.
    #[must_use]
    #[inline(never)]
    pub const fn ceil_ns(self) -> i64 {
        saturate(self.0.saturating_add((1 << FRACTION_BITS) - 1) >> FRACTION_BITS)
    }

    /// The sum.
    #[inline(never)]
    pub(crate) const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference.
    #[must_use]
    #[inline(never)]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The product with a whole number.
    #[inline(never)]
    pub(crate) const fn saturating_mul(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor as i128))
    }

    /// The distance from 0.
    pub(crate) const fn saturating_abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// Half of it, rounded down.
    pub(crate) const fn half(self) -> Self {
        Self(self.0 >> 1)
    }
}

/// `later - earlier` in ticks as a signed number: exact while the two are less than 2^63 ticks
/// apart.
#[must_use]
pub const fn ticks_between(earlier_ticks: u64, later_ticks: u64) -> i64 {
    later_ticks.wrapping_sub(earlier_ticks).cast_signed()
}

/// `later - earlier` in ticks; 0 if `later` is the earlier of the two.
pub(crate) const fn ticks_since(earlier_ticks: u64, later_ticks: u64) -> u64 {
    let ticks = ticks_between(earlier_ticks, later_ticks);
    if ticks > 0 { ticks.cast_unsigned() } else { 0 }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the value was just checked to fit"
)]
const fn saturate(value: i128) -> i64 {
    if value > i64::MAX as i128 {
        i64::MAX
    } else if value < i64::MIN as i128 {
        i64::MIN
    } else {
        value as i64
    }
}
