//! Gates under load, and the comparison of the counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{os_monotonic_ns, skip, skipped_as_too_slow, until_fast};
use tickline::{Clock, Comparison, Driver, Gate, Reason, State, Trust};

const THREADS: usize = 8;

/// How far a reading may be from the OS clock around it, ns. A gate that closes leaves a high-water
/// mark 5 us ahead of the line, and a first line waits for a mark that is ahead of it by less than
/// 15 us. So no more than some 20 us add up; this leaves room for the line's own slope.
const NEAR_NS: u64 = 50_000;

/// Eight threads read while a gate closes and opens. No reading is smaller than one that was
/// complete before it began, none is far from the OS clock, and none that begins after the return
/// of `disable()` is by a line.
#[test]
fn eight_readers_stay_in_order_while_a_gate_closes_and_opens() {
    let clock = Clock::builder().interval(Duration::from_millis(2)).start().unwrap();
    let usable = until_fast(&clock).is_some();
    let (largest, turns, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (fast, closed) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut fast, mut closed) = (0_u64, 0_u64);
                    while !stop.load(Ordering::Acquire) {
                        let seen = largest.load(Ordering::Acquire);
                        let before = os_monotonic_ns();
                        let ns = clock.now_ordered().as_nanos();
                        let after = os_monotonic_ns();
                        largest.fetch_max(ns, Ordering::AcqRel);
                        assert!(ns >= seen, "{} ns back", seen - ns);
                        assert!(ns + NEAR_NS >= before, "{} ns behind the OS clock", before - ns);
                        assert!(ns <= after + NEAR_NS, "{} ns ahead of the OS clock", ns - after);
                        // Odd: disable() has returned, and enable() has not been called.
                        let turn = turns.load(Ordering::Acquire);
                        let state = clock.reading().state();
                        if state == State::Fast {
                            fast += 1;
                        }
                        if turn % 2 == 1 && turns.load(Ordering::Acquire) == turn {
                            assert_ne!(state, State::Fast, "a line behind a closed gate");
                            closed += 1;
                        }
                    }
                    (fast, closed)
                })
            })
            .collect();
        for round in 0..60 {
            std::thread::sleep(Duration::from_millis(5));
            clock.disable();
            turns.fetch_add(1, Ordering::AcqRel);
            assert_eq!(clock.status().state, State::Fallback(Reason::DisabledByProgram), "round {round}");
            std::thread::sleep(Duration::from_millis(2));
            turns.fetch_add(1, Ordering::AcqRel);
            clock.enable();
        }
        stop.store(true, Ordering::Release);
        let counts = readers.into_iter().map(|reader| reader.join().unwrap());
        counts
            .fold((0, 0), |(fast, closed), (more_fast, more_closed)| (fast + more_fast, closed + more_closed))
    });
    assert!(closed > 0, "no reading was made behind the closed gate");
    assert!(fast > 0 || !usable, "no reading was made by a line");
}

/// A thread compares the counters where that matters. The result is the process's, and the thread
/// ends.
#[test]
fn a_comparison_is_made_where_it_matters() {
    if skipped_as_too_slow() {
        return;
    }
    let clock = Clock::builder().trust(Trust::Measured).interval(Duration::from_millis(10)).start().unwrap();
    until_fast(&clock);
    let status = clock.status();
    if status.hypervisor == tickline::Hypervisor::None && status.state == State::Fast {
        skip("the kernel has compared the counters of this machine itself");
        return;
    }
    let closed = [Gate::Supported, Gate::Readable, Gate::Cost].map(|gate| status.verdict(gate).closed);
    if closed.iter().any(Option::is_some) {
        skip("no counter to compare, or none that is worth it");
        return;
    }
    let start = std::time::Instant::now();
    while clock.status().comparison == Comparison::Pending {
        assert!(start.elapsed() < Duration::from_secs(60), "no comparison was made");
        std::thread::sleep(Duration::from_millis(5));
    }
    let reader = Clock::builder().driver(Driver::Reader).start().unwrap();
    assert_eq!(reader.status().comparison, clock.status().comparison, "it is the process's");
}
