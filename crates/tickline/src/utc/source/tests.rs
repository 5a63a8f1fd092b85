use super::*;
use crate::utc::UtcSource;
use tickline_core::gate::Clocksource;

/// The answer may have come at any moment between the two moments.
#[test]
fn an_answer_is_widened_by_what_may_have_happened_since() {
    let before = Moment {
        ticks: None,
        raw_ns: 0,
        realtime_ns: 5_000_000_000,
        width_ns: 10,
        suspended_ns: 0,
        disruption: 0,
        clocksource: Clocksource::Tsc,
        clock_sets: 0,
    };
    let after = |moved_ns: i64| Moment { raw_ns: 1_000_000, realtime_ns: 5_001_000_000 + moved_ns, ..before };
    let report = Report {
        source: UtcSource::Chronyd,
        offset_ns: [100, 300],
        request_ns: 3,
        // 2 ppm less to 6 ppm more than CLOCK_MONOTONIC_RAW: 2 and 6 ns in 1 ms.
        rate_ppb: 2_000,
        drift_ppb: 4_000,
        valid_ns: i64::MAX,
        measurement: 0,
        leap_second_today: false,
        tai_offset_s: None,
    };
    for (moved_ns, offset_ns) in [(0, [87, 317]), (1_000, [-913, 317]), (-1_000, [87, 1_317])] {
        let at_end = Request::between(&before, &after(moved_ns)).unwrap().at_end(report);
        assert_eq!(at_end.offset_ns, offset_ns);
        assert_eq!(at_end.request_ns, 3 + (100 - offset_ns[0]).max(offset_ns[1] - 300));
    }
    let too_far = [200_000, -200_000].map(|moved_ns| Request::between(&before, &after(moved_ns)).is_none());
    let suspended = Moment { suspended_ns: 1_000_000, ..after(0) };
    let moved = Moment { disruption: 1, ..after(0) };
    let disrupted = [suspended, moved].map(|after| Request::between(&before, &after).is_none());
    assert_eq!((too_far, disrupted), ([true; 2], [true; 2]));
}

/// An oscillator that is off by more than NTP can steer, and an OS clock that is slewed besides.
#[test]
fn a_rate_that_a_source_does_not_say_is_near_that_of_the_os_clock_or_of_its_oscillator() {
    let vague = Report {
        source: UtcSource::ClockBound,
        offset_ns: [-500, 500],
        request_ns: 0,
        rate_ppb: 0,
        drift_ppb: MAX_FREQUENCY_PPB,
        valid_ns: i64::MAX,
        measurement: 0,
        leap_second_today: false,
        tai_offset_s: None,
    };
    for (steered_ppb, rate_ppb) in [
        (-600_001, -600_001),
        (-400_000, -600_000),
        (499_999, 999_999),
        (499_999, -500_000),
        (-80_000_000, 300_000),
    ] {
        let report = with_rate(vague, steered_ppb);
        assert!((rate_ppb - report.rate_ppb).abs() <= report.drift_ppb, "{steered_ppb} {rate_ppb}");
    }
    let exact = Report { rate_ppb: -600_000, drift_ppb: 2_000, ..vague };
    assert_eq!(with_rate(exact, 300_000), exact);
}
