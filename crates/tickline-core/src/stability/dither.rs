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
//! distance of a sample from the line before it, among at least [`BLOCK_SAMPLES`] samples over
//! [`BLOCK_NS`].

use crate::line::Slope;
use crate::units::{FixedNs, NS_PER_S, fixed_from_ns, signed, ticks_between, unsigned};

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
const SAFETY: i128 = 4;

/// Samples in a block of evidence, at the least...
const BLOCK_SAMPLES: u32 = 32;

/// ...and the time that it spans, ns: twenty of the longest ticks.
const BLOCK_NS: u64 = 20 * LONGEST_TICK_NS;

/// Evidence that is complete, or under way.
#[derive(Debug, Clone, Copy)]
struct Block {
    since_ticks: u64,
    samples: u32,
    /// The largest distance between a sample and the line before it.
    largest: FixedNs,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Dither {
    current: Option<Block>,
    /// The largest distance in the block before.
    previous: Option<FixedNs>,
}

impl Dither {
    pub(super) const fn new() -> Self {
        Self { current: None, previous: None }
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }

    /// A sample at `ticks` was at this distance from the line before it.
    pub(super) fn note(&mut self, ticks: u64, distance: FixedNs, slope: Slope) {
        let block = self.current.get_or_insert(Block { since_ticks: ticks, samples: 0, largest: 0 });
        block.samples = block.samples.saturating_add(1);
        block.largest = block.largest.max(distance);
        let spans_ticks = unsigned(ticks_between(block.since_ticks, ticks).max(0));
        if block.samples >= BLOCK_SAMPLES && spans_ticks >= slope.ticks_in(BLOCK_NS) {
            self.previous = Some(block.largest);
            self.current = None;
        }
    }

    /// Whether the range has been learnt.
    pub(super) const fn is_known(&self) -> bool {
        self.previous.is_some()
    }

    /// How far the reference may move against its intended line between any two moments.
    pub(super) fn range(&self) -> FixedNs {
        let most = fixed_from_ns(signed(MOST_NS));
        let Some(previous) = self.previous else { return most };
        let largest = self.current.map_or(0, |block| block.largest).max(previous);
        largest.saturating_mul(SAFETY).clamp(fixed_from_ns(signed(LEAST_NS)), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ghz() -> Slope {
        Slope::from_hz(1_000_000_000).unwrap()
    }

    fn range_ns(dither: &Dither) -> i64 {
        crate::units::fixed_to_ns_ceil(dither.range())
    }

    /// So many samples at this interval, each at this distance.
    fn feed(dither: &mut Dither, now_ticks: &mut u64, samples: u32, gap_ns: u64, distance_ns: i64) {
        for _ in 0..samples {
            *now_ticks += gap_ns;
            dither.note(*now_ticks, fixed_from_ns(distance_ns), ghz());
        }
    }

    #[test]
    fn the_range_is_the_largest_until_enough_samples_over_enough_time_were_seen() {
        let most_ns = signed(MOST_NS);
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
}
