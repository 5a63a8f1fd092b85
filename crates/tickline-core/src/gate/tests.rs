//! Each gate by itself. Whole machines: `situations`.

use super::*;
use crate::cell::LineCell;
use crate::compare::{Difference, Pair};
use crate::shared::Shared;

pub(super) fn healthy() -> Facts {
    Facts {
        switch: Switch::On,
        trust: Trust::Auto,
        assumed_invariant: false,
        counter_present: true,
        supported: true,
        readable: true,
        invariant: Some(true),
        hypervisor: Hypervisor::None,
        clocksource: Clocksource::Tsc,
        counters_clocksource: Clocksource::Tsc,
        available: Some(true),
        comparison: Comparison::Pending,
        line_per_cpu: false,
        cost: Some(Cost { counter_ps: 9_000, os_ps: 25_000, os_unix_ps: 25_000 }),
        was_slow: false,
        unix_was_slow: false,
        resolution_ticks: Some(26),
    }
}

/// What every gate says.
pub(super) fn judged(facts: &Facts) -> impl Iterator<Item = Verdict> + Clone {
    Gate::ALL.iter().map(|gate| judge(*gate, facts))
}

fn reason(change: impl FnOnce(&mut Facts)) -> Option<Reason> {
    let mut facts = healthy();
    change(&mut facts);
    first_closed(judged(&facts))
}

fn apart(facts: &mut Facts) {
    facts.comparison = Comparison::Unsynchronised(Pair {
        here: 0,
        there: 3,
        difference: Difference { least_ticks: 500, most_ticks: 600 },
    });
}

#[test]
fn a_healthy_machine_opens_every_gate() {
    assert_eq!(reason(|_| {}), None);
    assert_eq!(reason(|facts| facts.invariant = None), None);
    let waived = |facts: &mut Facts| (facts.invariant, facts.assumed_invariant) = (Some(false), true);
    assert_eq!(reason(waived), None);
    assert_eq!(reason(|facts| facts.trust = Trust::Kernel), None);
}

#[test]
fn each_fault_closes_its_gate_with_its_reason() {
    type Fault = fn(&mut Facts);
    let cases: [(Reason, Fault); 16] = [
        (Reason::Disabled, |facts| facts.switch = Switch::Disabled),
        (Reason::SwitchedOff, |facts| facts.switch = Switch::SwitchedOff),
        (Reason::NoCounter, |facts| facts.counter_present = false),
        (Reason::NoAtomics, |facts| facts.supported = false),
        (Reason::Denied, |facts| facts.readable = false),
        (Reason::NotInvariant, |facts| facts.invariant = Some(false)),
        (Reason::KernelUndecided, |facts| facts.clocksource = Clocksource::TscEarly),
        (Reason::KernelRejected, |facts| {
            (facts.clocksource, facts.available) = (Clocksource::Hpet, Some(false));
        }),
        (Reason::KernelUsesOther, |facts| {
            (facts.clocksource, facts.trust) = (Clocksource::Hpet, Trust::Kernel);
        }),
        (Reason::HypervisorPolicy, |facts| {
            (facts.clocksource, facts.trust) = (Clocksource::HypervPage, Trust::Kernel);
        }),
        (Reason::KernelUnknown, |facts| {
            (facts.clocksource, facts.trust) = (Clocksource::Unknown, Trust::Kernel);
        }),
        (Reason::Untested, |facts| facts.clocksource = Clocksource::Hpet),
        (Reason::Untestable, |facts| {
            (facts.clocksource, facts.comparison) = (Clocksource::Hpet, Comparison::Impossible);
        }),
        (Reason::Unsynchronised, apart),
        (Reason::Slow, |facts| {
            facts.cost = Some(Cost { counter_ps: 25_001, os_ps: 25_000, os_unix_ps: 25_000 });
        }),
        (Reason::Stuck, |facts| facts.resolution_ticks = Some(0)),
    ];
    for (index, (expected, fault)) in cases.into_iter().enumerate() {
        assert_eq!(reason(fault), Some(expected));
        assert_eq!(Reason::ALL[index], expected, "in the order of Reason::ALL");
    }
    assert_eq!(
        Reason::ALL[cases.len()..],
        [Reason::CounterTooSlow, Reason::SamplesStale, Reason::WindowPassed, Reason::Implausible]
    );
}

