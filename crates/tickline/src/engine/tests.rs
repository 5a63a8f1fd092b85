//! Readings of a whole engine.

use super::*;

#[test]
fn ordering_a_threads_first_coarse_time_is_there_before_it() {
    for _ in 0..8 {
        let engine = Engine::new(Driver::Reader);
        let start_ns = engine.now_ordered_ns();
        std::thread::scope(|scope| {
            scope.spawn(|| engine.registration.register(1, engine.now_ordered_ns()));
            while !engine.has_thread() {
                std::thread::yield_now();
            }
            engine.registration.store_recent(0);
            assert!(engine.recent_ns() >= start_ns);
        });
    }
}

#[test]
fn readers_run_no_iteration_beside_a_thread() {
    let engine = Engine::new(Driver::Reader);
    engine.registration.register(1, engine.now_ordered_ns());
    (0..100).for_each(|_| _ = engine.now_ns());
    assert!(COUNTER.is_none() || !engine.is_judged());
}
