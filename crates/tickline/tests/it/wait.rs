//! The wait until it is decided which clock readings come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tickline::{Clock, ClockState, Driver, Reason};

use crate::backend::WithState;

/// Longer than any test takes: a wait that ends has not used it up.
const LONG: Duration = Duration::from_secs(20);

/// The readings that the wait makes are all that drives the clock of `Driver::Reader`, and its
/// calls of `maintain` all that drives that of `Driver::Manual`.
#[test]
fn a_wait_ends_with_every_driver_when_the_clock_is_calibrated_or_a_gate_closed() {
    for driver in [Driver::Reader, Driver::Thread, Driver::Manual] {
        let clock = Clock::builder().driver(driver).build().unwrap();
        let status = clock.wait_until_decided(LONG);
        assert!(status.is_judged, "{driver:?}: {status}");
        assert_ne!(status.state, ClockState::Calibrating, "{driver:?}");
    }
}

#[test]
fn a_disabled_clock_is_not_waited_for() {
    let clock = Clock::builder().build().unwrap();
    clock.disable();
    let start = std::time::Instant::now();
    let status = clock.wait_until_decided(LONG);
    let disabled = ClockState::Fallback(Reason::DisabledByProgram);
    assert_eq!(status.state, disabled);
    assert!(start.elapsed() < LONG, "it used up its timeout");
}

/// A clock whose backend calibrates for the first reads of its state, as many as `reads_left`
/// counts down, and reads the counter from then on.
fn slow(reads_left: &Arc<AtomicU32>) -> Clock {
    let reads_left = Arc::clone(reads_left);
    let less = |reads: u32| reads.checked_sub(1);
    Clock::from_backend(Arc::new(WithState(move || {
        match reads_left.fetch_update(Relaxed, Relaxed, less) {
            Ok(_) => ClockState::Calibrating,
            Err(_) => ClockState::Fast,
        }
    })))
}

#[test]
fn a_backend_that_calibrates_is_waited_for() {
    let clock = slow(&Arc::new(AtomicU32::new(20)));
    assert_eq!(clock.wait_until_decided(LONG).state, ClockState::Fast);
}

/// A backend has no line whose bound would be known. Symptom: the wait went on for its whole
/// timeout.
#[test]
fn a_backend_that_is_fast_is_not_waited_for() {
    let start = std::time::Instant::now();
    _ = slow(&Arc::new(AtomicU32::new(0))).wait_until_decided(LONG);
    assert!(start.elapsed() < LONG, "it used up its timeout");
}

#[test]
fn a_wait_of_20_reads_ends_at_its_timeout_before_the_21st() {
    let timeout = Duration::from_millis(19); // a read at once, and one after each ms
    for (reads, state) in [(19, ClockState::Fast), (20, ClockState::Calibrating)] {
        let clock = slow(&Arc::new(AtomicU32::new(reads)));
        assert_eq!(clock.wait_until_decided(timeout).state, state);
    }
}

#[test]
fn a_timeout_of_0_reads_once() {
    let reads_left = Arc::new(AtomicU32::new(5));
    let status = slow(&reads_left).wait_until_decided(Duration::ZERO);
    assert_eq!(status.state, ClockState::Calibrating);
    assert_eq!(reads_left.load(Relaxed), 4);
}
