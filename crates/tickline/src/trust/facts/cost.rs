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
    let counter_ps = fastest_ps(|| {
        core::hint::black_box(counter.now());
    });
    let os_ps = fastest_ps(|| {
        core::hint::black_box(OsClock.monotonic_ns());
    });
    let os_unix_ps = fastest_ps(|| {
        core::hint::black_box(OsClock.realtime_ns());
    });
    Cost { counter_ps, os_ps, os_unix_ps }
}

/// The time of one call in the fastest batch, ps. Each figure contains the cost of the OS clock
/// that takes the time.
fn fastest_ps(call: impl Fn()) -> u64 {
    let mut fastest_ns = i64::MAX;
    for _ in 0..BATCHES {
        let start_ns = OsClock.monotonic_ns();
        for _ in 0..CALLS {
            call();
        }
        fastest_ns = fastest_ns.min(OsClock.monotonic_ns().saturating_sub(start_ns));
    }
    u64::try_from(fastest_ns).unwrap_or(0).saturating_mul(1_000) / u64::from(CALLS)
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
