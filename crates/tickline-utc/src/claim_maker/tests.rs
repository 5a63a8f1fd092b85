//! What claims follow from the answers of sources.

use proptest::prelude::*;
use tickline_core::clocksource::Clocksource;

use super::*;
use crate::UtcReading;
use crate::latch::RawMoment;
use crate::source::{MeasurementId, Origin};
use crate::unbounded::MAX_FREQUENCY_PPB;

mod disruptions;
mod leap_seconds;
mod misses;
mod validity;

const SECOND_NS: i64 = 1_000_000_000;
const START_NS: i64 = 1_800_000_000 * SECOND_NS;
pub(crate) const VALID_NS: i64 = 5 * SECOND_NS / 2;

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

/// A moment after the machine was suspended for a second.
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
pub(crate) fn report_of(offset_ns: i64, measurement: u64) -> SourceAnswer {
    report_within(1_000, offset_ns, measurement)
}

/// A report like [`report_of`]'s, by `half_ns` more or less.
fn report_within(half_ns: i64, offset_ns: i64, measurement: u64) -> SourceAnswer {
    Ok(Report {
        id: MeasurementId {
            origin: Origin::Chronyd,
            number: measurement,
        },
        offset_ns: Interval::around(offset_ns, half_ns),
        request_ns: 0,
        rates_ppb: Interval::around(0, WANDER_PPB),
        slew_width_ppb: 0,
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
fn kernel(measurement: u64) -> SourceAnswer {
    report_within(2_000_000, 0, measurement).map(|report| from(Origin::Kernel, report))
}

/// A report by clock-bound 3, to within 100 us.
fn clock_bound(offset_ns: i64, measurement: u64) -> SourceAnswer {
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
    answer: SourceAnswer,
    valid_ns: i64,
) -> Option<Claim> {
    let measurements = [answer, kernel(7)]
        .iter()
        .flatten()
        .map(|report| report.id)
        .collect();
    maker.next_claim(
        SourceAnswers {
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

const UNSYNCHRONISED: UtcUnknown =
    UtcUnknown::Unsynchronised(UtcSource::Kernel, Unbounded::KernelUnsynchronised);

const BY_CLOCK_BOUND: Expected = Some(Ok(UtcSource::ClockBound));
pub(crate) const BY_CHRONYD: Expected = Some(Ok(UtcSource::Chronyd));
const BY_KERNEL: Expected = Some(Ok(UtcSource::Kernel));
pub(crate) const DISRUPTED: Expected = Some(Err(UtcUnknown::Disrupted));

/// Asserts which claim follows from each answer at its moment.
pub(crate) fn assert_claims(maker: &mut ClaimMaker, requests: &[(Moment, SourceAnswer, Expected)]) {
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
pub(crate) fn maker_after(answers: &[SourceAnswer]) -> ClaimMaker {
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
        let offset_ns = Interval::between(least_ns, greatest_ns);
        let rates_ppb = Interval::between(least_ppb, greatest_ppb);
        let usual = report_of(0, 0).unwrap();
        let report = Report { offset_ns, request_ns, rates_ppb, valid_ns: report_ns, leap_second_today, ..usual };
        let width_ns = width_ns.max(0);
        let raw_ns = raw_ns.max(0);
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

/// Whether the text of `why` has this limit.
fn says(why: UtcUnknown, limit: &str) -> bool {
    why.to_string().contains(limit)
}

#[test]
fn the_reason_near_a_leap_second_has_the_margin() {
    let margin_s = LEAP_MARGIN_NS / SECOND_NS;
    let near = UtcUnknown::LeapSecond;
    assert!(says(near, &format!("within {margin_s} s of a leap second")));
    assert!(says(near, &format!("over by {margin_s} s")));
}

#[test]
fn the_reason_of_an_expired_claim_has_the_longest_time_for_which_one_holds() {
    let [at_least, per_interval] = [0, 1_000_000_000_000].map(valid_ns);
    let seconds = Duration::from_nanos(at_least.unsigned_abs()).as_secs_f64();
    let intervals = Duration::from_nanos(per_interval.unsigned_abs()).as_secs_f64() / 1e3;
    let limit = format!("{seconds} s or {intervals} intervals");
    assert!(says(UtcUnknown::Expired, &limit), "{limit}");
}
