//! What a reading of the counter and of the OS clock costs.

use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::gate::Cost;
use tickline_core::sample::Reference;

use crate::sys::reference::OsClock;

/// A measurement of cost runs 5 batches of 16 calls, and the fastest batch counts. A batch takes
/// 0.1 to 12 us, so an interrupt spoils at most one batch.
const CALLS: u32 = 16;
const BATCHES: u32 = 5;

pub(super) fn measure_cost(counter: &HardwareCounter) -> Cost {
    #[cfg(test)]
    if let Some(cost) = injected::COST.get() {
        return cost;
    }
    // In turns, so that a machine that is slow for some microseconds is slow for all three.
    let (mut counter_ns, mut os_ns, mut os_unix_ns) = (i64::MAX, i64::MAX, i64::MAX);
    for _ in 0..BATCHES {
        lower(&mut counter_ns, || counter.now());
        lower(&mut os_ns, || OsClock.monotonic_ns());
        lower(&mut os_unix_ns, || OsClock.realtime_ns());
    }
    Cost {
        counter_ps: ps_per_call(counter_ns),
        os_ps: ps_per_call(os_ns),
        os_unix_ps: ps_per_call(os_unix_ns),
    }
}

/// Lowers `fastest_ns` to the time of a batch, which contains the cost of the OS clock that takes
/// the time.
fn lower<T>(fastest_ns: &mut i64, call: impl Fn() -> T) {
    let start_ns = OsClock.monotonic_ns();
    for _ in 0..CALLS {
        core::hint::black_box(call());
    }
    *fastest_ns = OsClock.monotonic_ns().saturating_sub(start_ns).min(*fastest_ns);
}

/// The time of one call in a batch, ps.
fn ps_per_call(batch_ns: i64) -> u64 {
    u64::try_from(batch_ns).unwrap_or(0).saturating_mul(1_000) / u64::from(CALLS)
}

/// Costs that a test makes up, for judgements in its own thread.
#[cfg(test)]
pub(crate) mod injected {
    use core::cell::Cell;

    use tickline_core::gate::Cost;

    std::thread_local! {
        pub(crate) static COST: Cell<Option<Cost>> = const { Cell::new(None) };
    }
}
