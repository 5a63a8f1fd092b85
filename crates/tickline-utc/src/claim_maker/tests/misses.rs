//! Sources that miss requests.

use super::*;

const NO_SOURCE: SourceAnswer = Err(UtcUnknown::NoSource);
const EXPIRED: Expected = Some(Err(UtcUnknown::Expired));

/// A source that is gone, and one that says that it does not know, with what readings then fail
/// with. The first one's claim itself says that it has ended.
const SILENT: [(SourceAnswer, UtcUnknown); 2] = [
    (NO_SOURCE, UtcUnknown::Expired),
    (Err(UNSYNCHRONISED), UNSYNCHRONISED),
];

/// In a guest on a busy machine chronyd was late for one request in ten. The kernel then answered
/// in its place, and said that it is not synchronised: without `rtcsync` chronyd does not touch the
/// kernel's flag.
#[test]
fn a_source_that_misses_one_request_is_late() {
    for (silent, _) in SILENT {
        assert_claims(
            &mut maker_after(&[report_of(0, 0)]),
            &[
                (moment(1), silent, KEPT),
                (moment(2), report_of(0, 0), BY_CHRONYD),
                (moment(3), silent, KEPT),
            ],
        );
    }
}

#[test]
fn a_source_that_misses_two_requests_has_died() {
    for (silent, failure) in SILENT {
        assert_claims(
            &mut maker_after(&[report_of(0, 0)]),
            &[
                (moment(1), silent, KEPT),
                (moment(2), silent, Some(Err(failure))),
            ],
        );
    }
}

/// A claim holds for longer than two requests take, for a thread that is late.
#[test]
fn a_source_has_died_though_its_last_claim_would_still_hold() {
    for (silent, failure) in SILENT {
        let mut maker = ClaimMaker::default();
        let claim = next_claim(&mut maker, &moment(5), report_of(0, 0), VALID_NS).unwrap();
        assert!(claim.at_raw(at_ms(7_350).raw_ns).is_some());
        assert_claims(
            &mut maker,
            &[
                (at_ms(6_600), silent, KEPT),
                (at_ms(7_350), silent, Some(Err(failure))),
            ],
        );
    }
}

#[test]
fn the_last_answer_of_a_source_that_has_died_counts_for_its_next_claim() {
    for (silent, failure) in SILENT {
        assert_claims(
            &mut maker_after(&[report_of(0, 0)]),
            &[
                (moment(1), silent, KEPT),
                (moment(2), silent, Some(Err(failure))),
                (moment(3), report_of(90_000, 1), DISRUPTED),
            ],
        );
    }
}

#[test]
fn a_reason_does_not_outlive_the_source_that_gave_it() {
    for (silent, failure) in SILENT {
        let reason = silent.unwrap_err();
        assert_claims(
            &mut maker_after(&[report_of(0, 0)]),
            &[
                (moment(1), silent, KEPT),
                (moment(2), silent, Some(Err(failure))),
                (moment(3), report_of(90_000, 1), DISRUPTED),
                (moment(4), silent, KEPT),
                (moment(5), silent, Some(Err(reason))),
            ],
        );
    }
}

#[test]
fn without_any_claim_readings_fail_with_the_reason_at_once() {
    for (silent, _) in SILENT {
        let reason = silent.unwrap_err();
        assert_claims(
            &mut ClaimMaker::default(),
            &[(moment(0), silent, Some(Err(reason)))],
        );
    }
}

/// Symptom: one late answer of chronyd made the kernel's cause, and its remedy, those of a poll.
#[test]
fn the_cause_of_a_source_that_misses_one_request_is_kept() {
    let chronyd = UtcUnknown::Unsynchronised(UtcSource::Chronyd, Unbounded::FollowsNothing);
    let kernel = UNSYNCHRONISED;
    assert_claims(
        &mut ClaimMaker::default(),
        &[
            (moment(0), Err(chronyd), Some(Err(chronyd))),
            (moment(1), Err(kernel), KEPT),
            (moment(2), Err(chronyd), Some(Err(chronyd))),
            (moment(3), Err(kernel), KEPT),
            (moment(4), Err(kernel), Some(Err(kernel))),
            (moment(5), Err(kernel), Some(Err(kernel))),
            (moment(6), Err(chronyd), Some(Err(chronyd))),
        ],
    );
}

