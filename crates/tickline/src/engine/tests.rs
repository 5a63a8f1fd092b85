//! Readings of a whole engine.

use std::time::{Duration, Instant};

use super::*;
use crate::Clock;
use crate::status::ClockState;

/// After a pause, the fast path soon serves calls again, at whatever point of the window they
/// resume. Symptom: the benches took the slow path for half a second after each pause.
#[test]
fn a_pause_does_not_leave_readers_in_the_slow_path() {
    let clock = Clock::builder().driver(Driver::Reader).interval(Duration::from_millis(200)).start().unwrap();
    let is_fast = || COUNTER.and_then(|counter| clock.engine().clock.shared.read(&counter)).is_some();
    // If code runs so slowly that samples are wide, as under a sanitizer, the interval stays
    // shorter.
    let start = Instant::now();
    while clock.status().interval_ns < Some(200_000_000) && start.elapsed() < Duration::from_secs(5) {
        core::hint::black_box(clock.now());
        if let ClockState::Fallback(reason) = clock.status().state {
            return eprintln!("SKIPPED: {reason}");
        }
    }
    for pause_ms in [230, 330, 430, 530] {
        std::thread::sleep(Duration::from_millis(pause_ms));
        let start = Instant::now();
        while !is_fast() {
            core::hint::black_box(clock.now());
            assert!(
                start.elapsed() < Duration::from_millis(100),
                "still slow after a pause of {pause_ms} ms"
            );
        }
    }
}

/// The slow paths return 0 for a clock that is set to a time before its zero.
#[test]
fn times_before_zero_are_zero() {
    assert_eq!(
        [-1, i64::MIN, 0, 1, i64::MAX].map(saturating_unsigned),
        [0, 0, 0, 1, i64::MAX.unsigned_abs()]
    );
}

#[test]
fn ordering_a_threads_first_coarse_time_is_there_before_it() {
    for _ in 0..8 {
        let engine = Engine::new(Driver::Manual);
        let start_ns = engine.now_ordered_ns();
        std::thread::scope(|scope| {
            scope.spawn(|| engine.attach_thread());
            while !engine.has_thread() {
                std::thread::yield_now();
            }
            assert!(engine.recent_ns() >= start_ns);
        });
    }
}
