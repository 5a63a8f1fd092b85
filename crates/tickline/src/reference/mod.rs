//! The OS clocks that tickline follows: one file for each kind of system.

use tickline_core::sample::{Quanta, Reference};

use crate::builder::Probes;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{OsClock, trust_libc, utc_error_ns};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{OsClock, trust_libc, utc_error_ns};

/// The steps of the counter and of `CLOCK_MONOTONIC`, where the kernel keeps time with the counter that tickline reads,
/// which the kernel gate demands.
///
/// The clock is then a line in the counter's *readings*, rounded down to a nanosecond: the kernel's own reading of the
/// counter lies between the two of a bracket, however coarse its steps are, and both see the same step at the same time. So
/// the counter's step adds nothing.
pub(crate) const QUANTA: Quanta = Quanta { counter_ticks: 0, reference_ns: 1 };

/// [`OsClock`] as the control loop sees it: with minimal probes, how the kernel steers it is unknown (`adjtimex`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Followed(pub(crate) Probes);

impl Reference for Followed {
    fn monotonic_ns(&self) -> i64 {
        OsClock.monotonic_ns()
    }

    fn realtime_ns(&self) -> i64 {
        OsClock.realtime_ns()
    }

    fn steering_ppb(&self) -> Option<i64> {
        match self.0 {
            Probes::Full => OsClock.steering_ppb(),
            Probes::Minimal => None,
        }
    }
}