#[test]
fn a_kernel_speaks_for_the_counter_that_it_keeps_time_with_alone() {
    let counters = [Clocksource::Tsc, Clocksource::ArchSysCounter, Clocksource::Riscv];
    for kernels in counters {
        for own in counters {
            let found = reason(|facts| {
                (facts.clocksource, facts.counters_clocksource) = (kernels, own);
                facts.available = Some(kernels == own);
            });
            assert_eq!(found.is_none(), kernels == own, "{kernels:?}, {own:?}");
            let resolutions = kernels.resolutions(own, 26);
            assert_eq!(resolutions.counter_ticks == 0, kernels == own, "{kernels:?}, {own:?}");
            assert_eq!(resolutions.reference_ns, 1);
        }
    }
}

#[test]
fn unsynchronised_counters_are_used_only_with_a_line_per_cpu() {
    for trust in [Trust::Kernel, Trust::Auto, Trust::Measured] {
        for hypervisor in [Hypervisor::None, Hypervisor::Kvm] {
            let fault = |line_per_cpu| {
                reason(|facts| {
                    apart(facts);
                    (facts.trust, facts.hypervisor, facts.line_per_cpu) = (trust, hypervisor, line_per_cpu);
                })
            };
            assert_eq!(fault(false), Some(Reason::Unsynchronised));
            assert_eq!(fault(true), None);
        }
    }
}

/// Why the gate for Unix time is closed.
fn unix_by_os(verdicts: impl IntoIterator<Item = Verdict>) -> Option<Reason> {
    verdicts.into_iter().find(|verdict| verdict.gate == Gate::UnixCost)?.closed
}

/// The verdicts of the gates of cost: why each is closed, and whether monotonic time has a
/// warning.
fn costs(costs_ns: (u64, u64, u64), was_slow: (bool, bool)) -> (Option<Reason>, Option<Reason>, bool) {
    let (counter_ps, os_ps, os_unix_ps) = (costs_ns.0 * 1_000, costs_ns.1 * 1_000, costs_ns.2 * 1_000);
    let cost = Some(Cost { counter_ps, os_ps, os_unix_ps });
    let facts = Facts { cost, was_slow: was_slow.0, unix_was_slow: was_slow.1, ..healthy() };
    let verdicts = judged(&facts);
    let warned = verdicts.clone().any(|verdict| verdict.gate == Gate::Cost && verdict.warning.is_some());
    (first_closed(verdicts.clone()), unix_by_os(verdicts), warned)
}

/// Symptom: with monotonic time by a system call, the counter was used for Unix time as well,
/// though the OS read that faster ("Time, but Faster": `gettimeofday` in 35.7 ns, `gethrtime` in
/// 119.8, the counter in 40.4). Each of the two costs has a hysteresis of its own.
#[test]
fn unix_time_and_monotonic_time_are_judged_separately() {
    const SLOW: Option<Reason> = Some(Reason::Slow);
    let never = (false, false);
    for (costs_ns, was_slow, expected, why) in [
        ((10, 25, 25), never, (None, None, false), "a vDSO that works"),
        ((10, 300, 300), never, (None, None, false), "system calls"),
        ((40, 120, 36), never, (None, SLOW, false), "Unix time is the OS's, all else the counter's"),
        ((40, 120, 300), never, (None, None, false), "system calls"),
        ((40, 35, 36), never, (SLOW, SLOW, false), "a counter that traps"),
        ((26, 25, 300), never, (None, None, true), "Unix time gains 274 ns, monotonic time loses 1"),
        ((28, 25, 300), never, (SLOW, None, false), "monotonic time would lose more than a tenth"),
        ((104, 100, 106), never, (SLOW, None, false), "Unix time would gain less than is lost"),
        ((95, 100, 100), never, (None, None, false), "faster by less than a tenth"),
        ((95, 100, 100), (false, true), (None, SLOW, false), "Unix time was slow"),
        ((95, 100, 100), (true, false), (SLOW, None, false), "monotonic time was slow"),
        ((95, 100, 100), (true, true), (SLOW, SLOW, false), "both were slow"),
        ((90, 100, 100), (true, true), (None, None, false), "a tenth faster"),
        ((108, 100, 300), never, (None, None, true), "worth it for Unix time"),
        ((108, 100, 300), (true, false), (SLOW, None, false), "no opening and closing at the limit"),
    ] {
        assert_eq!(costs(costs_ns, was_slow), expected, "{costs_ns:?}, {was_slow:?}: {why}");
    }
}

