//! How far criterion is with the benchmark that runs on this thread.

use std::cell::Cell;

thread_local! {
    static BENCHERS: Cell<u64> = const { Cell::new(0) };
    static SAMPLES: Cell<u64> = const { Cell::new(0) };
}

/// criterion begins to warm up, or to measure.
pub(crate) fn count_bencher() {
    BENCHERS.set(BENCHERS.get().wrapping_add(1));
}

/// How often it has.
pub(crate) fn benchers() -> u64 {
    BENCHERS.get()
}

/// criterion has asked for a sample's ns.
pub(crate) fn count_sample() {
    SAMPLES.set(SAMPLES.get().wrapping_add(1));
}

/// How often it has.
pub(crate) fn samples() -> u64 {
    SAMPLES.get()
}
