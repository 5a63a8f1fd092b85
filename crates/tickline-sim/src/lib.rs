//! A simulated machine that attacks `tickline-core`.
//!
//! CPUs with counters, a reference clock, and actors (readers, a driver, a gatekeeper) that run the very code of
//! `tickline-core`, each step of which the [scheduler](run()) may delay for any time. A [`Scenario`] is a value: it says all
//! about a run, can be written down as JSON, and gives the same run each time.
//!
//! ```text
//! scenario --> run (scheduler) --> actors --> tickline-core --> world (steps, out-of-order looks) --> machine (clocks)
//!                                     \-----> check (invariants, against limits)
//! ```
//!
//! `cargo xtask sim` runs random scenarios. What it cannot see: weak memory orderings (a step is atomic and in order,
//! but for looks at the counter; loom checks the orderings), preemption inside of the stores to a slot
//! (loom), and the machine code (`cargo xtask soak`).
//!
//! # Example
//!
//! ```
//! use tickline_sim::{Scenario, run};
//! let scenario = Scenario { max_steps: 20_000, ..Scenario::random(1) };
//! let outcome = run(&scenario).expect("no violation");
//! assert!(outcome.counts.publications > 0);
//! assert_eq!(run(&scenario).as_ref(), Ok(&outcome), "the same each time");
//! ```

mod actors;
mod check;
mod limits;
mod machine;
pub mod named;
mod per_cpu;
pub mod plot;
mod run;
pub mod scenario;
mod unit;
mod world;

pub use check::{Counts, Mark};
pub use run::{Outcome, Violation, run, run_tracked};
pub use scenario::Scenario;
