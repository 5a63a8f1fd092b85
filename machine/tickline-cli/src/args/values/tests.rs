use super::*;

#[test]
fn a_finding_is_accepted_by_its_code() {
    assert_eq!(
        finding_code("tsc_not_chosen"),
        Ok("tsc_not_chosen".to_owned())
    );
    let error = finding_code("tsc_not_choosen").unwrap_err();
    assert!(
        error.contains("`tickline explain` lists the codes"),
        "{error}"
    );
}

#[test]
fn a_percentage_has_its_sign_or_not() {
    for (value, expected) in [("10%", 10.0), ("10", 10.0), ("2.5 %", 2.5), ("0", 0.0)] {
        assert_eq!(percent(value), Ok(expected), "{value}");
    }
    for value in ["", "%", "-1", "10001", "NaN", "inf", "10%%", "x"] {
        let error = percent(value).unwrap_err();
        assert!(error.contains("from 0 to 10000"), "{error}");
    }
}

#[test]
fn a_span_of_time_has_a_unit_and_is_above_0() {
    assert_eq!(span_ns("100ms"), Ok(100_000_000));
    assert_eq!(span_ns("2s"), Ok(2_000_000_000));
    for value in ["0s", "-1s", "x"] {
        let error = span_ns(value).unwrap_err();
        assert!(error.contains("is not a span of time above 0"), "{error}");
    }
}

#[test]
fn a_span_without_a_unit_is_answered_with_units() {
    assert_eq!(
        span_ns("5").unwrap_err(),
        "5 has no unit: write 5ms or 5s; it is a span of time above 0, such as 100ms or 2s"
    );
}

/// Symptom: "-5 has no unit: write -5ms or -5s", which are refused as well.
#[test]
fn a_number_that_is_no_span_with_any_unit_is_refused_without_advice() {
    for value in ["0", "-5", "NaN", "inf", "1e3", "1e300"] {
        let error = span_ns(value).unwrap_err();
        let expected = "is not a span of time above 0";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_span_may_have_any_unit_of_time() {
    assert_eq!(span("5m"), Ok(Duration::from_secs(300)));
}

#[test]
fn an_empty_span_is_called_empty() {
    assert!(span_ns("").unwrap_err().starts_with("it is empty"));
}

#[test]
fn a_whole_number_is_from_1_to_its_limit() {
    assert_eq!(whole("1", 3_600), Ok(1));
    assert_eq!(whole("3600", 3_600), Ok(3_600));
    for value in ["0", "3601", "-1", "1.5", "x", ""] {
        let error = whole(value, 3_600).unwrap_err();
        assert!(
            error.contains("is not a whole number from 1 to 3600"),
            "{error}"
        );
    }
}

#[test]
fn a_command_measures_for_1_s_to_1_h() {
    assert_eq!(up_to_an_hour("1s"), Ok(Duration::from_secs(1)));
    assert_eq!(up_to_an_hour("1h"), Ok(HOUR));
    for value in ["999ms", "3601s"] {
        let expected = format!("{value} is not a span of time from 1s to 1h");
        assert_eq!(up_to_an_hour(value), Err(expected));
    }
}

#[test]
fn a_watch_lasts_up_to_a_year() {
    assert_eq!(up_to_a_year("8760h"), Ok(8_760 * HOUR));
    let error = up_to_a_year("8761h").unwrap_err();
    assert_eq!(error, "8761h is not a span of time from 1s to 8760h");
}

#[test]
fn every_span_of_time_needs_a_unit() {
    for parse in [span, up_to_an_hour, up_to_a_year, interval] {
        let error = parse("10").unwrap_err();
        assert!(error.starts_with("10 has no unit: write 10"), "{error}");
    }
}

/// Symptom: "write 5ms or 5s" for an option whose least span is 1 s.
#[test]
fn a_span_without_a_unit_is_answered_with_spans_within_the_limits() {
    for (parse, value, advice) in [
        (
            up_to_an_hour as fn(&str) -> Result<Duration, String>,
            "5",
            "5s",
        ),
        (up_to_an_hour, "5000", "5000ms"),
        (up_to_a_year, "5000", "5000ms or 5000s"),
        (interval, "60", "60ms or 60s"),
        (interval, "0.2", "0.2s"),
    ] {
        let error = parse(value).unwrap_err();
        let expected = format!("{value} has no unit: write {advice}; it is a span of time from ");
        assert!(error.starts_with(&expected), "{error}");
    }
}

/// Symptom: "write a span of time, such as 100ms" for an option whose least span is 1 s.
#[test]
fn a_word_that_is_no_span_is_answered_with_the_limits() {
    let error = up_to_an_hour("x").unwrap_err();
    assert_eq!(error, "x is not a span of time from 1s to 1h");
    let error = up_to_an_hour("").unwrap_err();
    assert_eq!(error, "it is empty; write a span of time from 1s to 1h");
}

#[test]
fn a_process_has_a_number_that_linux_may_give() {
    assert_eq!(process_id("2"), Ok(2));
    assert_eq!(process_id("4194304"), Ok(4_194_304));
    for value in ["0", "4194305", "init"] {
        let expected = format!("{value} is not a process id from 1 to 4194304");
        assert_eq!(process_id(value), Err(expected));
    }
}

#[test]
fn an_interval_is_from_50_ms_to_an_hour() {
    assert_eq!(interval("50ms"), Ok(Duration::from_millis(50)));
    assert_eq!(interval("1h"), Ok(HOUR));
    for value in ["49ms", "3601s"] {
        let expected = format!("{value} is not a span of time from 50ms to 1h");
        assert_eq!(interval(value), Err(expected));
    }
}
