//! A clock that a test moves by hand.

use std::cell::RefCell;
use std::time::Duration;

use tickline::mock::{MockClock, MockGuard};
use tickline::{Anchor, Clock, ClockState, Instant, UnixTime};

#[test]
fn a_mock_moves_time_by_hand() {
    let mock = MockClock::new();
    let _active = mock.activate();
    let start = Instant::now();
    mock.advance(Duration::from_secs(3));
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[test]
fn a_mock_stops_at_the_latest_instant() {
    let mock = MockClock::new();
    let _active = mock.activate();
    mock.advance(Duration::MAX);
    assert_eq!(Instant::now(), Instant::MAX);
}

#[test]
fn an_hour_is_subtracted_from_a_mock_that_began_a_second_ago() {
    let mock = MockClock::new();
    let _active = mock.activate();
    mock.advance(Duration::from_secs(1));
    let hour = Duration::from_secs(3_600);
    let an_hour_ago = Instant::now() - hour;
    assert_eq!(an_hour_ago.elapsed(), hour);
    assert!(an_hour_ago < Instant::ZERO, "the mock has begun later");
}

#[test]
fn a_unix_time_that_is_set_moves_no_monotonic_time() {
    let mock = MockClock::new();
    let _active = mock.activate();
    let start = Instant::now();
    mock.set_unix_time(UnixTime::UNIX_EPOCH);
    assert_eq!(UnixTime::now(), UnixTime::UNIX_EPOCH);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[test]
fn a_mock_shows_its_last_unix_time_in_place_of_a_later_one() {
    let mock = MockClock::new();
    let _active = mock.activate();
    mock.set_unix_time(UnixTime::MAX);
    assert_eq!(UnixTime::now(), UnixTime::from_nanos(u64::MAX / 2));
}

#[test]
fn a_mock_is_active_on_its_thread_until_its_guard_is_dropped() {
    let before = Instant::now();
    let mock = MockClock::new();
    let active = mock.activate();
    let by_mock = Instant::now();
    assert_eq!(Instant::now(), by_mock);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_ne!(Instant::now(), by_mock, "other threads read the real clock"));
    });
    drop(active);
    assert!(Instant::now() >= before);
}

#[test]
fn a_mock_goes_on_from_the_unix_time_that_was_set() {
    let mock = MockClock::new();
    let _active = mock.activate();
    mock.set_unix_time(UnixTime::from_secs(1_000));
    mock.advance(Duration::from_secs(3));
    assert_eq!(UnixTime::now(), UnixTime::from_secs(1_003));
}

#[test]
fn unix_time_says_how_much_has_elapsed() {
    let mock = MockClock::new();
    let _active = mock.activate();
    let start = UnixTime::now();
    mock.advance(Duration::from_secs(3));
    assert_eq!(start.elapsed().unwrap(), Duration::from_secs(3));
}

#[test]
fn the_time_since_a_unix_time_in_the_future_is_an_error() {
    let mock = MockClock::new();
    let _active = mock.activate();
    let later = UnixTime::now() + Duration::from_secs(7);
    let error = later.elapsed().unwrap_err();
    assert_eq!(error.duration(), Duration::from_secs(7));
}

#[test]
fn a_clock_of_a_mock_shows_its_time_on_all_threads() {
    let mock = MockClock::new();
    let clock = mock.clock();
    let start = clock.now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                mock.advance(Duration::from_secs(1));
                assert!(clock.now() > start);
            });
        }
    });
    assert_eq!(clock.now(), start + Duration::from_secs(4));
}

#[test]
fn all_clocks_of_a_mock_show_one_time() {
    let mock = MockClock::new();
    let first = mock.clock();
    let second = mock.clock();
    mock.advance(Duration::from_secs(4));
    assert_eq!(first.now(), second.now());
}

#[test]
fn every_reading_of_a_mock_is_its_time() {
    let mock = MockClock::new();
    let clock = mock.clock();
    let start = clock.now();
    mock.advance(Duration::from_secs(4));
    let reading = clock.reading();
    assert_eq!(
        [
            clock.now(),
            clock.now_ordered(),
            clock.recent(),
            reading.earliest(),
            reading.time()
        ],
        [start + Duration::from_secs(4); 5]
    );
}

