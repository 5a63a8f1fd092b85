//! The interval of a claim, and how long it holds.

use super::*;

/// The claim that is made in the first second, with the counter's rate.
fn claim() -> Claim {
    let mut maker = maker_after(&[report_of(0, 0)]);
    next_claim(&mut maker, &moment(1), report_of(0, 0), VALID_NS).unwrap()
}

/// The bounds by that claim, by the counter and by `CLOCK_MONOTONIC_RAW`, in this second.
fn bounds_at(seconds: i64) -> [Option<[i64; 2]>; 2] {
    let claim = claim();
    let moment = moment(seconds);
    let readings = [
        claim.at_ticks(moment.ticks.unwrap()),
        claim.at_raw(moment.raw_ns),
    ];
    readings.map(|reading| reading.map(|reading| bounds_ns(&reading)))
}

#[test]
fn a_claim_grows_by_the_errors_of_both_rates() {
    let now_ns = moment(2).realtime_ns;
    for [earliest_ns, latest_ns] in bounds_at(2).map(Option::unwrap) {
        // 1 us, the width, and a second of 1 ppm for UTC and 1 ppm for the counter.
        for half_ns in [now_ns - earliest_ns, latest_ns - now_ns] {
            assert!((2_050..=3_200).contains(&half_ns), "{half_ns} ns");
        }
    }
}

/// Otherwise the interval of a claim could be too small by a nanosecond at the end of a day.
#[test]
fn the_slopes_of_a_claim_are_rounded_outwards() {
    const BILLION: u128 = 1_000_000_000;
    let rates_ppb = Interval::around(0, WANDER_PPB);
    let exact = rates_ppb
        .map(|ppb| (BILLION << SLOPE_BITS).saturating_add_signed(i128::from(ppb) << SLOPE_BITS));
    let found = claim()
        .by_raw
        .slopes
        .map(|slope| u128::from(slope) * BILLION);
    assert!(
        found.min <= exact.min && exact.max <= found.max,
        "{found:?} {exact:?}"
    );
}

/// The counter's rate, that of UTC, and what the counter may wander, multiplied.
#[test]
fn the_slopes_of_a_claim_by_the_counter_are_rounded_outwards() {
    const BILLION: u128 = 1_000_000_000;
    let mut maker = maker_after(&[report_of(0, 0)]);
    let claim = next_claim(&mut maker, &moment(1), report_of(0, 0), VALID_NS).unwrap();
    let slopes = maker.rate.slopes.expect("a rate").map(u128::from);
    let wander_ppb = u128::from(WANDER_PPB.unsigned_abs());
    let [less, more] = [BILLION - wander_ppb, BILLION + wander_ppb];
    let exact = Interval {
        min: slopes.min * less * less,
        max: slopes.max * more * more,
    };
    let found = claim.by_counter.slopes;
    let found = found.map(|slope| u128::from(slope) * BILLION * BILLION);
    assert!(
        found.min <= exact.min && exact.max <= found.max,
        "{found:?} {exact:?}"
    );
}

#[test]
fn a_claim_says_nothing_of_the_time_before_it() {
    assert_eq!(bounds_at(0), [None; 2]);
}

#[test]
fn a_claim_expires() {
    assert_eq!(bounds_at(4), [None; 2]);
    assert_eq!(claim().failure, UtcUnknown::Expired);
}

#[test]
fn a_source_may_let_its_claim_hold_for_a_shorter_time() {
    let short = report_of(0, 0).map(|report| Report {
        valid_ns: SECOND_NS,
        ..report
    });
    let mut maker = maker_after(&[report_of(0, 0); 2]);
    let claim = next_claim(&mut maker, &moment(2), short, VALID_NS).unwrap();
    let is_valid_at = |raw_ns| claim.at_raw(raw_ns).is_some();
    let end_ns = moment(3).raw_ns;
    assert!(is_valid_at(end_ns - 1) && !is_valid_at(end_ns));
}

