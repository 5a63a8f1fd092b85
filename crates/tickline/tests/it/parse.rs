//! Unix times from texts of RFC 3339.

use proptest::prelude::*;
use tickline::UnixTime;

proptest! {
    #[test]
    fn a_printed_unix_time_is_parsed_as_itself(ns in any::<u64>()) {
        let time = UnixTime::from_nanos(ns);
        prop_assert_eq!(time.to_string().parse(), Ok(time));
    }

    #[test]
    fn a_unix_time_with_fewer_digits_is_parsed_rounded_down(ns in any::<u64>(), digits in 0..9_usize) {
        let time = UnixTime::from_nanos(ns);
        let unit_ns = 10_u64.pow(9 - u32::try_from(digits).expect("small"));
        let rounded = UnixTime::from_nanos(ns - ns % unit_ns);
        prop_assert_eq!(format!("{time:.digits$}").parse(), Ok(rounded));
    }

    /// Most of these texts are wrong in one place.
    #[test]
    fn no_text_makes_the_parser_panic(
        ns in any::<u64>(),
        at in 0..32_usize,
        inserted in "[0-9:TtZz+. -]{0,3}|\\PC{0,2}",
    ) {
        let mut text: String = UnixTime::from_nanos(ns).to_string();
        let end = text.len();
        text.replace_range(at.min(end)..(at + 1).min(end), &inserted);
        _ = text.parse::<UnixTime>();
    }
}

#[cfg(feature = "chrono")]
proptest! {
    /// Against another printer, also beyond both ends of a Unix time.
    #[test]
    fn a_time_that_chrono_prints_with_any_offset_is_parsed(
        ns in -(1_i128 << 62)..(1_i128 << 65),
        offset_min in -1_439..1_440_i32,
    ) {
        let seconds = i64::try_from(ns.div_euclid(1_000_000_000)).expect("in chrono's range");
        let subsec_ns = u32::try_from(ns.rem_euclid(1_000_000_000)).expect("below a second");
        let utc = chrono::DateTime::<chrono::Utc>::from_timestamp(seconds, subsec_ns).expect("in its range");
        let zone = chrono::FixedOffset::east_opt(offset_min * 60).expect("within a day");
        let text = format!("{:?}", utc.with_timezone(&zone));
        let time = u64::try_from(ns).ok().map(UnixTime::from_nanos);
        prop_assert_eq!(text.parse().ok(), time, "{}", text);
    }
}

#[track_caller]
fn assert_parses(text: &str, ns: u64) {
    assert_eq!(text.parse(), Ok(UnixTime::from_nanos(ns)), "{text:?}");
}

/// Asserts that the error has the text, and ends with `problem`.
#[track_caller]
fn assert_is_an_error(text: &str, problem: &str) {
    let message = match text.parse::<UnixTime>() {
        Ok(time) => panic!("{text:?} was parsed as {time:?}"),
        Err(error) => error.to_string(),
    };
    let expected = format!("{text:?} is not a Unix time in RFC 3339: {problem}");
    assert_eq!(message, expected);
}

const NEW_YEAR_NS: u64 = 1_767_225_600_000_000_000;

#[test]
fn an_offset_is_subtracted() {
    for text in [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:00:00-00:00",
        "2026-01-01T05:45:00+05:45",
        "2025-12-31T16:30:00-07:30",
        "2026-01-01T23:59:00+23:59",
        "2025-12-31T00:01:00-23:59",
    ] {
        assert_parses(text, NEW_YEAR_NS);
    }
}

#[test]
fn small_letters_and_a_space_are_accepted_as_the_rfc_allows() {
    for text in [
        "2026-01-01t00:00:00Z",
        "2026-01-01T00:00:00z",
        "2026-01-01 00:00:00+00:00",
    ] {
        assert_parses(text, NEW_YEAR_NS);
    }
}

#[test]
fn digits_after_the_ninth_are_cut_off() {
    assert_parses("1970-01-01T00:00:00.1Z", 100_000_000);
    assert_parses("1970-01-01T00:00:00.123456789Z", 123_456_789);
    assert_parses("1970-01-01T00:00:00.1234567899Z", 123_456_789);
    let many = format!("1970-01-01T00:00:00.{}Z", "9".repeat(1_000));
    assert_parses(&many, 999_999_999);
}

