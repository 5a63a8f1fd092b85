//! The OS clocks that tickline follows: one file for each kind of system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{OsClock, utc_error_ns};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{OsClock, utc_error_ns};

/// The largest step of `CLOCK_MONOTONIC` as a function of the counter, ns. Where the kernel keeps time with the counter
/// that tickline reads, which the kernel gate demands, the clock is that counter's line rounded down to a nanosecond.
pub(crate) const QUANTUM_NS: i64 = 1;
