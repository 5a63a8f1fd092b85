//! The shared parts of the measurements. The programs, which print JSON unless the table says
//! otherwise:
//!
//! | program | measures |
//! |---|---|
//! | `ratios` | cost of a reading in a tight loop, and in a loop that waits for each result, as ratios to the bare counter |
//! | `drift` | the drift of each clock from CLOCK_MONOTONIC |
//! | `accuracy` | tickline's offset from CLOCK_MONOTONIC, the bound, and the thread's CPU time |
//! | `order` | backward steps between threads: by tickline while its line changes every millisecond, and by each clock |
//! | `spans` | cost of a `tracing` span with tickline-tracing's layer, others, and none |
//! | `traces` | CPU time and bytes of a record in a trace file, by tickline-tracing and others |
//! | `soak` | no cost; it searches for backward steps, wrong bounds and growth while all operations run at once (`cargo xtask soak`); it prints a table |
//! | `under_load` | what criterion with each of its clocks, and divan, say about a routine on busy CPUs; it prints a table, after criterion's lines |
//! | `startup` | each clock in fresh processes: first call, first reading, time until the counter serves |
//! | `startup_probe`, `startup_probe_fastant`, `hello_std`, `hello_tickline` | nothing; they are the processes that `startup` starts, and the latter two only say hello |
//!
//! A program watches the clocks for a minute (`drift`, `accuracy`, `order`), unless `--secs` says
//! otherwise; its report says for how long. `cargo xtask record` runs all except `soak` and
//! `under_load`, for the times that its own source states, and stores their output in
//! `benches/record/`.

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
