//! The rate as claims show it.

use super::*;
use crate::claim_maker::ClaimMaker;
use crate::claim_maker::tests::{
    BY_CHRONYD, DISRUPTED, VALID_NS, assert_claims, at_ms, maker_after, moment, next_claim,
    report_of,
};
use crate::source::Report;
use crate::{UtcSource, UtcUnknown};

/// The ticks of a counter that was disturbed, by those of the usual one.
type Counter = fn(u64) -> Option<u64>;

const AHEAD: Counter = |ticks| Some(ticks + 100_000);
const BACK: Counter = |ticks| Some(ticks - 20_000_000_000);
const FURTHER_BACK: Counter = |ticks| Some(ticks - 30_000_000_000);
const CLOSED: Counter = |_| None;

/// A claim of which readings are by the counter, one of which they are by the OS, and none.
const BY_COUNTER: Result<bool, UtcUnknown> = Ok(true);
const BY_OS: Result<bool, UtcUnknown> = Ok(false);
const NONE: Result<bool, UtcUnknown> = Err(UtcUnknown::Disrupted);

/// Asserts which claim a maker makes at these seconds, by these counters and measurements, after
/// two seconds of the usual counter.
#[track_caller]
fn assert_claims_by(requests: &[(i64, Counter, u64, Result<bool, UtcUnknown>)]) {
    let mut maker = maker_after(&[report_of(0, 0); 2]);
    for (seconds, counter, measurement, expected) in requests {
        let mut moment = moment(*seconds);
        moment.ticks = moment.ticks.and_then(counter);
        let report = report_of(0, *measurement);
        let claim = next_claim(&mut maker, &moment, report, VALID_NS).unwrap();
        let holds = moment
            .ticks
            .is_some_and(|ticks| claim.at_ticks(ticks).is_some());
        let found = claim.source.ok_or(claim.failure).map(|_| holds);
        assert_eq!(found, *expected, "{seconds} s");
    }
}

#[test]
fn a_counter_serves_from_the_second_moment_on() {
    let mut maker = ClaimMaker::default();
    let valid_ticks = [0, 1].map(|seconds| {
        let claim = next_claim(&mut maker, &moment(seconds), report_of(0, 0), VALID_NS);
        claim.unwrap().by_counter.valid
    });
    assert_eq!(valid_ticks.map(|ticks| ticks > 0), [false, true]);
}

/// The machine was suspended for less than the kernel's second, or a host has set the counter or
/// the clock.
#[test]
fn a_counter_that_jumps_ahead_is_a_disruption_until_the_source_measures() {
    assert_claims_by(&[
        (2, AHEAD, 0, NONE),
        (3, AHEAD, 0, NONE),
        (4, AHEAD, 1, BY_COUNTER),
    ]);
}

#[test]
fn a_counter_that_jumps_back_is_a_disruption_until_the_source_measures() {
    assert_claims_by(&[(9, BACK, 0, NONE), (10, BACK, 1, BY_COUNTER)]);
}

#[test]
fn a_counter_that_jumps_again_is_another_disruption() {
    assert_claims_by(&[
        (10, BACK, 0, NONE),
        (11, BACK, 1, BY_COUNTER),
        (12, FURTHER_BACK, 1, NONE),
        (13, FURTHER_BACK, 2, BY_COUNTER),
    ]);
}

#[test]
fn a_counter_that_closes_is_no_disruption() {
    assert_claims_by(&[(2, CLOSED, 0, BY_OS)]);
}

/// As in the first second, its rate is known at the second moment.
#[test]
fn a_counter_that_jumps_while_it_is_closed_is_no_disruption() {
    assert_claims_by(&[
        (13, CLOSED, 0, BY_OS),
        (14, BACK, 0, BY_OS),
        (15, BACK, 0, BY_COUNTER),
    ]);
}

/// Set back to just after the base of its rate, where it stands still.
#[test]
fn a_counter_that_stands_still_serves_no_more_after_its_disruption() {
    let stuck: Counter = |_| Some(1);
    assert_claims_by(&[(24, stuck, 0, NONE), (25, stuck, 1, BY_OS)]);
}

#[test]
fn a_counter_that_is_set_back_before_its_rate_is_known_is_a_disruption() {
    let reset = |ms: i64| Moment {
        ticks: Some(3_000_000 * (ms - 20_000).unsigned_abs()),
        ..at_ms(ms)
    };
    assert_claims(
        &mut ClaimMaker::default(),
        &[
            (at_ms(20_000), report_of(0, 0), BY_CHRONYD),
            (reset(20_001), report_of(0, 0), DISRUPTED),
            (reset(20_010), report_of(0, 1), BY_CHRONYD),
        ],
    );
}

