use proptest::prelude::*;
use tickline_core::gate::Clocksource;

use super::*;
use crate::UtcReading;
use crate::latch::RawMoment;
use crate::source::{MAX_FREQUENCY_PPB, MeasurementId, Origin};

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_800_000_000 * SECOND_NS;
pub(crate) const VALID_NS: i64 = 5 * SECOND_NS / 2;

/// The next midnight, s after the start.
const MIDNIGHT_S: i64 = (DAY_NS - START_NS % DAY_NS) / SECOND_NS;

/// A machine `seconds` after its start. Its clocks run at the rate of UTC, its counter at 3 ticks a
/// ns.
pub(crate) fn moment(seconds: i64) -> Moment {
    at_ms(seconds * 1_000)
}

pub(crate) fn at_ms(ms: i64) -> Moment {
    let raw_ns = ms * 1_000_000;
    Moment {
        ticks: Some(3 * raw_ns.unsigned_abs()),
        raw_ns,
        realtime_ns: START_NS + raw_ns,
        width_ns: 50,
        suspended_ns: 0,
        marker: 0,
        clocksource: Clocksource::Tsc,
    }
}

/// A moment after the machine has slept for a second.
fn resumed_at(ms: i64) -> Moment {
    Moment {
        suspended_ns: SECOND_NS,
        ..at_ms(ms)
    }
}

/// A moment whose OS clock was set by `ns`.
fn moment_after_set(ns: i64, seconds: i64) -> Moment {
    Moment {
        realtime_ns: moment(seconds).realtime_ns + ns,
        ..moment(seconds)
    }
}

/// A report that UTC is `offset_ns` ahead, by 1 us more or less, in the measurement of this number.
pub(crate) fn report_of(offset_ns: i64, measurement: u64) -> Answer {
    report_within(1_000, offset_ns, measurement)
}

/// A report like [`report_of`]'s, by `half_ns` more or less.
fn report_within(half_ns: i64, offset_ns: i64, measurement: u64) -> Answer {
    Ok(Report {
        id: MeasurementId {
            origin: Origin::Chronyd,
            number: measurement,
        },
        offset_ns: [offset_ns - half_ns, offset_ns + half_ns],
        request_ns: 0,
        rates_ppb: [-WANDER_PPB, WANDER_PPB],
        valid_ns: i64::MAX,
        leap_second_today: false,
    })
}

fn from(origin: Origin, report: Report) -> Report {
    Report {
        id: MeasurementId {
            origin,
            ..report.id
        },
        ..report
    }
}

/// A report by the kernel, which claims little.
fn kernel(measurement: u64) -> Answer {
    report_within(2_000_000, 0, measurement).map(|report| from(Origin::Kernel, report))
}

/// A report by clock-bound 3, to within 100 us.
fn clock_bound(offset_ns: i64, measurement: u64) -> Answer {
    report_within(100_000, offset_ns, measurement).map(|report| from(Origin::ClockBound3, report))
}

/// The earliest and the latest time of a reading, ns since 1970.
pub(crate) fn bounds_ns(reading: &UtcReading) -> [i64; 2] {
    [reading.earliest, reading.latest].map(|time| time.as_nanos().cast_signed())
}

/// The claim made of this answer. The kernel has measured for the seventh time, and answers, too.
pub(crate) fn next_claim(
    maker: &mut ClaimMaker,
    moment: &Moment,
    answer: Answer,
    valid_ns: i64,
) -> Option<Claim> {
    let measurements = [answer, kernel(7)]
        .iter()
        .flatten()
        .map(|report| report.id)
        .collect();
    maker.next_claim(
        Answers {
            moment: *moment,
            best: answer,
            measurements,
        },
        valid_ns,
    )
}

/// The source of the next claim, or why readings fail; `None` if the last claim goes on.
pub(crate) type Expected = Option<Result<UtcSource, UtcUnknown>>;

const KEPT: Expected = None;
const BY_CLOCK_BOUND: Expected = Some(Ok(UtcSource::ClockBound));
pub(crate) const BY_CHRONYD: Expected = Some(Ok(UtcSource::Chronyd));
const BY_KERNEL: Expected = Some(Ok(UtcSource::Kernel));
pub(crate) const DISRUPTED: Expected = Some(Err(UtcUnknown::Disrupted));

