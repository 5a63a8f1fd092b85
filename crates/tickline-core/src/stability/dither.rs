//! The kernel's dither: how far the reference may be from the straight line that it keeps to.
//!
//! Linux keeps time with an integer multiplier, `m` or `m + 1`, and chooses between the two at
//! each of its ticks by the sign of the error that has gathered (`timekeeping_adjust`,
//! `ntp_err_mult`, `kernel/time/timekeeping.c`). So between two ticks the rate is off by up to
//! one step of the multiplier, and the error never grows beyond what one tick gathers:
//!
//! ```text
//! error:  /\  /\    /\      at most  step of the multiplier * time between two ticks
//!        /  \/  \  /  \/
//! ```
//!
//! Both limits are proven, and a bound may rest on either: on the *rate*, [`RATE_PPB`], which is
//! narrow for short lines, or on the *range* of the error, which does not grow. It is not known
//! how long the kernel goes without a tick: 1 to 10 ms while it is busy, 100 ms when idle. So the
//! range is [`MOST_NS`] until it has been learnt. The learnt range is four times the largest
//! distance of a sample from the line before it, among at least [`BLOCK_SAMPLES`] clear samples
//! over [`BLOCK_NS`].
//!
//! Other work on the machine makes a bracket wider, on one side or on both, and so moves its
//! middle, too. It never makes a bracket narrower. A sample is *clear* if neither it nor what was
//! known before it is wider than the narrowest sample. Only clear samples prove that there is
//! little dither. From the distance of any other, the most that noise can do is taken off.
//!
//! With twice instead of four times, 2 of 9,000 simulated machines broke a bound. If 256 samples
//! do not hold 32 clear ones, the range is unknown again. A contradiction, a change of
//! `adjtimex`'s frequency or a jump makes it unknown as well. Without the rule of clear samples,
//! noise of 10 ns on either side was taken for 19 ns of dither in the simulator, and for 33 ns on
//! Zen 5 with busy neighbours.
//!
//! The price: 2 ns on a kernel that does not dither; up to 48 ns on one that dithers by 0.24 ppm
//! to either side at ticks of up to 100 ms. In the simulator the bound there is 66 ns. Without
//! the allowance it is 32 ns, and 1 to 6 % of the bounds are wrong.
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | Dither by its rate alone | 240 ns at the default interval |
//! | A range of dither by the processor's frequency | no fact says how long a kernel goes without a tick |

use crate::line::Slope;
use crate::units::{FixedNs, NS_PER_S, ticks_between};

/// How far the rate may be from the intended one between two ticks, ppb: one step of the
/// multiplier. `clocks_calc_mult_shift` (`kernel/time/clocksource.c`) makes the multiplier as
/// large as a conversion of 600 s allows: 2^21 at the least for counters of up to 7.3 GHz, so a
/// step of it is 477 ppb at most.
pub(super) const RATE_PPB: u64 = 480;

/// The longest time between two ticks that is allowed for, ns: 100 ms of idle were seen.
const LONGEST_TICK_NS: u64 = 100_000_000;

/// The largest range that is allowed for, ns: the error that gathers between two ticks.
const MOST_NS: u64 = RATE_PPB * LONGEST_TICK_NS / NS_PER_S;

/// The smallest range that is ever assumed, ns: one tick of a kernel at 250 Hz.
const LEAST_NS: u64 = RATE_PPB * 4_000_000 / NS_PER_S + 1;

/// The range is taken to be so many times the largest distance that was seen. With 2, bounds were
/// wrong in the simulator: the samples had happened to fall near the intended line.
const SAFETY: i64 = 4;

/// Samples in a block of evidence, at the least...
const BLOCK_SAMPLES: u32 = 32;

/// ...and the time that it spans, ns: twenty of the longest ticks.
const BLOCK_NS: u64 = 20 * LONGEST_TICK_NS;

/// If fewer than [`BLOCK_SAMPLES`] of so many samples are clear, what was learnt is void.
const MOST_SAMPLES: u32 = 8 * BLOCK_SAMPLES;

/// The width up to which a sample is clear: a quarter more than the narrowest, and 3 ns.
const fn widest_clear(narrowest: FixedNs) -> FixedNs {
    narrowest.plus(narrowest.half().half()).plus(FixedNs::from_ns(3))
}

