//! Formatted times, compared with those of jiff.

use jiff::Timestamp;
use tickline::UnixTime;
use tickline_tracing::format::{Rfc3339, Uptime};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

fn timestamp(ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(ns)).unwrap()
}

/// What the format must be: jiff's text with nine digits, cut off.
fn expected(ns: u64, digits: u8) -> String {
    let text = format!("{:.9}", timestamp(ns));
    assert_eq!(text.len(), "2026-11-20T12:34:56.123456789Z".len());
    let kept = if digits == 0 { 19 } else { 20 + usize::from(digits) };
    format!("{}Z", &text[..kept])
}

#[test]
fn days_and_years_begin_and_end() {
    const DAY_NS: u64 = 86_400_000_000_000;
    let check = |ns, digits| {
        let text = Rfc3339::new().digits(digits).text(UnixTime::from_nanos(ns));
        assert_eq!(text, expected(ns, digits));
    };
    for day in 0..u64::MAX / DAY_NS {
        // Every day until 2554, by its first and last nanosecond.
        check(day * DAY_NS, 9);
        check(day * DAY_NS + DAY_NS - 1, 3);
    }
    for ns in [0, 1, 999_999_999, 1_000_000_000, u64::MAX] {
        (0..=9).for_each(|digits| check(ns, digits));
    }
}

#[test]
fn more_than_nine_digits_are_nine() {
    assert_eq!(Rfc3339::new().digits(10), Rfc3339::new().digits(9));
}

fn written(timer: &impl FormatTime) -> String {
    let mut text = String::new();
    timer.format_time(&mut Writer::new(&mut text)).unwrap();
    text
}

#[test]
fn the_present_is_between_two_looks_at_the_clock() {
    for digits in [0, 3, 9] {
        let before = UnixTime::now().as_nanos();
        let text = written(&Rfc3339::new().digits(digits));
        let after = UnixTime::now().as_nanos();
        let unit = 10_i128.pow(9 - u32::from(digits));
        let parsed = text.parse::<Timestamp>().unwrap().as_nanosecond();
        // A clock that was set back in between does not count.
        if before <= after {
            assert!(i128::from(before) / unit * unit <= parsed && parsed <= i128::from(after), "{text}");
        }
    }
}

#[test]
fn uptime_is_as_fmt_writes_it() {
    let (ours, theirs) =
        (written(&Uptime::new()), written(&tracing_subscriber::fmt::time::Uptime::default()));
    let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
    assert_eq!(shape(&ours), shape(&theirs), "{ours} {theirs}");
    let start = tickline::Instant::now();
    let read = |text: &str| text.trim().trim_end_matches('s').parse::<f64>().unwrap();
    let (first, second) = (written(&Uptime::since(start)), written(&Uptime::since(start)));
    assert!(read(&first) <= read(&second));
}

#[cfg(feature = "local-time")]
mod local {
    use super::*;
    use tickline_tracing::format::Rfc3339Local;

    const CHILD: &str = "TICKLINE_TEST_ZONE";

    /// This is no test: the next test runs it with another `TZ`.
    #[test]
    fn a_zone_of_the_environment() {
        if std::env::var_os(CHILD).is_some() {
            match Rfc3339Local::new() {
                Ok(format) => println!("zone: {}", format.digits(0).text(UnixTime::from_secs(0))),
                Err(error) => println!("error: {error}"),
            }
        }
    }

    /// A valid `TZ` is followed. An invalid one is an error that names it.
    #[test]
    fn nonsense_is_no_zone() {
        let with = |zone: &str| {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "formats::local::a_zone_of_the_environment", "--nocapture"])
                .envs([("TZ", zone), (CHILD, "1")])
                .output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let nonsense = with("Nowhere/Nonsense");
        assert!(nonsense.contains("error: no time zone for TZ=Nowhere/Nonsense"), "{nonsense}");
        let given = with("XYZ-3");
        assert!(given.contains("zone: 1970-01-01T03:00:00+03:00"), "{given}");
    }
}
