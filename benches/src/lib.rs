//! Shared parts of the measurements. Each program of this package measures one thing and prints it
//! as JSON:
//!
//! | program | measures |
//! |---|---|
//! | `ratios` | cost of a reading in a tight loop, and in a loop that waits for each result, as ratios to the bare counter |
//! | `drift` | how far each clock drifts away from CLOCK_MONOTONIC in a minute |
//! | `accuracy` | tickline's offset from CLOCK_MONOTONIC, the bound, and the thread's CPU time, over a minute |
//! | `order` | backward steps between threads: by tickline while its line changes every millisecond, and by each clock |
//! | `spans` | cost of a `tracing` span with tickline-tracing's layer, others, and none |
//! | `soak` | no cost; it looks for backward steps, wrong bounds and growth while everything happens at once (`cargo xtask soak`) |
//! | `startup` | each clock in fresh processes: first call, first reading, until the counter serves |
//!
//! `cargo xtask record` runs the others, and stores their output in `benches/record/`.

pub mod args;
pub mod clocks;
pub mod exchange;
#[cfg(target_os = "linux")]
mod page;
mod peers;
pub mod report;
pub mod subject;
#[cfg(target_os = "linux")]
pub mod utc;

/// The README's code blocks, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
