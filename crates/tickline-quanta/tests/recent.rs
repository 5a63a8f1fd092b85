//! The recent time and the upkeep. A process has only one of each, so the tests run one at a time.

use std::error::Error as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use quanta::{Clock, Error, Instant, Upkeep, set_recent};

static ONE: Mutex<()> = Mutex::new(());

/// Waits for the turn of a test, and stores no recent time (0).
fn turn() -> MutexGuard<'static, ()> {
    let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_recent(at(0));
    turn
}

fn at(ns: u64) -> Instant {
    tickline::Instant::from_nanos(ns).into()
}

#[test]
fn without_a_stored_time_instants_read_the_clock() {
    let _turn = turn();
    assert_eq!(Clock::new().recent(), at(0));
    let before = Instant::now();
    assert!(Instant::recent() >= before);
}

fn recents() -> (Instant, Instant) {
    (Instant::recent(), Clock::new().recent())
}

#[test]
fn a_stored_time_stands_for_all_threads() {
    let _turn = turn();
    set_recent(at(7));
    assert_eq!(recents(), (at(7), at(7)));
    assert_eq!(thread::spawn(recents).join().unwrap(), (at(7), at(7)));
}

#[test]
fn the_next_stored_time_replaces_one_that_is_later() {
    let _turn = turn();
    set_recent(at(7));
    set_recent(at(3));
    assert_eq!(recents(), (at(3), at(3)));
}

fn upkeep() -> Upkeep {
    Upkeep::new(Duration::from_micros(100))
}

#[test]
fn an_upkeep_stores_the_time_before_its_start_returns() {
    let _turn = turn();
    let before = Instant::now();
    let _upkeep = Upkeep::new(Duration::MAX).start().unwrap();
    let recent = Clock::new().recent();
    assert!((before..=Instant::now()).contains(&recent), "{recent:?}");
}

#[test]
fn an_upkeep_stores_the_time_again_and_again() {
    let _turn = turn();
    let _upkeep = upkeep().start().unwrap();
    for _ in 0..3 {
        let last = Clock::new().recent();
        while Clock::new().recent() <= last {
            thread::yield_now();
        }
        assert!(Instant::recent() <= Instant::now());
    }
}

#[test]
fn an_upkeep_stores_no_time_after_its_drop() {
    let _turn = turn();
    drop(upkeep().start().unwrap());
    let last = Instant::recent();
    thread::sleep(Duration::from_millis(5));
    assert_eq!(Instant::recent(), last);
}

#[test]
fn a_process_runs_one_upkeep_at_a_time() {
    let _turn = turn();
    for _ in 0..3 {
        let upkeep = Upkeep::new(Duration::from_millis(1)).start().unwrap();
        let error = Upkeep::new(Duration::from_millis(1)).start().unwrap_err();
        assert!(matches!(error, Error::UpkeepRunning) && error.source().is_none());
        assert_eq!(error.to_string(), "this process already runs an upkeep");
        drop(upkeep);
    }
}

/// quanta waits until the interval is over. If this crate did, the test would not end.
#[test]
fn dropping_an_upkeep_wakes_it() {
    let _turn = turn();
    for _ in 0..3 {
        let upkeep = Upkeep::new(Duration::MAX).start().unwrap();
        thread::sleep(Duration::from_millis(20)); // The thread then most likely waits.
        drop(upkeep);
    }
}

/// Symptom: a program that prints the chain of causes repeated it.
#[test]
fn an_upkeep_without_a_thread_has_the_error_of_the_os_in_its_text_and_not_as_source_too() {
    let error = Error::FailedToSpawnUpkeepThread(std::io::ErrorKind::OutOfMemory.into());
    assert_eq!(error.to_string(), "no thread for the upkeep: out of memory");
    assert!(error.source().is_none());
}

#[cfg(feature = "mock")]
mod mocks {
    use quanta::with_clock;

    use super::*;

    #[test]
    fn a_stored_time_counts_inside_a_replacement_too() {
        let _turn = turn();
        let (clock, mock) = Clock::mock();
        with_clock(&clock, || {
            mock.increment(42_u64);
            assert_eq!((Instant::recent(), clock.recent()), (at(42), at(42)));
            set_recent(at(1440));
            assert_eq!((Instant::recent(), clock.recent()), (at(1440), at(42)));
        });
    }

    #[test]
    fn an_upkeep_may_store_the_time_of_a_mock() {
        let _turn = turn();
        let (clock, mock) = Clock::mock();
        mock.increment(7_u64);
        let upkeep = Upkeep::new_with_clock(Duration::from_micros(100), clock)
            .start()
            .unwrap();
        assert_eq!(Instant::recent(), at(7));
        mock.increment(1_u64);
        while Instant::recent() != at(8) {
            thread::yield_now();
        }
        drop(upkeep);
    }
}