#[test]
fn the_29th_of_february_is_a_day_of_leap_years() {
    for year in [1972, 2000, 2024, 2400] {
        let text = format!("{year}-02-29T12:00:00.000000000Z");
        let time: UnixTime = text.parse().expect("a leap year");
        assert_eq!(time.to_string(), text);
    }
    for year in [1971, 2023, 2100, 2200] {
        assert_is_an_error(
            &format!("{year}-02-29T12:00:00Z"),
            "day 29 is outside 1 to 28",
        );
    }
}

#[test]
fn a_number_out_of_its_range_is_named() {
    for (text, problem) in [
        ("2026-00-01T00:00:00Z", "month 0 is outside 1 to 12"),
        ("2026-13-01T00:00:00Z", "month 13 is outside 1 to 12"),
        ("2026-01-00T00:00:00Z", "day 0 is outside 1 to 31"),
        ("2026-04-31T00:00:00Z", "day 31 is outside 1 to 30"),
        ("2026-12-32T00:00:00Z", "day 32 is outside 1 to 31"),
        ("2026-01-01T24:00:00Z", "hour 24 is outside 0 to 23"),
        ("2026-01-01T00:60:00Z", "minute 60 is outside 0 to 59"),
        ("2016-12-31T23:59:60Z", "second 60 is outside 0 to 59"), // a leap second
        ("2026-01-01T00:00:00+24:00", "hour 24 is outside 0 to 23"),
        ("2026-01-01T00:00:00-00:60", "minute 60 is outside 0 to 59"),
    ] {
        assert_is_an_error(text, problem);
    }
}

#[test]
fn an_error_says_where_the_text_leaves_the_format() {
    for (text, problem) in [
        ("", "there is no digit of the year at byte 0"),
        (
            " 2026-01-01T00:00:00Z",
            "there is no digit of the year at byte 0",
        ),
        (
            "+2026-01-01T00:00:00Z",
            "there is no digit of the year at byte 0",
        ),
        (
            "26-01-01T00:00:00Z",
            "there is no digit of the year at byte 2",
        ),
        ("20260101T000000Z", "there is no `-` at byte 4"),
        (
            "2026-1-01T00:00:00Z",
            "there is no digit of the month at byte 6",
        ),
        ("2026-01-01", "there is no `T` at byte 10"),
        ("2026-01-01T00", "there is no `:` at byte 13"),
        ("2026-01-01T00:00Z", "there is no `:` at byte 16"),
        (
            "2026-01-01T00:00:00",
            "there is no `Z`, `+` or `-` at byte 19",
        ),
        (
            "2026-01-01T00:00:00.Z",
            "there is no digit of the fraction at byte 20",
        ),
        (
            "2026-01-01T00:00:00,5Z",
            "there is no `Z`, `+` or `-` at byte 19",
        ),
        ("2026-01-01T00:00:00+0200", "there is no `:` at byte 22"),
        ("2026-01-01T00:00:00Z ", "the text goes on at byte 20"),
        (
            "2026-01-01T00:00:00+02:00[UTC]",
            "the text goes on at byte 25",
        ),
        (
            "\u{662}026-01-01T00:00:00Z",
            "there is no digit of the year at byte 0",
        ),
    ] {
        assert_is_an_error(text, problem);
    }
}

#[test]
fn the_first_and_the_last_unix_time_are_the_limits() {
    assert_parses("1970-01-01T00:00:00Z", 0);
    assert_parses("1969-12-31T23:00:00-01:00", 0);
    assert_is_an_error(
        "1969-12-31T23:59:59.999999999Z",
        "0.000000001 s before 1970 is out of range: a UnixTime begins with 1970",
    );
    assert_is_an_error(
        "1970-01-01T00:59:59+01:00",
        "1 s before 1970 is out of range: a UnixTime begins with 1970",
    );
    assert_parses("2554-07-21T23:34:33.709551615Z", u64::MAX);
    assert_is_an_error(
        "2554-07-21T23:34:33.709551616Z",
        "18446744073.709551616 s after 1970 is out of range: \
         a UnixTime ends 18446744073.709551615 s after 1970",
    );
}

#[test]
fn years_far_out_of_range_are_only_out_of_range() {
    for text in ["0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"] {
        let message = text.parse::<UnixTime>().expect_err("out of range");
        assert!(message.to_string().contains("is out of range"), "{message}");
    }
}

#[test]
fn an_error_repeats_64_characters_of_a_long_text() {
    let message = "é"
        .repeat(100_000)
        .parse::<UnixTime>()
        .unwrap_err()
        .to_string();
    assert_eq!(message.matches('é').count(), 64);
}