#[test]
fn every_reading_of_a_mocks_unix_time_is_that_time() {
    let mock = MockClock::new();
    let clock = mock.clock();
    let start = clock.unix_now();
    mock.advance(Duration::from_secs(4));
    let reading = clock.unix_reading();
    assert_eq!(
        [clock.unix_now(), reading.earliest(), reading.time()],
        [start + Duration::from_secs(4); 3]
    );
}

#[test]
fn a_reading_of_a_mock_is_a_nanosecond_wide() {
    let clock = MockClock::new().clock();
    let widths = [clock.reading().width(), clock.unix_reading().width()];
    assert_eq!(widths, [Duration::from_nanos(1); 2]);
}

#[test]
fn a_mock_does_not_move_when_its_clock_is_enabled_and_maintained() {
    let clock = MockClock::new().clock();
    let start = clock.now();
    clock.enable();
    (0..100).for_each(|_| _ = clock.maintain());
    assert_eq!(clock.now(), start);
}

#[test]
fn the_state_of_a_mocks_clock_is_mock() {
    let clock = MockClock::new().clock();
    clock.enable();
    clock.maintain();
    let status = clock.status();
    assert_eq!((status.state, status.reason()), (ClockState::Mock, None));
}

#[test]
fn a_mock_does_not_read_the_counter() {
    assert!(!MockClock::new().clock().reading().is_from_counter());
}

#[test]
fn a_mock_that_is_not_active_leaves_the_default_clock_alone() {
    let clock = MockClock::new().clock();
    assert_ne!(Clock::default().now(), clock.now());
}

#[test]
fn an_active_mock_does_not_change_what_a_clock_as_a_value_shows() {
    let mock = MockClock::new();
    mock.advance(Duration::from_secs(4));
    let clock = mock.clock();
    let now = mock.clock().now();
    let _active = MockClock::new().activate();
    assert_eq!(clock.now(), now);
    assert_ne!(Instant::now(), now);
}

/// Symptom: the drop of one guard ended a later activation of the same mock.
#[test]
fn a_guard_ends_its_own_activation() {
    let mock = MockClock::new();
    let other = MockClock::new();
    mock.advance(Duration::from_secs(4));
    let now = mock.clock().now();
    let first = mock.activate();
    let second = other.activate();
    let _third = mock.activate();
    drop(first);
    assert_eq!(Instant::now(), now, "the last one activated");
    drop(second);
    assert_eq!(Instant::now(), now);
}

/// Symptom: a guard in a thread-local variable, which was dropped after the mocks of its thread,
/// aborted the process.
#[test]
fn a_mock_may_be_active_until_its_thread_ends() {
    std::thread_local! {
        static KEPT: RefCell<Option<MockGuard>> = const { RefCell::new(None) };
    }
    let keep = || KEPT.with_borrow_mut(|kept| *kept = Some(MockClock::new().activate()));
    std::thread::spawn(keep).join().unwrap();
}

/// With a mock, the present is the mock's: a deadline of the mock is as far away for std.
#[test]
fn a_mock_converts_by_its_own_present() {
    let mock = MockClock::new();
    let _active = mock.activate();
    let anchor = Anchor::unix();
    assert_eq!(anchor.to_unix(Instant::now()), UnixTime::now());
    assert_eq!(anchor.to_instant(UnixTime::now()), Instant::now());
    let anchor = Anchor::std();
    let ahead = Duration::from_secs(5);
    assert_eq!(
        anchor.to_std(Instant::now() + ahead),
        anchor.to_std(Instant::now()) + ahead
    );
}

#[test]
fn a_mock_begins_one_second_after_zero() {
    let clock = MockClock::new().clock();
    assert_eq!(clock.now().as_nanos(), 1_000_000_000);
}

