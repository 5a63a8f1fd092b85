//! The conversion of ticks into ns, and the cost of a pair of readings.

use std::fmt;

use tickline::Status;

use crate::number::{as_f64, middle};
use crate::readings::{Elapsed, PairClock};

/// The conversion of ticks into ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) ns_per_tick: f64,
    /// The largest possible error of `ns_per_tick`.
    pub(crate) uncertainty_ppb: f64,
    /// The cost of a pair of readings, which is subtracted; 0 if it is unknown.
    pub(crate) cost_ticks: f64,
    pub(crate) resolution_ticks: u64,
}

impl Scale {
    /// The scale of the OS clock, whose ticks are ns.
    pub(crate) const WALL: Self = Self {
        ns_per_tick: 1.0,
        uncertainty_ppb: 0.0,
        cost_ticks: 0.0,
        resolution_ticks: 1,
    };

    /// This scale at the clock's rate; `None` before the clock's first line.
    pub(crate) fn at_rate_of(self, status: &Status) -> Option<Self> {
        let frequency_hz = as_f64(status.frequency_hz?);
        // The status rounds to whole Hz.
        let rounding_ppb = 0.5 / frequency_hz * 1e9;
        let uncertainty_ppb = as_f64(status.max_drift_ppb?) + rounding_ppb;
        Some(Self {
            ns_per_tick: 1e9 / frequency_hz,
            uncertainty_ppb,
            ..self
        })
    }

    /// A pair's time without the pair's cost, at least 0.
    pub(crate) fn net_ns(&self, ticks: f64) -> f64 {
        (ticks - self.cost_ticks).max(0.0) * self.ns_per_tick
    }
}

/// The rate, resolution and cost of the counter. Its text is printed at the start.
///
/// ```
/// let time = tickline_criterion::CounterTime::builder().quiet().start_or_wall_time();
/// if let Some(calibration) = time.calibration() {
///     // counter at 2596.126 MHz +-977 ppb, resolution 10.0 ns; a start and an end cost 22.7 ns, subtracted
///     println!("{calibration}");
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The counter's frequency against `CLOCK_MONOTONIC`, Hz.
    pub frequency_hz: f64,
    /// The largest possible error of `frequency_hz`, ppb: [`tickline::Status::max_drift_ppb`], and
    /// the rounding of the frequency to whole Hz. The error of long results is at most this. It
    /// shrinks while benchmarks run.
    pub uncertainty_ppb: f64,
    /// The counter's resolution, ns: the largest error of a single pair of readings. A mean over
    /// many pairs is more exact.
    pub resolution_ns: f64,
    /// The cost of a pair of readings, ns. It is subtracted from each sample, once for each pair.
    /// The crate measures it twice a second, because it changes with the core's frequency.
    pub pair_cost_ns: f64,
}

impl From<Scale> for Calibration {
    fn from(scale: Scale) -> Self {
        Self {
            frequency_hz: 1e9 / scale.ns_per_tick,
            uncertainty_ppb: scale.uncertainty_ppb,
            resolution_ns: as_f64(scale.resolution_ticks) * scale.ns_per_tick,
            pair_cost_ns: scale.cost_ticks * scale.ns_per_tick,
        }
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "counter at {:.3} MHz +-{:.0} ppb, resolution {:.1} ns; a start and an end cost {:.1} ns, subtracted",
            self.frequency_hz / 1e6,
            self.uncertainty_ppb,
            self.resolution_ns,
            self.pair_cost_ns,
        )
    }
}

/// The number of blocks. It is odd, so that one of the means is the median. All blocks together
/// take 1 ms, twice a second, between samples.
const BLOCKS: usize = 51;

/// The number of pairs in a block. A block takes about 20 us, so a timer interrupt of 1 kHz hits
/// one block in 50. The standard deviation of a pair is the resolution divided by the root of 12.
/// The standard deviation of a mean of 500 pairs is this figure divided by the root of 500: 1/77 of
/// the counter's resolution.
const PAIRS: u64 = 500;

/// The present cost of a pair of readings without work between them, ticks. The cost is mostly
/// cycles of the core, so it changes with the core's frequency.
///
/// The function runs the code that measures samples, [`PairClock::start`] and
/// [`Start::end`](crate::Start), and returns the median of the means of blocks. Other statistics
/// would be wrong:
///
/// - The median of single pairs: a counter's resolution may be many ticks (26 on Zen 5 under KVM).
///   A single pair then reads as 26 or 52 ticks, and the true cost is in between.
/// - The smallest mean: it is too small by up to the resolution, and every result would be too
///   large by as much.
/// - The mean of all blocks: an interrupt makes a block longer, and never shorter.
pub(crate) fn pair_ticks(clock: PairClock) -> f64 {
    let mut means = [0.0; BLOCKS];
    for mean in &mut means {
        let sum = (0..PAIRS).fold(Elapsed::default(), |sum, _| sum + clock.start().end());
        *mean = as_f64(sum.ticks) / as_f64(PAIRS);
    }
    means.sort_unstable_by(f64::total_cmp);
    middle(&means)
}
