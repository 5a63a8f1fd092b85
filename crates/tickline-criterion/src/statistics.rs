//! Arithmetic over the times of pairs. Nothing here reads a clock, a file or an argument.
//!
//! | file | computes |
//! |---|---|
//! | `distribution.rs` | the quantiles of many times, within the counter's resolution |
//! | `couples.rs` | the difference of two routines, in rounds and replicates |
//! | `signed_rank.rs` | the interval of that difference |
//! | `interval.rs` | nothing: an estimate with both ends |

pub(crate) mod couples;
pub(crate) mod distribution;
pub(crate) mod interval;
pub(crate) mod signed_rank;
