//! UTC by a mock: the range that a test gets, and the wait that moves the mock.
#![cfg(feature = "mock")]

use std::time::Duration;

use tickline::mock::MockClock;
use tickline::{Clock, UnixTime};
use tickline_utc::mock::MockUtc;
use tickline_utc::{UtcSource, UtcUnknown};

const ERROR: Duration = Duration::from_millis(5);

/// A mock of UTC with that error, and its clock.
fn mock_utc() -> (MockUtc, Clock) {
    let clock = MockClock::new();
    (MockUtc::new(&clock, ERROR), clock.clock())
}

#[test]
fn a_mock_has_utc_with_the_error_that_it_was_given() {
    let (mock, clock) = mock_utc();
    let now = mock.utc().now().unwrap();
    let unix = clock.unix_now();
    assert_eq!([now.earliest(), now.latest()], [unix - ERROR, unix + ERROR]);
}

#[test]
fn a_reading_of_a_mock_names_the_mock_as_its_source() {
    let (mock, _) = mock_utc();
    assert_eq!(mock.utc().now().unwrap().source(), UtcSource::Mock);
}

#[test]
fn a_reading_is_not_definitely_before_itself() {
    let (mock, _) = mock_utc();
    let now = mock.utc().now().unwrap();
    assert!(!now.definitely_before(&now));
}

/// A test of code that waits for a commit to be past does not hang, and costs no time.
#[test]
fn a_wait_until_a_reading_is_past_moves_the_mock_by_the_least_that_will_do() {
    let (mock, clock) = mock_utc();
    let utc = mock.utc();
    let unix = clock.unix_now();
    let before = utc.now().unwrap();
    let left = before.width() + Duration::from_nanos(1);
    assert_eq!(utc.time_until_past(&before), Ok(left));
    let after = utc.wait_until_past(&before).unwrap();
    assert!(before.definitely_before(&after) && !after.definitely_before(&before));
    assert_eq!(clock.unix_now(), unix + left);
    assert_eq!(utc.time_until_past(&before), Ok(Duration::ZERO));
}

#[test]
fn the_largest_error_of_a_mock_leaves_the_whole_range() {
    let (mock, _) = mock_utc();
    mock.set_error(Duration::MAX);
    let widest = mock.utc().now().unwrap();
    assert_eq!(
        [widest.earliest(), widest.latest()],
        [UnixTime::UNIX_EPOCH, UnixTime::MAX]
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

const LIMIT: Duration = Duration::from_millis(250);
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_wait_returns_the_first_reading_within_the_limit() {
    let clock = MockClock::new();
    let mock = MockUtc::new(&clock, Duration::from_secs(1));
    let utc = mock.utc();
    let before = clock.clock().now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| utc.wait_until_within(LIMIT, Duration::MAX));
        while clock.clock().now().duration_since(before) < TIMEOUT {
            std::thread::yield_now();
        }
        assert!(!waiting.is_finished());
        mock.set_error(LIMIT);
        let reading = waiting.join().unwrap().unwrap();
        assert_eq!(reading.error(), LIMIT);
    });
}

#[test]
fn a_wait_ends_at_the_timeout_with_the_last_reading() {
    let clock = MockClock::new();
    let error = LIMIT + Duration::from_nanos(1);
    let utc = MockUtc::new(&clock, error).utc();
    let before = clock.clock().now();
    let failed = utc.wait_until_within(LIMIT, TIMEOUT).unwrap_err();
    assert_eq!(failed.last().unwrap().error(), error);
    assert_eq!(failed.waited(), TIMEOUT);
    assert_eq!(clock.clock().now().duration_since(before), TIMEOUT);
    assert_eq!(
        failed.to_string(),
        "the error of UTC is 250.000001ms by a mock after 60s, above the limit of 250ms: wait longer, or see \
         what the source states (`tickline doctor`)"
    );
}

#[test]
fn a_wait_ends_at_the_timeout_with_the_reason() {
    let mock = MockUtc::new(&MockClock::new(), Duration::ZERO);
    mock.set_unknown(UtcUnknown::LeapSecond);
    let failed = mock.utc().wait_until_within(LIMIT, TIMEOUT).unwrap_err();
    assert_eq!(failed.last(), Err(UtcUnknown::LeapSecond));
    let why = UtcUnknown::LeapSecond;
    assert_eq!(
        failed.to_string(),
        format!("UTC is not known to within 250ms after 60s: {why}")
    );
}

#[test]
fn a_wait_with_a_timeout_of_0_reads_once() {
    let mock = MockUtc::new(&MockClock::new(), LIMIT);
    let utc = mock.utc();
    assert!(utc.wait_until_within(LIMIT, Duration::ZERO).is_ok());
    mock.set_error(TIMEOUT);
    let failed = utc.wait_until_within(LIMIT, Duration::ZERO).unwrap_err();
    assert_eq!(failed.waited(), Duration::ZERO);
}
