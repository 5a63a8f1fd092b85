//! Tests of the public API.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "a test fails by it; not every feature needs every helper"
)]

#[cfg(unix)]
mod black_box;
#[cfg(unix)]
mod black_box_path;
mod both_formats;
mod common;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod cpu_counter;
#[cfg(all(unix, feature = "cpu-time"))]
mod cpu_time;
#[cfg(target_os = "linux")]
mod failing_write;
mod fields;
mod flight;
mod flight_overwritten;
mod formats;
mod histograms;
#[cfg(feature = "opentelemetry-0-33")]
mod otel;
mod perfetto;
mod perfetto_size;
#[path = "../perfetto/mod.rs"]
mod perfetto_view;
mod sinks;
mod spans;
mod trace_file;
mod trace_file_errors;
mod trace_file_requests;
mod trace_path;
mod trace_view;
