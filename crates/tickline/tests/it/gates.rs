//! The comparison of the counters.

use std::time::Duration;

use crate::common::{skip, skipped_as_too_slow, until_fast};
use tickline::{Clock, Comparison, Driver, Gate, State, Trust};

/// A thread compares the counters where that matters. The result is the process's, and the thread
/// ends.
#[test]
fn a_comparison_is_made_where_it_matters() {
    if skipped_as_too_slow() {
        return;
    }
    let clock = Clock::builder().trust(Trust::Measured).interval(Duration::from_millis(10)).start().unwrap();
    until_fast(&clock);
    let status = clock.status();
    if status.hypervisor == tickline::Hypervisor::None && status.state == State::Fast {
        skip("the kernel has compared the counters of this machine itself");
        return;
    }
    let closed = [Gate::Supported, Gate::Readable, Gate::Cost].map(|gate| status.verdict(gate).closed);
    if closed.iter().any(Option::is_some) {
        skip("no counter to compare, or none that is worth it");
        return;
    }
    let start = std::time::Instant::now();
    while clock.status().comparison == Comparison::Pending {
        assert!(start.elapsed() < Duration::from_secs(60), "no comparison was made");
        std::thread::sleep(Duration::from_millis(5));
    }
    let reader = Clock::builder().driver(Driver::Reader).start().unwrap();
    assert_eq!(reader.status().comparison, clock.status().comparison, "it is the process's");
}