/// A sample, and what was known before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    /// When it was taken.
    pub(super) ticks: u64,
    /// From its middle to the line before it.
    pub(super) distance: FixedNs,
    /// How wide it is.
    pub(super) width: FixedNs,
    /// How wide the range is that the samples before it leave open at `ticks`.
    pub(super) open: FixedNs,
    /// The width of the narrowest sample before it.
    pub(super) narrowest_before: FixedNs,
}

impl Departure {
    fn is_clear(&self, narrowest: FixedNs) -> bool {
        self.width.max(self.open) <= widest_clear(narrowest)
    }

    /// The distance, less the most that noise can do: half of what the sample is wider, half of
    /// what was open, and half of the reference's rounding.
    fn without_noise(&self, narrowest: FixedNs) -> FixedNs {
        let wider = self.width.minus(narrowest).max(FixedNs::ZERO);
        let open = if self.is_clear(narrowest) { FixedNs::ZERO } else { self.open.minus(narrowest) };
        let noise = wider.plus(open.max(FixedNs::ZERO)).plus(FixedNs::from_ns(1)).half();
        self.distance.minus(noise).max(FixedNs::ZERO)
    }
}

/// Evidence that is complete, or under way.
#[derive(Debug, Clone, Copy)]
struct Block {
    since_ticks: u64,
    samples: u32,
    clear: u32,
    /// The largest distance between a sample and the line before it, without noise.
    largest: FixedNs,
}

/// See the [module](self).
#[derive(Debug, Clone, Copy)]
pub(super) struct Dither {
    current: Option<Block>,
    /// The largest distance in the block before it.
    previous: Option<FixedNs>,
    /// The width of the narrowest sample.
    narrowest: Option<FixedNs>,
}

impl Dither {
    pub(super) const fn new() -> Self {
        Self { current: None, previous: None, narrowest: None }
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }

    /// Takes note of a sample.
    pub(super) fn note(&mut self, departure: &Departure, slope: Slope) {
        let before = self.narrowest.unwrap_or(departure.narrowest_before);
        let narrowest = before.min(departure.width);
        self.narrowest = Some(narrowest);
        if before > widest_clear(narrowest) {
            // What was taken for clear was not.
            (self.current, self.previous) = (None, None);
        }
        let block = self.current.get_or_insert(Block {
            since_ticks: departure.ticks,
            samples: 0,
            clear: 0,
            largest: FixedNs::ZERO,
        });
        block.samples = block.samples.saturating_add(1);
        block.clear = block.clear.saturating_add(u32::from(departure.is_clear(narrowest)));
        block.largest = block.largest.max(departure.without_noise(narrowest));
        let spans_ticks = ticks_between(block.since_ticks, departure.ticks).max(0).cast_unsigned();
        if block.clear >= BLOCK_SAMPLES && spans_ticks >= slope.ticks_in(BLOCK_NS) {
            self.previous = Some(block.largest);
            self.current = None;
        } else if block.samples >= MOST_SAMPLES && block.clear < BLOCK_SAMPLES {
            self.forget();
        }
    }

    /// Whether the range has been learnt.
    pub(super) const fn is_known(&self) -> bool {
        self.previous.is_some()
    }