#[test]
fn a_gate_for_unix_time_alone_closes_nothing_else() {
    let closed = |gate| {
        let verdict = Verdict::of(gate, Some(Reason::Slow));
        first_closed([verdict]).is_some()
    };
    for gate in Gate::ALL.iter().copied() {
        assert_eq!(closed(gate), gate != Gate::UnixCost, "{gate:?}");
        assert_eq!(Gate::ALL.get(gate as usize), Some(&gate), "a gate's number is its place");
    }
}

#[test]
fn a_comparison_is_asked_for_where_the_kernel_does_not_answer() {
    let needed = |clocksource, hypervisor| needed_comparison(&Facts { clocksource, hypervisor, ..healthy() });
    assert_eq!(needed(Clocksource::Tsc, Hypervisor::None), NeededComparison::Idle);
    assert_eq!(needed(Clocksource::Tsc, Hypervisor::Vmware), NeededComparison::Welcome);
    assert_eq!(needed(Clocksource::Hpet, Hypervisor::None), NeededComparison::Needed);
    assert_eq!(needed(Clocksource::Unknown, Hypervisor::None), NeededComparison::Needed);
}

#[test]
fn the_line_has_gates_of_its_own() {
    let calibration = |has_line, change: fn(&mut Figures)| {
        let mut figures = Shared::new(LineCell::new()).figures();
        change(&mut figures);
        let verdict = judge_calibration(has_line, &figures);
        (verdict.closed, verdict.warning)
    };
    let is_slow: fn(&mut Figures) = |figures| figures.is_out_of_range = true;
    assert_eq!(calibration(true, is_slow), (None, None));
    assert_eq!(calibration(false, |_| ()), (None, None), "a new clock");
    assert_eq!(
        calibration(false, |figures| figures.frequency_hz = Some(1)),
        (None, Some(Reason::WindowPassed))
    );
    assert_eq!(
        calibration(false, |figures| figures.samples_are_stale = true),
        (Some(Reason::SamplesStale), None)
    );
    assert_eq!(calibration(false, is_slow), (Some(Reason::CounterTooSlow), None));
    let stale_after_lines: fn(&mut Figures) =
        |figures| (figures.samples_are_stale, figures.frequency_hz) = (true, Some(1));
    assert_eq!(calibration(false, stale_after_lines), (Some(Reason::SamplesStale), None));
    let slow_and_stale: fn(&mut Figures) =
        |figures| (figures.is_out_of_range, figures.samples_are_stale) = (true, true);
    assert_eq!(calibration(false, slow_and_stale), (Some(Reason::CounterTooSlow), None));
    let plausible = |nominal, measured| judge_plausible(nominal, measured).warning;
    assert_eq!(plausible(Some(2_600_000_000), Some(2_596_120_000)), None, "1,500 ppm: rounded to 100 MHz");
    assert_eq!(plausible(Some(2_600_000_000), Some(2_400_000_000)), Some(Reason::Implausible));
    assert_eq!(plausible(None, Some(1)), None);
    assert_eq!(plausible(Some(1), None), None);
    assert_eq!(judge_plausible(Some(5), Some(7)).closed, None);
}

