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
mod flight;
mod formats;
#[cfg(feature = "opentelemetry-0-33")]
mod otel;
#[cfg(all(unix, feature = "running"))]
mod running;
mod sinks;
mod spans;
