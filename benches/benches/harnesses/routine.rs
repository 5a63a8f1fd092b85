//! The routines that each harness measures: A takes some 50 ns, and B the same and 4 cycles more.

use std::hint::black_box;

use crate::delays::{chain, each};

/// The number of multiplications, if the process that starts the harness has chosen it.
pub(crate) const VARIABLE: &str = "TICKLINE_HARNESS_MULTIPLICATIONS";

/// About 50 ns on a core of 4 GHz.
const MULTIPLICATIONS: u32 = 56;

/// How many multiplications A has.
#[allow(dead_code, reason = "one of the programs chooses the number")]
pub(crate) fn multiplications() -> u32 {
    std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(MULTIPLICATIONS)
}

/// A: each call needs the result of the one before.
#[allow(dead_code, reason = "callgrind has a single call")]
pub(crate) fn a(count: u32) -> impl FnMut() -> u64 {
    each::<0>(count)
}

/// B.
#[allow(dead_code, reason = "callgrind has a single call")]
pub(crate) fn b(count: u32) -> impl FnMut() -> u64 {
    each::<1>(count)
}

/// A single call of A.
#[allow(dead_code, reason = "for callgrind")]
pub(crate) fn call_a(count: u32) -> u64 {
    chain(3, black_box(count))
}

/// A single call of B.
#[allow(dead_code, reason = "for callgrind")]
pub(crate) fn call_b(count: u32) -> u64 {
    let value = chain(3, black_box(count));
    value.wrapping_mul(value).rotate_left(7)
}
