use core::cell::Cell;
use core::num::NonZeroU16;

use super::*;
use crate::Unbounded;
use crate::claim_maker::ClaimMaker;
use crate::claim_maker::tests::{moment, report_of};

/// Each reading of the steering is higher than the last by this number of ppb (the field 1).
struct SteeredOs(Cell<i64>, i64);

impl Reference for SteeredOs {
    fn monotonic_ns(&self) -> i64 {
        0
    }

    fn unix_ns(&self) -> i64 {
        0
    }

    fn steering_ppb(&self) -> Option<i64> {
        Some(self.0.replace(self.0.get() + self.1))
    }
}

/// The answers to a request of a maker, by a machine whose steering changes by `change_ppb` between
/// two readings. The machine of the test may have a chronyd, which then answers as well, perhaps
/// with nonsense.
fn ask(maker: &mut ClaimMaker, change_ppb: i64) -> Option<SourceAnswers> {
    let os = SteeredOs(Cell::new(0), change_ppb);
    maker.ask(0, &os, || Some(moment(1)), || Some(kernel::tests::USUAL))
}

#[test]
fn a_request_has_no_answers_if_the_steering_changed_meanwhile() {
    assert!(ask(&mut ClaimMaker::default(), 1).is_none());
}

/// Whether the kernel's measurement is among those of the answers.
fn has_kernels_measurement(answers: &SourceAnswers) -> bool {
    let mut measurements = answers.measurements.iter();
    measurements.any(|id| id.origin == Origin::Kernel)
}

#[test]
fn a_request_returns_the_kernels_measurement() {
    let answers = ask(&mut ClaimMaker::default(), 0).unwrap();
    assert!(has_kernels_measurement(&answers), "{answers:?}");
}

/// The answers of chronyd, and of a kernel with this clock.
fn answers_of_chronyd_and(clock: KernelClock) -> SourceAnswers {
    let mut kernel = KernelSource::default();
    let answers = [Some(report_of(0, 1)), kernel.report(&clock)];
    SourceAnswers::new(answers, &kernel, [&before(), &after(0)]).unwrap()
}

#[test]
fn the_measurement_of_a_source_that_is_not_the_best_is_returned() {
    let answers = answers_of_chronyd_and(kernel::tests::USUAL);
    assert_eq!(answers.best.unwrap().id.origin, Origin::Chronyd);
    assert!(has_kernels_measurement(&answers), "{answers:?}");
}

#[test]
fn the_best_report_has_the_kernels_leap_second() {
    for (clock, has_leap) in [(kernel::tests::USUAL, false), (kernel::tests::LEAP, true)] {
        let best = answers_of_chronyd_and(clock).best.unwrap();
        assert_eq!(best.id.origin, Origin::Chronyd);
        assert_eq!(best.leap_second_today, has_leap);
    }
}

#[test]
fn a_claim_by_another_source_has_the_kernels_offset_of_tai() {
    let mut maker = ClaimMaker::default();
    let answers = SourceAnswers {
        best: report_of(0, 0),
        ..ask(&mut maker, 0).unwrap()
    };
    let claim = maker.next_claim(answers, 1).unwrap();
    assert_eq!(claim.tai_offset_s.map(NonZeroU16::get), Some(37));
}

/// The answers of five sources, of which each reports the measurement of its place, from 1 to 5.
/// But the sources before `first` say `silent`.
fn answers_from(first: usize, silent: Option<SourceAnswer>) -> [Option<SourceAnswer>; 5] {
    let mut answers = [1, 2, 3, 4, 5].map(|place| Some(report_of(0, place)));
    answers[..first].fill(silent);
    answers
}

/// What a source says that has no report.
const SILENT: [Option<SourceAnswer>; 2] = [None, Some(Err(UtcUnknown::Expired))];

fn best_number(answers: [Option<SourceAnswer>; 5]) -> Result<u64, UtcUnknown> {
    best(answers).map(|report| report.id.number)
}

#[test]
fn the_first_source_with_a_report_is_taken() {
    for (first, place) in (0..5).zip(1..) {
        for silent in SILENT {
            assert_eq!(best_number(answers_from(first, silent)), Ok(place));
        }
    }
}

#[test]
fn no_source_behind_a_disrupted_one_is_taken() {
    for first in 0..5 {
        for silent in SILENT {
            let mut answers = answers_from(first, silent);
            answers[first] = Some(Err(UtcUnknown::Disrupted));
            assert_eq!(best_number(answers), Err(UtcUnknown::Disrupted));
        }
    }
}

/// Symptom: without `rtcsync` the kernel's flag is never cleared, and it hid that chronyd reaches
/// no server.
#[test]
fn of_several_sources_that_are_not_synchronised_the_best_says_why() {
    let by = |source, why| Err(UtcUnknown::Unsynchronised(source, why));
    let chronyd = by(UtcSource::Chronyd, Unbounded::FollowsNothing);
    let kernel = by(UtcSource::Kernel, Unbounded::KernelUnsynchronised);
    let answers = [None, None, Some(chronyd), None, Some(kernel)];
    assert_eq!(best(answers), chronyd);
}

/// Symptom: what ptp4l said made the kernel's cause replace chronyd's.
#[test]
fn the_best_of_them_says_why_although_another_one_in_between_fails_otherwise() {
    let by = |source, why| Err(UtcUnknown::Unsynchronised(source, why));
    let chronyd = by(UtcSource::Chronyd, Unbounded::FollowsNothing);
    let ptp4l = Err(UtcUnknown::LeapSecond);
    let kernel = by(UtcSource::Kernel, Unbounded::KernelUnsynchronised);
    let answers = [None, None, Some(chronyd), Some(ptp4l), Some(kernel)];
    assert_eq!(best(answers), chronyd);
}