/// Asserts which claim follows from each answer at its moment.
pub(crate) fn assert_claims(maker: &mut ClaimMaker, requests: &[(Moment, Answer, Expected)]) {
    for (moment, answer, expected) in requests {
        let claim = next_claim(maker, moment, *answer, VALID_NS);
        let claim = claim.map(|claim| claim.source.ok_or(claim.failure));
        assert_eq!(
            claim,
            *expected,
            "{} ms: {answer:?}",
            moment.raw_ns / 1_000_000
        );
    }
}

/// A maker that has believed these answers, one in each second.
pub(crate) fn maker_after(answers: &[Answer]) -> ClaimMaker {
    let mut maker = ClaimMaker::default();
    for (second, answer) in (0..).zip(answers) {
        assert!(
            next_claim(&mut maker, &moment(second), *answer, VALID_NS)
                .unwrap()
                .source
                .is_some()
        );
    }
    maker
}

#[test]
fn a_claim_ends_and_the_source_that_is_gone_leaves_the_last_one() {
    let mut maker = maker_after(&[report_of(0, 0)]);
    let claim = next_claim(&mut maker, &moment(1), report_of(0, 0), VALID_NS).unwrap();
    assert_claims(&mut maker, &[(moment(2), Err(UtcUnknown::NoSource), KEPT)]);
    let at = |seconds: i64| {
        let moment = moment(seconds);
        let of = |reading: Option<UtcReading>| reading.map(|reading| bounds_ns(&reading));
        [
            of(claim.at_ticks(moment.ticks.unwrap())),
            of(claim.at_raw(moment.raw_ns)),
        ]
    };
    for [earliest_ns, latest_ns] in at(2).map(Option::unwrap) {
        let now_ns = moment(2).realtime_ns;
        // 1 us, the width, and a second of 1 ppm for UTC and 1 ppm for the counter.
        assert!(
            (now_ns - 3_200..=now_ns - 2_050).contains(&earliest_ns),
            "{}",
            now_ns - earliest_ns
        );
        assert!(
            (now_ns + 2_050..=now_ns + 3_200).contains(&latest_ns),
            "{}",
            latest_ns - now_ns
        );
    }
    assert_eq!(
        (at(0), at(4), claim.failure),
        ([None; 2], [None; 2], UtcUnknown::Expired)
    );
    // The source lets its claim hold for a shorter time.
    let void = report_of(0, 0).map(|report| Report {
        valid_ns: SECOND_NS,
        ..report
    });
    assert_eq!(
        next_claim(&mut maker, &moment(2), void, VALID_NS)
            .unwrap()
            .at_raw(moment(3).raw_ns),
        None
    );
    let unsynchronised = Err(UtcUnknown::Unsynchronised);
    // At first the claim itself says that it has ended.
    assert_claims(
        &mut maker,
        &[
            (moment(3), unsynchronised, KEPT),
            (
                moment(4),
                unsynchronised,
                Some(Err(UtcUnknown::Unsynchronised)),
            ),
        ],
    );
}

/// The thread may be late with the second request that its source misses.
#[test]
fn a_claim_holds_for_two_and_a_half_periods() {
    let (mut maker, latch) = (ClaimMaker::default(), ClaimLatch::new());
    for (interval_ns, last_ms) in [(0, 3_749), (2_000_000_000, 4_999)] {
        let answers = Answers {
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
            latch.by_raw(|| Some(now)).map(|bounds| bounds.source)
        };
        assert_eq!(
            [0, 1].map(|ms| by_raw(last_ms + ms)),
            [Ok(UtcSource::Chronyd), Err(UtcUnknown::Expired)]
        );
    }
}

#[test]
fn a_report_must_be_plausible() {
    let with = |rates_ppb| {
        report_of(0, 0).map(|report| Report {
            rates_ppb,
            ..report
        })
    };
    for (answer, is_plausible) in [
        (report_within(MAX_ERROR_NS - 50, 0, 0), true), // the width of the moment
        (report_within(MAX_ERROR_NS, 0, 0), false),
        (with([-MAX_RATE_PPB, MAX_RATE_PPB]), true),
        (with([-MAX_RATE_PPB - 1, 0]), false),
        (with([0, MAX_RATE_PPB + 1]), false),
        (with([1, 0]), false),
    ] {
        let expected = if is_plausible {
            BY_CHRONYD
        } else {
            Some(Err(UtcUnknown::Unsynchronised))
        };
        assert_claims(&mut ClaimMaker::default(), &[(moment(0), answer, expected)]);
    }
}

