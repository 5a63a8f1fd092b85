//! What is known about the counter before the first sample.

use std::fmt;

/// How exact results are. Its text is printed at the start.
///
/// ```
/// let time = tickline_criterion::CounterTime::builder().quiet().start_or_wall_time();
/// if let Some(calibration) = time.calibration() {
///     // counter at 2596.126 MHz +-977 ppb, resolution 10.0 ns; a start and an end cost 22.7 ns, taken off
///     println!("{calibration}");
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The counter's frequency against `CLOCK_MONOTONIC`, Hz.
    pub frequency_hz: f64,
    /// The uncertainty of the frequency, ppb: long results are off by at most this. It is
    /// [`tickline::Status::max_drift_ppb`], and shrinks while benchmarks run.
    pub uncertainty_ppb: f64,
    /// The counter's resolution, ns: a single pair of readings can be off by this. A mean over many
    /// pairs is more exact.
    pub resolution_ns: f64,
    /// The cost of a pair of readings, ns, which is subtracted from each sample, once for each
    /// pair. It is measured twice a second, because it changes with
    /// the core's frequency.
    pub pair_ns: f64,
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "counter at {:.3} MHz +-{:.0} ppb, resolution {:.1} ns; a start and an end cost {:.1} ns, taken off",
            self.frequency_hz / 1e6,
            self.uncertainty_ppb,
            self.resolution_ns,
            self.pair_ns,
        )
    }
}