/// The counter becomes slower, or faster, by 10 ppb a second.
#[test]
fn a_rate_follows_the_counter() {
    for change in [-30, 30] {
        let mut maker = ClaimMaker::default();
        let mut ticks = 0_u64;
        for second in 0..500 {
            let at = Moment {
                ticks: Some(ticks),
                ..moment(second)
            };
            let claim = next_claim(&mut maker, &at, report_of(0, 0), VALID_NS).unwrap();
            assert_eq!(claim.source, Some(UtcSource::Chronyd), "{second} s");
            let next = (3_000_000_000 + change * second).unsigned_abs();
            ticks += next;
            let elapsed_ns = claim
                .by_counter
                .slopes
                .map(|slope| (u128::from(slope) * u128::from(next)) >> SLOPE_BITS);
            assert!(
                second == 0 || (elapsed_ns.min..=elapsed_ns.max + 1).contains(&1_000_000_000),
                "{second} s"
            );
        }
    }
}

#[test]
fn the_rates_of_a_claim_are_multiplied() {
    let mut maker = ClaimMaker::default();
    next_claim(&mut maker, &moment(0), report_of(0, 0), VALID_NS);
    let report = Report {
        rates_ppb: Interval::between(498_000, 500_000),
        ..report_of(0, 0).unwrap()
    };
    let claim = next_claim(&mut maker, &moment(1), Ok(report), VALID_NS).unwrap();
    let slopes = maker.rate.slopes.unwrap().map(u128::from);
    // The second, to within the width of either moment, is 3,000,000,000 ticks.
    let tick = |ns: u128| (ns << SLOPE_BITS) / 3_000_000_000;
    assert_eq!(
        slopes,
        Interval::between(tick(999_999_900), tick(1_000_000_100) + 1)
    );
    let billion = 1_000_000_000_u128;
    let max = slopes.max * (billion + 500_000) * (billion + 1_000) / billion / billion;
    let min = slopes.min * (billion + 498_000) * (billion - 1_000) / billion / billion;
    assert!((max..max + 4).contains(&claim.by_counter.slopes.max.into()));
    assert!((min - 4..=min).contains(&claim.by_counter.slopes.min.into()));
}

#[test]
fn the_rate_is_known_after_two_moments_of_the_counter_that_are_4_ms_apart() {
    let by_os = Moment {
        ticks: None,
        ..moment(0)
    };
    let mut without_counter = ClaimMaker::default();
    next_claim(&mut without_counter, &by_os, report_of(0, 0), VALID_NS);
    let mut short = maker_after(&[report_of(0, 0)]);
    assert_claims(&mut short, &[(at_ms(3), report_of(0, 0), BY_CHRONYD)]);
    let known = maker_after(&[report_of(0, 0); 2]);
    assert_eq!(
        (known.longest_ns(3_000_000), short.longest_ns(1)),
        (Some(1_000_000), None)
    );
    let makers = [ClaimMaker::default(), without_counter, short, known];
    assert_eq!(
        makers.each_ref().map(ClaimMaker::is_rate_known),
        [false, false, false, true]
    );
}

#[test]
fn a_pause_grows_from_4_ms_to_a_second_or_to_the_clocks_interval() {
    let pause_ms =
        |without_rate, interval_ns| ClaimMaker::pause(without_rate, interval_ns).as_millis();
    for interval_ns in [0, 500_000_000] {
        assert_eq!(
            [0, 1, 2, 3, 8, 9, u32::MAX].map(|requests| pause_ms(requests, interval_ns)),
            [1_000, 4, 8, 16, 512, 1_000, 1_000]
        );
    }
    assert_eq!(
        [0, 1, 9, u32::MAX].map(|requests| pause_ms(requests, 10_000_000_000)),
        [10_000, 4, 1_024, 10_000]
    );
}

/// The slopes of two moments 200 ticks and `elapsed_ns` apart.
fn slopes_of_200_ticks(elapsed_ns: i64) -> Option<Interval<u64>> {
    let at = |ticks, raw_ns| Moment {
        ticks: Some(ticks),
        raw_ns,
        width_ns: 0,
        ..moment(0)
    };
    slopes_between(&at(0, 0), &at(200, elapsed_ns))
}

#[test]
fn a_counter_whose_tick_takes_30_us_has_no_rate() {
    assert_eq!(slopes_of_200_ticks(200 * 30_000), None);
}

#[test]
fn a_counter_whose_tick_takes_less_than_30_us_has_a_rate() {
    assert!(slopes_of_200_ticks(200 * 30_000 - 1).is_some());
}

#[test]
fn a_rate_is_that_of_the_last_one_to_two_bases() {
    let mut rate = CounterRate::default();
    for seconds in 0..300 {
        assert!(rate.measure(&moment(seconds)).is_ok());
        let bases = rate.bases.unwrap();
        let [base, next] = [bases.present, bases.next].map(|base| base.raw_ns);
        let age_ns = |base_ns| moment(seconds).raw_ns - base_ns;
        assert!(age_ns(base) <= 2 * RATE_BASE_NS, "{seconds} s: {base}");
        assert!(age_ns(next) <= RATE_BASE_NS, "{seconds} s: {next}");
        let least_s = if seconds < 100 { seconds } else { 50 };
        assert!(
            age_ns(base) >= moment(least_s).raw_ns,
            "{seconds} s: {base}"
        );
    }
}
