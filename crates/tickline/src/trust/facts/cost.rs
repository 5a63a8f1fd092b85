//! What a reading of the counter and of the OS clock costs.

use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::gate::Cost;
use tickline_core::sample::Reference;

use crate::sys::reference::OsClock;

/// A measurement of cost runs 5 batches of 16 calls, and the fastest batch counts. A batch takes
/// 0.1 to 12 us, so an interrupt spoils one batch at most.
const CALLS: u32 = 16;
const BATCHES: u32 = 5;

pub(super) fn measure_cost(counter: &HardwareCounter) -> Cost {
    #[cfg(test)]
    if let Some(cost) = played::COST.get() {
        return cost;
    }
    // In turns, so that a machine that is slow for some microseconds is slow for all three.
    let mut fastest_ns = [i64::MAX; 3];
    for _ in 0..BATCHES {
        let batch_ns = [
            batch_ns(|| _ = core::hint::black_box(counter.now())),
            batch_ns(|| _ = core::hint::black_box(OsClock.monotonic_ns())),
            batch_ns(|| _ = core::hint::black_box(OsClock.realtime_ns())),
        ];
        for (fastest_ns, batch_ns) in fastest_ns.iter_mut().zip(batch_ns) {
            *fastest_ns = batch_ns.min(*fastest_ns);
        }
    }
    let [counter_ps, os_ps, os_unix_ps] = fastest_ns.map(ps_of_one);
    Cost { counter_ps, os_ps, os_unix_ps }
}

/// The time of a batch, ns. It contains the cost of the OS clock that takes the time.
fn batch_ns(call: impl Fn()) -> i64 {
    let start_ns = OsClock.monotonic_ns();
    for _ in 0..CALLS {
        call();
    }
    OsClock.monotonic_ns().saturating_sub(start_ns)
}

/// The time of one call in a batch, ps.
fn ps_of_one(batch_ns: i64) -> u64 {
    u64::try_from(batch_ns).unwrap_or(0).saturating_mul(1_000) / u64::from(CALLS)
}

/// Costs that a test makes up, for judgements in its own thread.
#[cfg(test)]
pub(crate) mod played {
    use core::cell::Cell;

    use tickline_core::gate::Cost;

    std::thread_local! {
        pub(crate) static COST: Cell<Option<Cost>> = const { Cell::new(None) };
    }
}