    /// How far the reference may move against its intended line between any two moments.
    pub(super) fn range(&self) -> FixedNs {
        let most = FixedNs::from_ns(MOST_NS.cast_signed());
        let Some(previous) = self.previous else { return most };
        let largest = self.current.map_or(FixedNs::ZERO, |block| block.largest).max(previous);
        largest.times(SAFETY).clamp(FixedNs::from_ns(LEAST_NS.cast_signed()), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ghz() -> Slope {
        Slope::from_hz(1_000_000_000).unwrap()
    }

    fn range_ns(dither: &Dither) -> i64 {
        dither.range().ceil_ns()
    }

    /// So many samples at this interval, each at this distance and so wide, after ones that left so
    /// much open.
    fn feed_wide(
        dither: &mut Dither,
        now_ticks: &mut u64,
        samples: u32,
        gap_ns: u64,
        distance_ns: i64,
        widths_ns: (i64, i64),
    ) {
        for _ in 0..samples {
            *now_ticks += gap_ns;
            let rounding = FixedNs::from_ns(1).half();
            dither.note(
                &Departure {
                    ticks: *now_ticks,
                    distance: FixedNs::from_ns(distance_ns).plus(rounding),
                    width: FixedNs::from_ns(widths_ns.0),
                    open: FixedNs::from_ns(widths_ns.1),
                    narrowest_before: FixedNs::from_ns(widths_ns.0),
                },
                ghz(),
            );
        }
    }

    /// Clear ones.
    fn feed(dither: &mut Dither, now_ticks: &mut u64, samples: u32, gap_ns: u64, distance_ns: i64) {
        feed_wide(dither, now_ticks, samples, gap_ns, distance_ns, (20, 20));
    }

    #[test]
    fn the_range_is_the_largest_until_enough_samples_over_enough_time_were_seen() {
        let most_ns = MOST_NS.cast_signed();
        for (samples, gap_ns, is_known) in [
            (32, 100_000_000, true),
            (31, 100_000_000, false),
            (199, 10_000_000, false),
            (201, 10_000_000, true),
        ] {
            let (mut dither, mut now_ticks) = (Dither::new(), 1 << 40);
            feed(&mut dither, &mut now_ticks, samples, gap_ns, 1);
            assert_eq!(dither.is_known(), is_known, "{samples} samples, one in {gap_ns} ns");
            assert_eq!(range_ns(&dither) < most_ns, is_known);
        }
    }

    #[test]
    fn the_range_is_four_times_the_largest_distance_within_its_limits() {
        for (distance_ns, expected_ns) in [(0, 2), (1, 4), (5, 20), (12, 48), (13, 48)] {
            let (mut dither, mut now_ticks) = (Dither::new(), 1 << 40);
            feed(&mut dither, &mut now_ticks, 31, 100_000_000, 0);
            feed(&mut dither, &mut now_ticks, 1, 100_000_000, distance_ns);
            assert_eq!(range_ns(&dither), expected_ns, "{distance_ns} ns");
        }
    }

    /// A larger distance counts at once, and until a whole block has not shown one like it.
    #[test]
    fn a_larger_distance_counts_at_once_and_for_a_block_more() {
        let (mut dither, mut now_ticks) = (Dither::new(), 1 << 40);
        feed(&mut dither, &mut now_ticks, 32, 100_000_000, 1);
        feed(&mut dither, &mut now_ticks, 1, 100_000_000, 6);
        assert_eq!(range_ns(&dither), 24);
        feed(&mut dither, &mut now_ticks, 31 + 31, 100_000_000, 1);
        assert_eq!(range_ns(&dither), 24);
        feed(&mut dither, &mut now_ticks, 1, 100_000_000, 1);
        assert_eq!(range_ns(&dither), 4);
        dither.forget();
        assert!(!dither.is_known());
    }

    #[test]
    fn noise_is_taken_off_and_is_no_evidence() {
        let (mut dither, mut now_ticks) = (Dither::new(), 1 << 40);
        feed(&mut dither, &mut now_ticks, 32, 100_000_000, 1);
        for (widths_ns, distance_ns, expected_ns) in
            [((40, 20), 10, 4), ((20, 40), 10, 4), ((40, 40), 20, 4), ((40, 40), 25, 20)]
        {
            feed_wide(&mut dither, &mut now_ticks, 60, 100_000_000, distance_ns, widths_ns);
            assert_eq!(range_ns(&dither), expected_ns, "{widths_ns:?}, {distance_ns} ns");
        }
        feed_wide(&mut dither, &mut now_ticks, 15, 100_000_000, 0, (40, 40));
        assert!(dither.is_known());
        // The 256th, and none was clear.
        feed_wide(&mut dither, &mut now_ticks, 1, 100_000_000, 0, (40, 40));
        assert!(!dither.is_known());
    }

    /// Wide ones look clear until a narrow one comes.
    #[test]
    fn a_narrower_sample_begins_the_evidence_anew() {
        let (mut dither, mut now_ticks) = (Dither::new(), 1 << 40);
        feed_wide(&mut dither, &mut now_ticks, 32, 100_000_000, 10, (40, 40));
        assert!(dither.is_known());
        feed(&mut dither, &mut now_ticks, 31, 100_000_000, 1);
        assert!(!dither.is_known());
        feed(&mut dither, &mut now_ticks, 1, 100_000_000, 1);
        assert_eq!(range_ns(&dither), 4);
    }
}
