//! Measures the cost of a call in this guest, and its ratio to the cost of the OS clock.

use std::hint::black_box;

use tickline::Clock;
use tickline_observe::monotonic_ns;

use crate::phase::Cost;

/// The number of calls in a batch. A batch takes about 0.1 to 1 ms, also with the OS clock, so that
/// many batches have no interrupt.
const CALLS: u64 = 1_000;

/// The number of batches of each kind. The fastest counts. The two kinds alternate, so that both
/// meet the same disturbances.
const BATCHES: u32 = 200;

/// The costs of a call of `now_ns`, and of `clock_gettime`.
pub(crate) fn measure(clock: &Clock) -> Cost {
    let mut now_ns = u64::MAX;
    let mut os_ns = u64::MAX;
    for _ in 0..BATCHES {
        let start_ns = monotonic_ns();
        (0..CALLS).for_each(|_| _ = black_box(clock.now()));
        let middle_ns = monotonic_ns();
        (0..CALLS).for_each(|_| _ = black_box(monotonic_ns()));
        now_ns = now_ns.min(middle_ns - start_ns);
        os_ns = os_ns.min(monotonic_ns() - middle_ns);
    }
    Cost {
        ps_a_call: now_ns * 1_000 / CALLS,
        os_ps_a_call: os_ns * 1_000 / CALLS,
        os_to_now_percent: os_ns * 100 / now_ns.max(1),
    }
}
