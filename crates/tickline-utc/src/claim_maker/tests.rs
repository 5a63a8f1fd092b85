use proptest::prelude::*;
use tickline_core::gate::Clocksource;

use super::*;
use crate::Bounds;
use crate::source::{MAX_FREQUENCY_PPB, MeasurementId, Origin};

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_800_000_000 * SECOND_NS;
const VALID_NS: i64 = 5 * SECOND_NS / 2;

/// The next midnight, s after the start.
const MIDNIGHT_S: i64 = (DAY_NS - START_NS % DAY_NS) / SECOND_NS;

/// A machine `seconds` after its start. Its clocks run at the rate of UTC, its counter at 3 ticks a
/// ns.
pub(crate) fn moment(seconds: i64) -> Moment {
    at_ms(seconds * 1_000)
}

fn at_ms(ms: i64) -> Moment {
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

/// A moment whose OS clock was set by `ns`.
fn moment_after_set(ns: i64, seconds: i64) -> Moment {
    Moment { realtime_ns: moment(seconds).realtime_ns + ns, ..moment(seconds) }
}

/// A report that UTC is `offset_ns` ahead, by 1 us more or less, in the measurement of this number.
pub(crate) fn said(offset_ns: i64, measurement: u64) -> Answer {
    said_within(1_000, offset_ns, measurement)
}

/// A report like [`said`]'s, by `half_ns` more or less.
fn said_within(half_ns: i64, offset_ns: i64, measurement: u64) -> Answer {
    Ok(Report {
        id: MeasurementId { origin: Origin::Chronyd, number: measurement },
        offset_ns: [offset_ns - half_ns, offset_ns + half_ns],
        request_ns: 0,
        rates_ppb: [-WANDER_PPB, WANDER_PPB],
        valid_ns: i64::MAX,
        leap_second_today: false,
    })
}

fn from(origin: Origin, report: Report) -> Report {
    Report { id: MeasurementId { origin, ..report.id }, ..report }
}

/// The report as the kernel's.
fn by_kernel(report: Report) -> Report {
    from(Origin::Kernel, report)
}

/// The report as that of clock-bound 3.
fn by_clock_bound(report: Report) -> Report {
    from(Origin::ClockBound3, report)
}

/// The earliest and the latest time of a reading, ns since 1970.
pub(crate) fn bounds_ns(reading: &Bounds) -> [i64; 2] {
    [reading.earliest_ns, reading.latest_ns].map(u64::cast_signed)
}

/// The claim made of this `answer`, which is the only one.
pub(crate) fn made(maker: &mut ClaimMaker, moment: &Moment, answer: Answer, valid_ns: i64) -> Option<Claim> {
    let measurements = answer.iter().map(|report| report.id).collect();
    maker.next_claim(Answers { moment: *moment, best: answer, measurements }, valid_ns)
}

/// Why a claim made of this `answer` has no source; `None` if it has one.
fn failure(maker: &mut ClaimMaker, moment: &Moment, answer: Answer) -> Option<Unknown> {
    let claim = made(maker, moment, answer, VALID_NS).unwrap();
    claim.source.is_none().then_some(claim.failure)
}

#[test]
fn a_claim_ends_and_the_source_that_is_gone_leaves_the_last_one() {
    let mut maker = ClaimMaker::default();
    made(&mut maker, &moment(0), said(0, 0), VALID_NS);
    let claim = made(&mut maker, &moment(1), said(0, 0), VALID_NS).unwrap();
    assert_eq!(made(&mut maker, &moment(2), Err(Unknown::NoSource), VALID_NS), None);
    let at = |seconds: i64| {
        let moment = moment(seconds);
        let of = |reading: Option<Bounds>| reading.map(|reading| bounds_ns(&reading));
        [of(claim.at_ticks(moment.ticks.unwrap())), of(claim.at_raw(moment.raw_ns))]
    };
    for [earliest_ns, latest_ns] in at(2).map(Option::unwrap) {
        let now_ns = moment(2).realtime_ns;
        // 1 us, the width, and a second of 1 ppm for UTC and 1 ppm for the counter.
        assert!((now_ns - 3_200..=now_ns - 2_050).contains(&earliest_ns), "{}", now_ns - earliest_ns);
        assert!((now_ns + 2_050..=now_ns + 3_200).contains(&latest_ns), "{}", latest_ns - now_ns);
    }
    assert_eq!((at(0), at(4), claim.failure), ([None; 2], [None; 2], Unknown::Expired));
    // The source lets its claim hold for a shorter time.
    let void = said(0, 0).map(|report| Report { valid_ns: SECOND_NS, ..report });
    assert_eq!(made(&mut maker, &moment(2), void, VALID_NS).unwrap().at_raw(moment(3).raw_ns), None);
    let unsynchronised = Err(Unknown::Unsynchronised);
    assert_eq!(
        made(&mut maker, &moment(3), unsynchronised, VALID_NS),
        None,
        "the claim says that it has ended"
    );
    assert_eq!(failure(&mut maker, &moment(4), unsynchronised), Some(Unknown::Unsynchronised));
}

/// In a guest on a busy machine chronyd was late for one request in ten. The kernel then answered
/// in its place, and said that it is not synchronised: without `rtcsync` chronyd does not touch the
/// kernel's flag. A claim holds for longer than two requests take, for a thread that is late.
#[test]
fn a_source_that_misses_one_request_is_late_and_one_that_misses_two_has_died() {
    for (why, then) in
        [(Unknown::NoSource, Unknown::Expired), (Unknown::Unsynchronised, Unknown::Unsynchronised)]
    {
        let mut maker = ClaimMaker::default();
        assert_eq!(failure(&mut maker, &at_ms(0), Err(why)), Some(why));
        for answered in [1_000, 3_000] {
            assert_eq!(failure(&mut maker, &at_ms(answered), said(0, 0)), None);
            assert_eq!(made(&mut maker, &at_ms(answered + 1_000), Err(why), VALID_NS), None);
        }
        let claim = made(&mut maker, &at_ms(5_000), said(0, 0), VALID_NS).unwrap();
        // The thread is late, and then the clock is set, so the source is asked at once.
        assert_eq!([6_600, 6_610].map(|ms| made(&mut maker, &at_ms(ms), Err(why), VALID_NS)), [None; 2]);
        assert!(claim.at_raw(at_ms(7_350).raw_ns).is_some(), "it would still hold");
        assert_eq!(failure(&mut maker, &at_ms(7_350), Err(why)), Some(then));
        // The last answer counts for the next claim all the same.
        assert_eq!(failure(&mut maker, &at_ms(7_400), said(90_000, 1)), Some(Unknown::Disrupted));
        // A reason does not outlive the source that gave it.
        assert_eq!(made(&mut maker, &at_ms(8_400), Err(why), VALID_NS), None);
        assert_eq!(failure(&mut maker, &at_ms(9_400), Err(why)), Some(why));
    }
}

/// chronyd may have lowered the kernel's maximum error without a measurement.
#[test]
fn a_worse_source_is_believed_when_a_better_one_has_missed_two_requests() {
    let (clock_bound, chronyd) = (said(0, 0).map(by_clock_bound), said(0, 0));
    let kernel = |measurement| said_within(2_000_000, 0, measurement).map(by_kernel);
    let none = Err(Unknown::NoSource);
    let (kept, disrupted) = (None, Some(Err(Unknown::Disrupted)));
    let by = |source| Some(Ok(source));
    // The ms, the best answer, and what was made of it.
    type Request = (i64, Answer, Option<Result<Source, Unknown>>);
    let misses_begin_anew = [
        (2_000, chronyd, kept),
        (3_000, chronyd, by(Source::Chronyd)),
        (4_000, kernel(7), kept),
        (5_000, kernel(7), by(Source::Kernel)),
        (6_000, none, kept),
        (7_000, none, Some(Err(Unknown::Expired))),
    ];
    let the_thread_was_late = [(5_000, chronyd, kept), (5_010, kernel(7), kept)];
    let after_a_suspend = [
        (12_000, chronyd, disrupted),
        (13_000, kernel(7), kept),
        (14_000, kernel(8), by(Source::Kernel)),
        // chronyd answers every second request, and has not measured.
        (15_000, chronyd, disrupted),
        (16_000, kernel(8), kept),
        (17_000, chronyd, disrupted),
        (18_000, kernel(8), kept),
        (19_000, said(1_000_000, 1), by(Source::Chronyd)),
    ];
    let late_when_it_resumes =
        [(12_000, kernel(7), disrupted), (12_010, kernel(8), kept), (13_000, kernel(8), by(Source::Kernel))];
    let cases: [(Answer, &[Request]); 4] = [
        (clock_bound, &misses_begin_anew),
        (clock_bound, &the_thread_was_late),
        (chronyd, &after_a_suspend),
        (chronyd, &late_when_it_resumes),
    ];
    for (first, then) in cases {
        let mut maker = ClaimMaker::default();
        assert_eq!([0, 1].map(|seconds| failure(&mut maker, &moment(seconds), first)), [None; 2]);
        for (ms, best, made) in then {
            let suspended_ns = if *ms < 12_000 { 0 } else { SECOND_NS };
            let moment = Moment { suspended_ns, ..at_ms(*ms) };
            if *ms == 12_000 {
                maker.record_clock_set(); // it resumes
            }
            // The kernel always answers.
            let measurements = [*best, kernel(7)].iter().flatten().map(|report| report.id).collect();
            let claim = maker.next_claim(Answers { moment, best: *best, measurements }, VALID_NS);
            assert_eq!(claim.map(|claim| claim.source.ok_or(claim.failure)), *made, "{ms} ms: {best:?}");
        }
    }
}

/// Two measurements contradict each other, or the source repeats a measurement with another value.
/// In both cases another program has set the clock, and the daemon has not noticed.
#[test]
fn a_contradiction_is_believed_only_when_the_source_has_measured_again() {
    for (offset_ns, measurement) in [(3_000_000, 1), (-3_000_000, 1), (100_000, 0), (-100_000, 0)] {
        let wide = |offset_ns, measurement| said_within(1_000_000, offset_ns, measurement);
        let mut maker = ClaimMaker::default();
        assert_eq!(failure(&mut maker, &moment(0), wide(0, 0)), None);
        assert_eq!(failure(&mut maker, &moment(1), wide(100, 0)), None);
        let distrusted = Some(Unknown::Disrupted);
        assert_eq!(failure(&mut maker, &moment(2), wide(offset_ns, measurement)), distrusted);
        assert_eq!(failure(&mut maker, &moment(3), wide(0, measurement)), distrusted);
        // Another source may have the same knowledge, until it has measured, too.
        let other = |measurement| wide(0, measurement).map(by_kernel);
        assert_eq!(made(&mut maker, &moment(4), other(7), VALID_NS), None, "chronyd is late");
        assert_eq!(failure(&mut maker, &moment(5), other(7)), distrusted);
        let next = [wide(0, 8), other(8)][usize::from(offset_ns > 0)];
        assert_eq!(failure(&mut maker, &moment(6), next), None);
    }
}

/// After some minutes a source's interval has grown so far that a step is small against it.
#[test]
fn a_step_is_noticed_however_long_ago_the_source_has_measured() {
    for step_ns in [10_000, -10_000, 100_000] {
        let mut maker = ClaimMaker::default();
        let mut grown = |seconds: i64, step_ns: i64| {
            failure(&mut maker, &moment(seconds), said_within(1_000 + seconds * WANDER_PPB, step_ns, 0))
        };
        assert_eq!((0..300).find_map(|seconds| grown(seconds, 0)), None);
        assert_eq!(grown(300, step_ns), Some(Unknown::Disrupted), "{step_ns}");
    }
}

/// The kernel answers in chronyd's place, and claims so little that it agrees with any small step.
#[test]
fn a_step_is_noticed_if_another_source_has_answered_meanwhile() {
    let kernel = said_within(2_000_000, 0, 7).map(by_kernel);
    for (step_ns, why) in [(0, None), (300_000, Some(Unknown::Disrupted))] {
        let mut maker = ClaimMaker::default();
        assert_eq!([0, 1].map(|seconds| failure(&mut maker, &moment(seconds), said(0, 0))), [None; 2]);
        assert_eq!(made(&mut maker, &moment(2), kernel, VALID_NS), None, "chronyd is late");
        let claim = made(&mut maker, &moment(3), kernel, VALID_NS).unwrap();
        assert_eq!(claim.source, Some(Source::Kernel));
        assert_eq!(failure(&mut maker, &moment_after_set(step_ns, 4), said(0, 0)), why);
    }
}

/// The source may have measured before the step, and not know of it.
#[test]
fn a_step_during_the_first_request_is_a_disruption() {
    let mut maker = ClaimMaker::default();
    maker.record_clock_set();
    assert_eq!(failure(&mut maker, &moment(0), said(0, 0)), Some(Unknown::Disrupted));
    assert_eq!(failure(&mut maker, &moment(1), said(0, 1)), None);
}

/// clock-bound 3 does not use the OS clock, so it agrees with itself after a step. Symptom:
/// chronyd, which did not know of the step, was then believed.
#[test]
fn each_source_must_agree_after_the_clock_was_set() {
    let clock_bound = |offset_ns| said_within(100_000, offset_ns, 5).map(by_clock_bound);
    let mut maker = ClaimMaker::default();
    assert_eq!([0, 1].map(|seconds| failure(&mut maker, &moment(seconds), clock_bound(0))), [None; 2]);
    maker.record_clock_set();
    let set = |seconds| moment_after_set(50_000, seconds);
    assert_eq!(failure(&mut maker, &set(2), clock_bound(-50_000)), None);
    assert_eq!(made(&mut maker, &set(3), said(0, 0), VALID_NS), None, "clock-bound is late");
    assert_eq!(failure(&mut maker, &set(4), said(0, 0)), Some(Unknown::Disrupted));
}

/// The source may be silent, or say that it does not know, when the machine resumes.
#[test]
fn after_a_disruption_the_source_must_measure_again() {
    let suspended = |seconds| Moment { suspended_ns: SECOND_NS, ..moment(seconds) };
    let moved = |seconds| Moment { marker: 1, ..moment(seconds) };
    let by_hpet = |seconds| Moment { clocksource: Clocksource::Hpet, ..moment(seconds) };
    let disrupted: [&dyn Fn(i64) -> Moment; 3] = [&suspended, &moved, &by_hpet];
    for after in disrupted {
        for first in [Err(Unknown::NoSource), Err(Unknown::Unsynchronised), said(0, 1)] {
            let mut maker = ClaimMaker::default();
            assert_eq!(failure(&mut maker, &moment(0), said(0, 0)), None);
            assert!(failure(&mut maker, &after(1), first).is_some());
            assert_eq!(maker.rate.slopes, None, "the counter may have run on");
            assert_eq!(failure(&mut maker, &after(2), said(0, 1)), Some(Unknown::Disrupted));
            // The time is another one than before.
            let claim = made(&mut maker, &after(3), said(5 * SECOND_NS, 2), VALID_NS).unwrap();
            assert_eq!(claim.source, Some(Source::Chronyd));
            assert!(
                claim.is_before_suspend(2 * SECOND_NS) && !claim.is_before_suspend(after(3).suspended_ns)
            );
            let undisturbed = [after(3).marker, 7].map(|marker| claim.if_undisturbed(marker));
            assert_eq!(undisturbed, [Some(claim), None]);
        }
    }
}

/// clock-bound's daemon notices a disruption, and is gone when the next request comes.
#[test]
fn a_disruption_that_one_source_reports_counts_for_every_other_one() {
    let mut maker = ClaimMaker::default();
    let disrupted = Some(Unknown::Disrupted);
    assert_eq!(failure(&mut maker, &moment(0), said(0, 0)), None);
    assert_eq!(failure(&mut maker, &moment(1), Err(Unknown::Disrupted)), disrupted);
    assert_eq!(failure(&mut maker, &moment(2), said(0, 0)), disrupted);
    assert_eq!(failure(&mut maker, &moment(3), said(0, 1)), None);
}

#[test]
fn a_clock_that_was_set_is_believed_if_the_last_claim_agrees() {
    for (begin, why) in [(said(0, 0), None), (Err(Unknown::Unsynchronised), Some(Unknown::Disrupted))] {
        let mut maker = ClaimMaker::default();
        for seconds in 0..=1 {
            failure(&mut maker, &moment(seconds), begin);
        }
        maker.record_clock_set();
        assert_eq!(failure(&mut maker, &moment(2), said(0, 0)), why);
        assert_eq!(failure(&mut maker, &moment(3), said(0, 0)), why);
        assert_eq!(failure(&mut maker, &moment(4), said(0, 1)), None);
        // The source was silent meanwhile, and may have measured before or after the clock was set.
        maker.record_clock_set();
        assert_eq!(made(&mut maker, &moment(5), Err(Unknown::NoSource), VALID_NS), None);
        assert_eq!(failure(&mut maker, &moment(6), said(0, 2)), Some(Unknown::Disrupted));
        assert_eq!(failure(&mut maker, &moment(7), said(0, 3)), None);
    }
}

/// A source that does not know the rate of UTC can't tell a small step from a drift. The kernel's
/// maximum error says nothing of the step, nor does version 2 of clock-bound's segment.
#[test]
fn a_clock_that_was_set_is_not_believed_by_a_source_that_knows_no_rate() {
    let vague = said(0, 0).map(|old| Report { rates_ppb: [-MAX_FREQUENCY_PPB, MAX_FREQUENCY_PPB], ..old });
    let mut maker = ClaimMaker::default();
    assert_eq!([0, 1].map(|seconds| failure(&mut maker, &moment(seconds), vague)), [None; 2]);
    maker.record_clock_set();
    assert_eq!(failure(&mut maker, &moment_after_set(400_000, 2), vague), Some(Unknown::Disrupted));
}

/// The clock is set after a measurement and before the request that returns it. The thread learns
/// of that after the request. The source then agrees only with itself.
#[test]
fn a_measurement_first_seen_after_the_clock_was_set_is_not_believed() {
    let wide = |measurement| said_within(1_000_000, 0, measurement);
    let mut maker = ClaimMaker::default();
    assert_eq!(failure(&mut maker, &moment(0), wide(0)), None);
    let set = |seconds| moment_after_set(100_000, seconds);
    assert_eq!(failure(&mut maker, &set(1), wide(1)), None, "the thread does not know of it");
    maker.record_clock_set();
    assert_eq!(failure(&mut maker, &set(2), wide(1)), Some(Unknown::Disrupted));
    assert_eq!(failure(&mut maker, &set(3), wide(2)), None);
}

#[test]
fn nothing_is_claimed_around_a_leap_second() {
    let mut maker = ClaimMaker::default();
    let leap = |offset_ns, measurement| {
        said(offset_ns, measurement).map(|report| Report { leap_second_today: true, ..report })
    };
    let claim = made(&mut maker, &moment(MIDNIGHT_S - 3), leap(0, 0), VALID_NS).unwrap();
    assert_eq!(claim.failure, Unknown::LeapSecond);
    let (last_ns, margin_ns) = (SECOND_NS - 2_000, MIDNIGHT_S * SECOND_NS - 3 * SECOND_NS);
    assert!(claim.at_raw(margin_ns + last_ns).is_some() && claim.at_raw(margin_ns + SECOND_NS).is_none());
    for seconds in -2..=2 {
        // The clock is set back by a second meanwhile.
        let offset_ns = if seconds < 0 { 0 } else { -SECOND_NS };
        let near = failure(&mut maker, &moment(MIDNIGHT_S + seconds), leap(offset_ns, 0));
        assert_eq!(near, Some(Unknown::LeapSecond), "{seconds}");
    }
    for (seconds, offset_ns, measurement, why) in
        [(4, 0, 0, Some(Unknown::Disrupted)), (5, 0, 0, Some(Unknown::Disrupted)), (6, -SECOND_NS, 1, None)]
    {
        assert_eq!(failure(&mut maker, &moment(MIDNIGHT_S + seconds), said(offset_ns, measurement)), why);
    }
}

/// The source announces it so late that the day may be over.
#[test]
fn a_leap_second_that_is_announced_near_midnight_is_not_that_of_the_next_day() {
    let wide = Report { leap_second_today: true, ..said_within(5 * SECOND_NS, 0, 0).unwrap() };
    for seconds in [-4, -1] {
        let mut maker = ClaimMaker::default();
        let why = failure(&mut maker, &moment(MIDNIGHT_S + seconds), Ok(wide));
        assert_eq!(why, Some(Unknown::LeapSecond), "{seconds}");
    }
}

/// The counter and the clock disagree: the machine slept for less than the kernel's second, or a
/// host has set one of them.
#[test]
fn a_counter_that_jumps_is_a_disruption_and_one_that_closes_is_not() {
    let mut maker = ClaimMaker::default();
    let mut by_counter = |seconds, measurement, change: &dyn Fn(u64) -> Option<u64>| {
        let mut moment = moment(seconds);
        moment.ticks = moment.ticks.and_then(change);
        let claim = made(&mut maker, &moment, said(0, measurement), VALID_NS).unwrap();
        let holds_at = |ticks| claim.at_ticks(ticks).is_some();
        claim.source.ok_or(claim.failure).map(|_| moment.ticks.is_some_and(holds_at))
    };
    let disrupted = Err(Unknown::Disrupted);
    assert_eq!((by_counter(0, 0, &Some), by_counter(1, 0, &Some)), (Ok(false), Ok(true)));
    let jump: &dyn Fn(u64) -> Option<u64> = &|ticks| Some(ticks + 100_000);
    assert_eq!(
        (by_counter(2, 0, jump), by_counter(3, 0, jump), by_counter(4, 1, jump)),
        (disrupted, disrupted, Ok(true))
    );
    let back: &dyn Fn(u64) -> Option<u64> = &|ticks| Some(ticks - 20_000_000_000);
    assert_eq!((by_counter(9, 1, back), by_counter(10, 2, back)), (disrupted, Ok(true)));
    let further_back: &dyn Fn(u64) -> Option<u64> = &|ticks| Some(ticks - 30_000_000_000);
    assert_eq!((by_counter(11, 2, further_back), by_counter(12, 3, further_back)), (disrupted, Ok(true)));
    let closed: &dyn Fn(u64) -> Option<u64> = &|_| None;
    assert_eq!(
        (by_counter(13, 3, closed), by_counter(14, 3, back), by_counter(15, 3, back)),
        (Ok(false), Ok(false), Ok(true))
    );
    // The counter is set back to just after the base of its rate, and then stands still.
    let stuck: &dyn Fn(u64) -> Option<u64> = &|_| Some(3 * 14_000_000_000 - 20_000_000_000 + 1);
    assert_eq!((by_counter(24, 3, stuck), by_counter(25, 4, stuck)), (disrupted, Ok(false)));
}

#[test]
fn small_steps_do_not_add_up() {
    let mut maker = ClaimMaker::default();
    // 1 us a second for the drift, and 50 ns, which is less than two moments may differ by.
    let mut failure_at = |seconds| failure(&mut maker, &moment(seconds), said(seconds * 1_050, 1));
    assert_eq!([failure_at(0), failure_at(1)], [None; 2]);
    assert_eq!((2..60).find_map(failure_at), Some(Unknown::Disrupted));
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
            made(&mut maker, &moment, said(0, 0), DAY_NS).unwrap()
        });
        let [last_ns, _] = bounds_ns(&claim.at_raw(SECOND_NS + DAY_NS - 1).unwrap());
        assert!(last_ns > START_NS + DAY_NS, "by CLOCK_MONOTONIC_RAW it holds for a day");
        claim.by_counter.valid
    };
    assert_eq!(valid_ticks(|ns| 5 * ns), MAX_VALID);
    assert!(valid_ticks(|ns| 3 * ns) < MAX_VALID);
    assert!(valid_ticks(|ns| ns / 29_000) > 0);
    assert_eq!(valid_ticks(|ns| ns / 31_000), 0);
}

