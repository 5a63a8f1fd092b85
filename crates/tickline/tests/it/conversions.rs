//! Conversions between times: each there and back, and against another implementation where there
//! is one.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tickline::{Anchor, Instant, UnixTime};

/// Times of all sizes, many near both ends.
fn nanos() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..5_000_000_000_u64,
        (0..5_000_000_000_u64).prop_map(|ns| u64::MAX - ns)
    ]
}

proptest! {
    /// Exact in the range, and the nearest end beyond it.
    #[test]
    fn an_anchor_adds_one_difference(ns in nanos()) {
        let anchor = Anchor::unix();
        let at = Instant::now();
        let difference = i128::from(anchor.to_unix(at).as_nanos()) - i128::from(at.as_nanos());
        let instant = Instant::from_signed_nanos(ns.cast_signed());
        let time = UnixTime::from_nanos(ns);
        let later = i128::from(ns.cast_signed()) + difference;
        let earlier = i128::from(ns) - difference;
        let nearest_unix = u64::try_from(later.clamp(0, u64::MAX.into())).expect("clamped");
        let nearest_instant = i64::try_from(earlier.clamp(i64::MIN.into(), i64::MAX.into())).expect("clamped");
        prop_assert_eq!(anchor.to_unix(instant).as_nanos(), nearest_unix);
        prop_assert_eq!(anchor.to_instant(time).as_signed_nanos(), nearest_instant);
        prop_assert!(u64::try_from(later).is_err() || anchor.to_instant(anchor.to_unix(instant)) == instant);
        prop_assert!(i64::try_from(earlier).is_err() || anchor.to_unix(anchor.to_instant(time)) == time);
    }

    #[test]
    fn a_unix_time_in_whole_units_is_rounded_down(ns in any::<u64>()) {
        let time = UnixTime::from_nanos(ns);
        let whole = [
            UnixTime::from_secs(time.as_secs()),
            UnixTime::from_millis(time.as_millis()),
            UnixTime::from_micros(time.as_micros()),
        ];
        let units_ns = [1_000_000_000, 1_000_000, 1_000];
        prop_assert_eq!(whole.map(UnixTime::as_nanos), units_ns.map(|unit_ns| ns - ns % unit_ns));
        prop_assert_eq!((time.as_millis(), time.as_micros()), (ns / 1_000_000, ns / 1_000));
        let seconds = time.as_secs();
        let rest_ns = time.subsec_nanos();
        prop_assert_eq!((seconds, u64::from(rest_ns)), (ns / 1_000_000_000, ns % 1_000_000_000));
        prop_assert_eq!(format!("{time:?}"), format!("UnixTime({seconds}.{rest_ns:09})"));
    }

    #[test]
    fn a_text_of_a_unix_time_is_filled_to_its_width(ns in any::<u64>(), width in 0..40_usize, digits in 0..10_usize) {
        let time = UnixTime::from_nanos(ns);
        let text = format!("{time:.digits$}");
        prop_assert_eq!(format!("{time:>width$.digits$}"), format!("{text:>width$}"));
        prop_assert_eq!(format!("{time:*^width$.digits$}"), format!("{text:*^width$}"));
        prop_assert_eq!(format!("{time:width$.digits$}"), format!("{text:width$}"));
    }

    #[test]
    fn a_precision_truncates_the_text_of_a_unix_time(ns in any::<u64>(), digits in 0..10_usize) {
        let time = UnixTime::from_nanos(ns);
        let whole = time.to_string();
        let (start, fraction) = whole.trim_end_matches('Z').split_once('.').expect("nine digits");
        let cut = &fraction[..digits];
        let expected = if cut.is_empty() { format!("{start}Z") } else { format!("{start}.{cut}Z") };
        prop_assert_eq!(format!("{time:.digits$}"), expected);
    }
}

/// Systems on which the seconds of std's times are signed 64-bit numbers.
#[cfg(target_os = "linux")]
mod linux {
    use std::time::{Duration, Instant as StdInstant, SystemTime};

    use super::*;