#[test]
fn clocksource_names_are_exact() {
    for (name, expected) in Clocksource::NAMED {
        assert_eq!(Clocksource::from_name(name.as_bytes()), expected);
        assert_eq!(Clocksource::from_name(format!("{name}\n").as_bytes()), expected);
        for near in [format!("{name} "), format!(" {name}"), format!("{name}\n\n"), name.to_uppercase()] {
            assert_eq!(Clocksource::from_name(near.as_bytes()), Clocksource::Other, "{near:?}");
        }
    }
    assert_eq!(Clocksource::from_name(b"hyperv_clocksource_msr\n"), Clocksource::Other);
    assert_eq!(Clocksource::from_name(b"\n"), Clocksource::Unknown);
    assert_eq!(Clocksource::from_name(b""), Clocksource::Unknown);
}

/// Whole names are searched for. A kernel whose tick is not in one-shot mode still lists the counter
/// that it has marked unstable, but last. The gate took that for an offer.
#[test]
fn a_counter_is_accepted_where_it_is_listed_ahead_of_the_timers() {
    for (list, is_accepted) in [
        ("kvm-clock tsc hpet \n", Some(true)),
        ("tsc hpet acpi_pm jiffies \n", Some(true)),
        ("hyperv_clocksource_tsc_page xen kvm-clock tsc hpet", Some(true)),
        ("hyperv_clocksource_tsc_page tsc-early acpi_pm \n", Some(false)),
        ("hpet acpi_pm jiffies tsc \n", Some(false)),
        ("acpi_pm tsc", Some(false)),
        ("jiffies tsc", Some(false)),
        ("refined-jiffies tsc", Some(false)),
        (" \n", None),
        ("", None),
    ] {
        assert_eq!(Clocksource::Tsc.is_accepted(list.as_bytes()), is_accepted, "{list:?}");
    }
    // Some boards have a timer that the kernel rates above the counter.
    assert_eq!(Clocksource::ArchSysCounter.is_accepted(b"mct-frc arch_sys_counter \n"), Some(true));
}

#[test]
fn hypervisors_are_known_by_their_whole_signature() {
    for (signature, expected) in Hypervisor::NAMED {
        assert_eq!(Hypervisor::from_signature(*signature), expected);
    }
    assert_eq!(Hypervisor::from_signature(*b"KVMKVMKVM   "), Hypervisor::Other);
    assert_eq!(Hypervisor::from_signature([0; 12]), Hypervisor::Other);
}

#[test]
fn a_reference_made_of_the_counter_has_no_step_of_its_own() {
    let resolutions = |clocksource: Clocksource| clocksource.resolutions(Clocksource::Tsc, 26);
    assert_eq!(
        (resolutions(Clocksource::Tsc).counter_ticks, resolutions(Clocksource::Tsc).reference_ns),
        (0, 1)
    );
    for (_, clocksource) in Clocksource::NAMED {
        if !matches!(clocksource, Clocksource::Tsc | Clocksource::TscEarly) {
            assert_eq!(resolutions(clocksource).counter_ticks, 26, "{clocksource:?}");
        }
    }
    assert_eq!(resolutions(Clocksource::Tsc).resolution_ticks, 26);
    for clocksource in [Clocksource::ArchSysCounter, Clocksource::Riscv] {
        let resolutions = clocksource.resolutions(clocksource, 26);
        assert_eq!((resolutions.counter_ticks, resolutions.resolution_ticks), (0, 0), "{clocksource:?}");
    }
    assert!(resolutions(Clocksource::AcpiPm).reference_ns >= 279);
    assert!(resolutions(Clocksource::Unknown).reference_ns >= resolutions(Clocksource::AcpiPm).reference_ns);
}

#[test]
fn codes_are_distinct() {
    let codes = Vec::from_iter(Reason::ALL.iter().map(|reason| reason.code()));
    for (index, code) in codes.iter().enumerate() {
        assert!(!codes[..index].contains(code), "{code} twice");
    }
}
