//! Conversions between times: each there and back, and against another implementation where there
//! is one.
#![cfg(not(target_family = "wasm"))]

use std::time::{Duration, Instant as StdInstant, SystemTime};

use proptest::prelude::*;
use tickline::{Anchor, Instant, UnixTime};

/// Durations of all sizes, also beyond 2^64 ns.
fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..2_000_000_000_u64).prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_nanos),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(seconds, ns)| Duration::new(seconds, ns)),
    ]
}

/// Times of all sizes, many near both ends.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..5_000_000_000_u64, (0..5_000_000_000_u64).prop_map(|ns| u64::MAX - ns)]
}

/// A time that the other side has not, if the result is known exactly.
fn in_range(ns: i128) -> Option<u64> {
    u64::try_from(ns).ok()
}

proptest! {
    /// Exact in the range, and the nearest end beyond it.
    #[test]
    fn an_anchor_adds_one_difference(instant in nanos()) {
        let (anchor, at) = (Anchor::unix(), Instant::now());
        let (at, unix) = (at.as_nanos(), anchor.to_unix(at).as_nanos());
        let exact = i128::from(instant) - i128::from(at) + i128::from(unix);
        let time = anchor.to_unix(Instant::from_nanos(instant));
        match in_range(exact) {
            Some(ns) => {
                prop_assert_eq!(time, UnixTime::from_nanos(ns));
                prop_assert_eq!(anchor.to_instant(time), Instant::from_nanos(instant), "there and back");
            }
            None if exact < 0 => prop_assert_eq!(time, UnixTime::UNIX_EPOCH),
            None => prop_assert_eq!(time, UnixTime::MAX),
        }
        let exact = i128::from(instant) - i128::from(unix) + i128::from(at);
        let back = anchor.to_instant(UnixTime::from_nanos(instant));
        match in_range(exact) {
            Some(ns) => {
                prop_assert_eq!(back, Instant::from_nanos(ns));
                prop_assert_eq!(anchor.to_unix(back), UnixTime::from_nanos(instant), "back and there");
            }
            None if exact < 0 => prop_assert_eq!(back, Instant::ZERO),
            None => prop_assert_eq!(back, Instant::from_nanos(u64::MAX)),
        }
    }

    /// Every instant is one of std on Linux, whose seconds have 64 bits and a sign.
    #[test]
    #[cfg(target_os = "linux")]
    fn std_there_and_back_loses_nothing(first in nanos(), second in nanos()) {
        let anchor = Anchor::std();
        let [first, second] = [first, second].map(Instant::from_nanos);
        let [first_std, second_std] = [first, second].map(|instant| anchor.to_std(instant));
        prop_assert_eq!([first_std, second_std].map(|instant| anchor.to_instant(instant)), [first, second]);
        prop_assert_eq!(first_std.checked_duration_since(second_std), first.checked_duration_since(second));
    }

    /// Instants of std that are out of the range saturate.
    #[test]
    #[cfg(target_os = "linux")]
    fn std_times_out_of_range_saturate(seconds in 18_446_744_074..1_u64 << 40) {
        let (anchor, away) = (Anchor::std(), Duration::from_secs(seconds));
        prop_assert_eq!(anchor.to_instant(StdInstant::now() + away), Instant::from_nanos(u64::MAX));
        prop_assert_eq!(anchor.to_instant(StdInstant::now() - away), Instant::ZERO);
    }

    /// As std's, of the same numbers. `SystemTime` on Linux has seconds of 64 bits.
    #[test]
    #[cfg(target_os = "linux")]
    fn unix_time_computes_as_system_time(first in nanos(), second in nanos(), duration in durations()) {
        let [time, other] = [first, second].map(UnixTime::from_nanos);
        let [system, other_system] = [time, other].map(SystemTime::from);
        prop_assert_eq!(UnixTime::try_from(system), Ok(time));
        prop_assert_eq!(
            time.duration_since(other).map_err(|error| error.duration()),
            system.duration_since(other_system).map_err(|error| error.duration())
        );
        prop_assert_eq!(time - other, system.duration_since(other_system).unwrap_or_default());
        let sum = system.checked_add(duration).and_then(|sum| UnixTime::try_from(sum).ok());
        prop_assert_eq!(time.checked_add(duration), sum);
        let less = system.checked_sub(duration).and_then(|less| UnixTime::try_from(less).ok());
        prop_assert_eq!(time.checked_sub(duration), less);
        if let Some(sum) = sum {
            let mut moving = time;
            moving += duration;
            prop_assert_eq!(moving, sum);
            moving -= duration;
            prop_assert_eq!(moving, time);
        }
    }

    #[test]
    fn units_there_and_back(ns in any::<u64>()) {
        let time = UnixTime::from_nanos(ns);
        prop_assert_eq!(UnixTime::from_secs(time.as_secs()).as_nanos(), ns - ns % 1_000_000_000);
        prop_assert_eq!((time.as_millis(), time.as_micros()), (ns / 1_000_000, ns / 1_000));
    }

    #[test]
    fn text_there_and_back_loses_nothing(ns in any::<u64>(), digits in 0..10_usize) {
        let time = UnixTime::from_nanos(ns);
        prop_assert_eq!(time.to_string().parse(), Ok(time));
        prop_assert_eq!(format!("{}.{:09}", time.as_secs(), time.subsec_nanos()).parse(), Ok(time));
        // Fewer digits are cut off.
        let unit_ns = 10_u64.pow(9 - u32::try_from(digits).unwrap());
        prop_assert_eq!(format!("{time:.digits$}").parse(), Ok(UnixTime::from_nanos(ns - ns % unit_ns)));
    }

    /// Whatever the text, there is no panic.
    #[test]
    fn any_text_is_a_time_or_an_error(text in "[0-9TZ:.+ -]{0,40}|\\PC{0,40}") {
        if let Ok(time) = text.parse::<UnixTime>() {
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}

#[cfg(feature = "jiff")]
proptest! {
    #[test]
    fn jiff_there_and_back_loses_nothing(ns in nanos()) {
        let time = UnixTime::from_nanos(ns);
        let timestamp = jiff::Timestamp::from(time);
        prop_assert_eq!(timestamp.as_nanosecond(), i128::from(ns));
        prop_assert_eq!(UnixTime::try_from(timestamp), Ok(time));
        prop_assert_eq!(format!("{timestamp:.9}"), time.to_string());
    }

    /// Times and offsets as jiff reads them.
    #[test]
    fn text_is_read_as_jiff_reads_it(
        (year, month, day) in (1..9999_u16, 0..14_u8, 0..33_u8),
        (hour, minute, second) in (0..25_u8, 0..61_u8, 0..60_u8),
        (sign, hours, minutes) in (prop::sample::select(vec!["+", "-"]), 0..24_u8, 0..60_u8),
        fraction in prop::option::of("[0-9]{1,9}"),
    ) {
        let fraction = fraction.map_or_else(String::new, |digits| format!(".{digits}"));
        let text = format!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{sign}{hours:02}:{minutes:02}"
        );
        let expected = text.parse::<jiff::Timestamp>().ok().and_then(|time| UnixTime::try_from(time).ok());
        prop_assert_eq!(text.parse::<UnixTime>().ok(), expected, "{}", text);
    }

    #[test]
    fn jiff_times_out_of_range_are_errors(ns in any::<i64>()) {
        let timestamp = jiff::Timestamp::from_nanosecond(i128::from(ns)).expect("in jiff's range");
        let expected = u64::try_from(ns).ok().map(UnixTime::from_nanos);
        prop_assert_eq!(UnixTime::try_from(timestamp).ok(), expected);
    }
}

#[cfg(feature = "chrono")]
proptest! {
    #[test]
    fn chrono_there_and_back_loses_nothing(ns in nanos(), offset_s in -86_399..86_400_i32) {
        let time = UnixTime::from_nanos(ns);
        let utc = chrono::DateTime::<chrono::Utc>::from(time);
        prop_assert_eq!(u64::try_from(utc.timestamp()), Ok(time.as_secs()));
        prop_assert_eq!(utc.timestamp_subsec_nanos(), time.subsec_nanos());
        prop_assert_eq!(UnixTime::try_from(utc), Ok(time));
        let zone = chrono::FixedOffset::east_opt(offset_s).expect("within a day");
        prop_assert_eq!(UnixTime::try_from(utc.with_timezone(&zone)), Ok(time));
    }

    #[test]
    fn chrono_times_out_of_range_are_errors(seconds in -60_000_000_000..60_000_000_000_i64, ns in 0..1_000_000_000_u32) {
        let date = chrono::DateTime::<chrono::Utc>::from_timestamp(seconds, ns).expect("in chrono's range");
        let exact = i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        prop_assert_eq!(UnixTime::try_from(date).ok(), in_range(exact).map(UnixTime::from_nanos));
    }
}

#[cfg(feature = "time")]
proptest! {
    #[test]
    fn time_there_and_back_loses_nothing(ns in nanos(), offset_s in -86_399..86_400_i32) {
        let time = UnixTime::from_nanos(ns);
        let utc = time::OffsetDateTime::from(time);
        prop_assert_eq!(utc.unix_timestamp_nanos(), i128::from(ns));
        prop_assert_eq!(UnixTime::try_from(utc), Ok(time));
        let zone = time::UtcOffset::from_whole_seconds(offset_s).expect("within a day");
        prop_assert_eq!(UnixTime::try_from(utc.to_offset(zone)), Ok(time));
    }

    #[test]
    fn times_of_time_out_of_range_are_errors(seconds in -60_000_000_000..60_000_000_000_i64) {
        let date = time::OffsetDateTime::from_unix_timestamp(seconds).expect("in its range");
        let expected = in_range(i128::from(seconds) * 1_000_000_000).map(UnixTime::from_nanos);
        prop_assert_eq!(UnixTime::try_from(date).ok(), expected);
    }
}

#[cfg(feature = "serde")]
proptest! {
    #[test]
    fn numbers_in_json_lose_nothing(ns in any::<u64>()) {
        let (instant, time) = (Instant::from_nanos(ns), UnixTime::from_nanos(ns));
        let text = serde_json::to_string(&(instant, time)).unwrap();
        prop_assert_eq!(&text, &format!("[{ns},{ns}]"));
        prop_assert_eq!(serde_json::from_str::<(Instant, UnixTime)>(&text).unwrap(), (instant, time));
    }
}

#[test]
fn texts_that_are_no_times() {
    for text in [
        "",
        ".",
        "1.",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1e3",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00Zulu",
        "2026-01-01T00:00:00+0100",
        "2026-1-1T00:00:00Z",
    ] {
        let error = text.parse::<UnixTime>().expect_err(text);
        assert_eq!(error.to_string(), "neither an RFC 3339 time nor seconds since 1970", "{text}");
    }
    let error = |text: &str| text.parse::<UnixTime>().expect_err(text).to_string();
    assert_eq!(error("0000-01-01T00:00:00Z"), "62167219200 s before 1970 is below the limit of 0");
    assert_eq!(error("1969-12-31T23:59:59.75Z"), "0.25 s before 1970 is below the limit of 0");
    assert_eq!(
        error("2554-07-21T23:34:34Z"),
        "18446744074 s after 1970 is beyond the limit of 18446744073 s"
    );
    assert_eq!(
        error("99999999999999999999"),
        "99999999999999999999 s after 1970 is beyond the limit of 18446744073 s"
    );
}

#[test]
fn texts_that_are_times() {
    let newyear = UnixTime::from_secs(1_767_225_600);
    for text in [
        "2026-01-01T00:00:00Z",
        "2026-01-01 00:00:00z",
        "2026-01-01t01:30:00+01:30",
        "2025-12-31T23:00:00-01:00",
        "2025-12-31T23:59:60Z",
        "2026-01-01T00:00:00.0000000009Z",
        "1767225600",
        "01767225600.0",
    ] {
        assert_eq!(text.parse(), Ok(newyear), "{text}");
    }
    assert_eq!("2554-07-21T23:34:33.709551615Z".parse(), Ok(UnixTime::MAX));
    assert_eq!("1969-12-31T23:00:00-01:00".parse(), Ok(UnixTime::UNIX_EPOCH));
    assert_eq!("2000-02-29T00:00:00Z".parse(), Ok(UnixTime::from_secs(951_782_400)));
    assert_eq!(UnixTime::default(), UnixTime::UNIX_EPOCH);
}

#[test]
#[should_panic(expected = "a Unix time beyond the limit of 18446744073 s")]
fn a_second_too_many_panics() {
    let _ = UnixTime::from_secs(18_446_744_074);
}

/// `From` is an anchor of the moment.
#[test]
fn from_converts_by_the_present() {
    let (before, now, after) = (UnixTime::now(), Instant::now_ordered(), UnixTime::now());
    let time = UnixTime::from(now);
    let tolerance = Duration::from_secs(1); // A preempted thread; an exact test is above.
    assert!(before <= time + tolerance && time <= after + tolerance);
    let back = Instant::from(time);
    assert!((back - now).max(now - back) < tolerance);
    let std = StdInstant::from(now);
    let back = Instant::from(std);
    assert!((back - now).max(now - back) < tolerance);
}

/// With a mock, the present is the mock's: a deadline of the mock is as far away for std.
#[cfg(feature = "mock")]
#[test]
fn a_mock_converts_by_its_own_present() {
    let mock = tickline::mock::MockClock::new();
    let _active = mock.activate();
    let anchor = Anchor::unix();
    assert_eq!(anchor.to_unix(Instant::now()), UnixTime::now());
    assert_eq!(
        UnixTime::from(Instant::now() + Duration::from_secs(5)),
        UnixTime::now() + Duration::from_secs(5)
    );
    let anchor = Anchor::std();
    assert_eq!(
        anchor.to_std(Instant::now() + Duration::from_secs(5)),
        anchor.to_std(Instant::now()) + Duration::from_secs(5)
    );
}
