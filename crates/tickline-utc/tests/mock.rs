//! UTC by a mock: the interval that a test gets, and the wait that moves the mock.
#![cfg(feature = "mock")]

use std::time::Duration;

use tickline::UnixTime;
use tickline::mock::MockClock;
use tickline_utc::mock::MockUtc;
use tickline_utc::{UtcSource, UtcUnknown};

/// A test of code that waits for a commit to be past does not hang, and costs no time.
#[test]
fn a_mock_has_utc_with_the_error_that_it_was_given() {
    let clock = MockClock::new();
    let error = Duration::from_millis(5);
    let mock = MockUtc::new(&clock, error);
    let (utc, clock) = (mock.utc(), clock.clock());
    let (before, unix) = (utc.now().unwrap(), clock.unix_now());
    assert_eq!(
        [before.earliest(), before.latest()],
        [unix - error, unix + error]
    );
    assert_eq!(
        (before.source(), before.definitely_before(&before)),
        (UtcSource::Mock, false)
    );
    let left = before.width() + Duration::from_nanos(1);
    assert_eq!(utc.time_until_past(&before), Ok(left));
    let after = utc.wait_until_past(&before).unwrap();
    assert!(before.definitely_before(&after) && !after.definitely_before(&before));
    let least = unix + before.width() + Duration::from_nanos(1);
    assert_eq!(clock.unix_now(), least, "the least that will do");
    assert_eq!(utc.time_until_past(&before), Ok(Duration::ZERO));
    mock.set_error(Duration::MAX);
    let widest = utc.now().unwrap();
    assert_eq!(
        [widest.earliest(), widest.latest()],
        [UnixTime::UNIX_EPOCH, UnixTime::MAX],
        "no panic"
    );
}

#[test]
fn every_clone_of_a_mock_shows_what_the_test_has_set() {
    let clock = MockClock::new();
    let mock = MockUtc::new(&clock, Duration::ZERO);
    let utc = mock.clone().utc().clone();
    clock.set_unix_time(UnixTime::from_secs(1_893_456_000));
    assert_eq!(utc.now().unwrap().earliest().as_secs(), 1_893_456_000);
    mock.set_unknown(UtcUnknown::LeapSecond);
    let failed = Err(UtcUnknown::LeapSecond);
    assert_eq!((utc.now(), mock.utc().now()), (failed, failed));
    mock.set_error(Duration::from_secs(1));
    assert_eq!(utc.now().unwrap().width(), Duration::from_secs(2));
}
