//! This crate simulates a faulty machine, to find errors in `tickline-core`.
//!
//! The machine has CPUs with counters, a reference clock, and actors (readers, a driver, threads of
//! the program) that run the real code of `tickline-core`. The [scheduler](run()) may delay each of
//! their steps for any time. A [`Scenario`] determines a run completely: it gives the same run each
//! time.
//!
//! ```text
//! scenario -> run (scheduler) -> actors -> tickline-core -> world (steps) -> machine (clocks)
//!                                     \-----> check (invariants, against limits)
//! ```
//!
//! `cargo xtask sim` runs random scenarios. The simulator misses three kinds of errors:
//!
//! - weak memory orderings, because steps are atomic, and are in order except for reads of the
//!   counter: loom checks the orderings;
//! - preemption between the stores to a slot: loom checks this too;
//! - errors in the machine code: `cargo xtask soak` runs it.
//!
//! # Example
//!
//! ```
//! use tickline_sim::{Scenario, run};
//! let scenario = Scenario { max_steps: 20_000, ..Scenario::random(1) };
//! let report = run(&scenario).expect("no violation");
//! assert!(report.counts.publications > 0);
//! assert_eq!(run(&scenario).as_ref(), Ok(&report), "the same each time");
//! ```

mod actors;
mod cell_record;
mod check;
mod counts;
pub mod lease;
mod limits;
mod machine;
pub mod named;
mod per_cpu;
mod run;
pub mod scenario;
mod world;

pub use check::TrackPoint;
pub use counts::Counts;
pub use run::{RunReport, run, run_tracked};
pub use scenario::Scenario;
