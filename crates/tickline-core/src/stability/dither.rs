//! The kernel's dither: the distance of the reference from its intended straight line.
//!
//! Linux keeps time with an integer multiplier, `m` or `m + 1`. At each of its ticks it chooses
//! between the two by the sign of the accumulated error (`timekeeping_adjust`, `ntp_err_mult`,
//! `kernel/time/timekeeping.c`). So between two ticks the rate is off by up to one step of the
//! multiplier. The error never exceeds the error that accumulates in one tick:
//!
//! ```text
//! error:  /\  /\    /\      at most  step of the multiplier * time between two ticks
//!        /  \/  \  /  \/
//! ```
//!
//! A bound may use either of two limits. One is the *rate*, [`DITHER_RATE_PPB`], which follows from
//! the kernel's code, and is narrow for short lines. The other is the *range* of the error, which
//! does not grow. It follows from the time between two ticks: 1 to 10 ms while the kernel is busy
//! (`HZ`), and longer when it is idle. The kernel does not state how long. So [`MAX_TICK_NS`] is
//! assumed, from which [`MAX_RANGE_NS`] follows: the range until it has been learnt. The learnt
//! range is [`RANGE_FACTOR`] times the largest distance of a sample from the line before it, among
//! at least [`BLOCK_SAMPLES`] clear samples over [`BLOCK_NS`].
//!
//! Other work on the machine makes a bracket wider, on one side or on both, and so moves its
//! middle, too. It never makes a bracket narrower. A sample is *clear* if neither the sample nor
//! the range that the earlier samples leave open is much wider than the narrowest sample
//! ([`widest_clear`]). Only clear samples prove that there is little dither. From the distance of
//! any other sample, the largest possible effect of noise is subtracted.
//!
//! A contradiction, a change of `adjtimex`'s frequency or a jump makes the range unknown again.
//! Without the rule of clear samples, noise of 10 ns on either side looked like dither: 19 ns of it
//! in the simulator, and 33 ns on Zen 5 with busy neighbours.
//!
//! If 256 samples do not hold 32 clear ones, noise may last, or the narrowest sample was a lucky
//! one. The distances of these samples then count as they are. So noise can widen the range up to
//! [`MAX_RANGE_NS`], but it can't keep the range unknown, and the intervals short
//! (`control/schedule.rs`).
//!
//! The price is 2 ns on a kernel that does not dither. It is up to 48 ns on a kernel that dithers
//! by 0.24 ppm to either side at ticks of up to 100 ms. In the simulator the bound on such a kernel
//! is 66 ns. Without the allowance it is 32 ns, and 1 to 6 % of the bounds are wrong.
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | Dither only by its rate | 240 ns at the default interval |
//! | A range computed from the processor's frequency | no fact states how long a kernel goes without a tick |
//! | A range that stays unknown until 32 of 256 samples are clear | in 3 of 1,000 simulated runs one sample was half as wide as the others. In the worst the thread came 16 times as often for as long as that sample was kept, up to 300 s |

use crate::line::Slope;
use crate::units::{FixedNs, NS_PER_S, ticks_since};

/// The largest distance of the rate from the intended rate between two ticks, ppb: one step of the
/// multiplier. `clocks_calc_mult_shift` (`kernel/time/clocksource.c`) makes the multiplier as large
/// as a conversion of 600 s allows. For counters of up to 7.3 GHz it is at least 2^21. So a step of
/// the multiplier is 477 ppb or less.
pub(super) const DITHER_RATE_PPB: u64 = 480;

/// The longest time between two ticks of an idle kernel, ns. This is assumed: no fact states a
/// limit.
const MAX_TICK_NS: u64 = 100_000_000;

/// The largest assumed range, ns: the error that accumulates between two ticks.
const MAX_RANGE_NS: u64 = DITHER_RATE_PPB * MAX_TICK_NS / NS_PER_S;

