//! Readings of a whole engine.

use super::*;

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
