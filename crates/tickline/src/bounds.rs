//! What [`Clock::bounds`](crate::Clock::bounds) returns: the lines that turn ticks into time, for a
//! program that converts ticks which another process or a device has read.

pub use tickline_core::cell::{Bounds, RangeNs};
pub use tickline_core::line::{Line, Slope};
