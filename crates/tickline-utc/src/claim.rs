//! A claim: the two times between which UTC was at one moment, and how fast they move apart.
//!
//! From that moment on, readers extrapolate UTC by the counter, or by `CLOCK_MONOTONIC_RAW` if the
//! counter does not serve. Neither of them is ever slewed or stepped. So if the NTP daemon or
//! another program changes the OS clock, the claim is not affected.

use core::num::NonZeroU16;

use tickline::UnixTime;
use tickline_core::reference::SUSPENDED_BOUND_NS;

use crate::interval::Interval;
use crate::{UtcReading, UtcSource, UtcUnknown};

/// The fraction bits of the slopes of an [`Extrapolation`].
pub(crate) const SLOPE_BITS: u32 = 48;

/// The longest claim, in units of its clock: 15 hours of a counter of 5 GHz. Below this limit the
/// upper half of a product of 128 bits is the elapsed time in whole ns.
pub(crate) const MAX_VALID: u64 = 1 << SLOPE_BITS;

/// Extrapolates UTC from the moment of a claim by one clock, in its units: ticks, or ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extrapolation {
    /// The moment of the claim.
    pub(crate) start: u64,
    /// For how long the claim holds, at most [`MAX_VALID`]; 0 if it can't be extrapolated by this
    /// clock.
    pub(crate) valid: u64,
    /// The time that passes in a unit, ns with [`SLOPE_BITS`] fraction bits.
    pub(crate) slopes: Interval<u64>,
}

impl Extrapolation {
    /// The time since the claim at `moment`, ns; `None` if it does not hold then.
    #[inline]
    fn elapsed_ns(&self, moment: u64) -> Option<Interval<i64>> {
        // Two-sided: a moment before the start wraps to a huge difference.
        let elapsed = moment.wrapping_sub(self.start);
        if elapsed >= self.valid {
            return None;
        }
        // The high half of a product takes one instruction; another part would need a 128-bit
        // shift.
        let shifted = elapsed << (64 - SLOPE_BITS);
        // BOUND: below 2^47 ns. A claim holds for a day at most (`claim_of_report`). A slope is at
        // most 1.2 times the one by which `valid` was computed (`MAX_RATE_PPB`).
        let Interval { min, max } = self
            .slopes
            .map(|slope| ((u128::from(shifted) * u128::from(slope)) >> 64) as i64);
        Some(Interval::between(min, max + 1))
    }

    /// The time from the claim to `raw_ns`, ns, also after its end.
    pub(crate) fn between_ns(&self, raw_ns: i64) -> Interval<i64> {
        let elapsed = u128::from(
            raw_ns
                .saturating_sub(self.start.cast_signed())
                .max(0)
                .unsigned_abs(),
        );
        let scaled = |slope: u64| {
            i64::try_from((elapsed * u128::from(slope)) >> SLOPE_BITS).unwrap_or(i64::MAX)
        };
        self.slopes.map(scaled).plus(Interval::between(0, 1))
    }
}

/// The range of UTC at one moment, and how readers extrapolate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) by_counter: Extrapolation,
    pub(crate) by_raw: Extrapolation,
    /// The time for which the machine had been suspended at the moment of the claim, ns.
    pub(crate) suspended_ns: i64,
    /// The hypervisor's disruption marker.
    pub(crate) marker: u64,
    /// UTC at the moment of the claim, ns since 1970.
    pub(crate) utc_ns: Interval<i64>,
    /// TAI minus UTC, s.
    pub(crate) tai_offset_s: Option<NonZeroU16>,
    /// The source; `None` if there is no claim.
    pub(crate) source: Option<UtcSource>,
    /// Why readings fail after the claim has ended, or if there is no claim.
    pub(crate) failure: UtcUnknown,
}

/// The words of a published claim, and those for a reading by the counter: a cache line.
pub(crate) const WORDS: usize = 14;
pub(crate) const COUNTER_WORDS: usize = 8;

impl Claim {
    /// Stands for no claim: zeroed memory, except for the reason.
    pub(crate) fn none(failure: UtcUnknown) -> Self {
        Self {
            failure,
            ..Self::from_words(&[0; WORDS])
        }
    }

    /// Whether the machine was suspended after the claim. `suspended_ns` is the total now, ns.
    pub(crate) fn is_before_suspend(&self, suspended_ns: i64) -> bool {
        self.suspended_ns.abs_diff(suspended_ns) > SUSPENDED_BOUND_NS
    }

    /// This claim, unless the hypervisor has moved or restored the machine since.
    #[inline]
    pub(crate) fn if_undisturbed(self, marker: u64) -> Option<Self> {
        (self.marker == marker).then_some(self)
    }

    /// UTC when the counter showed `ticks`; `None` if the claim does not hold then.
    #[inline]
    pub(crate) fn at_ticks(&self, ticks: u64) -> Option<UtcReading> {
        self.after(self.by_counter.elapsed_ns(ticks)?)
    }

    /// UTC when `CLOCK_MONOTONIC_RAW` was `raw_ns`; `None` if the claim does not hold then.
    #[inline]
    pub(crate) fn at_raw(&self, raw_ns: i64) -> Option<UtcReading> {
        self.after(self.by_raw.elapsed_ns(raw_ns.cast_unsigned())?)
    }

