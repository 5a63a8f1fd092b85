//! Calibrated timestamp-counter time: nanoseconds of `CLOCK_MONOTONIC` and of Unix time for little more than a read of the
//! CPU's counter.
//!
//! ```
//! use tickline::{Instant, UnixTime};
//!
//! let start = Instant::now();
//! let wall = UnixTime::now();
//! println!("{:?} after {wall:?}", start.elapsed());
//! ```
//!
//! One straight line, `ns = base + ticks * slope`, turns the counter into time. A control loop keeps the line true to the
//! kernel's clock; gates switch it off where the counter can't be trusted, and every call still works, through the OS
//! clock. Nothing has to be set up: the first calls are served by the OS, and as soon as they are frequent enough to pay, one
//! of them calibrates the counter in place, some microseconds at a time. [`start`] moves that work to a thread.
//!
//! # Order
//!
//! | | within a thread | between threads |
//! |---|---|---|
//! | [`Instant::now`], [`now_ns`] | never steps back | the CPU may read the counter before older loads that still wait: may seem to step back by nanoseconds, rarely microseconds |
//! | [`Instant::now_ordered`], [`now_ordered_ns`] | never steps back | never steps back, on machines with synchronised counters |
//! | [`UnixTime::now`], [`unix_ns`] | follows `CLOCK_REALTIME`, steps when that is set | as `now` |
//! | [`recent_ns`] | never steps back while the thread runs; may, by the time that takes, when it is started | the same |
//!
//! This holds across recalibration, start-up, fallback and recovery. Differences of instants saturate at zero.
//!
//! # Guarantees and what is not guaranteed
//!
//! | guaranteed | not guaranteed |
//! |---|---|
//! | a reading never fails, blocks, allocates or panics, and may be made in a signal handler | that the counter is used: [`Clock::status`] says whether, and why not |
//! | [`Clock::reading`] contains `CLOCK_MONOTONIC` as long as the rate that it keeps to stays within [`Status::max_drift_ppb`], with what the kernel dithers about that, and there was no jump since the last recalibration | a bound against UTC: only the NTP daemon can claim one ([`Status::utc_error_ns`]) |
//! | a counter that started again at zero is noticed by the next reading, a control loop that has died by the first one past the line's validity: 4 intervals, 2 s by default; 8 intervals with a line for each CPU | a suspend while the counter runs on: readings are ahead by as much, at most by the rest of the window (half of that), and are slewed back at half rate from the next recalibration on, which with a thread is the resume; meanwhile the state is [`State::Disrupted`] |
//! | a forked child does not depend on its parent's thread | |
//!
//! Calls of other clocks and what takes their place: [`coming_from`].
//!
//! # Cost
//!
//! `now` takes as long as the bare counter instruction in a tight loop on AMD EPYC, family 26 (8.8 ns), and 1.3 times as long on an
//! Intel Xeon, family 6, model 207 (12.5 ns); where the result is awaited, 1.1 and 1.2 times as long. The numbers, beside those of
//! other clocks, are in the [repository's README](https://github.com/tickline/tickline). With a gate closed, a reading is the OS
//! clock's plus some 10 ns on the former.
//!
//! # Trust
//!
//! The counter is used if it exists and may be read, CPUID calls it invariant, reading it is not slower than asking the OS, and
//! the kernel itself keeps time with it (`current_clocksource` is exactly `tsc`, `arch_sys_counter` on ARM, `riscv_clocksource` on
//! RISC-V). Where the kernel uses something else without having rejected the counter, or nobody can ask it, as on Windows, a
//! clock's thread compares the counters of all CPUs, which decides ([`Trust`]). A system without any clock says
//! [`State::Unavailable`], and its readings are 0. The environment variable `TICKLINE=off`, or [`Clock::disable`], switches it off.
//!
//! # A line for each CPU
//!
//! Counters that have one rate but were not started together can serve all the same, with a line for each
//! ([`ClockBuilder::per_cpu`]). Then the table above holds on one CPU; between two, a reading may step back by their bounds.
//!
//! # Features
//!
//! `serde`: `Serialize` and `Deserialize` for [`UnixTime`]. `mock`: a clock for tests, moved by hand; readings then look at
//! a flag first.

mod clock;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/coming_from.md")]
pub mod coming_from {}
mod engine;
mod error;
mod instant;
#[cfg(feature = "mock")]
pub mod mock;
mod options;
mod per_cpu;
mod reading;
mod status;
mod sys;
mod thread;
mod trust;
mod unix_time;

#[doc(hidden)]
pub use trust::exchange as pair;

pub use clock::Clock;
pub use clock::builder::ClockBuilder;
pub use clock::global::{ClockGuard, start};
pub use error::{Error, ErrorKind, PerCpuUnsupported};
pub use instant::{Instant, now_ns, now_ordered_ns, recent_ns};
pub use options::{Driver, Environment, PerCpu, Probes};
pub use reading::Reading;
pub use status::{CpuState, CpuStatus, Events, State, Status};
pub use tickline_core::compare::{Comparison, Difference, Pair};
pub use tickline_core::gate::{Gate, Hypervisor, Reason, Trust, Verdict};
pub use tickline_core::shared::{BoundParts, Event};
pub use unix_time::{UnixTime, UnixTimeRangeError, unix_ns};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
