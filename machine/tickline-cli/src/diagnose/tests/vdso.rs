//! A system call answers, although the vDSO can read the clocksource.

use super::given::{Given, good_machine};
use crate::document::Severity;
use crate::measure::served_by::ServedBy;

/// The clocksources of x86 that are not slow by themselves.
const GOOD_ON_X86: [&str; 5] = [
    "tsc",
    "kvm-clock",
    "xen",
    "hyperv_clocksource_msr",
    "hyperv_clocksource_tsc_page",
];

/// A machine whose process does not use the vDSO: system calls answer all clocks.
fn process_without_vdso() -> Given {
    good_machine()
        .system_call_answers()
        .coarse_answered_by(Some(ServedBy::SystemCall))
}

/// Symptom: the fix named causes that bypass the vDSO, although the vDSO answered the coarse clock.
#[test]
fn a_vdso_in_use_may_be_too_old_for_the_clocksource() {
    let finding = good_machine().system_call_answers().only("vdso_unused");
    assert_eq!(finding.severity, Severity::Slow);
    finding
        .fix_has("too old")
        .fix_lacks("LD_PRELOAD")
        .fix_lacks("Arm")
        .does_not_show("bypass");
}

#[test]
fn on_arm_an_erratum_may_keep_the_counter_from_the_vdso() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("arch_sys_counter")
        .architecture("aarch64")
        .only("vdso_unused");
    finding
        .fix_has("too old")
        .fix_has("a counter with an erratum")
        .fix_lacks("LD_PRELOAD");
}

/// Symptom: the finding blamed the host for kvm-clock or for Hyper-V's page.
#[test]
fn a_process_without_the_vdso_is_not_the_clocksources_fault() {
    for clocksource in GOOD_ON_X86 {
        let finding = process_without_vdso()
            .clocksource(clocksource)
            .first("vdso_unused");
        finding
            .fix_lacks("erratum")
            .fix_lacks("too old")
            .shows("MONOTONIC_COARSE")
            .shows("so the callers bypass it")
            .has_no_gain();
    }
}

#[test]
fn a_parameter_switches_the_vdso_off() {
    for clocksource in GOOD_ON_X86 {
        for coarse in [None, Some(ServedBy::SystemCall)] {
            let finding = process_without_vdso()
                .coarse_answered_by(coarse)
                .clocksource(clocksource)
                .command_line("quiet vdso=0")
                .boot_loader("grubby")
                .with(|document| document.machine.vdso_mapped = Some(false))
                .first("vdso_off");
            finding.fix_has("take `vdso=0` off").has_no_gain();
            let steps = finding.fix.steps().expect("commands");
            let keep = steps.keep.as_ref().expect("a command");
            assert!(keep.contains("--remove-args=vdso=0"), "{keep}");
        }
    }
}

#[test]
fn a_mapped_vdso_is_not_off_in_spite_of_the_parameter() {
    for clocksource in GOOD_ON_X86 {
        for coarse in [None, Some(ServedBy::SystemCall), Some(ServedBy::Vdso)] {
            let findings = process_without_vdso()
                .coarse_answered_by(coarse)
                .clocksource(clocksource)
                .command_line("quiet vdso=0")
                .findings();
            assert!(findings.iter().all(|finding| finding.code != "vdso_off"));
            findings[0].has_no_gain();
        }
    }
}

#[test]
fn a_slow_clocksource_is_the_deeper_cause() {
    let machine = process_without_vdso().clocksource("hpet");
    machine.command_line("quiet vdso=0").first("tsc_not_chosen");
}

#[test]
fn vdso32_applies_to_32_bit_processes() {
    let machine = process_without_vdso()
        .command_line("vdso32=0")
        .with(|document| document.machine.vdso_mapped = Some(false));
    let finding = machine.clone().architecture("x86_64").only("vdso_unused");
    finding.shows("/proc/self/maps has no [vdso]");
    machine.architecture("x86").only("vdso_off");
}

/// On 32-bit Arm, the kernel removes every clock from a vDSO that cannot read a counter.
#[test]
fn on_32_bit_arm_a_slow_clocksource_removes_the_coarse_clock_too() {
    let machine = process_without_vdso().clocksource("timer0");
    machine.architecture("arm").only("clocksource_slow");
}

#[test]
fn a_slow_call_has_the_command_that_counts_its_callers() {
    let finding = good_machine().system_call_answers().only("vdso_unused");
    assert_eq!(finding.who, Some("sudo tickline who"));
}
