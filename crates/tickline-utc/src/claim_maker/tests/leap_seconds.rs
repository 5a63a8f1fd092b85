//! Leap seconds.

use super::*;

/// The next midnight, s after the start.
const MIDNIGHT_S: i64 = (DAY_NS - START_NS % DAY_NS) / SECOND_NS;

const NEAR: Expected = Some(Err(UtcUnknown::LeapSecond));

/// A moment this long after the midnight with the leap second.
fn midnight(seconds: i64) -> Moment {
    moment(MIDNIGHT_S + seconds)
}

/// A report that announces the leap second.
fn leap(offset_ns: i64) -> SourceAnswer {
    report_of(offset_ns, 0).map(|report| Report {
        leap_second_today: true,
        ..report
    })
}

#[test]
fn a_claim_ends_two_seconds_before_a_leap_second() {
    let claim = next_claim(&mut ClaimMaker::default(), &midnight(-3), leap(0), VALID_NS).unwrap();
    let end_ns = midnight(-2).raw_ns;
    assert!(claim.at_raw(end_ns - 2_000).is_some() && claim.at_raw(end_ns).is_none());
    assert_eq!(claim.failure, UtcUnknown::LeapSecond);
}

/// A claim of `valid_ns`, where a leap second ends a claim after 1 s.
fn failure_of_claim(valid_ns: i64) -> UtcUnknown {
    let exact = Report {
        leap_second_today: true,
        ..report_within(0, 0, 0).unwrap()
    };
    let moment = Moment {
        width_ns: 0,
        ..midnight(-3)
    };
    let mut maker = ClaimMaker::default();
    let claim = next_claim(&mut maker, &moment, Ok(exact), valid_ns);
    claim.unwrap().failure
}

#[test]
fn a_claim_that_a_leap_second_does_not_shorten_expires() {
    assert_eq!(failure_of_claim(SECOND_NS), UtcUnknown::Expired);
    assert_eq!(failure_of_claim(SECOND_NS + 1), UtcUnknown::LeapSecond);
}

/// A maker that has claimed until near the leap second.
fn maker_before_leap() -> ClaimMaker {
    let mut maker = ClaimMaker::default();
    assert_claims(&mut maker, &[(midnight(-3), leap(0), BY_CHRONYD)]);
    maker
}

#[test]
fn nothing_is_claimed_around_a_leap_second() {
    assert_claims(
        &mut maker_before_leap(),
        &[
            (midnight(-2), leap(0), NEAR),
            (midnight(-1), leap(0), NEAR),
            // The clock is set back by a second.
            (midnight(0), leap(-SECOND_NS), NEAR),
            (midnight(1), leap(-SECOND_NS), NEAR),
            (midnight(2), leap(-SECOND_NS), NEAR),
        ],
    );
}

#[test]
fn after_a_leap_second_the_source_must_measure_again() {
    assert_claims(
        &mut maker_before_leap(),
        &[
            (midnight(2), leap(-SECOND_NS), NEAR),
            (midnight(4), report_of(0, 0), DISRUPTED),
            (midnight(5), report_of(0, 0), DISRUPTED),
            (midnight(6), report_of(-SECOND_NS, 1), BY_CHRONYD),
        ],
    );
}

/// The source announces it so late that the day may be over.
#[test]
fn a_leap_second_that_is_announced_near_midnight_is_not_that_of_the_next_day() {
    let wide = Report {
        leap_second_today: true,
        ..report_within(5 * SECOND_NS, 0, 0).unwrap()
    };
    for seconds in [-4, -1] {
        let announced = (
            moment(MIDNIGHT_S + seconds),
            Ok(wide),
            Some(Err(UtcUnknown::LeapSecond)),
        );
        assert_claims(&mut ClaimMaker::default(), &[announced]);
    }
}

/// How long readings may go on at this time after the leap second, by a maker that knows of it.
fn left_ns(since_leap_ns: i64) -> Result<i64, UtcUnknown> {
    let leap_at_ns = 20_000 * DAY_NS;
    let mut maker = ClaimMaker {
        leap_at_ns: Some(leap_at_ns),
        ..ClaimMaker::default()
    };
    let utc_ns = Interval::at(leap_at_ns + since_leap_ns);
    maker.until_leap(&report_of(0, 0).unwrap(), utc_ns)
}

#[test]
fn the_margin_before_a_leap_second_has_no_reading() {
    assert_eq!(left_ns(-LEAP_MARGIN_NS - 1), Ok(1));
    assert_eq!(left_ns(-LEAP_MARGIN_NS), Err(UtcUnknown::LeapSecond));
}

#[test]
fn the_margin_after_a_leap_second_has_no_reading() {
    assert_eq!(left_ns(LEAP_MARGIN_NS), Err(UtcUnknown::LeapSecond));
    let after = left_ns(LEAP_MARGIN_NS + 1);
    assert_eq!(after, Err(UtcUnknown::Disrupted));
}

/// To the last two days of the numbers nothing can be added.
#[test]
fn a_time_of_the_last_two_days_is_not_plausible() {
    let last_ns = i64::MAX - 2 * DAY_NS;
    let is_plausible = |latest_ns| {
        let moment = Moment {
            realtime_ns: latest_ns,
            width_ns: 0,
            ..moment(0)
        };
        utc_at(&moment, &report_within(0, 0, 0).unwrap()).is_ok()
    };
    assert!(is_plausible(last_ns));
    assert!(!is_plausible(last_ns + 1));
}
