//! Measures the cost of a reading of the counter and of the OS clock.

use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::gate::Cost;
use tickline_core::reference::Reference;

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
    // The three take turns, so that a slowdown of some microseconds affects all of them.
    let mut counter_ns = i64::MAX;
    let mut os_ns = i64::MAX;
    let mut os_unix_ns = i64::MAX;
    for _ in 0..BATCHES {
        time_batch(&mut counter_ns, || counter.now());
        time_batch(&mut os_ns, || OsClock.monotonic_ns());
        time_batch(&mut os_unix_ns, || OsClock.unix_ns());
    }
    Cost {
        counter_ps: call_ps(counter_ns),
        os_ps: call_ps(os_ns),
        os_unix_ps: call_ps(os_unix_ns),
    }
}

/// Times a batch, and lowers `fastest_ns` to the result, which includes the cost of one reading of
/// the OS clock.
fn time_batch<T>(fastest_ns: &mut i64, call: impl Fn() -> T) {
    let start_ns = os_ns();
    for _ in 0..CALLS {
        core::hint::black_box(call());
    }
    let end_ns = os_ns();
    *fastest_ns = end_ns.saturating_sub(start_ns).min(*fastest_ns);
}

/// The OS clock before and after a batch, ns. Not inlined, for the size: six copies have 700 bytes.
#[inline(never)]
fn os_ns() -> i64 {
    OsClock.monotonic_ns()
}

/// The time of one call in a batch, ps.
fn call_ps(batch_ns: i64) -> u64 {
    u64::try_from(batch_ns).unwrap_or(0).saturating_mul(1_000) / u64::from(CALLS)
}

/// Costs that a test injects into judgements on its own thread.
#[cfg(test)]
pub(crate) mod injected {
    use core::cell::Cell;

    use tickline_core::gate::Cost;

    std::thread_local! {
        pub(crate) static COST: Cell<Option<Cost>> = const { Cell::new(None) };
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn the_cost_of_a_call_is_its_share_of_a_batch() {
        assert_eq!(call_ps(16), 1_000);
        assert_eq!(call_ps(1_601), 100_062);
    }

    #[test]
    fn a_batch_during_which_the_clock_stepped_back_cost_nothing() {
        assert_eq!(call_ps(-16), 0);
    }

    #[test]
    fn a_batch_has_sixteen_calls() {
        let calls = Cell::new(0);
        let mut fastest_ns = i64::MAX;
        time_batch(&mut fastest_ns, || calls.set(calls.get() + 1));
        assert_eq!(calls.get(), 16);
    }

    #[test]
    fn a_batch_takes_the_time_that_passes_on_the_os_clock() {
        let start_ns = OsClock.monotonic_ns();
        let mut fastest_ns = i64::MAX;
        time_batch(&mut fastest_ns, || {
            let call_ns = os_ns();
            while os_ns() <= call_ns + 1_000 {}
        });
        let passed_ns = OsClock.monotonic_ns() - start_ns;
        assert!((16_000..=passed_ns).contains(&fastest_ns), "{fastest_ns}");
    }

    #[test]
    fn a_slower_batch_does_not_count() {
        let mut fastest_ns = 0;
        time_batch(&mut fastest_ns, || ());
        assert_eq!(fastest_ns, 0);
    }
}
