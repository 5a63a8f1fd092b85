//! The OS clocks that tickline follows: one file for each kind of system.

use tickline_core::sample::Quanta;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{OsClock, utc_error_ns};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{OsClock, utc_error_ns};

/// The steps of the counter and of `CLOCK_MONOTONIC`, where the kernel keeps time with the counter that tickline reads,
/// which the kernel gate demands.
///
/// The clock is then a line in the counter's *readings*, rounded down to a nanosecond: the kernel's own reading of the
/// counter lies between the two of a bracket, however coarse its steps are, and both see the same step at the same time. So
/// the counter's step adds nothing.
pub(crate) const QUANTA: Quanta = Quanta { counter_ticks: 0, reference_ns: 1 };
