//! Lines, as a slot holds them: layout version 1 fixes their arithmetic.
//!
//! ```text
//! ns(t) = base_ns + floor((t - start_ticks) * slope / 2^48)
//! ```
//!
//! Readers in C compute the same. The writer makes lines, so it also needs them without rounding
//! ([`FixedNs`]): the direction of each rounding is part of rule W2.

/// Nanoseconds with 48 binary places.
///
/// BOUND: an `i64` of nanoseconds shifted left by 48 stays below 2^111, so sums of a few never
/// overflow.
pub(crate) type FixedNs = i128;

/// Binary places of [`FixedNs`] and of [`Slope`], as the layout has it.
const FRACTION_BITS: u32 = 48;

/// Largest tick difference that [`Line::at`] converts exactly: 2^48 - 1 ticks (15 hours at 5 GHz).
pub(crate) const MAX_DELTA_TICKS: u64 = (1 << FRACTION_BITS) - 1;

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds per tick, in units of 2^-48 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Slope(u64);

impl Slope {
    /// A slope from its fixed-point bits (2^-48 ns per tick).
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Fixed-point bits (2^-48 ns per tick).
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The slope of a counter of `hz` ticks per second, rounded down; `None` below 15,259 Hz or
    /// at 0, where it does not fit.
    #[must_use]
    pub fn from_hz(hz: u64) -> Option<Self> {
        // BOUND: 1e9 < 2^30, so the numerator is below 2^78.
        let bits = (u128::from(NS_PER_S) << FRACTION_BITS).checked_div(u128::from(hz))?;
        u64::try_from(bits).ok().map(Self)
    }

    /// A slope from an `i128` of fixed-point bits, saturating at 0 and at the largest slope.
    pub(crate) fn saturating_from(bits: i128) -> Self {
        Self(u64::try_from(bits.max(0)).unwrap_or(u64::MAX))
    }

    /// `ticks` at this slope. BOUND: 2^63 * 2^64 = 2^127, the limit of `i128`, which a signed 64-bit
    /// difference and a 64-bit slope reach only together; saturates there.
    pub(crate) const fn over(self, ticks: i64) -> FixedNs {
        (ticks as i128).saturating_mul(self.0 as i128)
    }

    /// Time from a tick to another, ns, rounded down; negative if the other is earlier.
    pub(crate) fn ns_between_floor(self, from_ticks: u64, to_ticks: u64) -> i64 {
        fixed_to_ns_floor(self.over(ticks_between(from_ticks, to_ticks)))
    }

    /// Ticks in `ns` nanoseconds, rounded up, saturating; `u64::MAX` for a slope of 0.
    pub(crate) fn ticks_in_ceil(self, ns: u64) -> u64 {
        let bits = u128::from(self.0);
        // BOUND: ns < 2^64, so the numerator is below 2^112 + 2^64.
        let numerator = (u128::from(ns) << FRACTION_BITS).saturating_add(bits.saturating_sub(1));
        numerator.checked_div(bits).and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(u64::MAX)
    }
}

/// One straight line from ticks to nanoseconds.
///
/// ```
/// use tickline_page::lease::{Line, Slope};
/// let line = Line { start_ticks: 1_000, base_ns: 50, slope: Slope::from_hz(2_000_000_000).unwrap() };
/// assert_eq!(line.at(1_000), 50);
/// assert_eq!(line.at(1_003), 51); // 1.5 ns, rounded down
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
    /// Nanoseconds at `ticks`, rounded down; exact for ticks from the start to 2^48 - 1 after it,
    /// wrapped elsewhere. Never panics.
    #[inline(always)]
    #[must_use]
    pub const fn at(&self, ticks: u64) -> i64 {
        let delta = ticks.wrapping_sub(self.start_ticks);
        // BOUND: delta < 2^48, so delta << 16 < 2^64 and the product < 2^128; its high half is
        // delta * slope / 2^48. The pre-shift saves the 128-bit shift that `>> 48` would need.
        let product = ((delta << (64 - FRACTION_BITS)) as u128).wrapping_mul(self.slope.0 as u128);
        self.base_ns.wrapping_add(((product >> 64) as u64).cast_signed())
    }

    /// The line at `ticks` without rounding, for ticks on either side of the start, up to 2^63
    /// away.
    pub(crate) const fn fixed_at(&self, ticks: u64) -> FixedNs {
        fixed_from_ns(self.base_ns).saturating_add(self.slope.over(ticks_between(self.start_ticks, ticks)))
    }
}

