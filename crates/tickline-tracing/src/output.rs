//! Outputs, which stand on the layer: histograms of its times, its times for OpenTelemetry and as
//! events for other layers, and the format of times in `fmt`'s lines. Traces have a folder of their
//! own.

pub(crate) mod close_event;
#[cfg(feature = "fmt")]
pub mod fmt;
#[cfg(feature = "histogram")]
pub mod histogram;
#[cfg(feature = "opentelemetry-0-33")]
pub mod otel;