/// Symptom: after two changes of the named source, the cause of the third counted at once.
#[test]
fn the_misses_of_each_cause_are_counted_anew() {
    let [clock_bound, ptp4l] = [
        UtcUnknown::Unsynchronised(
            UtcSource::ClockBound,
            Unbounded::ClockBoundStatus { status: 3 },
        ),
        UtcUnknown::Unsynchronised(UtcSource::Ptp4l, Unbounded::NoMaster),
    ];
    assert_claims(
        &mut ClaimMaker::default(),
        &[
            (moment(0), Err(clock_bound), Some(Err(clock_bound))),
            (moment(1), Err(ptp4l), KEPT),
            (moment(2), Err(ptp4l), Some(Err(ptp4l))),
            (moment(3), Err(UNSYNCHRONISED), KEPT),
            (moment(4), Err(UNSYNCHRONISED), Some(Err(UNSYNCHRONISED))),
        ],
    );
}

/// The source of the earlier cause may not answer again.
#[test]
fn after_the_clock_was_set_the_cause_of_the_source_that_answers_counts_at_once() {
    let chronyd = UtcUnknown::Unsynchronised(UtcSource::Chronyd, Unbounded::FollowsNothing);
    let mut maker = ClaimMaker::default();
    assert_claims(&mut maker, &[(moment(0), Err(chronyd), Some(Err(chronyd)))]);
    maker.record_clock_set();
    assert_claims(
        &mut maker,
        &[(moment(1), Err(UNSYNCHRONISED), Some(Err(UNSYNCHRONISED)))],
    );
}

#[test]
fn requests_within_half_a_second_are_one_miss() {
    assert_claims(
        &mut maker_after(&[report_of(0, 0); 2]),
        &[
            (at_ms(2_000), NO_SOURCE, KEPT),
            (at_ms(2_499), NO_SOURCE, KEPT),
            (at_ms(2_500), NO_SOURCE, EXPIRED),
        ],
    );
}

/// The next request then comes at once.
#[test]
fn misses_are_counted_anew_after_the_clock_was_set() {
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
    assert_claims(
        &mut maker_after(&[clock_bound(0, 0); 2]),
        &[
            (moment(2), report_of(0, 0), KEPT),
            (moment(3), report_of(0, 0), BY_CHRONYD),
        ],
    );
}

#[test]
fn the_misses_of_each_source_are_counted_anew() {
    assert_claims(
        &mut maker_after(&[clock_bound(0, 0); 2]),
        &[
            (moment(2), report_of(0, 0), KEPT),
            (moment(3), report_of(0, 0), BY_CHRONYD),
            (moment(4), kernel(7), KEPT),
            (moment(5), kernel(7), BY_KERNEL),
            (moment(6), NO_SOURCE, KEPT),
            (moment(7), NO_SOURCE, EXPIRED),
        ],
    );
}

#[test]
fn a_worse_source_is_not_believed_earlier_if_the_thread_was_late() {
    assert_claims(
        &mut maker_after(&[report_of(0, 0); 2]),
        &[
            // The claim has ended.
            (at_ms(5_000), kernel(7), KEPT),
            (at_ms(5_010), kernel(7), KEPT),
        ],
    );
}

/// A maker that has believed chronyd twice, and learns that the machine has resumed.
fn resumed_maker() -> ClaimMaker {
    let mut maker = maker_after(&[report_of(0, 0); 2]);
    maker.record_clock_set();
    maker
}

#[test]
fn a_worse_source_is_believed_after_a_disruption_once_it_has_measured() {
    assert_claims(
        &mut resumed_maker(),
        &[
            (resumed_at(2_000), report_of(0, 0), DISRUPTED),
            (resumed_at(3_000), kernel(7), KEPT),
            (resumed_at(4_000), kernel(8), BY_KERNEL),
        ],
    );
}

#[test]
fn a_better_source_that_answers_every_second_request_is_waited_for() {
    assert_claims(
        &mut resumed_maker(),
        &[
            (resumed_at(2_000), report_of(0, 0), DISRUPTED),
            (resumed_at(3_000), kernel(8), KEPT),
            (resumed_at(4_000), report_of(0, 0), DISRUPTED),
            (resumed_at(5_000), kernel(8), KEPT),
            (resumed_at(6_000), report_of(1_000_000, 1), BY_CHRONYD),
        ],
    );
}

#[test]
fn a_better_source_that_answers_again_must_have_measured() {
    assert_claims(
        &mut resumed_maker(),
        &[
            (resumed_at(2_000), report_of(0, 0), DISRUPTED),
            (resumed_at(3_000), kernel(7), KEPT),
            (resumed_at(4_000), kernel(8), BY_KERNEL),
            (resumed_at(5_000), report_of(0, 0), DISRUPTED),
        ],
    );
}

/// The next request comes at once.
#[test]
fn a_source_that_is_late_when_the_machine_resumes_has_missed_one_request() {
    assert_claims(
        &mut resumed_maker(),
        &[
            (resumed_at(2_000), kernel(7), DISRUPTED),
            (resumed_at(2_010), kernel(8), KEPT),
            (resumed_at(3_000), kernel(8), BY_KERNEL),
        ],
    );
}
