//! [`tracing`](https://docs.rs/tracing) spans timed by the CPU's counter, through [tickline](https://docs.rs/tickline).
#![forbid(unsafe_code)]

#[cfg(feature = "chrome")]
pub mod chrome;
mod close_event;
#[cfg(feature = "fmt")]
pub mod format;
#[cfg(feature = "histogram")]
pub mod histogram;
mod layer;
mod sink;
mod source;
mod timing;

pub use close_event::CloseEvents;
pub use layer::SpanTimingLayer;
pub use sink::{Callback, ClosedSpan, Sink};
pub use source::{Std, Ticks, TimeSource};
pub use timing::{SpanTimes, SpanTiming};
