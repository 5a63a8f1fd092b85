//! The crate as its users see it.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "a test fails by it; not all features need all"
)]

#[cfg(all(unix, feature = "chrome"))]
mod black_box;
#[cfg(feature = "chrome")]
mod chrome;
mod common;
#[cfg(feature = "chrome")]
mod flight;
#[cfg(feature = "fmt")]
mod formats;
#[cfg(feature = "opentelemetry-0-33")]
mod otel;
#[cfg(all(unix, feature = "running", feature = "histogram"))]
mod running;
mod sinks;
mod spans;
