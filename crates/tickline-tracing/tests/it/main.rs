//! The crate as its users see it.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "a test fails by it; not all features need all"
)]

#[cfg(unix)]
mod black_box;
mod chrome;
mod common;
#[cfg(all(unix, feature = "cpu-time"))]
mod cpu_time;
mod flight;
mod formats;
#[cfg(feature = "opentelemetry-0-33")]
mod otel;
mod sinks;
mod spans;