/// In a guest on a busy machine chronyd was late for one request in ten. The kernel then answered
/// in its place, and said that it is not synchronised: without `rtcsync` chronyd does not touch the
/// kernel's flag. A claim holds for longer than two requests take, for a thread that is late.
#[test]
fn a_source_that_misses_one_request_is_late_and_one_that_misses_two_has_died() {
    for (why, then) in [
        (UtcUnknown::NoSource, UtcUnknown::Expired),
        (UtcUnknown::Unsynchronised, UtcUnknown::Unsynchronised),
    ] {
        let (chronyd, none, fails) = (report_of(0, 0), Err(why), Some(Err(why)));
        let mut maker = ClaimMaker::default();
        assert_claims(
            &mut maker,
            &[
                (at_ms(0), none, fails),
                (at_ms(1_000), chronyd, BY_CHRONYD),
                (at_ms(2_000), none, KEPT),
                (at_ms(3_000), chronyd, BY_CHRONYD),
                (at_ms(4_000), none, KEPT),
            ],
        );
        let claim = next_claim(&mut maker, &at_ms(5_000), chronyd, VALID_NS).unwrap();
        assert!(
            claim.at_raw(at_ms(7_350).raw_ns).is_some(),
            "it would still hold"
        );
        assert_claims(
            &mut maker,
            &[
                // The thread is late, and then the clock is set, so the source is asked at once.
                (at_ms(6_600), none, KEPT),
                (at_ms(6_610), none, KEPT),
                (at_ms(7_350), none, Some(Err(then))),
                // The last answer counts for the next claim all the same.
                (at_ms(7_400), report_of(90_000, 1), DISRUPTED),
                // A reason does not outlive the source that gave it.
                (at_ms(8_400), none, KEPT),
                (at_ms(9_400), none, fails),
            ],
        );
    }
}

/// After the clock was set, the next request comes at once.
#[test]
fn requests_within_half_a_second_are_one_miss() {
    let none = Err(UtcUnknown::NoSource);
    let expired = Some(Err(UtcUnknown::Expired));
    let requests = [
        (at_ms(2_000), none, KEPT),
        (at_ms(2_499), none, KEPT),
        (at_ms(2_500), none, expired),
    ];
    assert_claims(&mut maker_after(&[report_of(0, 0); 2]), &requests);

    let mut maker = maker_after(&[report_of(0, 0); 2]);
    assert_claims(&mut maker, &[(at_ms(2_000), kernel(7), KEPT)]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[
            (at_ms(2_600), kernel(7), KEPT),
            (at_ms(3_350), kernel(7), DISRUPTED),
        ],
    );
}

/// chronyd may have lowered the kernel's maximum error without a measurement.
#[test]
fn a_worse_source_is_believed_when_a_better_one_has_missed_two_requests() {
    let (clock_bound, chronyd, none) = (
        clock_bound(0, 0),
        report_of(0, 0),
        Err(UtcUnknown::NoSource),
    );
    // The misses of chronyd are counted anew.
    assert_claims(
        &mut maker_after(&[clock_bound; 2]),
        &[
            (moment(2), chronyd, KEPT),
            (moment(3), chronyd, BY_CHRONYD),
            (moment(4), kernel(7), KEPT),
            (moment(5), kernel(7), BY_KERNEL),
            (moment(6), none, KEPT),
            (moment(7), none, Some(Err(UtcUnknown::Expired))),
        ],
    );
    // The thread was late, so the claim has ended.
    let late = [
        (at_ms(5_000), kernel(7), KEPT),
        (at_ms(5_010), kernel(7), KEPT),
    ];
    assert_claims(&mut maker_after(&[chronyd; 2]), &late);

    let mut maker = maker_after(&[chronyd; 2]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[
            (resumed_at(2_000), chronyd, DISRUPTED),
            (resumed_at(3_000), kernel(7), KEPT),
            (resumed_at(4_000), kernel(8), BY_KERNEL),
            // chronyd answers every second request, and has not measured.
            (resumed_at(5_000), chronyd, DISRUPTED),
            (resumed_at(6_000), kernel(8), KEPT),
            (resumed_at(7_000), chronyd, DISRUPTED),
            (resumed_at(8_000), kernel(8), KEPT),
            (resumed_at(9_000), report_of(1_000_000, 1), BY_CHRONYD),
        ],
    );
    // chronyd is late when the machine resumes. The next request comes at once.
    let mut maker = maker_after(&[chronyd; 2]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[
            (resumed_at(2_000), kernel(7), DISRUPTED),
            (resumed_at(2_010), kernel(8), KEPT),
            (resumed_at(3_000), kernel(8), BY_KERNEL),
        ],
    );
}

