//! The calls of every program, on every system and under Miri, where std's clock serves:
//! `cargo +nightly miri test -p tickline --test portable`.
//!
//! Unix time is left out under Miri, which refuses `CLOCK_REALTIME` to an isolated program, tickline
//! or not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickline::{Clock, Driver, Instant};

const TURNS: usize = if cfg!(miri) { 20 } else { 2_000 };

#[test]
fn a_program_measures_a_time() {
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(2));
    assert!(start.elapsed() >= Duration::from_millis(1));
    assert!(Instant::now_ordered() >= start && Instant::recent() >= start);
    let reading = Clock::global().reading();
    assert!(reading.earliest() <= reading.at() && reading.at() <= reading.latest());
}

#[test]
fn threads_share_a_clock() {
    let largest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let before = largest.load(Ordering::Acquire);
                    let now = tickline::now_ordered_ns();
                    assert!(now >= before, "{now} after {before}");
                    largest.fetch_max(now, Ordering::AcqRel);
                }
            });
        }
    });
}

#[test]
fn a_clock_is_started_switched_and_dropped() {
    for driver in [Driver::Reader, Driver::Manual, Driver::Thread] {
        let clock = Clock::builder().driver(driver).interval(Duration::from_millis(1)).start().unwrap();
        let mut last = 0;
        for turn in 0..TURNS {
            let now = clock.now_ordered_ns();
            assert!(now >= last, "{now} after {last}");
            last = now;
            match turn {
                5 => clock.disable(),
                10 => clock.enable(),
                15 => assert!(!clock.maintain().is_zero()),
                _ => {}
            }
        }
        if !cfg!(miri) {
            assert!(clock.unix_ns() > 0);
        }
        assert_eq!(clock.status().driver, driver);
    }
}

#[test]
fn the_global_clock_is_started_twice() {
    let (first, second) = (tickline::start().unwrap(), tickline::start().unwrap());
    assert!(tickline::recent_ns() > 0);
    drop(first);
    assert_eq!(Clock::global().status().driver, Driver::Thread);
    drop(second);
    assert_eq!(Clock::global().status().driver, Driver::Reader);
}