    #[inline]
    fn after(&self, elapsed_ns: Interval<i64>) -> Option<UtcReading> {
        // BOUND: a claim begins after 1970 and two days before the end of the range, and holds for
        // a day.
        let time = |utc_ns: i64, elapsed_ns: i64| {
            UnixTime::from_nanos(utc_ns.wrapping_add(elapsed_ns).cast_unsigned())
        };
        Some(UtcReading {
            earliest: time(self.utc_ns.min, elapsed_ns.min),
            latest: time(self.utc_ns.max, elapsed_ns.max),
            tai_offset_s: self.tai_offset_s,
            source: self.source?,
        })
    }

    #[inline]
    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let source = u64::from(self.source.map_or(0, UtcSource::number));
        let tai = self
            .tai_offset_s
            .map_or(0, |offset| u64::from(offset.get()));
        let [counter, raw] = [self.by_counter, self.by_raw];
        [
            counter.start,
            counter.valid,
            counter.slopes.min,
            counter.slopes.max,
            self.marker,
            self.utc_ns.min.cast_unsigned(),
            self.utc_ns.max.cast_unsigned(),
            source | tai << 16,
            raw.start,
            raw.valid,
            raw.slopes.min,
            raw.slopes.max,
            self.suspended_ns.cast_unsigned(),
            self.failure.to_word(),
        ]
    }

    #[inline(always)]
    pub(crate) fn from_words(words: &[u64; WORDS]) -> Self {
        let extrapolation = |at: usize| Extrapolation {
            start: words[at],
            valid: words[at + 1],
            slopes: Interval::between(words[at + 2], words[at + 3]),
        };
        let packed = words[7];
        #[expect(clippy::cast_possible_truncation, reason = "the source is a byte")]
        let source = packed as u8;
        #[expect(clippy::cast_possible_truncation, reason = "TAI has two bytes")]
        let tai = (packed >> 16) as u16;
        Self {
            by_counter: extrapolation(0),
            by_raw: extrapolation(COUNTER_WORDS),
            suspended_ns: words[12].cast_signed(),
            marker: words[4],
            utc_ns: Interval::between(words[5].cast_signed(), words[6].cast_signed()),
            tai_offset_s: NonZeroU16::new(tai),
            source: UtcSource::from_number(source),
            failure: UtcUnknown::from_word(words[13]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_from_before_a_suspend_that_is_longer_than_the_error_of_its_length() {
        let claim = Claim::none(UtcUnknown::Expired);
        let bound_ns = i64::try_from(SUSPENDED_BOUND_NS).unwrap();
        assert!(!claim.is_before_suspend(bound_ns));
        assert!(claim.is_before_suspend(bound_ns + 1));
    }

    /// The sources of a claim; `None` if there is no claim.
    const SOURCES: [Option<UtcSource>; 5] = [
        Some(UtcSource::ClockBound),
        Some(UtcSource::Chronyd),
        Some(UtcSource::Ptp4l),
        Some(UtcSource::Kernel),
        None,
    ];

    proptest::proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "slow")]
        fn the_time_since_a_claim_is_rounded_outwards(
            start: u64,
            elapsed in 0..MAX_VALID,
            slopes in proptest::array::uniform2(0..1_u64 << 63),
        ) {
            let slopes = Interval::between(slopes[0], slopes[1]);
            let extrapolation = Extrapolation { start, valid: elapsed + 1, slopes };
            let elapsed_ns = |ticks| extrapolation.elapsed_ns(start.wrapping_add(ticks));
            let whole_ns =
                slopes.map(|slope| u128::from(elapsed) * u128::from(slope) / (1 << SLOPE_BITS));
            proptest::prop_assert_eq!(
                elapsed_ns(elapsed).unwrap().map(|ns| u128::try_from(ns).unwrap()),
                Interval::between(whole_ns.min, whole_ns.max + 1)
            );
            proptest::prop_assert_eq!(elapsed_ns(elapsed + 1), None);
        }

        #[test]
        #[cfg_attr(miri, ignore = "slow")]
        fn a_claim_survives_its_words(
            words in proptest::array::uniform14(proptest::prelude::any::<u64>()),
            source in proptest::sample::select(&SOURCES),
            failure in proptest::sample::select(&[UtcUnknown::NoSource, UtcUnknown::Expired]),
            tai: u16,
        ) {
            let tai_offset_s = NonZeroU16::new(tai);
            let claim = Claim { source, failure, tai_offset_s, ..Claim::from_words(&words) };
            let mut words_back = claim.to_words();
            proptest::prop_assert_eq!(Claim::from_words(&words_back), claim);
            [words_back[7], words_back[13]] = [words[7], words[13]];
            proptest::prop_assert_eq!(words_back, words);
        }
    }

    #[test]
    fn zeroed_memory_is_no_claim() {
        let zeros = Claim::from_words(&[0; WORDS]);
        assert_eq!(zeros.failure, UtcUnknown::NoSource);
        let readings = [zeros.at_ticks(0), zeros.at_raw(0), zeros.at_ticks(7)];
        assert_eq!(readings, [None; 3]);
    }
}
