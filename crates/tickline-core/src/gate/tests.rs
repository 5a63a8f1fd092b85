//! Tests of the verdicts: on machines (`verdicts.rs`), on costs (`costs.rs`), and here on
//! comparisons, missing lines and names.

mod costs;
mod machines;
mod verdicts;

use super::*;
use crate::cell::LineCell;
use crate::line::Slope;
use crate::reference::ReferenceKind;
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
    let mut figures = SharedClock::new(LineCell::new()).figures();
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
    let (mhz, rest_hz) = (TOO_SLOW_HZ / 1_000_000, TOO_SLOW_HZ % 1_000_000);
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
fn no_code_stands_for_two_reasons_gates_trusts_or_events() {
    fn check(codes: impl Iterator<Item = &'static str>) {
        let mut seen = Vec::new();
        for code in codes {
            assert!(!seen.contains(&code), "{code} twice");
            seen.push(code);
        }
    }
    check(Reason::ALL.iter().map(|reason| reason.code()));
    check(Gate::ALL.iter().map(|gate| gate.code()));
    check(Trust::ALL.iter().map(|trust| trust.code()));
    check(crate::shared::Event::ALL.iter().map(|event| event.code()));
}

#[test]
fn lists_are_searched_for_whole_names() {
    let acceptance = |list: &str| Clocksource::Tsc.acceptance(list.as_bytes());
    assert_eq!(acceptance("kvm-clock tsc hpet \n"), Acceptance::Accepted);
    let near = "hyperv_clocksource_tsc_page tsc-early acpi_pm \n";
    assert_eq!(acceptance(near), Acceptance::Rejected);
}

#[test]
fn an_empty_list_accepts_and_rejects_no_counter() {
    for list in [" \n", ""] {
        let acceptance = Clocksource::Tsc.acceptance(list.as_bytes());
        assert_eq!(acceptance, Acceptance::Unknown, "{list:?}");
    }
}

/// A kernel rates a counter that it has marked unstable below every timer.
#[test]
fn a_counter_that_is_listed_behind_a_timer_is_not_accepted() {
    for list in [
        "hpet tsc",
        "acpi_pm tsc",
        "jiffies tsc",
        "refined-jiffies tsc",
    ] {
        assert_eq!(
            Clocksource::Tsc.acceptance(list.as_bytes()),
            Acceptance::Rejected,
            "{list}"
        );
    }
}

/// Some boards have a timer of their own that the kernel rates above the counter.
#[test]
fn a_counter_that_is_listed_behind_a_boards_timer_is_accepted() {
    let counter = Clocksource::ArchSysCounter;
    let acceptance = counter.acceptance(b"mct-frc arch_sys_counter");
    assert_eq!(acceptance, Acceptance::Accepted);
}

/// `hyperv_clocksource_tsc_page` is not `tsc`.
#[test]
fn only_a_whole_name_is_a_clocksource() {
    for (name, expected) in Clocksource::NAMED {
        assert_eq!(Clocksource::from_name(name.as_bytes()), expected);
        for near in [
            format!("{name} "),
            format!(" {name}"),
            format!("{name}\n\n"),
            name.to_uppercase(),
        ] {
            assert_eq!(
                Clocksource::from_name(near.as_bytes()),
                Clocksource::Other,
                "{near:?}"
            );
        }
    }
}

#[test]
fn a_reference_made_of_the_counter_has_no_step_of_its_own() {
    for (_, clocksource) in Clocksource::NAMED {
        for own in [
            Clocksource::Tsc,
            Clocksource::ArchSysCounter,
            Clocksource::Riscv,
        ] {
            let resolutions = clocksource.resolutions(own, 26);
            let same = clocksource == own
                || (clocksource, own) == (Clocksource::TscEarly, Clocksource::Tsc);
            // Only on x86 does the kernel's read of the counter take as long as a read here.
            let expected = match (same, clocksource) {
                (true, Clocksource::Tsc) => ReferenceKind::SameRead,
                (true, _) => ReferenceKind::SameCounter,
                (false, _) => ReferenceKind::Independent,
            };
            assert_eq!(
                resolutions.reference_kind, expected,
                "{clocksource:?}, {own:?}"
            );
            assert!(!same || resolutions.reference_ns == 1, "{clocksource:?}");
        }
    }
}

/// The resolution of the clock that a kernel keeps with the clocksource of this name, ns, where it
/// would accept this counter.
fn reference_ns(name: &str, counter: Clocksource) -> i64 {
    Clocksource::from_name(name.as_bytes())
        .resolutions(counter, 26)
        .reference_ns
}

/// With a finer one the bounds would not contain the kernel's clock.
#[test]
fn a_timer_of_a_known_frequency_has_its_period_as_resolution() {
    for (name, hz, counter) in [
        ("acpi_pm", 3_579_545, Clocksource::Tsc),
        ("pit", 1_193_182, Clocksource::Tsc),
        ("usec", 1_000_000, Clocksource::ArchSysCounter),
        ("timer_us", 1_000_000, Clocksource::ArchSysCounter),
        ("32k_counter", 32_768, Clocksource::ArchSysCounter),
        ("sprd_suspend_timer", 32_768, Clocksource::ArchSysCounter),
        ("tegra_suspend_timer", 1_000, Clocksource::ArchSysCounter),
        ("jiffies", 100, Clocksource::Riscv),
    ] {
        let period_ns = NS_PER_S.div_ceil(hz).cast_signed();
        assert_eq!(reference_ns(name, counter), period_ns, "{name}");
    }
}

/// Tegra's register of this name has 31.25 MHz.
#[test]
fn a_clocksource_tsc_of_arm_is_not_as_fine_as_that_of_x86() {
    assert_eq!(reference_ns("tsc", Clocksource::ArchSysCounter), 32);
    assert_eq!(reference_ns("tsc", Clocksource::Tsc), 1);
}

#[test]
fn a_clocksource_without_a_name_here_is_taken_to_be_as_coarse_as_the_acpi_timer() {
    for name in ["mct-frc", ""] {
        let acpi_pm_ns = reference_ns("acpi_pm", Clocksource::Tsc);
        assert_eq!(
            reference_ns(name, Clocksource::ArchSysCounter),
            acpi_pm_ns,
            "{name:?}"
        );
    }
}