/// The smallest assumed range, ns: one tick of a kernel at 250 Hz.
const MIN_RANGE_NS: u64 = DITHER_RATE_PPB * 4_000_000 / NS_PER_S + 1;

/// The assumed range is this many times the largest distance seen. With 2, bounds were wrong on 2
/// of 9,000 simulated machines, whose samples had happened to be near the intended line.
const RANGE_FACTOR: i64 = 4;

/// The least number of clear samples in a block.
const BLOCK_SAMPLES: u32 = 32;

/// The time that a block spans, ns: twenty of the longest ticks.
const BLOCK_NS: u64 = 20 * MAX_TICK_NS;

/// If fewer than [`BLOCK_SAMPLES`] of this many samples are clear, those that are not clear count,
/// too.
const MAX_BLOCK_SAMPLES: u32 = 8 * BLOCK_SAMPLES;

/// The width up to which a sample is clear: a quarter more than the narrowest, and 3 ns.
const fn widest_clear(narrowest: FixedNs) -> FixedNs {
    narrowest
        .saturating_add(narrowest.half().half())
        .saturating_add(FixedNs::from_ns(3))
}

/// The departure of a sample from the line before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    /// The tick of the sample.
    pub(super) ticks: u64,
    /// The distance from the sample's middle to the line before it.
    pub(super) distance: FixedNs,
    /// The width of the sample.
    pub(super) width: FixedNs,
    /// The width of the range that the earlier samples allow at `ticks`.
    pub(super) uncertainty: FixedNs,
    /// The width of the narrowest earlier sample.
    pub(super) narrowest_before: FixedNs,
}

impl Departure {
    fn is_clear(&self, narrowest: FixedNs) -> bool {
        self.width.max(self.uncertainty) <= widest_clear(narrowest)
    }

    /// The distance, less the largest possible effect of noise:
    /// `((width - narrowest) + (uncertainty - narrowest) + 1 ns of rounding) / 2`.
    fn without_noise(&self, narrowest: FixedNs) -> FixedNs {
        let wider = self.width.saturating_sub(narrowest).max(FixedNs::ZERO);
        let uncertainty = if self.is_clear(narrowest) {
            FixedNs::ZERO
        } else {
            self.uncertainty.saturating_sub(narrowest)
        };
        let noise = wider
            .saturating_add(uncertainty.max(FixedNs::ZERO))
            .saturating_add(FixedNs::from_ns(1))
            .half();
        self.distance.saturating_sub(noise).max(FixedNs::ZERO)
    }
}

/// Samples in a row, from which the range is learnt.
#[derive(Debug, Clone, Copy)]
struct Block {
    since_ticks: u64,
    samples: u32,
    clear: u32,
    /// The largest distance of a sample from the line before it, without noise.
    largest: FixedNs,
    /// The same with noise.
    largest_with_noise: FixedNs,
}

/// Learns by how much the kernel dithers its clock, from the distances of samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dither {
    current: Option<Block>,
    /// The largest distance in the last complete block.
    previous: Option<FixedNs>,
    /// The width of the narrowest sample.
    narrowest: Option<FixedNs>,
}

impl Dither {
    pub(super) const fn new() -> Self {
        Self {
            current: None,
            previous: None,
            narrowest: None,
        }
    }

