//! Steps of the OS clock, suspends and moves, which a source may not have noticed.

use super::*;

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
}

/// A report whose request took 10 us, which are part of its interval.
fn long(offset_ns: i64) -> SourceAnswer {
    report_within(11_000, offset_ns, 0).map(|report| Report {
        request_ns: 10_000,
        ..report
    })
}

#[test]
fn what_two_long_requests_may_have_added_is_no_step() {
    assert_claims(
        &mut maker_after(&[long(0)]),
        &[(moment(1), long(19_000), BY_CHRONYD)],
    );
}

#[test]
fn what_the_last_request_may_have_added_is_no_step() {
    assert_claims(
        &mut maker_after(&[report_of(0, 0), long(10_000)]),
        &[(moment(2), report_of(0, 0), BY_CHRONYD)],
    );
}

/// The moments of a machine that was suspended, that has moved to another host, and whose kernel
/// has another clocksource.
const DISRUPTIONS: [fn(i64) -> Moment; 3] = [
    |seconds| resumed_at(seconds * 1_000),
    |seconds| Moment {
        marker: 1,
        ..moment(seconds)
    },
    |seconds| Moment {
        clocksource: Clocksource::Hpet,
        ..moment(seconds)
    },
];

/// The source may be silent, or say that it does not know, when the machine resumes.
#[test]
fn after_a_disruption_the_source_must_measure_again() {
    for after in DISRUPTIONS {
        for first in [
            Err(UtcUnknown::NoSource),
            Err(UNSYNCHRONISED),
            report_of(0, 1),
        ] {
            assert_claims(
                &mut maker_after(&[report_of(0, 0)]),
                &[
                    (after(1), first, DISRUPTED),
                    (after(2), report_of(0, 1), DISRUPTED),
                    // The time is another one than before.
                    (after(3), report_of(5 * SECOND_NS, 2), BY_CHRONYD),
                ],
            );
        }
    }
}

/// The counter may have run on.
#[test]
fn after_a_disruption_the_counters_rate_is_unknown() {
    for after in DISRUPTIONS {
        let mut maker = maker_after(&[report_of(0, 0); 2]);
        assert!(maker.rate.slopes.is_some());
        assert_claims(&mut maker, &[(after(2), report_of(0, 1), DISRUPTED)]);
        assert_eq!(maker.rate.slopes, None);
    }
}

#[test]
fn a_claim_ends_with_a_suspend_after_it() {
    let claim = next_claim(
        &mut ClaimMaker::default(),
        &resumed_at(0),
        report_of(0, 0),
        VALID_NS,
    )
    .unwrap();
    assert!(!claim.is_before_suspend(SECOND_NS));
    assert!(claim.is_before_suspend(2 * SECOND_NS));
}

#[test]
fn a_claim_ends_with_a_move_after_it() {
    let claim = next_claim(
        &mut ClaimMaker::default(),
        &DISRUPTIONS[1](0),
        report_of(0, 0),
        VALID_NS,
    )
    .unwrap();
    let undisturbed = [1, 7].map(|marker| claim.if_undisturbed(marker));
    assert_eq!(undisturbed, [Some(claim), None]);
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
    let mut maker = maker_after(&[report_of(0, 0); 2]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[
            (moment(2), report_of(0, 0), BY_CHRONYD),
            (moment(3), report_of(0, 0), BY_CHRONYD),
        ],
    );
}

#[test]
fn a_clock_that_was_set_before_any_claim_is_believed_after_a_measurement() {
    let mut maker = ClaimMaker::default();
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[
            (moment(2), report_of(0, 0), DISRUPTED),
            (moment(3), report_of(0, 0), DISRUPTED),
            (moment(4), report_of(0, 1), BY_CHRONYD),
        ],
    );
}

/// It may have measured before or after the clock was set.
#[test]
fn a_source_that_is_silent_after_the_clock_was_set_must_measure_again() {
    let mut maker = maker_after(&[report_of(0, 0), report_of(0, 1)]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[
            (moment(2), Err(UtcUnknown::NoSource), KEPT),
            (moment(3), report_of(0, 2), DISRUPTED),
            (moment(4), report_of(0, 3), BY_CHRONYD),
        ],
    );
}

/// A source that does not know the rate of UTC can't tell a small step from a drift. The kernel's
/// maximum error says nothing of the step, nor does version 2 of clock-bound's segment.
#[test]
fn a_clock_that_was_set_is_not_believed_by_a_source_that_knows_no_rate() {
    let vague = report_of(0, 0).map(|old| Report {
        rates_ppb: Interval::around(0, MAX_FREQUENCY_PPB),
        ..old
    });
    let mut maker = maker_after(&[vague; 2]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[(moment_after_set(400_000, 2), vague, DISRUPTED)],
    );
}

/// A rate to within less than the kernel's steering tells the step.
#[test]
fn a_clock_that_was_set_is_believed_by_a_source_that_knows_any_rate() {
    let vague = report_of(0, 0).map(|old| Report {
        rates_ppb: Interval::between(1 - MAX_FREQUENCY_PPB, MAX_FREQUENCY_PPB),
        ..old
    });
    let mut maker = maker_after(&[vague; 2]);
    maker.record_clock_set();
    assert_claims(&mut maker, &[(moment(2), vague, BY_CHRONYD)]);
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
fn small_steps_do_not_add_up() {
    // 1 us a second for the drift, and 50 ns, which is less than two moments may differ by.
    let stepped = |seconds| report_of(seconds * 1_050, 1);
    let mut maker = maker_after(&[stepped(0), stepped(1)]);
    let mut claims = (2..60).map(|seconds| {
        next_claim(&mut maker, &moment(seconds), stepped(seconds), VALID_NS).unwrap()
    });
    assert!(claims.any(|claim| claim.failure == UtcUnknown::Disrupted));
}
