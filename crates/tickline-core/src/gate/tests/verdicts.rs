//! The verdicts on whole machines: who may use the counter, by which trust, and after what.

use super::machines::*;
use crate::clocksource::{Acceptance, Clocksource};
use crate::comparison::CounterComparison;
use crate::gate::{Gate, Reason, SwitchedOffBy, Trust};

/// The kernel keeps time with the counter.
#[test]
fn a_counter_that_the_kernel_uses_is_used() {
    assert_eq!(pc().judged_by_any(), OPEN);
}

#[test]
fn a_kernel_that_has_not_decided_is_waited_for() {
    let undecided = closed(Reason::KernelUndecided);
    assert_eq!(pc_in_early_boot().judged_by_any(), undecided);
}

/// In an emulator the files of sysfs are the host's.
#[test]
fn a_kernel_speaks_only_for_the_counter_that_it_keeps_time_with() {
    let counters = [
        Clocksource::Tsc,
        Clocksource::ArchSysCounter,
        Clocksource::Riscv,
    ];
    for kernels in counters {
        for own in counters {
            let machine = pc().where_fact(|facts| {
                facts.clocksource = kernels;
                facts.matching_clocksource = own;
                facts.kernel_acceptance = if kernels == own {
                    Acceptance::Accepted
                } else {
                    Acceptance::Rejected
                };
            });
            let expected = if kernels == own {
                OPEN
            } else {
                closed(Reason::KernelRejected)
            };
            assert_eq!(
                machine.judged_by(Trust::Auto),
                expected,
                "{kernels:?}, {own:?}"
            );
        }
    }
}

/// The verdict on a counter that the kernel rejects.
#[track_caller]
fn assert_only_a_comparison_admits(machine: Machine) {
    let rejected = closed(Reason::KernelRejected);
    assert_eq!(machine.judged_by(Trust::Kernel), rejected);
    assert_eq!(machine.judged_by(Trust::Auto), rejected);
    assert_eq!(machine.judged_by(Trust::Measured), OPEN_IF_COMPARED);
}

#[test]
fn a_counter_that_the_watchdog_demoted_is_rejected() {
    assert_only_a_comparison_admits(pc_demoted_by_watchdog());
}

#[test]
fn a_counter_at_the_end_of_the_kernels_list_is_rejected() {
    assert_only_a_comparison_admits(pc_demoted_without_one_shot_ticks());
}

#[test]
fn a_counter_behind_jiffies_is_rejected() {
    assert_only_a_comparison_admits(pc_on_jiffies());
}

/// The verdict on a counter that the kernel neither uses nor rejects, for this reason.
#[track_caller]
fn assert_a_comparison_decides(machine: Machine, by_kernel: Reason) {
    assert_eq!(machine.judged_by(Trust::Kernel), closed(by_kernel));
    assert_eq!(machine.judged_by(Trust::Auto), OPEN_IF_COMPARED);
    assert_eq!(machine.judged_by(Trust::Measured), OPEN_IF_COMPARED);
}

#[test]
fn an_administrators_choice_leaves_the_counter_to_a_comparison() {
    assert_a_comparison_decides(pc_on_hpet(), Reason::KernelUsesOther);
}

#[test]
fn kvm_clock_leaves_the_counter_to_a_comparison() {
    assert_a_comparison_decides(kvm_on_kvm_clock(), Reason::KernelUsesOther);
}

#[test]
fn xen_leaves_the_counter_to_a_comparison() {
    assert_a_comparison_decides(xen_on_aws(), Reason::KernelUsesOther);
}

/// The name of Hyper-V's clocksource contains "tsc", and is not "tsc".
#[test]
fn hyper_v_leaves_the_counter_to_a_comparison() {
    assert_a_comparison_decides(hyper_v(), Reason::HypervisorPolicy);
}

#[test]
fn a_masked_sysfs_leaves_the_counter_to_a_comparison() {
    assert_a_comparison_decides(without_sysfs(), Reason::KernelUnknown);
}

