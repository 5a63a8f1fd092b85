//! What the measurements share. Each program of this package measures one thing and prints it:
//!
//! | program | measures |
//! |---|---|
//! | `ratios` | cost of a reading in a tight loop, with the result awaited, and on two threads, as ratios to the bare counter |
//! | `accuracy` | offset from CLOCK_MONOTONIC, the bound, and the thread's CPU time, over a minute |
//! | `order` | backward steps between threads while the line changes every millisecond |
//! | `spans` | cost of a `tracing` span with tickline-tracing's layer, others, and none |
//! | `startup` | first call, time until fast, and the run time of a whole process |
//!
//! The criterion benches (`cargo bench`) are in `benches/readings.rs`.

pub mod args;
pub mod clocks;
pub mod handover;

/// The README's code blocks, compiled and run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
