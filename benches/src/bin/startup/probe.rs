//! The measurement by a child of `startup`, for any clock.
//!
//! This file is not a part of the library, because the library links fastant, which runs code
//! before `main`.

use std::time::Duration;

use tickline_observe::monotonic_ns;

use crate::probe_times::ProbeTimes;

/// The longest time until the counter must serve.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls `read` until `served`, which gets the number of calls, returns whether the counter serves.
/// Prints the times.
#[expect(clippy::print_stdout, reason = "a program that prints figures")]
pub(crate) fn probe(read: impl Fn(), served: impl Fn(u32) -> Option<bool>) {
    _ = monotonic_ns(); // the loader resolves the vDSO's symbol here, outside of the measurement
    let start_ns = monotonic_ns();
    read();
    let first_ns = monotonic_ns();
    let mut now_ns = first_ns;
    let mut slowest_ns = first_ns - start_ns;
    let mut calls = 1;
    let by_counter = loop {
        if let Some(by_counter) = served(calls) {
            break by_counter;
        }
        let before_ns = monotonic_ns();
        read();
        now_ns = monotonic_ns();
        slowest_ns = slowest_ns.max(now_ns - before_ns);
        calls += 1;
        assert!(
            u128::from(now_ns - start_ns) < PATIENCE.as_nanos(),
            "no decision in {PATIENCE:?}"
        );
    };
    let times = ProbeTimes {
        start_ns,
        first_ns,
        counter_ns: by_counter.then_some(now_ns),
        slowest_ns,
    };
    println!("{}", serde_json::to_string(&times).expect("numbers"));
}
