//! [criterion](https://docs.rs/criterion) with the CPU's counter for a clock, through [tickline]: true nanoseconds, with less
//! overhead and finer steps than `WallTime`.
//!
//! ```
//! use criterion::{BatchSize, Criterion, criterion_group};
//! use tickline_criterion::TscTime;
//!
//! fn benches(criterion: &mut Criterion<TscTime>) {
//! #   let directory = std::env::temp_dir().join(format!("tickline-criterion-lib-{}", std::process::id()));
//! #   let mut short = std::mem::take(criterion_of(criterion)).without_plots().output_directory(&directory)
//! #       .sample_size(10).warm_up_time(std::time::Duration::from_millis(5))
//! #       .measurement_time(std::time::Duration::from_millis(20));
//! #   let criterion = &mut short;
//!     criterion.bench_function("Vec::push", |bencher| {
//!         bencher.iter_batched(|| Vec::with_capacity(1), |mut vec| { vec.push(7); vec }, BatchSize::PerIteration)
//!     });
//! }
//!
//! criterion_group!(
//!     name = group;
//!     config = Criterion::default().with_measurement(TscTime::or_wall_time());
//!     targets = benches
//! );
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
