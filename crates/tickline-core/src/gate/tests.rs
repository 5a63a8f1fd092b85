//! Tests of the verdicts: on machines (`verdicts.rs`), on costs (`costs.rs`), and here on
//! comparisons, missing lines and codes.

mod costs;
mod machines;
mod verdicts;

use std::collections::BTreeSet;

use super::*;
use crate::cell::LineCell;
use crate::line::Slope;
use crate::shared::{LineFigures, SampleAge, SharedClock};
use crate::state::{LineState, SHIFT};
use crate::units::NS_PER_S;
use machines::{SYNCHRONISED, WARPED};

/// Whether a comparison is asked for on a PC with these facts.
fn asks(clocksource: Clocksource, is_virtual: bool, comparison: CounterComparison) -> bool {
    needs_comparison(&Facts {
        clocksource,
        is_virtual,
        comparison,
        matching_clocksource: Clocksource::Tsc,
        ..Facts::UNKNOWN
    })
}

#[test]
fn a_kernel_that_uses_the_counter_has_compared_it() {
    assert!(!asks(Clocksource::Tsc, false, SYNCHRONISED));
    assert!(!asks(Clocksource::Tsc, false, CounterComparison::Pending));
}

/// A guest's kernel may have skipped its checks.
#[test]
fn a_guest_asks_for_a_comparison() {
    assert!(asks(Clocksource::Tsc, true, SYNCHRONISED));
}

/// Otherwise the gate would stay closed for good.
#[test]
fn counters_that_differed_are_compared_again() {
    assert!(asks(Clocksource::Tsc, false, WARPED));
}

#[test]
fn a_kernel_with_another_clock_has_compared_nothing() {
    assert!(asks(Clocksource::Hpet, false, CounterComparison::Pending));
    assert!(asks(
        Clocksource::Unknown,
        false,
        CounterComparison::Pending
    ));
}

/// The reasons for which the gate of a clock without a line is closed and warns.
fn reasons_without_line(change: impl FnOnce(&mut Figures)) -> [Option<Reason>; 2] {
    let mut figures = SharedClock::new(LineCell::new()).readings().figures();
    change(&mut figures);
    let verdict = judge_missing_line(&figures);
    assert_eq!(verdict.gate(), Gate::Calibration);
    [verdict.closed_by(), verdict.warning()]
}

#[test]
fn a_new_clock_lacks_its_line_without_a_reason() {
    assert_eq!(reasons_without_line(|_| {}), [None, None]);
}

/// The frequency of a counter whose slope is 2^SHIFT ns a tick: exact, because 10^9 is a multiple
/// of 2^SHIFT.
const TOO_SLOW_HZ: u64 = NS_PER_S >> SHIFT;

#[test]
fn the_reason_for_a_slow_counter_names_the_limit_of_a_line() {
    let mhz = TOO_SLOW_HZ / 1_000_000;
    let rest_hz = TOO_SLOW_HZ % 1_000_000;
    let rest = format!("{rest_hz:06}");
    let limit = format!("more than {mhz}.{} MHz", rest.trim_end_matches('0'));
    let text = Reason::CounterTooSlow.to_string();
    assert!(text.contains(&limit), "{limit} is not in: {text}");
}

#[test]
fn a_counter_has_a_line_only_above_the_limit() {
    let line = |hz| LineState::default().next_line(Slope::from_hz(hz).unwrap());
    assert_eq!(line(TOO_SLOW_HZ), None);
    assert!(line(TOO_SLOW_HZ + 1).is_some());
}

const LAST_LINE: LineFigures = LineFigures {
    frequency_hz: 1,
    max_drift_ppb: 1,
    interval_ns: 1,
    offset_ns: 0,
    is_disrupted: false,
};

#[test]
fn a_clock_whose_line_has_ended_warns() {
    let reasons = reasons_without_line(|figures| figures.last_line = Some(LAST_LINE));
    assert_eq!(reasons, [None, Some(Reason::NoLine)]);
}

const TOO_OLD: SampleAge = SampleAge {
    age_ns: 2,
    limit_ns: 1,
};

#[test]
fn samples_that_are_too_old_close_the_gate() {
    let reasons = reasons_without_line(|figures| {
        figures.last_line = Some(LAST_LINE);
        figures.too_old_sample = Some(TOO_OLD);
    });
    assert_eq!(reasons, [Some(Reason::SamplesTooOld), None]);
}

#[test]
fn a_counter_that_is_too_slow_is_the_first_reason() {
    let reasons = reasons_without_line(|figures| {
        figures.too_old_sample = Some(TOO_OLD);
        figures.too_slow_counter_hz = Some(TOO_SLOW_HZ);
    });
    assert_eq!(reasons, [Some(Reason::CounterTooSlow), None]);
}

#[test]
fn no_code_stands_for_two_reasons() {
    let codes: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    assert_eq!(codes.len(), Reason::ALL.len(), "{codes:?}");
}

#[test]
fn no_code_stands_for_two_gates() {
    let codes: BTreeSet<_> = Gate::ALL.iter().map(|gate| gate.code()).collect();
    assert_eq!(codes.len(), Gate::ALL.len(), "{codes:?}");
}

#[test]
fn no_code_stands_for_two_values_of_trust() {
    let codes: BTreeSet<_> = Trust::ALL.iter().map(|trust| trust.code()).collect();
    assert_eq!(codes.len(), Trust::ALL.len(), "{codes:?}");
}
