//! `Instant` and `UnixTime` as values.

use std::collections::HashSet;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickline::{Instant, UnixTime};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn instants_have_the_arithmetic_of_std() {
    let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(1_000_000_007));
    assert_eq!(late - early, Duration::new(1, 2));
    assert_eq!(early - late, Duration::ZERO, "differences saturate");
    assert_eq!(late.duration_since(early), Duration::new(1, 2));
    assert_eq!(late.checked_duration_since(early), Some(Duration::new(1, 2)));
    assert_eq!(early.checked_duration_since(late), None);
    assert_eq!(early.saturating_duration_since(late), Duration::ZERO);
    assert_eq!(early + SECOND, Instant::from_nanos(1_000_000_005));
    assert_eq!((early + SECOND) - SECOND, early);
    let mut moving = early;
    moving += SECOND;
    moving -= Duration::from_nanos(5);
    assert_eq!(moving.as_nanos(), 1_000_000_000);
    assert_eq!(early.checked_sub(Duration::from_nanos(6)), None);
    assert_eq!(early.checked_add(Duration::MAX), None);
    assert!(early < late && HashSet::from([early, late, early]).len() == 2);
    assert_eq!(format!("{late:?}"), "Instant(1.000000007s)");
}

#[test]
#[should_panic(expected = "overflow when adding a duration to an instant")]
fn adding_too_much_panics_as_in_std() {
    let _ = Instant::from_nanos(1) + Duration::MAX;
}

#[test]
#[should_panic(expected = "overflow when subtracting a duration from an instant")]
fn subtracting_too_much_panics_as_in_std() {
    let _ = Instant::from_nanos(1) - SECOND;
}

#[test]
fn unix_time_converts_to_system_time_and_back() {
    let time = UnixTime::from_nanos(1_767_225_600_123_456_789);
    let system = SystemTime::from(time);
    assert_eq!(system, UNIX_EPOCH + Duration::new(1_767_225_600, 123_456_789));
    // Windows' counts in units of 100 ns.
    let back = if cfg!(windows) { UnixTime::from_nanos(1_767_225_600_123_456_700) } else { time };
    assert_eq!(UnixTime::try_from(system), Ok(back));
    assert_eq!((time.as_secs(), time.subsec_nanos()), (1_767_225_600, 123_456_789));
    assert_eq!((time + SECOND) - SECOND, time);
    assert_eq!(time.checked_add(SECOND).unwrap() - time, SECOND);
    assert_eq!(time - time.checked_add(SECOND).unwrap(), Duration::ZERO, "differences saturate");
    assert_eq!(UnixTime::UNIX_EPOCH.checked_sub(SECOND), None);
    assert_eq!(format!("{time:?}"), "UnixTime(1767225600.123456789)");
    assert_eq!(size_of::<UnixTime>(), 8);
}

#[test]
fn system_times_out_of_range_are_named_with_their_limit() {
    let before = UnixTime::try_from(UNIX_EPOCH - SECOND).unwrap_err().to_string();
    assert_eq!(before, "1 s before 1970 is below the limit of 0");
    let after = UnixTime::try_from(UNIX_EPOCH + Duration::from_secs(20_000_000_000)).unwrap_err().to_string();
    assert_eq!(after, "20000000000 s after 1970 is beyond the limit of 18446744073 s");
}

/// A panic elsewhere leaves no clock half changed: nothing that a clock does can panic.
const _: () = {
    const fn is_safe<T: UnwindSafe + RefUnwindSafe + Send + Sync>() {}
    is_safe::<tickline::Clock>();
    is_safe::<&tickline::Clock>();
    is_safe::<&&'static tickline::Clock>();
    is_safe::<Option<tickline::Clock>>();
    is_safe::<tickline::ClockGuard>();
    is_safe::<&tickline::ClockGuard>();
    is_safe::<tickline::ClockBuilder>();
    is_safe::<tickline::Status>();
    is_safe::<&tickline::Status>();
    is_safe::<tickline::Reading<Instant>>();
    is_safe::<&tickline::Reading<UnixTime>>();
    is_safe::<Instant>();
    is_safe::<UnixTime>();
};

/// A clock by reference may go into `catch_unwind` as it is, and serves after the panic.
#[test]
fn clocks_may_be_used_after_a_panic() {
    let clock = tickline::Clock::builder().driver(tickline::Driver::Reader).start().unwrap();
    let (borrowed, global) = (&clock, tickline::Clock::global());
    let before = clock.now_ordered_ns();
    let caught = std::panic::catch_unwind(|| {
        std::hint::black_box((borrowed.reading(), global.reading()));
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(caught.is_err() && clock.now_ordered_ns() >= before);
}
