//! [criterion](https://docs.rs/criterion) with the CPU's counter for a clock, through [tickline]: true nanoseconds, with less
//! overhead and a finer resolution than `WallTime`.
//!
//! ```no_run
//! use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
//! use tickline_criterion::CounterTime;
//!
//! fn push(criterion: &mut Criterion<CounterTime>) {
//!     criterion.bench_function("push", |bencher| {
//!         let setup = || Vec::with_capacity(1);
//!         bencher.iter_batched(setup, |mut vec| { vec.push(7); vec }, BatchSize::PerIteration)
//!     });
//! }
//!
//! criterion_group!(
//!     name = benches;
//!     config = Criterion::default().with_measurement(CounterTime::or_wall_time());
//!     targets = push
//! );
//! criterion_main!(benches);
//! ```
//!
//! In benchmarks that exist, `config` changes, and `&mut Criterion` becomes `&mut Criterion<CounterTime>`. On the standard error stream:
//!
//! ```text
//! tickline: counter at 2596.120 MHz +-870 ppb, steps of 10.0 ns; a start and an end cost 17.5 ns, taken off
//! ```
//!
//! # What it is for
//!
//! Where criterion reads the clock around each iteration (`iter_batched` with `PerIteration`, `iter_custom`), or around small
//! batches, a routine of some ns drowns in the cost of two calls of the OS clock, which `WallTime` reports as the routine's. Here
//! two readings of the counter cost less, and what they cost is measured and taken off. With `iter`, and with large batches, the
//! clock is read once for thousands of iterations, and both say the same.
//!
//! Error, and in brackets the standard deviation, ns:
//!
//! - `PerIteration` and `iter_custom`: by criterion, with `iter_batched(.., BatchSize::PerIteration)` and with `iter_custom`. The
//!   median of its samples, each a mean of many iterations, against the truth before and after, seconds away; the deviation of those
//!   samples. The median of three such benchmarks.
//! - short: by a loop without criterion. The median of samples of 50 iterations, each timed by itself, against the truth of the same
//!   moment; the deviation of single iterations.
//!
//! 2-core AMD EPYC (Zen 5) guest under KVM, Linux 6.18, clocksource tsc, a counter with a resolution of 10 ns, rustc 1.95, 2026-11-20,
//! `taskset -c 1 target/release/examples/known_delays`:
//!
//! | | truth | `PerIteration`: `WallTime` | `CounterTime` | `iter_custom`: `WallTime` | `CounterTime` | short: `WallTime` | `CounterTime` |
//! |---|---|---|---|---|---|---|---|
//! | an empty closure | 0 | +22.0 (0.6) | +0.2 (0.5) | +22.0 (0.8) | +0.1 (0.3) | +21.6 (3.6) | 0.0 (1.7) |
//! | the call of a function that does nothing | 2.7 | +20.6 (0.8) | +5.9 (0.4) | +20.5 (0.6) | +4.7 (0.5) | +20.6 (4.7) | +4.4 (5.0) |
//! | 20 ns of multiplications in that function | 22.3 | +14.6 (0.8) | +6.1 (1.9) | +15.2 (0.5) | +5.2 (1.1) | +15.0 (5.0) | +4.2 (3.4) |
//! | 50 ns | 51.1 | +15.5 (1.6) | +6.4 (1.5) | +15.8 (1.4) | +4.8 (1.0) | +15.0 (5.5) | +4.5 (4.9) |
//! | 100 ns | 99.0 | +15.2 (1.7) | +5.9 (3.4) | +15.7 (2.8) | +4.7 (1.6) | +14.8 (5.0) | +4.2 (2.6) |
//! | 1000 ns | 1024.1 | +27.4 (37.5) | +15.8 (13.4) | +33.0 (19.9) | +22.9 (22.5) | +14.7 (17.3) | +4.0 (11.5) |
//!
//! - The 4 to 6 ns are the call's, in an empty pipeline ([caveats](#caveats)); the truth is that of a run of calls, between which the
//!   processor is never idle. Less what the call is off by, 20 to 100 ns are right within 0.6 ns, in each column of `CounterTime`.
//! - The limit is 2 ns or the counter's resolution, here 10 ns. It is not kept by criterion at 1000 ns: the truths of those two rows
//!   were 18 and 94 ns apart, because the frequency of the core wandered, and both clocks are off. Against the truth of the same
//!   moment it is kept. Where a counter's resolution is below 2 ns, the call alone is more than the limit.
//! - Routines that take long agree within 40 ppm where both clocks measure the very same runs. By criterion, one clock seconds after
//!   the other, they were +0.2 % and -0.7 % apart, more than 0.1 %, and in another run -0.8 % and -0.1 %:
//!   none of the clocks', as the same runs show, but the frequency again.
//!
//! # What is guaranteed, and what is not
//!
//! | guaranteed | not guaranteed |
//! |---|---|
//! | nothing before the start, and nothing after the end, is in the measured time; all of what is between has executed at the end (on riscv64, loads alone): the [fences](#fences) | that the last stores have left the store buffer, and what the compiler does with arithmetic whose result no `black_box` takes: [caveats](#caveats) |
//! | the rate is that of `CLOCK_MONOTONIC` within [`Calibration::uncertainty_ppb`], as long as the limits of [`tickline::Reading`] hold; it is followed while benchmarks run | frequency of the CPU's cores: these are ns, not cycles |
//! | a counter that cannot be trusted is an [`Error`] with the reason, and is not used | the same digits on all machines: their counters have resolutions of 0.2 to 40 ns, [`Calibration::resolution_ns`] |
//! | a thread that was moved between the two readings of a pair is noticed, where the CPU's id comes with the counter (x86_64) | a thread that was moved away and back, or between two pairs |
//! | disruptions that tickline's clock notices are reported: counter reset, suspend, rate change, clock set, gate closed, and every sample that was taken while one was ([`Incidents`]) | time that other programs took from the process, which is in the samples as with every clock: look at criterion's outliers |
//! | no sample takes 0, which criterion would refuse: the least is an attosecond | a single pair to be better than the counter's resolution; means over many pairs are |
//!
//! # What it costs
//!
//! [`CounterTime::new`] waits until its rate is known to 1 ppm, 0.1 to 0.2 s and at most 2 s ([`Builder::settle`]), and measures the cost of a
//! pair, 2 ms. While it lives, a thread of tickline's wakes twice a second for some 0.2 ms, 0.04 % of one core. Each sample is
//! converted after it was taken, with the clock's status, in some 10 us. Twice a second the rate and the cost of a pair are measured
//! in passing, 1 ms.
//!
//! # Fences
//!
//! The start waits until all earlier instructions have executed and all earlier stores have drained, then reads the counter, and lets
//! nothing that follows begin before that; the end waits until all that is measured has executed, then reads. On x86_64 that is
//! a full fence, `rdtscp`, `lfence` at the start, and `rdtscp`, `lfence` at the end; on aarch64 `isb` on both sides of the register. On
//! riscv64 there is no such instruction: loads are kept in their place, arithmetic and stores are not. What of this is written where
//! in the manuals: the head of `src/pair.rs`.
//!
//! # Caveats
//!
//! - **Give the result to a `black_box` inside of the routine.** criterion does it after the second reading, and the compiler may move
//!   arithmetic that needs no memory across a reading, with this clock and with `WallTime`.
//! - A routine between two fences starts in an empty pipeline: a call of an empty function takes 7 ns there, and 3 in a loop
//!   (on the machine above). That is
//!   time it takes, not an error of the clock; [`Bencher::iter`](criterion::Bencher::iter) shows the throughput instead.
//! - The cost that is taken off is measured twice a second, between samples. A core that changes its frequency in between makes pairs
//!   of another cost, by a ns or so.
//! - Bind the process to a CPU (`taskset -c 1 cargo bench`): moves are reported, not prevented.
//! - criterion compares with the results of the last run, whatever clock that used. After a change of clock, the first
//!   "Performance has improved" is the clock's.
//! - Only criterion 0.8: a new minor version of it needs a new one of this crate.
//!
//! # What is printed
//!
//! Libraries of this project do not print. This one does, on the standard error stream, where criterion's users expect it: the line above
//! once a process; why `WallTime` measures instead, each time that it does; and when the last clone of a [`CounterTime`] is dropped, which
//! `criterion_group!` does at its end, a line for each kind of incident, if there was one. [`Builder::quiet`] turns all of it off.
//!
//! # Examples
//!
//! `benches/side_by_side.rs` runs a hash, allocations, a channel and an empty closure by both clocks, `cargo bench -p
//! tickline-criterion`; criterion's page of each group has both in one plot. `examples/known_delays.rs` measures delays that are known,
//! and fails if `CounterTime` is further off than it says there.
#![forbid(unsafe_code)]

mod builder;
mod calibration;
mod cost;
mod elapsed;
mod error;
mod incidents;
mod message;
mod pair;
mod progress;
mod rate;
mod session;
mod time;

pub use builder::Builder;
pub use calibration::{Calibration, Overhead};
pub use elapsed::Elapsed;
pub use error::{Error, ErrorKind};
pub use incidents::Incidents;
pub use pair::Start;
pub use time::CounterTime;

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
