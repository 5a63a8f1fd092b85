//! Samples: a read of the reference between two reads of the counter.
//!
//! ```text
//! counter:    before ........ after, after + g
//! reference:         [r, r+q)
//! ```
//!
//! Let `L` be the true line, `g` the counter's resolution, and `q` the reference's resolution. A
//! bracket then proves `L(before) < r + q` and `L(after + g) > r`: one point above the line, one
//! below. Nothing is averaged.
//!
//! # Bursts
//!
//! - **A burst takes 32 brackets at least**, and folds them: with a known slope, it keeps the
//!   lowest upper point and the highest lower point. A counter that moves by 10 ns at a time makes
//!   a single bracket uncertain by 10 ns. Many brackets, in different phases, remove this
//!   uncertainty.
//! - **If a bracket contradicts those before it, only the later brackets count**, and at least 8
//!   follow: the reference or the counter has jumped, and a thread that was stopped in the last
//!   bracket would leave a sample as wide as the stop.
//! - **A burst goes on until its sample is as narrow as the narrowest one kept**, up to 128
//!   brackets or 10 us. On Zen 5 few brackets show the short side before or after the kernel's read
//!   (shares: `PLATFORM.md`). So 32 brackets miss the short side after the read in every seventh
//!   burst (0.94^32), and the middle of such a sample is off by 5 ns.
//! - **Each eighth burst takes all its brackets**, however narrow its sample. All samples kept may
//!   have missed the short side, and the narrowest of them then asks for no more brackets.
//! - **A bracket ends half a read before and after the kernel's read.** Where the kernel keeps time
//!   with the TSC, its vDSO reads the TSC between the bracket's two reads, and reads take time. The
//!   quickest pair of successive reads in the burst shows how long a read takes. Twice the
//!   counter's resolution is subtracted from it, because that much of it may be rounding. Half of
//!   the rest is subtracted from either side of the bracket. The other half allows for the unknown
//!   moment within a read at which the CPU takes the value, and for a change of the CPU's
//!   frequency. On an Intel Xeon this narrows brackets: a read takes about 24 ticks, and the
//!   resolution is 2 (`PLATFORM.md`). On Zen 5 it narrows nothing: an ordered read takes less than
//!   twice the resolution, 20 ns (`benches/README.md`).
//! - **The counter's resolution does not widen a bracket where the kernel keeps time with the same
//!   counter.** The kernel's value `r` lies between the two values read, so `L(before) < r + 1` and
//!   `L(after) >= r` hold without it. With it, each sample would be wider by the resolution, and
//!   its middle, to which the line is steered, lower by half of that: 10 ns and 5 ns on Zen 5.
//! - **With any other reference the resolution counts.** A read returns the tick at which the
//!   counter last moved; the reference has moved on since. So the resolution raises the upper
//!   bound.
//! - **The resolution is the largest number of ticks of which nearly all differences of successive
//!   reads are multiples** (`counter/resolution.rs`). The smallest difference would be wrong: it is 1 tick on
//!   Zen 5 under KVM, whose counter moves by 26 ticks, or by 25 and 1. So would the median: on the
//!   Intel Xeon it is the cost of a read, 24 ticks, but the counter moves by 2.
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | A plain read of the counter before the kernel's, or `rdtscp` after it | sound, but no gain: brackets are as wide as with `lfence; rdtsc` (`PLATFORM.md`) |

use crate::counter::Counter;
use crate::line::Slope;
use crate::reference::{Reference, ReferenceKind, Resolutions};
use crate::units::{FixedNs, ticks_between, ticks_since};

/// A tick, and the time at this tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Point {
    /// The counter, ticks.
    pub(crate) ticks: u64,
    /// Nanoseconds.
    pub(crate) ns: i64,
}

impl Point {
    /// The point's time, carried to `ticks` at `slope`.
    #[inline(never)]
    pub(crate) fn carried(&self, ticks: u64, slope: Slope) -> FixedNs {
        FixedNs::from_ns(self.ns).saturating_add(slope.over(ticks_between(self.ticks, ticks)))
    }
}

/// One point above the true line and one below it, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sample {
    /// A point above the line.
    pub(crate) upper: Point,
    /// A point below the line.
    pub(crate) lower: Point,
}

impl Sample {
    /// The sample that a bracket proves: `reference_ns` was read between two reads of the counter.
    /// `None` if the counter ran backwards in between.
    pub(crate) fn from_bracket(
        before_ticks: u64,
        reference_ns: i64,
        after_ticks: u64,
        resolutions: Resolutions,
    ) -> Option<Self> {
        let upper = Point {
            ticks: before_ticks,
            ns: reference_ns.saturating_add(resolutions.reference_ns),
        };
        let lower = Point {
            ticks: after_ticks.wrapping_add(resolutions.unseen_ticks()),
            ns: reference_ns,
        };
        (ticks_between(before_ticks, after_ticks) >= 0).then_some(Self { upper, lower })
    }

