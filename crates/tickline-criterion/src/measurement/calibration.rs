//! The conversion of ticks into ns.

use std::fmt;

use tickline::Status;

use crate::number::as_f64;

/// The duration of a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) ns_per_tick: f64,
    /// The largest possible error of `ns_per_tick`.
    pub(crate) uncertainty_ppb: f64,
}

impl Rate {
    /// The clock's rate; `None` before the clock's first line.
    pub(crate) fn of(status: &Status) -> Option<Self> {
        let frequency_hz = as_f64(status.frequency_hz?);
        // The status rounds to whole Hz.
        let rounding_ppb = 0.5 / frequency_hz * 1e9;
        Some(Self {
            ns_per_tick: 1e9 / frequency_hz,
            uncertainty_ppb: as_f64(status.max_drift_ppb?) + rounding_ppb,
        })
    }
}

/// The conversion of ticks into ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) rate: Rate,
    /// What is subtracted for a pair of readings: the counter's cost; of the OS clock nothing.
    pub(crate) cost_ticks: f64,
    pub(crate) resolution_ticks: u64,
}

impl Scale {
    /// The scale of the OS clock, whose ticks are ns.
    pub(crate) const WALL: Self = Self {
        rate: Rate {
            ns_per_tick: 1.0,
            uncertainty_ppb: 0.0,
        },
        cost_ticks: 0.0,
        resolution_ticks: 1,
    };

    /// A pair's time without the pair's cost, at least 0.
    pub(crate) fn net_ns(&self, ticks: f64) -> f64 {
        (ticks - self.cost_ticks).max(0.0) * self.rate.ns_per_tick
    }
}

/// The shortest sample: an attosecond, which prints as `0.0000 ps`. A sample that took no longer
/// than the cost of its readings gets this time, because criterion refuses a benchmark with a
/// sample of 0.
const MIN_NS: f64 = 1e-9;

/// `ns`, but at least an attosecond.
pub(crate) fn least_ns(ns: f64) -> f64 {
    ns.max(MIN_NS)
}

/// The rate, resolution and cost of the counter. Its text is printed at the start.
///
/// ```
/// let time = tickline_criterion::CounterTime::builder().quiet().build_or_wall_time();
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
            frequency_hz: 1e9 / scale.rate.ns_per_tick,
            uncertainty_ppb: scale.rate.uncertainty_ppb,
            resolution_ns: as_f64(scale.resolution_ticks) * scale.rate.ns_per_tick,
            pair_cost_ns: scale.cost_ticks * scale.rate.ns_per_tick,
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

#[cfg(test)]
mod tests {
    use tickline::{Clock, Driver};

    use super::*;

    const SCALE: Scale = Scale {
        rate: Rate {
            ns_per_tick: 0.4,
            uncertainty_ppb: 963.0,
        },
        cost_ticks: 57.0,
        resolution_ticks: 26,
    };

    #[test]
    fn a_calibration_has_the_scale_in_hz_and_ns() {
        let calibration = Calibration::from(SCALE);
        assert!(
            (calibration.frequency_hz - 2.5e9).abs() < 1.0,
            "{calibration:?}"
        );
        assert_eq!(calibration.uncertainty_ppb, 963.0);
        assert!(
            (calibration.resolution_ns - 10.4).abs() < 1e-9,
            "{calibration:?}"
        );
        assert!(
            (calibration.pair_cost_ns - 22.8).abs() < 1e-9,
            "{calibration:?}"
        );
        assert_eq!(
            calibration.to_string(),
            "counter at 2500.000 MHz +-963 ppb, resolution 10.4 ns; a start and an end cost 22.8 ns, subtracted"
        );
    }

    /// The rate of a clock of 1 GHz.
    fn rate(max_drift_ppb: Option<u64>) -> Option<Rate> {
        let clock = Clock::builder().driver(Driver::Manual).build();
        let mut status = clock.expect("a clock").status();
        (status.frequency_hz, status.max_drift_ppb) = (Some(1_000_000_000), max_drift_ppb);
        Rate::of(&status)
    }

    #[test]
    fn a_rate_is_as_uncertain_as_the_clocks_drift_and_half_a_hertz() {
        // Half a Hz of 1 GHz is 0.5 ppb.
        let expected = Rate {
            ns_per_tick: 1.0,
            uncertainty_ppb: 7.5,
        };
        assert_eq!(rate(Some(7)), Some(expected));
    }

    #[test]
    fn a_clock_of_unknown_drift_has_no_rate() {
        assert_eq!(rate(None), None);
    }

    #[test]
    fn a_pairs_cost_is_subtracted_down_to_zero() {
        assert_eq!(SCALE.net_ns(157.0), 40.0);
        assert_eq!(SCALE.net_ns(56.0), 0.0);
    }

    #[test]
    fn the_os_clock_has_ticks_of_one_ns_and_no_cost() {
        assert_eq!(Scale::WALL.net_ns(7.0), 7.0);
        assert_eq!(Scale::WALL.resolution_ticks, 1);
        assert_eq!(Scale::WALL.rate.uncertainty_ppb, 0.0);
    }
}
