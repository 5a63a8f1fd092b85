//! The OS clocks that tickline follows: one file for each kind of system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{OsClock, utc_error_ns};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{OsClock, utc_error_ns};