    /// The distance of the two points, measured along `slope`.
    #[inline(never)]
    pub(crate) fn width(&self, slope: Slope) -> FixedNs {
        self.upper
            .carried(self.lower.ticks, slope)
            .saturating_sub(FixedNs::from_ns(self.lower.ns))
    }

    /// The middle between the two points, at the lower point's tick.
    #[inline(never)]
    pub(crate) fn middle(&self, slope: Slope) -> FixedNs {
        FixedNs::from_ns(self.lower.ns).saturating_add(self.width(slope).half())
    }
}

/// The number of brackets in a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BurstSize {
    /// The least number of brackets.
    pub(crate) min_brackets: u32,
    /// The wanted width of the sample along the slope. The burst goes on while the sample is wider.
    pub(crate) wanted_width: FixedNs,
    /// The largest number of brackets, apart from those after a contradiction.
    pub(crate) max_brackets: u32,
    /// After this many ticks the burst ends, if it has had the least number of brackets.
    pub(crate) max_ticks: u64,
}

impl BurstSize {
    /// A burst of this many brackets, for a sample of any width.
    pub(crate) const fn fixed(brackets: u32) -> Self {
        Self {
            min_brackets: brackets,
            wanted_width: FixedNs::MAX,
            max_brackets: brackets,
            max_ticks: 0,
        }
    }
}

/// Takes brackets in a row and returns the best sample. With a known `slope`, this is the lowest
/// upper point and the highest lower point of all brackets since the last contradiction, after
/// which a quarter of the least number follow. Without a slope, it is the narrowest bracket. `None`
/// if the counter ran backwards in all of them.
pub(crate) fn burst(
    counter: &impl Counter,
    reference: &impl Reference,
    resolutions: Resolutions,
    size: BurstSize,
    slope: Option<Slope>,
) -> Option<Sample> {
    let mut best = None;
    let mut start_ticks = None;
    let mut read_time = ReadTime::new(resolutions);
    let mut needed = size.min_brackets;
    let after_contradiction = needed.div_ceil(4);
    for bracket in 1..=size.max_brackets.saturating_add(after_contradiction) {
        let before_ticks = read_time.read_ordered(counter);
        let reference_ns = reference.monotonic_ns();
        let after_ticks = counter.now_ordered();
        let start_ticks = *start_ticks.get_or_insert(before_ticks);
        let sample = Sample::from_bracket(before_ticks, reference_ns, after_ticks, resolutions);
        let Some(sample) = sample else { continue };
        let best = best.get_or_insert(sample);
        let agrees = tighten(best, &sample, slope);
        needed = if agrees {
            needed.saturating_sub(1)
        } else {
            needed.max(after_contradiction)
        };
        let is_long =
            bracket >= size.max_brackets || after_ticks.wrapping_sub(start_ticks) > size.max_ticks;
        if needed == 0 && (is_long || read_time.is_enough(best, slope, size.wanted_width)) {
            break;
        }
    }
    if read_time.may_narrow() {
        read_time.read_ordered(counter); // measures the last pair of reads
    }
    best.map(|sample| read_time.narrowed(sample, slope))
}

/// The shortest time that an ordered read of the counter takes: the shortest time between two
/// successive reads.
///
/// Each bracket of a burst begins with such a pair of reads, and the burst ends with one, so the
/// measurement has the processor's present frequency. A counter that stands still in between makes
/// a read look longer by the counter's resolution, and the reference's read shorter by as much:
/// hence twice the resolution is subtracted. The [module](self) says why half of the rest counts.
#[derive(Debug, Clone, Copy)]
struct ReadTime {
    /// The shortest time between two successive reads, ticks.
    min_ticks: u64,
    /// Twice the counter's resolution, ticks; the largest number unless the reference reads as this
    /// code does ([`ReferenceKind::SameRead`]), so that nothing is left to subtract.
    hidden_ticks: u64,
}

impl ReadTime {
    const fn new(resolutions: Resolutions) -> Self {
        let hidden_ticks = match resolutions.reference_kind {
            ReferenceKind::SameRead => resolutions.counter_ticks.saturating_mul(2),
            ReferenceKind::Independent | ReferenceKind::SameCounter => u64::MAX,
        };
        Self {
            min_ticks: u64::MAX,
            hidden_ticks,
        }
    }

    /// Whether brackets may be narrowed by the time of a read.
    fn may_narrow(&self) -> bool {
        self.min_ticks > self.hidden_ticks
    }

