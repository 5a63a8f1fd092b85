//! Whether the counter may serve: the facts, and the comparison of the CPUs' counters. The rules
//! are in `tickline_core::gate`, and `engine/gates.rs` carries out the verdicts.

pub(crate) mod compare;
pub mod exchange;
pub(crate) mod facts;