/// Two measurements contradict each other, or the source repeats a measurement with another value.
/// In both cases another program has set the clock, and the daemon has not noticed.
#[test]
fn a_contradiction_is_believed_only_when_the_source_has_measured_again() {
    let wide = |offset_ns, measurement| report_within(1_000_000, offset_ns, measurement);
    for (offset_ns, measurement) in [(3_000_000, 1), (-3_000_000, 1), (100_000, 0), (-100_000, 0)] {
        for (next, source) in [(wide(0, 8), BY_CHRONYD), (kernel(8), BY_KERNEL)] {
            assert_claims(
                &mut maker_after(&[wide(0, 0), wide(100, 0)]),
                &[
                    (moment(2), wide(offset_ns, measurement), DISRUPTED),
                    (moment(3), wide(0, measurement), DISRUPTED),
                    // Another source may have the same knowledge, until it has measured, too.
                    (moment(4), kernel(7), KEPT),
                    (moment(5), kernel(7), DISRUPTED),
                    (moment(6), next, source),
                ],
            );
        }
    }
}

/// After some minutes a source's interval has grown so far that a step is small against it.
#[test]
fn a_step_is_noticed_however_long_ago_the_source_has_measured() {
    let grown =
        |seconds: i64, step_ns: i64| report_within(1_000 + seconds * WANDER_PPB, step_ns, 0);
    for step_ns in [10_000, -10_000, 100_000] {
        let before: Vec<_> = (0..300).map(|seconds| grown(seconds, 0)).collect();
        assert_claims(
            &mut maker_after(&before),
            &[(moment(300), grown(300, step_ns), DISRUPTED)],
        );
    }
}

/// The kernel answers in chronyd's place, and claims so little that it agrees with any small step.
#[test]
fn a_step_is_noticed_if_another_source_has_answered_meanwhile() {
    for (step_ns, then) in [(0, BY_CHRONYD), (300_000, DISRUPTED)] {
        assert_claims(
            &mut maker_after(&[report_of(0, 0); 2]),
            &[
                (moment(2), kernel(7), KEPT),
                (moment(3), kernel(7), BY_KERNEL),
                (moment_after_set(step_ns, 4), report_of(0, 0), then),
            ],
        );
    }
}

/// The source may have measured before the step, and not know of it.
#[test]
fn a_step_during_the_first_request_is_a_disruption() {
    let mut maker = ClaimMaker::default();
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[
            (moment(0), report_of(0, 0), DISRUPTED),
            (moment(1), report_of(0, 1), BY_CHRONYD),
        ],
    );
}

/// clock-bound 3 does not use the OS clock, so it agrees with itself after a step. Symptom:
/// chronyd, which did not know of the step, was then believed.
#[test]
fn each_source_must_agree_after_the_clock_was_set() {
    let mut maker = maker_after(&[report_of(0, 0), clock_bound(0, 5), clock_bound(0, 5)]);
    maker.record_clock_set();
    let set = |seconds| moment_after_set(50_000, seconds);
    assert_claims(
        &mut maker,
        &[
            (set(3), clock_bound(-50_000, 5), BY_CLOCK_BOUND),
            (set(4), report_of(0, 1), KEPT),
            (set(5), report_of(0, 1), DISRUPTED),
        ],
    );
}

/// Even if a better source, or the other version of clock-bound's segment, has measured meanwhile.
#[test]
fn after_a_disruption_each_source_must_measure_again() {
    let version_2 = report_of(0, 9).map(|report| from(Origin::ClockBound2, report));
    assert_claims(
        &mut maker_after(&[clock_bound(0, 5); 2]),
        &[
            (resumed_at(2_000), clock_bound(0, 5), DISRUPTED),
            (resumed_at(3_000), report_of(0, 0), KEPT),
            (resumed_at(4_000), clock_bound(0, 6), BY_CLOCK_BOUND),
            (resumed_at(5_000), version_2, DISRUPTED),
            (resumed_at(6_000), report_of(0, 1), KEPT),
            (resumed_at(7_000), report_of(0, 1), BY_CHRONYD),
        ],
    );
}