    /// Reads the counter in order, ticks. If the time of a read may narrow brackets, measures it by
    /// another read just before.
    fn read_ordered(&mut self, counter: &impl Counter) -> u64 {
        if !self.may_narrow() {
            return counter.now_ordered();
        }
        let first_ticks = counter.now_ordered();
        let second_ticks = counter.now_ordered();
        self.min_ticks = self.min_ticks.min(ticks_since(first_ticks, second_ticks));
        second_ticks
    }

    /// Whether `sample` is as narrow as `wanted`. Without a slope its width is unknown, and any
    /// sample is enough.
    fn is_enough(&self, sample: &Sample, slope: Option<Slope>, wanted: FixedNs) -> bool {
        slope.is_none_or(|exact| self.narrowed(*sample, slope).width(exact) <= wanted)
    }

    /// `sample` with both points moved towards each other by half a read. Unchanged if they would
    /// cross, because then the reference or the counter has jumped.
    fn narrowed(self, sample: Sample, slope: Option<Slope>) -> Sample {
        let half_ticks = self.min_ticks.saturating_sub(self.hidden_ticks) >> 1;
        let mut moved = sample;
        moved.upper.ticks = moved.upper.ticks.wrapping_add(half_ticks);
        moved.lower.ticks = moved.lower.ticks.wrapping_sub(half_ticks);
        let crossed = match slope {
            Some(slope) => moved.width(slope) < FixedNs::ZERO,
            None => ticks_between(moved.upper.ticks, moved.lower.ticks) < 0,
        };
        if crossed { sample } else { moved }
    }
}

