//! [criterion](https://docs.rs/criterion) with the CPU's counter for a clock, through [tickline]: true nanoseconds, with less
//! overhead and finer steps than `WallTime`.
//!
//! ```no_run
//! use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
//! use tickline_criterion::TscTime;
//!
//! fn push(criterion: &mut Criterion<TscTime>) {
//!     criterion.bench_function("push", |bencher| {
//!         let setup = || Vec::with_capacity(1);
//!         bencher.iter_batched(setup, |mut vec| { vec.push(7); vec }, BatchSize::PerIteration)
//!     });
//! }
//!
//! criterion_group!(
//!     name = benches;
//!     config = Criterion::default().with_measurement(TscTime::or_wall_time());
//!     targets = push
//! );
//! criterion_main!(benches);
//! ```
//!
//! In a benchmark that exists, only its `config` changes, and `&mut Criterion` becomes `&mut Criterion<TscTime>`.
#![forbid(unsafe_code)]

mod builder;
mod calibration;
mod cost;
mod elapsed;
mod error;
mod incidents;
mod message;
mod pair;
mod rate;
mod session;
mod time;

pub use builder::Builder;
pub use calibration::{Calibration, Overhead};
pub use elapsed::Elapsed;
pub use error::{Error, ErrorKind};
pub use incidents::Incidents;
pub use pair::Start;
pub use time::TscTime;