#[test]
fn the_unix_time_of_a_mock_begins_at_the_new_year_of_2026() {
    let clock = MockClock::new().clock();
    assert_eq!(clock.unix_now(), UnixTime::from_secs(1_767_225_600));
}

#[test]
fn a_mock_is_not_waited_for() {
    let start = std::time::Instant::now();
    let timeout = Duration::from_secs(20);
    let status = MockClock::new().clock().wait_until_decided(timeout);
    assert_eq!(status.state, ClockState::Mock);
    assert!(start.elapsed() < timeout, "it used up its timeout");
}

#[test]
fn a_clock_measures_by_its_own_time() {
    let mock = MockClock::new();
    let clock = mock.clock();
    let start = clock.now();
    assert_eq!(clock.elapsed(start), Duration::ZERO);
    mock.advance(Duration::from_nanos(1));
    assert_eq!(clock.elapsed(start), Duration::from_nanos(1));
    mock.advance(Duration::from_secs(3));
    assert_eq!(clock.elapsed(start), Duration::new(3, 1));
}

#[test]
fn no_time_has_elapsed_since_a_later_instant() {
    let clock = MockClock::new().clock();
    let later = clock.now() + Duration::from_nanos(1);
    assert_eq!(clock.elapsed(later), Duration::ZERO);
    assert_eq!(clock.elapsed(Instant::MAX), Duration::ZERO);
}

#[test]
fn the_time_since_the_earliest_instant_is_exact() {
    let clock = MockClock::new().clock();
    let until_zero = Duration::from_nanos(1 << 63);
    assert_eq!(
        clock.elapsed(Instant::MIN),
        until_zero + Duration::from_secs(1)
    );
}

/// Calls of a mock that follows tokio's paused clock.
#[cfg(all(feature = "tokio", not(target_family = "wasm")))]
mod paused {
    use tokio::time::{advance, interval, sleep_until};

    use super::*;

    /// The tick of tokio's timers.
    const TICK: Duration = Duration::from_millis(1);

    fn run(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test);
    }

    /// Waits for a deadline on this clock by tokio, and returns whether the wait ended in time.
    async fn ends_in_time(clock: &Clock, deadline: Instant) -> bool {
        sleep_until(clock.std_anchor().to_std(deadline).into()).await;
        (deadline..=deadline + TICK).contains(&clock.now())
    }

    /// Symptom: the first wait put tokio's clock ahead of std's, and the next one ended at once.
    #[test]
    fn a_second_wait_on_a_paused_clock_ends_at_its_deadline() {
        run(async {
            let clock = MockClock::from_tokio().clock();
            let first = Duration::from_secs(60);
            let second = Duration::from_secs(90);
            let start = clock.now();
            assert!(ends_in_time(&clock, start + first).await);
            assert!(ends_in_time(&clock, start + second).await, "the second");
        });
    }

    #[test]
    fn a_wait_after_an_advance_of_tokios_clock_ends_at_its_deadline() {
        run(async {
            let clock = MockClock::from_tokio().clock();
            advance(Duration::from_secs(3_600)).await;
            let deadline = clock.now() + Duration::from_secs(10);
            assert!(ends_in_time(&clock, deadline).await);
        });
    }

    #[test]
    fn an_active_mock_that_follows_tokio_converts_deadlines_to_its_paused_clock() {
        run(async {
            let _active = MockClock::from_tokio().activate();
            advance(Duration::from_secs(3_600)).await;
            let deadline = Instant::now() + Duration::from_secs(10);
            sleep_until(Anchor::std().to_std(deadline).into()).await;
            assert!((deadline..=deadline + TICK).contains(&Instant::now()));
        });
    }

    #[test]
    fn a_tick_of_a_paused_clock_is_the_present() {
        run(async {
            let clock = MockClock::from_tokio().clock();
            advance(Duration::from_secs(3_600)).await;
            let tick = interval(Duration::from_secs(1)).tick().await;
            let converted = clock.std_anchor().to_instant(tick.into_std());
            assert!((converted..=converted + TICK).contains(&clock.now()));
        });
    }
}
