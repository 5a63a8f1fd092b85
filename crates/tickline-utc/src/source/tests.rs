use core::cell::Cell;
use core::num::NonZeroU16;

use super::*;
use crate::claim_maker::ClaimMaker;
use crate::claim_maker::tests::{moment, report_of};

/// Each reading of the steering differs from the last by so many ppb.
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

/// The machine of the test may have a chronyd, which then answers as well, perhaps with nonsense.
#[test]
fn a_request_returns_all_measurements_unless_the_steering_changed() {
    let mut maker = ClaimMaker::default();
    let mut ask = |change_ppb| {
        let os = SteeredOs(Cell::new(0), change_ppb);
        maker.ask(&os, || Some(moment(1)), || Some(kernel::tests::USUAL))
    };
    assert!(ask(1).is_none());
    let answers = ask(0).unwrap();
    let measurements = &answers.measurements;
    assert!(
        measurements.iter().any(|id| id.origin == Origin::Kernel),
        "{measurements:?}"
    );
    let answers = Answers {
        best: report_of(0, 0),
        ..answers
    };
    let claim = maker.next_claim(answers, 1).unwrap();
    assert_eq!(
        claim.tai_offset_s.map(NonZeroU16::get),
        Some(37),
        "by the kernel"
    );
}

#[test]
fn the_first_source_with_a_report_is_taken_unless_one_before_it_was_disrupted() {
    let reports = [1, 2, 3, 4, 5].map(|measurement| Some(report_of(0, measurement)));
    let measurement = |answers| best(answers).map(|report| report.id.number);
    for (first, place) in (0..5).zip(1..) {
        for answer in [None, Some(Err(UtcUnknown::Expired))] {
            let answers = core::array::from_fn(|index| {
                if index < first {
                    answer
                } else {
                    reports[index]
                }
            });
            assert_eq!(measurement(answers), Ok(place));
            let mut disrupted = answers;
            disrupted[first] = Some(Err(UtcUnknown::Disrupted));
            assert_eq!(measurement(disrupted), Err(UtcUnknown::Disrupted));
        }
    }
    assert_eq!(measurement([None; 5]), Err(UtcUnknown::NoSource));
}

/// The answer may have come at any moment between the two moments.
#[test]
fn an_answer_is_widened_by_what_may_have_happened_since() {
    let before = Moment {
        width_ns: 10,
        ..moment(0)
    };
    let after = |moved_ns: i64| {
        let realtime_ns = before.realtime_ns + 1_000_000 + moved_ns;
        Moment {
            raw_ns: 1_000_000,
            realtime_ns,
            ..before
        }
    };
    // 2 ppm less to 6 ppm more than CLOCK_MONOTONIC_RAW: 2 and 6 ns in 1 ms.
    let rates_ppb = Interval::between(-2_000, 6_000);
    let report = Report {
        offset_ns: Interval::between(100, 300),
        request_ns: 3,
        rates_ppb,
        ..report_of(0, 0).unwrap()
    };
    let widen = |after: &Moment| widen(&before, after, Ok(report)).map(Result::unwrap);
    for (moved_ns, least_ns, greatest_ns) in [(0, 87, 317), (1_000, -913, 317), (-1_000, 87, 1_317)]
    {
        let report = widen(&after(moved_ns)).unwrap();
        assert_eq!(report.offset_ns, Interval::between(least_ns, greatest_ns));
        assert_eq!(
            report.request_ns,
            3 + (100 - least_ns).max(greatest_ns - 300)
        );
    }
    let wide = widen(&Moment {
        width_ns: 1_000_000,
        ..after(0)
    })
    .unwrap();
    assert_eq!(
        wide.offset_ns,
        Interval::between(100 - 1_000_005, 300 + 1_000_013)
    );
    assert!(
        widen(&Moment {
            realtime_ns: before.realtime_ns + 15,
            ..before
        })
        .is_some(),
        "within the width"
    );
    let suspended = Moment {
        suspended_ns: 1_000_000,
        ..after(0)
    };
    let moved = Moment {
        marker: 1,
        ..after(0)
    };
    assert_eq!(
        [after(200_000), after(-200_000), suspended, moved].map(|after| widen(&after)),
        [None; 4]
    );
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
