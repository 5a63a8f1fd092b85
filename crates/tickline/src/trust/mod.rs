//! Whether the counter may be used: the facts, what they were at the last judgement, and the comparison of the CPUs' counters. The
//! verdicts themselves are `tickline_core::gate`'s; `engine/gates.rs` puts them into force.

pub(crate) mod compare;
pub mod exchange;
pub(crate) mod facts;
pub(crate) mod snapshot;