#[test]
fn a_source_that_is_not_synchronised_says_why_although_a_better_one_has_expired() {
    let kernel = Err(UtcUnknown::Unsynchronised(
        UtcSource::Kernel,
        Unbounded::KernelUnsynchronised,
    ));
    let answers = [
        Some(Err(UtcUnknown::Expired)),
        None,
        None,
        None,
        Some(kernel),
    ];
    assert_eq!(best(answers), kernel);
}

#[test]
fn without_any_answer_there_is_no_source() {
    assert_eq!(best_number([None; 5]), Err(UtcUnknown::NoSource));
}

/// The moment before a request. The clocks are known to within 10 ns.
fn before() -> Moment {
    Moment {
        width_ns: 10,
        ..moment(0)
    }
}

/// The moment 1 ms later, after `CLOCK_REALTIME` has moved by so much against
/// `CLOCK_MONOTONIC_RAW`.
fn after(moved_ns: i64) -> Moment {
    Moment {
        raw_ns: 1_000_000,
        realtime_ns: before().realtime_ns + 1_000_000 + moved_ns,
        ..before()
    }
}

/// UTC is 100 to 300 ns ahead, and gains -2 to 6 ppm on `CLOCK_MONOTONIC_RAW`: -2 to 6 ns in 1 ms.
/// The answer may have come at any moment between `before` and this one.
fn report_at(after: &Moment) -> Option<Report> {
    let report = Report {
        offset_ns: Interval::between(100, 300),
        request_ns: 3,
        rates_ppb: Interval::between(-2_000, 6_000),
        ..report_of(0, 0).unwrap()
    };
    widen(&before(), after, Ok(report)).map(Result::unwrap)
}

/// How far `CLOCK_REALTIME` has moved, and the least and the greatest offset then, ns.
const WIDENED: [(i64, i64, i64); 3] = [(0, 87, 317), (1_000, -913, 317), (-1_000, 87, 1_317)];

#[test]
fn an_answer_is_widened_by_what_the_clocks_may_have_moved_since() {
    for (moved_ns, least_ns, greatest_ns) in WIDENED {
        let report = report_at(&after(moved_ns)).unwrap();
        assert_eq!(report.offset_ns, Interval::between(least_ns, greatest_ns));
    }
}

#[test]
fn the_larger_widening_is_the_requests_part_of_the_error() {
    for (moved_ns, least_ns, greatest_ns) in WIDENED {
        let report = report_at(&after(moved_ns)).unwrap();
        let widening_ns = (100 - least_ns).max(greatest_ns - 300);
        assert_eq!(report.request_ns, 3 + widening_ns);
    }
}

#[test]
fn an_answer_is_widened_by_the_time_of_reading_the_clocks() {
    let wide = Moment {
        width_ns: 1_000_000,
        ..after(0)
    };
    let offset_ns = Interval::between(100 - 1_000_005, 300 + 1_000_013);
    assert_eq!(report_at(&wide).unwrap().offset_ns, offset_ns);
}

#[test]
fn a_clock_that_moved_within_its_width_was_not_set() {
    let moved = Moment {
        realtime_ns: before().realtime_ns + 15,
        ..before()
    };
    assert!(report_at(&moved).is_some());
}

/// The fastest slew. The time that counts is the time between the moments, 1 ms, and the width of
/// the second, 10 ns. The widths of both moments may hide a part of the move.
const FASTEST_NS: i64 = 1_000_010 / 8 + 2 * 10;

#[test]
fn a_move_of_the_clock_by_an_eighth_of_the_time_is_a_slew() {
    for moved_ns in [FASTEST_NS, -FASTEST_NS] {
        assert!(report_at(&after(moved_ns)).is_some(), "{moved_ns}");
    }
}

#[test]
fn a_move_of_the_clock_by_more_than_an_eighth_of_the_time_is_a_step() {
    for moved_ns in [FASTEST_NS + 1, -FASTEST_NS - 1] {
        assert_eq!(report_at(&after(moved_ns)), None, "{moved_ns}");
    }
}

#[test]
fn an_answer_before_the_clock_was_set_does_not_count() {
    assert_eq!(
        [200_000, -200_000].map(|ns| report_at(&after(ns))),
        [None; 2]
    );
}

#[test]
fn an_answer_before_a_suspend_does_not_count() {
    let suspended = Moment {
        suspended_ns: 1_000_000,
        ..after(0)
    };
    assert_eq!(report_at(&suspended), None);
}

#[test]
fn an_answer_before_the_machine_was_moved_does_not_count() {
    let moved = Moment {
        marker: 1,
        ..after(0)
    };
    assert_eq!(report_at(&moved), None);
}

/// The oscillator is off by more than NTP can steer, and the OS clock is slewed as well.
#[test]
fn a_rate_that_a_source_does_not_say_is_near_that_of_the_os_clock_or_of_its_oscillator() {
    for (steered_ppb, rate_ppb) in [
        (-600_001, -600_001),
        (-400_000, -600_000),
        (499_999, 999_999),
        (499_999, -500_000),
        (-80_000_000, 300_000),
    ] {
        let rates_ppb = unknown_rates_ppb(steered_ppb);
        assert!(
            rates_ppb.overlaps(Interval::at(rate_ppb)),
            "{steered_ppb} {rate_ppb}"
        );
    }
}
