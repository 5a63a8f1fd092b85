//! The OS clocks that tickline follows: one file for each kind of system.

use tickline_core::sample::Reference;

use crate::builder::Probes;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{OsClock, trust_libc, utc_error_ns};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{OsClock, trust_libc, utc_error_ns};

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