/// What a kernel would accept says nothing of a clock without a name.
#[test]
fn a_masked_clocksource_is_unknown_whatever_the_kernel_would_accept() {
    for acceptance in [Acceptance::Accepted, Acceptance::Rejected] {
        let machine = without_sysfs().where_fact(|facts| facts.kernel_acceptance = acceptance);
        assert_eq!(
            machine.judged_by(Trust::Kernel),
            closed(Reason::KernelUnknown)
        );
    }
}

#[test]
fn a_boards_timer_leaves_the_counter_to_a_comparison() {
    assert_a_comparison_decides(exynos(), Reason::KernelUsesOther);
}

#[test]
fn a_counter_that_is_not_invariant_is_not_used() {
    let not_invariant = closed(Reason::NotInvariant);
    let machine = pc_without_invariant_counter();
    assert_eq!(machine.judged_by_any(), not_invariant);
    let machine = kvm_without_invariant_counter();
    assert_eq!(machine.judged_by_any(), not_invariant);
}

#[test]
fn a_program_may_assume_that_the_counter_is_invariant() {
    let machine = pc().where_fact(|facts| {
        facts.is_invariant = false;
        facts.assume_invariant = true;
    });
    assert_eq!(machine.judged_by_any(), OPEN);
}

#[test]
fn guests_whose_kernel_uses_the_counter_use_it() {
    assert_eq!(kvm_on_tsc().judged_by_any(), OPEN);
    assert_eq!(firecracker().judged_by_any(), OPEN);
    assert_eq!(vmware().judged_by_any(), OPEN);
}

#[test]
fn other_processors_whose_kernel_uses_the_counter_use_it() {
    assert_eq!(aarch64().judged_by_any(), OPEN);
    assert_eq!(riscv64().judged_by_any(), OPEN);
}

#[test]
fn a_counter_that_traps_like_the_os_is_used() {
    assert_eq!(riscv64_that_traps().judged_by_any(), OPEN);
}

/// A comparison does not admit a counter that is slower than the OS.
#[test]
fn an_emulated_counter_is_slow() {
    let machine = xen_that_emulates_the_counter();
    let slow_if_compared = [Some(Reason::Untested), Some(Reason::Slow)];
    let uses_other = closed(Reason::KernelUsesOther);
    assert_eq!(machine.judged_by(Trust::Kernel), uses_other);
    assert_eq!(machine.judged_by(Trust::Auto), slow_if_compared);
    assert_eq!(machine.judged_by(Trust::Measured), slow_if_compared);
}

/// The kernel keeps time with the counter, and has not compared the CPUs' counters itself.
#[test]
fn a_comparison_closes_what_the_kernel_has_opened() {
    let open_until_compared = [None, Some(Reason::Unsynchronised)];
    let machine = reliable_in_name_only();
    assert_eq!(machine.judged_by_any(), open_until_compared);
    let machine = pc_whose_counters_differ();
    assert_eq!(machine.judged_by_any(), open_until_compared);
}

#[test]
fn counters_that_differ_are_used_by_lines_of_their_own() {
    let machine = pc_whose_counters_differ().where_fact(|facts| facts.has_line_per_cpu = true);
    assert_eq!(machine.judged_by_any(), OPEN);
}

#[test]
fn a_rejected_counter_that_a_comparison_finds_to_differ_stays_closed() {
    let machine = virtual_box();
    let rejected = closed(Reason::KernelRejected);
    assert_eq!(machine.judged_by(Trust::Kernel), rejected);
    assert_eq!(machine.judged_by(Trust::Auto), rejected);
    let measured = [Some(Reason::Untested), Some(Reason::Unsynchronised)];
    assert_eq!(machine.judged_by(Trust::Measured), measured);
}