/// Narrows `best` by `sample`. If the two contradict each other, the reference or the counter has
/// jumped between two brackets, and only the last bracket shows the present: `best` becomes
/// `sample`, and the result is false.
fn tighten(best: &mut Sample, sample: &Sample, slope: Option<Slope>) -> bool {
    let Some(slope) = slope else {
        let ticks = |sample: &Sample| ticks_between(sample.upper.ticks, sample.lower.ticks);
        if ticks(sample) < ticks(best) {
            *best = *sample;
        }
        return true;
    };
    let at = sample.lower.ticks;
    if sample.upper.carried(at, slope) < best.upper.carried(at, slope) {
        best.upper = sample.upper;
    }
    if sample.lower.carried(at, slope) > best.lower.carried(at, slope) {
        best.lower = sample.lower;
    }
    let agrees = best.width(slope) >= FixedNs::ZERO;
    if !agrees {
        *best = *sample;
    }
    agrees
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::testing::{FnClock, RESOLUTIONS};

    #[test]
    fn a_burst_keeps_the_best_of_each_side() {
        let slope = Slope::from_hz(1_000_000_000).unwrap();
        let bracket = |before_ticks, reference_ns, after_ticks| {
            Sample::from_bracket(before_ticks, reference_ns, after_ticks, RESOLUTIONS).unwrap()
        };
        // One bracket is wide before the reference's read, the other after it. Without a slope the
        // narrowest bracket is kept.
        let first = bracket(1_000, 1_100, 1_110);
        let second = bracket(2_000, 2_010, 2_090);
        let both = Sample {
            lower: first.lower,
            upper: second.upper,
        };
        for (slope, expected) in [(Some(slope), both), (None, second)] {
            let mut best = first;
            assert!(tighten(&mut best, &second, slope));
            assert_eq!(best, expected);
        }
    }

    /// Half a read from either side of a sample of 40 ticks.
    #[test]
    fn points_may_meet_but_not_cross() {
        let sample = Sample {
            upper: Point {
                ticks: 1_000,
                ns: 0,
            },
            lower: Point {
                ticks: 1_040,
                ns: 0,
            },
        };
        let narrowed = |min_ticks, slope| {
            let hidden_ticks = 0;
            ReadTime {
                min_ticks,
                hidden_ticks,
            }
            .narrowed(sample, slope)
        };
        for slope in [None, Slope::from_hz(1_000_000_000)] {
            let met = narrowed(40, slope);
            assert_eq!([met.upper.ticks, met.lower.ticks], [1_020; 2], "{slope:?}");
            assert_eq!(narrowed(42, slope), sample, "{slope:?}");
        }
    }

    /// A counter of 1 GHz that moves by `resolution_ticks` at a time, and a reference that reads the same
    /// counter.
    struct Kernel {
        ticks: Cell<u64>,
        resolution_ticks: u64,
        /// The time of an ordered read, here and in the reference, ticks.
        read_ticks: [u64; 2],
        reads: Cell<u32>,
    }

    impl Kernel {
        fn new(resolution_ticks: u64, read_ticks: [u64; 2]) -> Self {
            Self {
                ticks: Cell::new(1 << 20),
                resolution_ticks,
                read_ticks,
                reads: Cell::new(0),
            }
        }

        fn read(&self, takes_ticks: u64) -> u64 {
            self.ticks.set(self.ticks.get() + takes_ticks);
            self.ticks.get() / self.resolution_ticks * self.resolution_ticks
        }

        /// A burst's sample where the counter's known resolution is 2 ticks.
        fn sample(&self, reference_kind: ReferenceKind, size: BurstSize) -> Sample {
            self.sample_of(2, reference_kind, size)
        }

        /// A burst's sample, at the true slope of 1 GHz.
        fn sample_of(
            &self,
            counter_ticks: u64,
            reference_kind: ReferenceKind,
            size: BurstSize,
        ) -> Sample {
            let resolutions = Resolutions {
                counter_ticks,
                reference_ns: 1,
                reference_kind,
            };
            let slope = Slope::from_hz(1_000_000_000).unwrap();
            let counter = FnClock(|| {
                self.reads.set(self.reads.get() + 1);
                self.read(self.read_ticks[0])
            });
            let reference = FnClock(|| i64::try_from(self.read(self.read_ticks[1])).unwrap());
            burst(&counter, &reference, resolutions, size, Some(slope)).unwrap()
        }
    }

    /// Whether the truth, by which the reference is the counter, is between the points.
    fn is_around_the_truth(sample: &Sample) -> bool {
        let at = |point: Point| i64::try_from(point.ticks).unwrap();
        at(sample.upper) < sample.upper.ns && at(sample.lower) >= sample.lower.ns
    }

    #[test]
    fn half_a_read_is_subtracted_where_the_reference_reads_the_same_counter() {
        let mut widths = Vec::new();
        let kernel = Kernel::new(2, [40, 40]);
        for reference_kind in [ReferenceKind::SameCounter, ReferenceKind::SameRead] {
            let sample = kernel.sample(reference_kind, BurstSize::fixed(8));
            assert!(is_around_the_truth(&sample), "{sample:?}");
            widths.push(
                sample
                    .width(Slope::from_hz(1_000_000_000).unwrap())
                    .round_ns(),
            );
        }
        // Without subtraction the width is 40 on either side, and the reference's resolution. A
        // read takes 40, twice the resolution is 4, so half of 36 is subtracted from each side.
        assert_eq!(widths, [81, 81 - 36]);
    }

    /// Only [`ReferenceKind::SameRead`] needs to know how long a read takes.
    #[test]
    fn a_bracket_takes_two_reads_of_the_counter() {
        for reference_kind in [ReferenceKind::SameCounter, ReferenceKind::Independent] {
            let kernel = Kernel::new(2, [40, 40]);
            kernel.sample(reference_kind, BurstSize::fixed(8));
            assert_eq!(kernel.reads.get(), 16, "{reference_kind:?}");
        }
    }

    /// Reads that take 27 ticks are at least 26 apart where the counter moves by 26. The kernel's
    /// own read may be quicker, and see no move at all.
    #[test]
    fn what_the_counters_resolution_hides_is_not_subtracted() {
        for phase in 0..26 {
            let kernel = Kernel::new(26, [27, 13]);
            kernel.ticks.set(kernel.ticks.get() + phase);
            let sample = kernel.sample_of(26, ReferenceKind::SameRead, BurstSize::fixed(32));
            assert!(is_around_the_truth(&sample), "phase {phase}: {sample:?}");
        }
    }

    /// A counter that moves by 26 ticks shows the short side of a bracket only now and then. The
    /// burst goes on until it has found both short sides, or has reached its limit.
    #[test]
    fn a_burst_goes_on_until_its_sample_is_as_narrow_as_others_were() {
        let size = |wanted_ns, max_ticks| BurstSize {
            wanted_width: FixedNs::from_ns(wanted_ns),
            max_brackets: 128,
            max_ticks,
            ..BurstSize::fixed(4)
        };
        let brackets = |wanted_ns, max_ticks| {
            let kernel = Kernel::new(26, [50, 51]);
            kernel.sample(ReferenceKind::SameCounter, size(wanted_ns, max_ticks));
            kernel.reads.get() / 2
        };
        let wide = brackets(200, 100_000);
        let narrow = brackets(53, 100_000);
        let never = brackets(0, 100_000);
        assert!(
            wide == 4 && (5..40).contains(&narrow) && never == 128,
            "{wide}, {narrow}, {never} brackets"
        );
        assert_eq!(
            brackets(0, 1_000),
            7,
            "the time limit ends a burst with a slow reference"
        );
    }
}
