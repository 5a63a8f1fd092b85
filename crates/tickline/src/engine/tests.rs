//! Readings of a whole engine.

use super::*;

#[test]
fn ordering_a_threads_first_coarse_time_is_there_before_it() {
    for _ in 0..8 {
        let engine = Engine::new(Driver::Reader);
        let start_ns = engine.now_ordered_ns();
        std::thread::scope(|scope| {
            scope.spawn(|| engine.attach_thread());
            while !engine.has_thread() {
                std::thread::yield_now();
            }
            engine.store_recent(0);
            assert!(engine.recent_ns() >= start_ns);
            (0..100).for_each(|_| _ = engine.now_ns());
            assert!(
                COUNTER.is_none() || !engine.is_judged(),
                "readers iterate beside a thread"
            );
        });
    }
}

#[cfg(feature = "utc")]
#[test]
fn a_claim_of_utc_ends_if_the_clock_is_set_or_the_thread_stops() {
    use tickline_utc::{NoClaim, RawMoment};

    use crate::utc::UtcPolls;

    let engine = std::sync::Arc::new(Engine::new(Driver::Reader));
    // ORDERING: Relaxed, the thread starts later. With minimal probes it asks no source.
    engine.has_minimal_probes.store(true, Ordering::Relaxed);
    let settings = crate::options::Settings::DEFAULT;
    let thread = crate::thread::ClockThread::start(engine.clone(), settings).expect("a thread");
    let now = || {
        Some(RawMoment {
            raw_ns: 0,
            marker: 0,
            suspended_ns: None,
        })
    };
    let unknown = || engine.utc.by_raw(now).unwrap_err();
    UtcPolls::default().force_due(&engine);
    assert_eq!(unknown(), NoClaim::Disrupted);
    drop(thread);
    assert_eq!(unknown(), NoClaim::NoSource);
}