    /// Durations of all sizes, also beyond 2^64 ns.
    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0..2_000_000_000_u64).prop_map(Duration::from_nanos),
            any::<u64>().prop_map(Duration::from_nanos),
            (any::<u64>(), 0..1_000_000_000_u32)
                .prop_map(|(seconds, ns)| Duration::new(seconds, ns)),
        ]
    }

    proptest! {
        /// Every instant is one of std.
        #[test]
        fn std_there_and_back_loses_nothing(first in nanos(), second in nanos()) {
            let anchor = Anchor::std();
            let [first, second] = [first, second].map(|ns| Instant::from_signed_nanos(ns.cast_signed()));
            let [first_std, second_std] = [first, second].map(|instant| anchor.to_std(instant));
            prop_assert_eq!([first_std, second_std].map(|instant| anchor.to_instant(instant)), [first, second]);
            prop_assert_eq!(first_std.checked_duration_since(second_std), first.checked_duration_since(second));
        }

        /// Instants of std that are out of the range saturate.
        #[test]
        fn std_times_out_of_range_saturate(seconds in 18_446_744_074..1_u64 << 40) {
            let anchor = Anchor::std();
            let away = Duration::from_secs(seconds);
            prop_assert_eq!(anchor.to_instant(StdInstant::now() + away), Instant::MAX);
            prop_assert_eq!(anchor.to_instant(StdInstant::now() - away), Instant::MIN);
        }

        /// The results are those of `SystemTime` for the same numbers.
        #[test]
        fn unix_time_computes_as_system_time(first in nanos(), second in nanos(), duration in durations()) {
            let [time, other] = [first, second].map(UnixTime::from_nanos);
            let [system, other_system] = [time, other].map(SystemTime::from);
            prop_assert_eq!(UnixTime::try_from(system), Ok(time));
            prop_assert_eq!(
                time.duration_since(other).map_err(|error| error.duration()),
                system.duration_since(other_system).map_err(|error| error.duration())
            );
            prop_assert_eq!(
                time.checked_duration_since(other),
                system.duration_since(other_system).ok()
            );
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
    }
}

/// Three times, and the second as std's.
fn three_times() -> ([UnixTime; 3], std::time::SystemTime) {
    let times = [1, 2, 3].map(UnixTime::from_secs);
    (times, times[1].into())
}

#[test]
fn a_unix_time_is_ordered_among_times_of_std() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let (times, std_time) = three_times();
    let orders = times.map(|time| time.partial_cmp(&std_time));
    assert_eq!(orders, [Less, Equal, Greater].map(Some));
}

#[test]
fn a_time_of_std_is_ordered_among_unix_times() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let (times, std_time) = three_times();
    let orders = times.map(|time| std_time.partial_cmp(&time));
    assert_eq!(orders, [Greater, Equal, Less].map(Some));
}

#[test]
fn a_unix_time_is_equal_to_the_same_time_of_std() {
    let (times, std_time) = three_times();
    assert_eq!(times.map(|time| time == std_time), [false, true, false]);
}

#[test]
fn a_time_of_std_is_equal_to_the_same_unix_time() {
    let (times, std_time) = three_times();
    assert_eq!(times.map(|time| std_time == time), [false, true, false]);
}

#[cfg(all(feature = "chrono", feature = "jiff", feature = "time"))]
proptest! {
    /// Times of other crates, also beyond both ends of a Unix time.
    #[test]
    fn other_crates_there_and_back_lose_nothing(
        ns in prop_oneof![nanos().prop_map(i128::from), -(1_i128 << 65)..1_i128 << 65],
        offset_s in -86_399..86_400_i32,
    ) {
        let time = u64::try_from(ns).ok().map(UnixTime::from_nanos);
        let by_jiff = jiff::Timestamp::from_nanosecond(ns).expect("in its range");
        prop_assert_eq!(UnixTime::try_from(by_jiff).ok(), time);
        let seconds = i64::try_from(ns.div_euclid(1_000_000_000)).expect("in chrono's range");
        let subsec_ns = u32::try_from(ns.rem_euclid(1_000_000_000)).expect("below a second");
        let by_chrono = chrono::DateTime::<chrono::Utc>::from_timestamp(seconds, subsec_ns).expect("in its range");
        let zone = chrono::FixedOffset::east_opt(offset_s).expect("within a day");
        prop_assert_eq!(UnixTime::try_from(by_chrono.with_timezone(&zone)).ok(), time);
        let by_time = time::OffsetDateTime::from_unix_timestamp_nanos(ns).expect("in its range");
        let zone = time::UtcOffset::from_whole_seconds(offset_s).expect("within a day");
        prop_assert_eq!(UnixTime::try_from(by_time.to_offset(zone)).ok(), time);
        if let Some(time) = time {
            prop_assert_eq!(jiff::Timestamp::from(time), by_jiff);
            prop_assert_eq!(chrono::DateTime::<chrono::Utc>::from(time), by_chrono);
            prop_assert_eq!(time::OffsetDateTime::from(time), by_time);
            prop_assert_eq!(format!("{by_jiff:.9}"), time.to_string());
        }
    }
}