/// Whole nanoseconds as fixed-point.
pub(crate) const fn fixed_from_ns(ns: i64) -> FixedNs {
    (ns as i128) << FRACTION_BITS
}

/// The largest whole nanosecond not above `fixed`, saturating at the ends of `i64`.
pub(crate) fn fixed_to_ns_floor(fixed: FixedNs) -> i64 {
    let ns = fixed >> FRACTION_BITS;
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// The smallest whole nanosecond not below `fixed`, saturating at the ends of `i64`.
pub(crate) fn fixed_to_ns_ceil(fixed: FixedNs) -> i64 {
    fixed_to_ns_floor(fixed.saturating_add((1 << FRACTION_BITS) - 1))
}

/// `later - earlier` in ticks as a signed number: right as long as the two are less than 2^63
/// ticks apart.
#[inline(always)]
pub(crate) const fn ticks_between(earlier_ticks: u64, later_ticks: u64) -> i64 {
    later_ticks.wrapping_sub(earlier_ticks).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_rounded_as_the_layout_says() {
        let mut bits = 5_u64;
        let mut random = || {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bits >> 8
        };
        for _ in 0..if cfg!(miri) { 20 } else { 10_000 } {
            let hz = 15_259 + random() % 5_000_000_000;
            let slope = Slope::from_hz(hz).unwrap();
            let line = Line { start_ticks: random() << 8, base_ns: random().cast_signed(), slope };
            let delta = random() & MAX_DELTA_TICKS;
            let ticks = line.start_ticks.wrapping_add(delta);
            let rise_ns = i128::from(delta) * i128::from(slope.to_bits()) / (1 << FRACTION_BITS);
            assert_eq!(i128::from(line.at(ticks)), i128::from(line.base_ns) + rise_ns);
            let fixed = line.fixed_at(ticks);
            assert_eq!(fixed_to_ns_floor(fixed), line.at(ticks));
            let is_whole = fixed == fixed_from_ns(line.at(ticks));
            assert_eq!(fixed_to_ns_ceil(fixed), line.at(ticks) + i64::from(!is_whole));
            // The first tick that is not earlier than so long after the start.
            let ns = random() % 1_000_000_000_000;
            let first = i64::try_from(slope.ticks_in_ceil(ns)).unwrap();
            let wanted = fixed_from_ns(i64::try_from(ns).unwrap());
            assert!(slope.over(first) >= wanted && (ns == 0 || slope.over(first - 1) < wanted));
        }
    }

    #[test]
    fn what_does_not_fit_is_saturated() {
        assert_eq!((Slope::from_hz(0), Slope::from_hz(15_258)), (None, None));
        assert_eq!(Slope::default().ticks_in_ceil(1), u64::MAX);
        assert_eq!(Slope::saturating_from(-1), Slope::default());
        assert_eq!(Slope::saturating_from(i128::MAX).to_bits(), u64::MAX);
        assert_eq!((fixed_to_ns_ceil(i128::MAX), fixed_to_ns_floor(i128::MIN)), (i64::MAX, i64::MIN));
        let past = Line { start_ticks: 10, base_ns: 5, slope: Slope::from_hz(NS_PER_S).unwrap() };
        assert_eq!(fixed_to_ns_floor(past.fixed_at(3)), -2);
    }
}