#[test]
fn the_rates_of_a_claim_are_multiplied() {
    let mut maker = ClaimMaker::default();
    made(&mut maker, &moment(0), said(0, 0), VALID_NS);
    let report = Report { rates_ppb: [498_000, 500_000], ..said(0, 0).unwrap() };
    let claim = made(&mut maker, &moment(1), Ok(report), VALID_NS).unwrap();
    let [slowest, fastest] = maker.rate.slopes.unwrap().map(u128::from);
    // The second, to within the width of either moment, is 3,000,000,000 ticks.
    let tick = |ns: u128| (ns << SLOPE_BITS) / 3_000_000_000;
    assert_eq!([slowest, fastest], [tick(999_999_900), tick(1_000_000_100) + 1]);
    let billion = 1_000_000_000_u128;
    let greatest = fastest * (billion + 500_000) * (billion + 1_000) / billion / billion;
    let least = slowest * (billion + 498_000) * (billion - 1_000) / billion / billion;
    assert!((greatest..greatest + 4).contains(&claim.by_counter.slopes[1].into()));
    assert!((least - 4..=least).contains(&claim.by_counter.slopes[0].into()));
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
        let usual = said(0, 0).unwrap();
        let report = Report { offset_ns, request_ns, rates_ppb, valid_ns: report_ns, leap_second_today, ..usual };
        let (width_ns, raw_ns) = (width_ns.max(0), raw_ns.max(0));
        let odd = Moment { ticks, raw_ns, realtime_ns, width_ns, suspended_ns, ..moment(0) };
        let like = Moment { realtime_ns: START_NS, suspended_ns: 0, ..odd };
        let mut maker = ClaimMaker::default();
        made(&mut maker, &moment(0), said(0, 0), VALID_NS);
        for (moment, report) in [(moment(1), report), (odd, report), (like, report)] {
            let valid_ns = valid_ns.clamp(0, i64::MAX / 2);
            let Some(claim) = made(&mut maker, &moment, Ok(report), valid_ns) else { continue };
            for later in [0, 1, claim.by_raw.valid.saturating_sub(1), u64::MAX] {
                let readings = [
                    claim.at_raw(moment.raw_ns.wrapping_add_unsigned(later)),
                    claim.at_ticks(claim.by_counter.start.wrapping_add(later)),
                ];
                for reading in readings.into_iter().flatten() {
                    prop_assert!(reading.earliest_ns <= reading.latest_ns);
                }
            }
        }
    }
}
