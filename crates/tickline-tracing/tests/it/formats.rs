//! Formatted times.

use tickline::UnixTime;
use tickline::mock::MockClock;
use tickline_tracing::fmt::Rfc3339;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The tests of `tickline` cover the text of `UnixTime`.
#[test]
fn further_digits_are_truncated_and_more_than_nine_are_nine() {
    let time = UnixTime::from_nanos(1_767_225_599_123_456_789);
    for (timer, fraction) in [
        (Rfc3339::new(), ".123456"),
        (Rfc3339::new().digits(0), ""),
        (Rfc3339::new().digits(10), ".123456789"),
    ] {
        assert_eq!(
            timer.format(time),
            format!("2025-12-31T23:59:59{fraction}Z")
        );
    }
}

#[test]
fn the_present_is_by_ticklines_clock() {
    let (_active, mut text) = (MockClock::new().activate(), String::new());
    Rfc3339::new()
        .digits(3)
        .format_time(&mut Writer::new(&mut text))
        .unwrap();
    assert_eq!(text, "2026-01-01T00:00:00.000Z");
}

#[cfg(feature = "local-time")]
mod local {
    use super::*;

    const CHILD: &str = "TICKLINE_TEST_ZONE";

    /// The text follows a valid `TZ`. The error for an invalid `TZ` names its value. The test runs
    /// itself with both.
    #[test]
    fn an_invalid_tz_is_an_error() {
        if std::env::var_os(CHILD).is_some() {
            let text = Rfc3339::local().map(|timer| timer.digits(0).format(UnixTime::from_secs(0)));
            return println!("{}", text.unwrap_or_else(|error| format!("error: {error}")));
        }
        let with = |zone: &str| {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "formats::local::an_invalid_tz_is_an_error",
                    "--nocapture",
                ])
                .envs([("TZ", zone), (CHILD, "1")])
                .output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let nonsense = with("Nowhere/Nonsense");
        assert!(
            nonsense.contains("error: no time zone for TZ=Nowhere/Nonsense"),
            "{nonsense}"
        );
        let given = with("XYZ-3");
        assert!(given.contains("1970-01-01T03:00:00+03:00"), "{given}");
    }
}
