//! The cost of a pair of readings with nothing between them.
//!
//! It is measured with the code that measures samples: [`Source::start`] and
//! [`Start::end`](crate::Start). It is the median of the means of blocks:
//!
//! - not the median of single pairs, because a counter's resolution may be many ticks (26 on Zen 5
//!   under KVM): a single pair then reads as 26 or 52 ticks, and the truth is in between;
//! - not the smallest, which is too small by up to the resolution, so that every result would be
//!   too large by it;
//! - the median of the blocks, because an interrupt makes one block longer, and never one shorter.

use crate::elapsed::Elapsed;
use crate::number::{as_f64, middle};
use crate::pair::Source;

/// An odd number, so that one of the means is the median. All blocks together take 1 ms, twice a
/// second, between samples.
const BLOCKS: usize = 51;

/// A block takes some 20 us, so a timer interrupt of 1 kHz hits one block in 50. The standard
/// deviation of a mean of 500 pairs is 1/77 of the counter's resolution: that of a pair (the
/// resolution divided by the root of 12), divided by the root of 500.
const PAIRS: u64 = 500;

/// The cost of a pair now, ticks. It is mostly cycles of the core, so it changes with the core's
/// frequency.
pub(crate) fn pair_ticks(source: Source) -> f64 {
    let mut means = [0.0; BLOCKS];
    for mean in &mut means {
        let sum = (0..PAIRS).fold(Elapsed::default(), |sum, _| sum + source.start().end());
        *mean = as_f64(sum.ticks) / as_f64(PAIRS);
    }
    means.sort_unstable_by(f64::total_cmp);
    middle(&means)
}