    /// Makes the range unknown again.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, departure: &Departure, slope: Slope) {
        let before = self.narrowest.unwrap_or(departure.narrowest_before);
        let narrowest = before.min(departure.width);
        self.narrowest = Some(narrowest);
        if before > widest_clear(narrowest) {
            // The earlier samples only looked clear.
            self.current = None;
            self.previous = None;
        }
        let block = self.current.get_or_insert(Block {
            since_ticks: departure.ticks,
            samples: 0,
            clear: 0,
            largest: FixedNs::ZERO,
            largest_with_noise: FixedNs::ZERO,
        });
        block.samples = block.samples.saturating_add(1);
        block.clear = block
            .clear
            .saturating_add(u32::from(departure.is_clear(narrowest)));
        block.largest = block.largest.max(departure.without_noise(narrowest));
        block.largest_with_noise = block.largest_with_noise.max(departure.distance);
        let span_ticks = ticks_since(block.since_ticks, departure.ticks);
        if span_ticks < slope.ticks_in_ceil(BLOCK_NS) {
            return;
        }
        if block.clear >= BLOCK_SAMPLES {
            self.previous = Some(block.largest);
            self.current = None;
        } else if block.samples >= MAX_BLOCK_SAMPLES {
            self.previous = Some(block.largest_with_noise);
            self.current = None;
            // The next block judges by the samples that the history still has.
            self.narrowest = None;
        }
    }

    /// Whether the range has been learnt.
    pub(crate) const fn is_known(&self) -> bool {
        self.previous.is_some()
    }

    /// The largest movement of the reference against its intended line between any two moments.
    pub(super) fn range(&self) -> FixedNs {
        let max = FixedNs::from_ns(MAX_RANGE_NS.cast_signed());
        let Some(previous) = self.previous else {
            return max;
        };
        let largest = self
            .current
            .map_or(FixedNs::ZERO, |block| block.largest)
            .max(previous);
        largest
            .saturating_mul(RANGE_FACTOR)
            .clamp(FixedNs::from_ns(MIN_RANGE_NS.cast_signed()), max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How well a sample shows its distance from the line before it, ns.
    #[derive(Clone, Copy)]
    struct SampleWidths {
        width_ns: i64,
        /// The width of the range that the earlier samples leave open.
        uncertainty_ns: i64,
    }

    const CLEAR: SampleWidths = SampleWidths {
        width_ns: 20,
        uncertainty_ns: 20,
    };
    const WIDE: SampleWidths = SampleWidths {
        width_ns: 40,
        uncertainty_ns: 40,
    };

    /// A dither of which equal samples come in equal intervals.
    struct Learning {
        dither: Dither,
        ticks: u64,
        every_ms: u64,
    }

    impl Learning {
        fn every_ms(every_ms: u64) -> Self {
            Self {
                dither: Dither::new(),
                ticks: 1 << 40,
                every_ms,
            }
        }

        /// Adds `count` samples, each half a nanosecond more than `distance_ns` from the line
        /// before it.
        fn add(&mut self, count: u32, widths: SampleWidths, distance_ns: i64) {
            for _ in 0..count {
                self.ticks += self.every_ms * 1_000_000;
                let departure = Departure {
                    ticks: self.ticks,
                    distance: FixedNs::from_ns(distance_ns)
                        .saturating_add(FixedNs::from_ns(1).half()),
                    width: FixedNs::from_ns(widths.width_ns),
                    uncertainty: FixedNs::from_ns(widths.uncertainty_ns),
                    narrowest_before: FixedNs::from_ns(widths.width_ns),
                };
                self.dither
                    .add(&departure, Slope::from_hz(1_000_000_000).unwrap());
            }
        }

        /// The learnt range, ns; `None` while it is unknown, and the largest one is assumed.
        fn range_ns(&self) -> Option<i64> {
            let range_ns = self.dither.range().ceil_ns();
            if self.dither.is_known() {
                return Some(range_ns);
            }
            assert_eq!(range_ns, MAX_RANGE_NS.cast_signed());
            None
        }
    }

    #[test]
    fn the_range_is_unknown_before_32_samples() {
        let mut learning = Learning::every_ms(100);
        learning.add(31, CLEAR, 1);
        assert_eq!(learning.range_ns(), None);
        learning.add(1, CLEAR, 1);
        assert_eq!(learning.range_ns(), Some(4));
    }

    #[test]
    fn the_range_is_unknown_before_two_seconds() {
        let mut learning = Learning::every_ms(10);
        learning.add(199, CLEAR, 1);
        assert_eq!(learning.range_ns(), None);
        learning.add(2, CLEAR, 1);
        assert_eq!(learning.range_ns(), Some(4));
    }

    #[test]
    fn the_range_is_four_times_the_largest_distance() {
        let mut learning = Learning::every_ms(100);
        learning.add(31, CLEAR, 0);
        learning.add(1, CLEAR, 5);
        assert_eq!(learning.range_ns(), Some(20));
        learning.add(1, CLEAR, 12);
        assert_eq!(learning.range_ns(), Some(48));
    }

    #[test]
    fn the_range_is_2_ns_at_the_least() {
        let mut learning = Learning::every_ms(100);
        learning.add(32, CLEAR, 0);
        assert_eq!(learning.range_ns(), Some(2));
    }

    #[test]
    fn the_range_is_48_ns_at_the_most() {
        let mut learning = Learning::every_ms(100);
        learning.add(31, CLEAR, 0);
        learning.add(1, CLEAR, 13);
        assert_eq!(learning.range_ns(), Some(48));
    }

    #[test]
    fn a_larger_distance_counts_at_once_and_until_a_whole_block_shows_only_smaller_ones() {
        let mut learning = Learning::every_ms(100);
        learning.add(32, CLEAR, 1);
        learning.add(1, CLEAR, 6);
        assert_eq!(learning.range_ns(), Some(24));
        learning.add(62, CLEAR, 1);
        assert_eq!(learning.range_ns(), Some(24));
        learning.add(1, CLEAR, 1);
        assert_eq!(learning.range_ns(), Some(4));
    }

    #[test]
    fn noise_is_subtracted_unless_of_256_samples_none_was_clear() {
        let mut learning = Learning::every_ms(100);
        learning.add(32, CLEAR, 1);
        let noise_in_the_sample = SampleWidths {
            width_ns: 40,
            ..CLEAR
        };
        learning.add(60, noise_in_the_sample, 3);
        assert_eq!(learning.range_ns(), Some(4));
        let noise_before_it = SampleWidths {
            uncertainty_ns: 40,
            ..CLEAR
        };
        learning.add(60, noise_before_it, 4);
        assert_eq!(learning.range_ns(), Some(4));
        learning.add(135, WIDE, 5);
        assert_eq!(learning.range_ns(), Some(4));
        learning.add(1, WIDE, 5);
        assert_eq!(learning.range_ns(), Some(22));
    }

    #[test]
    fn noise_may_hide_no_more_than_a_part_of_a_distance() {
        let mut learning = Learning::every_ms(100);
        learning.add(32, CLEAR, 1);
        learning.add(60, WIDE, 20);
        assert_eq!(learning.range_ns(), Some(4));
        learning.add(1, WIDE, 25);
        assert_eq!(learning.range_ns(), Some(20));
    }

    #[test]
    fn even_256_wide_samples_are_too_few_within_two_seconds() {
        let mut learning = Learning::every_ms(1);
        learning.add(1, CLEAR, 1);
        learning.add(1_999, WIDE, 2);
        assert_eq!(learning.range_ns(), None);
        learning.add(1, WIDE, 2);
        assert_eq!(learning.range_ns(), Some(10));
    }

    #[test]
    fn wide_samples_look_clear_until_a_narrow_one_comes() {
        let mut learning = Learning::every_ms(100);
        learning.add(32, WIDE, 10);
        assert_eq!(learning.range_ns(), Some(40));
        learning.add(31, CLEAR, 1);
        assert_eq!(learning.range_ns(), None);
        learning.add(1, CLEAR, 1);
        assert_eq!(learning.range_ns(), Some(4));
    }

    #[test]
    fn a_range_that_is_forgotten_is_unknown() {
        let mut learning = Learning::every_ms(100);
        learning.add(32, CLEAR, 1);
        learning.dither.forget();
        assert_eq!(learning.range_ns(), None);
    }
}