#[cfg(feature = "serde")]
proptest! {
    #[test]
    fn numbers_in_json_lose_nothing(ns in any::<u64>()) {
        let signed_ns = ns.cast_signed();
        let instant = Instant::from_signed_nanos(signed_ns);
        let time = UnixTime::from_nanos(ns);
        let text = serde_json::to_string(&(instant, time)).unwrap();
        prop_assert_eq!(&text, &format!("[{signed_ns},{ns}]"));
        prop_assert_eq!(serde_json::from_str::<(Instant, UnixTime)>(&text).unwrap(), (instant, time));
        let negative = serde_json::from_str::<UnixTime>(&format!("-{}", ns.max(1)));
        prop_assert!(negative.is_err());
    }
}

#[cfg(feature = "serde")]
proptest! {
    #[test]
    fn a_text_in_json_is_the_printed_time(ns in any::<u64>()) {
        use tickline::serde::rfc3339;
        let time = UnixTime::from_nanos(ns);
        let value = rfc3339::serialize(&time, serde_json::value::Serializer).unwrap();
        prop_assert_eq!(&value, &serde_json::Value::String(time.to_string()));
    }

    #[test]
    fn a_text_in_json_loses_nothing(ns in any::<u64>()) {
        use tickline::serde::rfc3339;
        let time = UnixTime::from_nanos(ns);
        let value = rfc3339::serialize(&time, serde_json::value::Serializer).unwrap();
        prop_assert_eq!(rfc3339::deserialize(value).unwrap(), time);
    }

    #[test]
    fn an_optional_text_in_json_is_null_or_the_printed_time(ns in any::<Option<u64>>()) {
        use tickline::serde::rfc3339::option;
        let time = ns.map(UnixTime::from_nanos);
        let value = option::serialize(&time, serde_json::value::Serializer).unwrap();
        prop_assert_eq!(&value, &serde_json::json!(time.map(|time| time.to_string())));
        prop_assert_eq!(option::deserialize(value).unwrap(), time);
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_wrong_text_in_json_is_an_error_that_names_it() {
    let value = serde_json::json!("2026-13-01T00:00:00Z");
    let error = tickline::serde::rfc3339::deserialize(value).unwrap_err();
    let by_parser = "2026-13-01T00:00:00Z".parse::<UnixTime>().unwrap_err();
    assert_eq!(error.to_string(), by_parser.to_string());
}

/// A time that was stored as a number is not taken for a text.
#[cfg(feature = "serde")]
#[test]
fn a_number_in_json_is_no_text_of_a_time() {
    let error = tickline::serde::rfc3339::deserialize(serde_json::json!(1)).unwrap_err();
    assert!(
        error.to_string().contains("expected a text of RFC 3339"),
        "{error}"
    );
}

/// A value that was stored when instants were unsigned.
#[cfg(feature = "serde")]
#[test]
fn a_number_in_json_beyond_the_last_instant_is_the_last_instant() {
    let instant = serde_json::from_str::<Instant>(&u64::MAX.to_string()).unwrap();
    assert_eq!(instant, Instant::MAX);
}

#[test]
fn the_text_of_a_unix_time_is_aligned_as_the_format_says() {
    let time = UnixTime::from_secs(0);
    let text = format!("[{time:<22.0}][{time:*>22.0}][{time:^22.0}][{time:5.0}]");
    let plain = "1970-01-01T00:00:00Z";
    assert_eq!(text, format!("[{plain}  ][**{plain}][ {plain} ][{plain}]"));
}

#[test]
#[should_panic(expected = "a Unix time of 18446744074 s is beyond the limit of 18446744073 s; ")]
fn seconds_beyond_the_limit_panic_with_value_and_limit() {
    let _ = UnixTime::from_secs(18_446_744_074);
}

#[test]
#[should_panic(
    expected = "a Unix time of 18446744073710 ms is beyond the limit of 18446744073709 ms; "
)]
fn milliseconds_beyond_the_limit_panic_with_value_and_limit() {
    let _ = UnixTime::from_millis(18_446_744_073_710);
}

#[test]
#[should_panic(
    expected = "a Unix time of 18446744073709552 us is beyond the limit of 18446744073709551 us; "
)]
fn microseconds_beyond_the_limit_panic_with_value_and_limit() {
    let _ = UnixTime::from_micros(18_446_744_073_709_552);
}

/// The hook of this process's panics hands all on.
#[test]
fn a_unix_time_beyond_the_limit_panics_at_the_call() {
    let first = Arc::new(Mutex::new(None));
    let stored = Arc::clone(&first);
    let thread = std::thread::current().id();
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        others(panic);
        let location = panic.location().expect("a place");
        if std::thread::current().id() == thread {
            let place = (location.file().to_owned(), location.line());
            stored.lock().unwrap().get_or_insert(place);
        }
    }));
    let line = line!() + 1;
    let result = std::panic::catch_unwind(|| UnixTime::from_secs(18_446_744_074));
    assert!(result.is_err());
    let place = first.lock().unwrap().take();
    assert_eq!(place, Some((file!().to_owned(), line)));
}
