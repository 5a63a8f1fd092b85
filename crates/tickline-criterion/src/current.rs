//! Counts what criterion does on this thread, which shows how far a benchmark is.

use std::cell::Cell;

thread_local! {
    static BENCHERS: Cell<u64> = const { Cell::new(0) };
    static SAMPLES: Cell<u64> = const { Cell::new(0) };
    static BENCHMARKS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a warm-up or a measurement that criterion begins.
pub(crate) fn count_bencher() {
    BENCHERS.set(BENCHERS.get().wrapping_add(1));
}

/// The warm-ups and measurements so far.
pub(crate) fn benchers() -> u64 {
    BENCHERS.get()
}

/// Counts a benchmark of pairs. Returns the number of those before, which a filter may exclude.
pub(crate) fn count_benchmark() -> usize {
    BENCHMARKS.replace(BENCHMARKS.get().wrapping_add(1))
}

/// Counts a sample that criterion converts into ns.
pub(crate) fn count_sample() {
    SAMPLES.set(SAMPLES.get().wrapping_add(1));
}

/// The converted samples so far.
pub(crate) fn samples() -> u64 {
    SAMPLES.get()
}