/// The thread may be late with the second request that its source misses.
#[test]
fn a_claim_holds_for_two_and_a_half_periods() {
    let mut maker = ClaimMaker::default();
    let latch = ClaimLatch::new();
    for (interval_ns, last_ms) in [(0, 3_749), (2_000_000_000, 4_999)] {
        let answers = SourceAnswers {
            moment: moment(0),
            best: report_of(0, 0),
            measurements: vec![],
        };
        maker.publish(answers, interval_ns, &latch);
        let by_raw = |ms| {
            let now = RawMoment {
                raw_ns: at_ms(ms).raw_ns,
                marker: 0,
                suspended_ns: Some(0),
            };
            latch.read_by_raw(|| Some(now)).map(|bounds| bounds.source)
        };
        assert_eq!(
            [0, 1].map(|ms| by_raw(last_ms + ms)),
            [Ok(UtcSource::Chronyd), Err(UtcUnknown::Expired)]
        );
    }
}

#[test]
fn a_report_must_be_plausible() {
    let with = |slowest_ppb, fastest_ppb| {
        report_of(0, 0).map(|report| Report {
            rates_ppb: Interval::between(slowest_ppb, fastest_ppb),
            ..report
        })
    };
    let by_chronyd = |why| Err(UtcUnknown::Unsynchronised(UtcSource::Chronyd, why));
    for (answer, why) in [
        (report_within(MAX_ERROR_NS - 50, 0, 0), None), // the width of the moment
        (
            report_within(MAX_ERROR_NS, 0, 0),
            Some(Unbounded::ErrorTooLarge { ms: 16_001 }),
        ),
        (
            report_within(i64::MAX, 0, 0),
            Some(Unbounded::ErrorTooLarge { ms: u32::MAX }),
        ),
        (with(-MAX_RATE_PPB, MAX_RATE_PPB), None),
        (
            with(-MAX_RATE_PPB - 1, 0),
            Some(Unbounded::RateTooLarge { ppm: -200_001 }),
        ),
        (
            with(0, MAX_RATE_PPB + 1),
            Some(Unbounded::RateTooLarge { ppm: 200_001 }),
        ),
        (with(1, 0), Some(Unbounded::RatesCrossed { ppm: 1 })),
        (
            report_within(-1_000, 0, 0),
            Some(Unbounded::TimesCrossed { ms: 1 }),
        ),
        (
            report_of(-START_NS, 0),
            Some(Unbounded::TimeOutOfRange { days: -1 }),
        ),
        (
            report_of(MAX_TIME_NS - START_NS, 0),
            Some(Unbounded::TimeOutOfRange { days: 106_750 }),
        ),
    ] {
        let expected = why.map_or(BY_CHRONYD, |why| Some(by_chronyd(why)));
        assert_claims(&mut ClaimMaker::default(), &[(moment(0), answer, expected)]);
    }
}

/// A day of a fast counter is longer than its ticks can be scaled, and a slow counter does not
/// serve.
#[test]
fn a_claim_by_a_counter_is_as_long_as_its_ticks_allow() {
    let valid_ticks = |ticks: fn(u64) -> u64| {
        let mut maker = ClaimMaker::default();
        let [_, claim] = [0, 1].map(|seconds| {
            let mut moment = moment(seconds);
            moment.ticks = moment.ticks.map(|thirds| ticks(thirds / 3));
            next_claim(&mut maker, &moment, report_of(0, 0), DAY_NS).unwrap()
        });
        let [last_ns, _] = bounds_ns(&claim.at_raw(SECOND_NS + DAY_NS - 1).unwrap());
        assert!(
            last_ns > START_NS + DAY_NS,
            "by CLOCK_MONOTONIC_RAW it holds for a day"
        );
        claim.by_counter.valid
    };
    assert_eq!(valid_ticks(|ns| 5 * ns), MAX_VALID);
    assert!(valid_ticks(|ns| 3 * ns) < MAX_VALID);
    assert!(valid_ticks(|ns| ns / 29_000) > 0);
    assert_eq!(valid_ticks(|ns| ns / 31_000), 0);
}