/// Symptom: a request that was held up made room for each later step, until the next measurement.
#[test]
fn a_step_is_noticed_after_a_request_that_was_held_up() {
    let held_up = report_within(1_001_000, 0, 0).map(|report| Report {
        request_ns: 1_000_000,
        ..report
    });
    for step_ns in [100_000, -100_000] {
        let mut maker = maker_after(&[held_up, report_of(0, 0), report_of(0, 0)]);
        maker.record_clock_set();
        assert_claims(
            &mut maker,
            &[(moment_after_set(step_ns, 3), report_of(0, 0), DISRUPTED)],
        );
    }
    // What the requests may have added on either side is no step.
    let long = |offset_ns| {
        report_within(11_000, offset_ns, 0).map(|old| Report {
            request_ns: 10_000,
            ..old
        })
    };
    assert_claims(
        &mut maker_after(&[long(0)]),
        &[(moment(1), long(19_000), BY_CHRONYD)],
    );
    assert_claims(
        &mut maker_after(&[report_of(0, 0), long(10_000)]),
        &[(moment(2), report_of(0, 0), BY_CHRONYD)],
    );
}

/// The source may be silent, or say that it does not know, when the machine resumes.
#[test]
fn after_a_disruption_the_source_must_measure_again() {
    let suspended = |seconds| Moment {
        suspended_ns: SECOND_NS,
        ..moment(seconds)
    };
    let moved = |seconds| Moment {
        marker: 1,
        ..moment(seconds)
    };
    let by_hpet = |seconds| Moment {
        clocksource: Clocksource::Hpet,
        ..moment(seconds)
    };
    let disrupted: [&dyn Fn(i64) -> Moment; 3] = [&suspended, &moved, &by_hpet];
    for after in disrupted {
        for first in [
            Err(UtcUnknown::NoSource),
            Err(UtcUnknown::Unsynchronised),
            report_of(0, 1),
        ] {
            let mut maker = maker_after(&[report_of(0, 0)]);
            assert_claims(&mut maker, &[(after(1), first, DISRUPTED)]);
            assert_eq!(maker.rate.slopes, None, "the counter may have run on");
            assert_claims(&mut maker, &[(after(2), report_of(0, 1), DISRUPTED)]);
            // The time is another one than before.
            let claim =
                next_claim(&mut maker, &after(3), report_of(5 * SECOND_NS, 2), VALID_NS).unwrap();
            assert_eq!(claim.source, Some(UtcSource::Chronyd));
            assert!(claim.is_before_suspend(2 * SECOND_NS));
            assert!(!claim.is_before_suspend(after(3).suspended_ns));
            let undisturbed = [after(3).marker, 7].map(|marker| claim.if_undisturbed(marker));
            assert_eq!(undisturbed, [Some(claim), None]);
        }
    }
}

/// clock-bound's daemon notices a disruption, and is gone when the next request comes.
#[test]
fn a_disruption_that_one_source_reports_counts_for_every_other_one() {
    assert_claims(
        &mut maker_after(&[report_of(0, 0)]),
        &[
            (moment(1), Err(UtcUnknown::Disrupted), DISRUPTED),
            (moment(2), report_of(0, 0), DISRUPTED),
            (moment(3), report_of(0, 1), BY_CHRONYD),
        ],
    );
}

#[test]
fn a_clock_that_was_set_is_believed_if_the_last_claim_agrees() {
    let mut known = maker_after(&[report_of(0, 0); 2]);
    known.record_clock_set();
    let mut unknown = ClaimMaker::default();
    unknown.record_clock_set();
    for (maker, then) in [(&mut known, BY_CHRONYD), (&mut unknown, DISRUPTED)] {
        assert_claims(
            maker,
            &[
                (moment(2), report_of(0, 0), then),
                (moment(3), report_of(0, 0), then),
                (moment(4), report_of(0, 1), BY_CHRONYD),
            ],
        );
        maker.record_clock_set();
        assert_claims(
            maker,
            &[
                // The source is silent, and may then have measured before or after the clock was
                // set.
                (moment(5), Err(UtcUnknown::NoSource), KEPT),
                (moment(6), report_of(0, 2), DISRUPTED),
                (moment(7), report_of(0, 3), BY_CHRONYD),
            ],
        );
    }
}

/// A source that does not know the rate of UTC can't tell a small step from a drift. The kernel's
/// maximum error says nothing of the step, nor does version 2 of clock-bound's segment.
#[test]
fn a_clock_that_was_set_is_not_believed_by_a_source_that_knows_no_rate() {
    let vague = report_of(0, 0).map(|old| Report {
        rates_ppb: [-MAX_FREQUENCY_PPB, MAX_FREQUENCY_PPB],
        ..old
    });
    let mut maker = maker_after(&[vague; 2]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[(moment_after_set(400_000, 2), vague, DISRUPTED)],
    );
}

