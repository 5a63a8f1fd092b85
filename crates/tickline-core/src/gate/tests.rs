//! Tests of the verdicts on the machines, single faults and costs of `situations.toml`, and on
//! missing lines.

use super::*;
use crate::{LineCell, ReferenceKind, SharedClock};
use toml::{Table, Value};

const SYNCHRONISED: CounterComparison = CounterComparison::Synchronised { cpus: 8 };

/// "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock": from a kernel's log.
const WARPED: CounterComparison = CounterComparison::Unsynchronised {
    cpu: 0,
    other_cpu: 1,
    difference: CounterDifference {
        min_ticks: 66_930,
        max_ticks: 67_400,
    },
};

/// The facts of a machine in the table.
fn facts(machine: &Table, trust: Trust, comparison: CounterComparison) -> Facts {
    let text = |key, usual| machine.get(key).and_then(Value::as_str).unwrap_or(usual);
    let is = |key, usual| machine.get(key).and_then(Value::as_bool).unwrap_or(usual);
    let counter = Clocksource::from_name(text("counter", "tsc").as_bytes());
    let costs_ps = machine.get("costs_ps").and_then(Value::as_array);
    let cost_ps = |index: usize| Some(costs_ps?.get(index)?.as_integer().unwrap().cast_unsigned());
    let (counter_ps, os_ps) = (cost_ps(0).unwrap_or(9_000), cost_ps(1).unwrap_or(25_000));
    let os_unix_ps = cost_ps(2).unwrap_or(os_ps);
    Facts {
        switched_off_by: Reason::ALL
            .iter()
            .copied()
            .find(|reason| reason.code() == text("switch", "on")),
        trust,
        assume_invariant: is("assume_invariant", false),
        has_counter: is("present", true),
        has_atomics: is("atomics", true),
        may_read_counter: is("readable", true),
        is_invariant: is("invariant", true),
        clocksource: Clocksource::from_name(format!("{}\n", text("current", "tsc")).as_bytes()),
        matching_clocksource: counter,
        kernel_accepts: counter
            .is_accepted(format!("{} \n", text("available", "tsc hpet acpi_pm")).as_bytes()),
        comparison,
        is_virtual: false, // asks for a comparison, and judges nothing
        has_line_per_cpu: is("has_line_per_cpu", false),
        cost: Some(Cost {
            counter_ps,
            os_ps,
            os_unix_ps,
        }),
        was_slower_than_os: is("was_slower_than_os", false),
        unix_was_slower_than_os: is("unix_was_slower_than_os", false),
        resolution_ticks: Some(if is("stuck", false) { 0 } else { 26 }),
    }
}

#[test]
#[cfg_attr(miri, ignore = "a minute, and no unsafe code")]
fn every_situation_leads_to_its_verdicts() {
    let table: Table = include_str!("situations.toml").parse().unwrap();
    let (machines, mut codes) = (table["machine"].as_array().unwrap(), Vec::new());
    for machine in machines.iter().map(|machine| machine.as_table().unwrap()) {
        for (key, trust) in Trust::ALL.iter().map(|trust| (trust.code(), *trust)) {
            let verdicts = |comparison| {
                let facts = facts(machine, trust, comparison);
                Vec::from_iter(Gate::ALL.iter().map(|gate| judge(*gate, &facts)))
            };
            let reason = |comparison| first_closed(verdicts(comparison));
            let code = |reason: Option<Reason>| reason.map_or("open", |reason| reason.code());
            let expected = machine
                .get(key)
                .or(machine.get("all"))
                .map(|words| words.as_array().unwrap());
            let expected = expected.map_or(["open", "open"], |words| {
                [0, words.len() - 1].map(|index| words[index].as_str().unwrap())
            });
            codes.extend(expected);
            let after = match (machine.get("warped"), machine.get("comparable")) {
                (None, None) => SYNCHRONISED,
                (Some(_), _) => WARPED,
                (None, Some(_)) => CounterComparison::Impossible,
            };
            let story = format!("{:?}, {trust:?}", machine["name"]);
            assert_eq!(
                [CounterComparison::Pending, after].map(|at| code(reason(at))),
                expected,
                "{story}"
            );
            // A comparison that fails opens no gate.
            let (pending, impossible) = (
                reason(CounterComparison::Pending),
                reason(CounterComparison::Impossible),
            );
            assert_eq!(pending.is_some(), impossible.is_some(), "{story}");
            // A single CPU counts as synchronised.
            assert_eq!(
                reason(CounterComparison::Single),
                reason(SYNCHRONISED),
                "{story}"
            );
            let unix = machine
                .get("unix")
                .map_or("open", |word| word.as_str().unwrap());
            let unix_by_os = verdicts(after)
                .into_iter()
                .find(|verdict| verdict.gate == Gate::UnixCost);
            assert_eq!(
                code(unix_by_os.and_then(|verdict| verdict.closed_by)),
                unix,
                "{story}"
            );
            let warns = verdicts(after)
                .iter()
                .any(|verdict| verdict.warning.is_some());
            assert_eq!(warns, machine.contains_key("warns"), "{story}");
        }
    }
    // The other reasons concern lines.
    let missing = Reason::ALL
        .iter()
        .filter(|reason| !codes.contains(&reason.code()));
    let reasons_of_lines = [
        Reason::CounterTooSlow,
        Reason::SamplesTooOld,
        Reason::LineEnded,
    ];
    assert!(
        missing.eq(&reasons_of_lines),
        "a reason that machines cause is not in the table"
    );
}

#[test]
fn a_comparison_is_asked_for_where_the_kernel_does_not_answer() {
    let wanted = |clocksource, is_virtual, comparison| {
        let matching_clocksource = Clocksource::Tsc;
        needs_comparison(&Facts {
            clocksource,
            is_virtual,
            comparison,
            matching_clocksource,
            ..Facts::UNKNOWN
        })
    };
    assert!(
        !wanted(Clocksource::Tsc, false, SYNCHRONISED)
            && wanted(Clocksource::Tsc, true, SYNCHRONISED)
    );
    assert!(
        wanted(Clocksource::Tsc, false, WARPED),
        "or the gate would stay closed for good"
    );
    let pending = CounterComparison::Pending;
    assert!(
        wanted(Clocksource::Hpet, false, pending) && wanted(Clocksource::Unknown, false, pending)
    );
}

#[test]
fn a_missing_line_is_judged_by_its_cause() {
    let hz = Some(1);
    for (is_counter_too_slow, are_samples_too_old, frequency_hz, closed, warning) in [
        (false, false, None, None, None), // a new clock
        (false, false, hz, None, Some(Reason::LineEnded)),
        (false, true, hz, Some(Reason::SamplesTooOld), None),
        (true, true, None, Some(Reason::CounterTooSlow), None),
    ] {
        let figures = SharedClock::new(LineCell::new()).figures();
        let figures = Figures {
            is_counter_too_slow,
            are_samples_too_old,
            frequency_hz,
            ..figures
        };
        let verdict = judge_missing_line(&figures);
        assert_eq!(
            (verdict.closed_by, verdict.warning),
            (closed, warning),
            "{figures:?}"
        );
    }
}

/// Only whole names match: `hyperv_clocksource_tsc_page` is not `tsc`.
#[test]
fn names_are_exact() {
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
    let of = |clocksource: Clocksource| clocksource.resolutions(Clocksource::Tsc, 26).reference_ns;
    assert!(of(Clocksource::AcpiPm) >= 279 && of(Clocksource::Unknown) >= of(Clocksource::AcpiPm));
}
