//! Replaces `count.rs` on targets on which this program cannot count calls: systems other than
//! Linux, and processors for which `perf-event2` has no structures.

use std::time::Duration;

use super::CallCounts;
use super::tracepoint::Obstacle;

pub(crate) fn count(
    _: Option<u32>,
    _: Duration,
    _: impl FnMut(f64),
) -> Result<CallCounts, Obstacle> {
    let text = "this program counts calls on Linux on x86_64, aarch64 and riscv64 only";
    Err(Obstacle::Other(text.to_owned()))
}
