//! The measurement of a child of `startup`, for any clock.
//!
//! A file of its own, not a part of the library: that links fastant, which runs code before
//! `main`.

use std::time::Duration;

use tickline_observe::monotonic_ns;

/// How long a clock may take until the counter serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls `read` until `served` says, of the number of calls, whether the clock reads the counter.
/// Prints `CLOCK_MONOTONIC` before the first call, after it, and when the counter served (0:
/// never), and the longest call, ns.
#[expect(clippy::print_stdout, reason = "a program that prints figures")]
pub(crate) fn probe(read: impl Fn(), served: impl Fn(u32) -> Option<bool>) {
    _ = monotonic_ns(); // the loader's work for the vDSO does not belong to a clock
    let start_ns = monotonic_ns();
    read();
    let first_ns = monotonic_ns();
    let (mut now_ns, mut slowest_ns, mut calls) = (first_ns, first_ns - start_ns, 1);
    let by_counter = loop {
        if let Some(by_counter) = served(calls) {
            break by_counter;
        }
        let before_ns = monotonic_ns();
        read();
        now_ns = monotonic_ns();
        slowest_ns = slowest_ns.max(now_ns - before_ns);
        calls += 1;
        assert!(u128::from(now_ns - start_ns) < PATIENCE.as_nanos(), "no decision in {PATIENCE:?}");
    };
    println!("{start_ns} {first_ns} {} {slowest_ns}", if by_counter { now_ns } else { 0 });
}