/// The clock is set after a measurement and before the request that returns it. The thread learns
/// of that after the request. The source then agrees only with itself.
#[test]
fn a_measurement_first_seen_after_the_clock_was_set_is_not_believed() {
    let wide = |measurement| report_within(1_000_000, 0, measurement);
    let set = |seconds| moment_after_set(100_000, seconds);
    let mut maker = maker_after(&[wide(0)]);
    assert_claims(&mut maker, &[(set(1), wide(1), BY_CHRONYD)]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[(set(2), wide(1), DISRUPTED), (set(3), wide(2), BY_CHRONYD)],
    );
}

#[test]
fn nothing_is_claimed_around_a_leap_second() {
    let (mut maker, midnight) = (ClaimMaker::default(), |seconds| {
        moment(MIDNIGHT_S + seconds)
    });
    let leap = |offset_ns| {
        report_of(offset_ns, 0).map(|report| Report {
            leap_second_today: true,
            ..report
        })
    };
    let claim = next_claim(&mut maker, &midnight(-3), leap(0), VALID_NS).unwrap();
    let (last_ns, margin_ns) = (SECOND_NS - 2_000, MIDNIGHT_S * SECOND_NS - 3 * SECOND_NS);
    assert!(
        claim.at_raw(margin_ns + last_ns).is_some()
            && claim.at_raw(margin_ns + SECOND_NS).is_none()
    );
    assert_eq!(claim.failure, UtcUnknown::LeapSecond);
    let near = Some(Err(UtcUnknown::LeapSecond));
    assert_claims(
        &mut maker,
        &[
            (midnight(-2), leap(0), near),
            (midnight(-1), leap(0), near),
            // The clock is set back by a second.
            (midnight(0), leap(-SECOND_NS), near),
            (midnight(1), leap(-SECOND_NS), near),
            (midnight(2), leap(-SECOND_NS), near),
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

#[test]
fn small_steps_do_not_add_up() {
    // 1 us a second for the drift, and 50 ns, which is less than two moments may differ by.
    let stepped = |seconds| report_of(seconds * 1_050, 1);
    let mut maker = maker_after(&[stepped(0), stepped(1)]);
    let mut claims = (2..60).map(|seconds| {
        next_claim(&mut maker, &moment(seconds), stepped(seconds), VALID_NS).unwrap()
    });
    assert!(claims.any(|claim| claim.failure == UtcUnknown::Disrupted));
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

/// A number that arbitrary bytes could make a source report.
fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -2_000_000_000..2_000_000_000_i64,
        -2_000..2_000_i64,
        Just(i64::MIN),
        Just(i64::MAX)
    ]
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn no_report_makes_the_thread_panic_or_a_claim_that_is_none(
        numbers in proptest::array::uniform11(any_number()),
        ticks in any::<Option<u64>>(),
        leap_second_today in any::<bool>(),
    ) {
        let [least_ns, greatest_ns, request_ns, least_ppb, greatest_ppb, report_ns, rest @ ..] = numbers;
        let [width_ns, realtime_ns, raw_ns, suspended_ns, valid_ns] = rest;
        let (offset_ns, rates_ppb) = ([least_ns, greatest_ns], [least_ppb, greatest_ppb]);
        let usual = report_of(0, 0).unwrap();
        let report = Report { offset_ns, request_ns, rates_ppb, valid_ns: report_ns, leap_second_today, ..usual };
        let (width_ns, raw_ns) = (width_ns.max(0), raw_ns.max(0));
        let odd = Moment { ticks, raw_ns, realtime_ns, width_ns, suspended_ns, ..moment(0) };
        let like = Moment { realtime_ns: START_NS, suspended_ns: 0, ..odd };
        let mut maker = ClaimMaker::default();
        next_claim(&mut maker, &moment(0), report_of(0, 0), VALID_NS);
        for (moment, report) in [(moment(1), report), (odd, report), (like, report)] {
            let valid_ns = valid_ns.clamp(0, i64::MAX / 2);
            let Some(claim) = next_claim(&mut maker, &moment, Ok(report), valid_ns) else { continue };
            for later in [0, 1, claim.by_raw.valid.saturating_sub(1), u64::MAX] {
                let readings = [
                    claim.at_raw(moment.raw_ns.wrapping_add_unsigned(later)),
                    claim.at_ticks(claim.by_counter.start.wrapping_add(later)),
                ];
                for reading in readings.into_iter().flatten() {
                    prop_assert!(reading.earliest <= reading.latest);
                }
            }
        }
    }
}
