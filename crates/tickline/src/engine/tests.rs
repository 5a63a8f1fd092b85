//! Readings of a whole engine.

use super::*;

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