#[test]
fn without_a_kernel_to_ask_an_impossible_comparison_closes_the_gate() {
    let machine = incomparable();
    let unknown = closed(Reason::KernelUnknown);
    assert_eq!(machine.judged_by(Trust::Kernel), unknown);
    let untestable = [Some(Reason::Untested), Some(Reason::Untestable)];
    assert_eq!(machine.judged_by(Trust::Auto), untestable);
    assert_eq!(machine.judged_by(Trust::Measured), untestable);
}

#[test]
fn a_program_may_switch_the_counter_off() {
    let machine = switched_off(SwitchedOffBy::Program);
    assert_eq!(machine.judged_by_any(), closed(Reason::DisabledByProgram));
}

#[test]
fn the_environment_may_switch_the_counter_off() {
    let machine = switched_off(SwitchedOffBy::Environment);
    let reason = Reason::DisabledByEnvironment;
    assert_eq!(machine.judged_by_any(), closed(reason));
}

#[test]
fn a_target_without_a_counter_has_none() {
    let no_counter = closed(Reason::NoCounter);
    assert_eq!(without_counter().judged_by_any(), no_counter);
}

#[test]
fn a_processor_that_cannot_swap_a_state_has_no_line() {
    let no_atomics = closed(Reason::NoAtomics);
    assert_eq!(without_atomics().judged_by_any(), no_atomics);
}

#[test]
fn a_process_that_may_not_read_the_counter_is_denied() {
    assert_eq!(denied().judged_by_any(), closed(Reason::Denied));
}

#[test]
fn a_counter_that_stands_still_is_stuck() {
    let stuck = closed(Reason::Stuck);
    assert_eq!(with_stuck_counter().judged_by_any(), stuck);
}

#[test]
fn a_comparison_that_fails_opens_no_gate() {
    for (machine, trust) in every_machine_and_trust() {
        let pending = machine.first_closed(trust, CounterComparison::Pending);
        let impossible = machine.first_closed(trust, CounterComparison::Impossible);
        assert_eq!(pending.is_some(), impossible.is_some(), "{machine:?}");
    }
}

#[test]
fn a_single_cpu_counts_as_synchronised() {
    for (machine, trust) in every_machine_and_trust() {
        let single = machine.first_closed(trust, CounterComparison::Single);
        assert_eq!(
            single,
            machine.first_closed(trust, SYNCHRONISED),
            "{machine:?}"
        );
    }
}

/// The other reasons stop only Unix time, or concern lines and who makes them.
#[test]
fn each_reason_that_a_machine_can_cause_is_tested() {
    let mut caused = Vec::new();
    for (machine, trust) in every_machine_and_trust() {
        caused.extend(machine.judged_by(trust).into_iter().flatten());
    }
    let missing = Reason::ALL.iter().filter(|reason| !caused.contains(reason));
    let other_reasons = [
        Reason::SlowForUnixTime,
        Reason::CounterTooSlow,
        Reason::SamplesTooOld,
        Reason::NoLine,
        Reason::DriverStopped,
    ];
    assert!(missing.eq(&other_reasons), "{caused:?}");
}

/// A closed gate takes its name from the reason.
#[test]
fn a_verdict_is_about_the_gate_that_was_judged() {
    for (machine, trust) in every_machine_and_trust() {
        for comparison in [CounterComparison::Pending, machine.comparison] {
            let verdicts = machine.verdicts(trust, comparison);
            for (verdict, gate) in verdicts.zip(Gate::ALL) {
                assert_eq!(verdict.gate(), *gate, "{machine:?}");
            }
        }
    }
}

/// Only costs make a gate warn.
#[test]
fn no_machine_warns_without_a_cost_that_does() {
    for machine in all() {
        for gate in Gate::ALL {
            assert_eq!(machine.verdict(*gate).warning(), None, "{machine:?}");
        }
    }
}

fn every_machine_and_trust() -> impl Iterator<Item = (Machine, Trust)> {
    all()
        .into_iter()
        .flat_map(|machine| Trust::ALL.iter().map(move |trust| (machine, *trust)))
}
