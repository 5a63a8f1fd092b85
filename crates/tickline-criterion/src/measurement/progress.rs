//! How far criterion is on this thread, by its calls of the measurement.

use std::cell::Cell;

thread_local! {
    static WARM_UPS_AND_MEASUREMENTS: Cell<u64> = const { Cell::new(0) };
    static CONVERTED_SAMPLES: Cell<u64> = const { Cell::new(0) };
}

/// The number of warm-ups and measurements that have begun. criterion makes a bencher for each.
/// After the largest number comes 0.
pub(crate) fn warm_ups_and_measurements() -> u64 {
    WARM_UPS_AND_MEASUREMENTS.get()
}

/// Counts a warm-up or a measurement that begins.
pub(crate) fn count_warm_up_or_measurement() {
    WARM_UPS_AND_MEASUREMENTS.set(warm_ups_and_measurements().wrapping_add(1));
}

/// The number of samples that criterion has converted. After the largest number comes 0.
pub(crate) fn converted_samples() -> u64 {
    CONVERTED_SAMPLES.get()
}

/// Counts a sample that criterion converts.
pub(super) fn count_converted_sample() {
    CONVERTED_SAMPLES.set(converted_samples().wrapping_add(1));
}
