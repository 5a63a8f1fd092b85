//! A straight line from ticks to nanoseconds, and the exact arithmetic on it.
//!
//! ```text
//! ns(t) = base_ns + floor((t - start_ticks) * slope / 2^48)
//! ```
//!
//! Conversion to nanoseconds rounds down, so it never rises above the line and is non-decreasing in
//! `t`. Bounds, and the lines of pages, are kept in this form; the line that readers use is a
//! [`LineState`](crate::state::LineState).

use crate::units::{FRACTION_BITS, FixedNs, NS_PER_S, ticks_between};

/// Nanoseconds per tick.
///
/// ```
/// use tickline_core::line::Slope;
///
/// let slope = Slope::from_hz(2_000_000_000).unwrap();
/// assert_eq!(slope.bits, 1 << 47); // half a nanosecond
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Slope {
    /// In units of 2^-48 ns.
    pub bits: u64,
}

impl Slope {
    /// The slope of a counter of `hz` ticks per second, rounded down; `None` below 15,259 Hz or
    /// at 0, where it does not fit.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value was just checked to fit"
    )]
    pub const fn from_hz(hz: u64) -> Option<Self> {
        // BOUND: 1e9 < 2^30, so the numerator is below 2^78.
        let numerator = (NS_PER_S as u128) << FRACTION_BITS;
        match numerator.checked_div(hz as u128) {
            Some(bits) if bits <= u64::MAX as u128 => Some(Self { bits: bits as u64 }),
            _ => None,
        }
    }

    /// Ticks per second, rounded to the nearest, saturating; 0 for a slope of 0.
    pub(crate) fn to_hz(self) -> u64 {
        let numerator =
            (u128::from(NS_PER_S) << FRACTION_BITS).saturating_add(u128::from(self.bits >> 1));
        numerator
            .checked_div(u128::from(self.bits))
            .map_or(0, |hz| u64::try_from(hz).unwrap_or(u64::MAX))
    }

    /// The time that `ticks` take at this slope, exactly.
    ///
    /// ```
    /// use tickline_core::line::Slope;
    ///
    /// let slope = Slope::from_hz(2_000_000_000).unwrap();
    /// assert_eq!(slope.over(-3).floor_ns(), -2); // -1.5 ns
    /// ```
    #[must_use]
    pub const fn over(self, ticks: i64) -> FixedNs {
        // BOUND: |ticks| <= 2^63 and bits < 2^64, so the product is within 2^127, and nothing
        // saturates.
        FixedNs::from_bits((ticks as i128).saturating_mul(self.bits as i128))
    }

    /// Ticks in `ns` nanoseconds, rounded up, saturating; `u64::MAX` for a slope of 0.
    #[must_use]
    #[inline(never)]
    pub fn ticks_in_ceil(self, ns: u64) -> u64 {
        let bits = u128::from(self.bits);
        // BOUND: ns < 2^64, so the numerator is below 2^112 + 2^64.
        let numerator = (u128::from(ns) << FRACTION_BITS).saturating_add(bits.saturating_sub(1));
        let Some(ticks) = numerator.checked_div(bits) else {
            return u64::MAX;
        };
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// This slope raised by `ppb` (lowered if negative), saturating at 0 and at the largest slope.
    #[inline(never)]
    pub(crate) fn adjusted_ppb(self, ppb: i64) -> Self {
        let bits = i128::from(self.bits);
        // BOUND: 2^64 * 2^63 = 2^127: saturates only for absurd ppb.
        let change = bits
            .saturating_mul(i128::from(ppb))
            .checked_div(i128::from(NS_PER_S))
            .unwrap_or(0);
        Self::saturating_from(bits.saturating_add(change))
    }

    /// The excess of this slope over `other`, in ppb, rounded toward zero; saturating, also if
    /// `other` is 0.
    ///
    /// ```
    /// use tickline_core::line::Slope;
    ///
    /// let (slow, fast) = (Slope::from_hz(1_000_100).unwrap(), Slope::from_hz(1_000_000).unwrap());
    /// assert_eq!(fast.ppb_above(slow), 100_000); // a tick of the slower counter takes longer
    /// ```
    #[must_use]
    #[inline(never)]
    pub fn ppb_above(self, other: Self) -> i64 {
        let difference = i128::from(self.bits).saturating_sub(i128::from(other.bits));
        let scaled = difference.saturating_mul(i128::from(NS_PER_S));
        // Every slope but 0 is infinitely far above 0.
        let ppb = scaled
            .checked_div(i128::from(other.bits))
            .unwrap_or(scaled.saturating_mul(i128::MAX));
        // BOUND: a slope is at least 0, so nothing is more than 10^9 ppb below another one.
        i64::try_from(ppb).unwrap_or(i64::MAX)
    }

    /// A slope from an `i128` of fixed-point bits, saturating at 0 and at the largest slope.
    pub(crate) fn saturating_from(bits: i128) -> Self {
        Self {
            bits: u64::try_from(bits.max(0)).unwrap_or(u64::MAX),
        }
    }
}

/// One straight line from ticks to nanoseconds.
///
/// ```
/// use tickline_core::line::{Line, Slope};
/// let line = Line { start_ticks: 1_000, base_ns: 50, slope: Slope::from_hz(2_000_000_000).unwrap() };
/// assert_eq!(line.ns_at(1_000), 50);
/// assert_eq!(line.ns_at(1_003), 51); // 1.5 ns, rounded down
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Line {
    /// The tick the line starts from.
    pub start_ticks: u64,
    /// Nanoseconds at [`start_ticks`](Self::start_ticks).
    pub base_ns: i64,
    /// Nanoseconds per tick.
    pub slope: Slope,
}

impl Line {
    /// The largest distance from the start at which [`ns_at`](Self::ns_at) is exact, ticks: 2^48 - 1, 15
    /// hours at 5 GHz.
    pub const MAX_DELTA_TICKS: u64 = (1 << FRACTION_BITS) - 1;

    /// Nanoseconds at `ticks`, rounded down; exact for ticks from the start to
    /// [`MAX_DELTA_TICKS`](Self::MAX_DELTA_TICKS) after it, wrapped elsewhere. Never panics.
    #[inline(always)]
    #[must_use]
    pub const fn ns_at(&self, ticks: u64) -> i64 {
        let delta = ticks.wrapping_sub(self.start_ticks);
        // BOUND: delta < 2^48, so delta << 16 < 2^64 and the product < 2^128; its high half is
        // delta * slope / 2^48. The pre-shift saves the 128-bit shift that `>> 48` would need.
        let product =
            ((delta << (64 - FRACTION_BITS)) as u128).wrapping_mul(self.slope.bits as u128);
        self.base_ns
            .wrapping_add(((product >> 64) as u64).cast_signed())
    }

    /// The line at `ticks` without rounding, for ticks on either side of the start, up to 2^63
    /// away.
    ///
    /// ```
    /// use tickline_core::line::{Line, Slope};
    ///
    /// let line = Line { start_ticks: 1_000, base_ns: 50, slope: Slope::from_hz(2_000_000_000).unwrap() };
    /// assert_eq!((line.fixed_at(997).floor_ns(), line.fixed_at(997).ceil_ns()), (48, 49)); // 48.5 ns
    /// ```
    #[must_use]
    #[inline(never)]
    pub fn fixed_at(&self, ticks: u64) -> FixedNs {
        FixedNs::from_ns(self.base_ns)
            .saturating_add(self.slope.over(ticks_between(self.start_ticks, ticks)))
    }
}
