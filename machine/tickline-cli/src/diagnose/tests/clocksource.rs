//! The kernel keeps time with a slow clocksource, or with one whose name is unreadable.

use super::super::clocksource::Code;
use super::super::not_kept;
use super::given::{Given, assert_each_found, good_machine, machine_on_hpet_without_tsc};
use crate::document::{Place, Severity};
use crate::measure::served_by::ServedBy;

const BY_WATCHDOG: &str = "tsc: Marking TSC unstable due to clocksource watchdog";

/// Symptom: on a machine whose remedy is the page, the doctor said only that it is slow.
#[test]
fn a_slow_machine_with_a_page_says_how_programs_use_it() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    machine
        .clone()
        .first("tsc_not_chosen")
        .does_not_show("page");
    with_served_page(machine)
        .first("tsc_not_chosen")
        .shows("a program that `tickline run` starts takes the time from it");
}

fn with_served_page(machine: Given) -> Given {
    machine.with(|document| {
        document.machine.page_readers = Some(0);
        document.machine.page_served = Some(true);
    })
}

fn with_unserved_page(machine: Given) -> Given {
    with_served_page(machine).with(|document| document.machine.page_served = Some(false))
}

/// Symptom: "a program that `tickline run` starts takes the time from it", of a page without a
/// line.
#[test]
fn a_page_that_serves_nothing_is_no_remedy() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    with_unserved_page(machine)
        .first("tsc_not_chosen")
        .shows("there is a page, but it serves nothing now")
        .does_not_show("takes the time from it")
        .does_not_show("only where the kernel accepts");
}

/// Symptom: "it serves nothing now", though an administrator had switched it off.
#[test]
fn a_page_that_is_switched_off_is_called_so() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    with_unserved_page(machine)
        .with(|document| document.machine.page_switched_off = Some(true))
        .first("tsc_not_chosen")
        .shows("there is a page, but it is switched off")
        .does_not_show("serves nothing");
}

#[test]
fn a_page_that_the_kernel_keeps_from_serving_says_why() {
    let machine = machine_on_hpet_without_tsc().command_line("tsc=unstable");
    with_unserved_page(machine)
        .first("tsc_switched_off")
        .shows("only where the kernel accepts the counter");
}

/// A rule that compares only names would report them.
#[test]
fn a_clocksource_that_the_vdso_reads_is_no_finding() {
    for name in [
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "xen",
        "arch_sys_counter",
        "tsc-early",
    ] {
        assert_eq!(good_machine().clocksource(name).codes(), [""; 0], "{name}");
    }
}

#[test]
fn without_a_known_answerer_a_hypervisors_clock_is_no_finding() {
    for name in ["kvm-clock", "xen"] {
        let machine = good_machine().answered_by(None).clocksource(name);
        assert_eq!(machine.codes(), [""; 0], "{name}");
    }
}

#[test]
fn one_command_switches_to_a_tsc_on_offer() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .command_line("quiet clocksource=hpet")
        .costs_ns(700.0)
        .first("tsc_not_chosen");
    assert_eq!(finding.severity, Severity::Slow);
    assert_eq!(finding.place(), Some(Place::Here));
    finding
        .fix_begins(
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource; \
             to keep it, boot with clocksource=tsc instead of `clocksource=hpet`",
        )
        .gains(35.0);
}

#[test]
fn without_a_vdso_the_attainable_cost_is_unknown() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .command_line("quiet clocksource=hpet")
        .costs_ns(700.0)
        .coarse_answered_by(Some(ServedBy::SystemCall))
        .first("tsc_not_chosen");
    finding.has_no_gain();
}

/// Symptom: the finding claimed that the kernel does not offer the TSC, although that was unknown.
#[test]
fn with_an_unreadable_list_the_offer_is_unknown() {
    let machine = good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .offer_unreadable();
    for machine in [machine.clone().log(&[]), machine.log_unreadable()] {
        let finding = machine.first("clocksource_slow");
        assert_eq!(finding.severity, Severity::Slow);
        finding
            .says("whether it would accept tsc is unknown")
            .fix_has("if tsc is there, ")
            .fix_has("echo tsc")
            .fix_has("tsc=reliable");
    }
}

#[test]
fn for_a_varying_tsc_an_unknown_offer_changes_nothing() {
    let machine = good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .offer_unreadable()
        .tsc_not_invariant();
    for machine in [machine.clone().log(&[]), machine.log_unreadable()] {
        machine.first("clocksource_slow").has_no_fix();
    }
}

#[test]
fn tsc_early_on_the_list_does_not_offer_tsc() {
    let machine = machine_on_hpet_without_tsc().offers("tsc-early hpet");
    machine.log(&[]).first("tsc_missing");
}

/// Symptom: the program recommended no clocksource other than tsc.
#[test]
fn another_clocksource_that_the_vdso_reads_is_recommended() {
    for (current, list, other) in [
        (
            "acpi_pm",
            "acpi_pm hyperv_clocksource_tsc_page",
            "hyperv_clocksource_tsc_page",
        ),
        (
            "acpi_pm",
            "kvm-clock hyperv_clocksource_tsc_page acpi_pm",
            "hyperv_clocksource_tsc_page",
        ),
    ] {
        let finding = good_machine()
            .system_call_answers()
            .clocksource(current)
            .offers(list)
            .log(&[])
            .costs_ns(1200.0)
            .only("clocksource_not_chosen");
        assert_eq!(finding.severity, Severity::Slow);
        finding
            .fix_begins(&format!("echo {other} |"))
            // The cost of another clocksource than the counter was not measured.
            .has_no_gain();
    }
    let on_hyperv = good_machine()
        .system_call_answers()
        .clocksource("hyperv_clocksource_msr")
        .offers("hyperv_clocksource_msr hyperv_clocksource_tsc_page");
    on_hyperv.only("clocksource_not_chosen");
}

#[test]
fn a_parameter_that_chooses_the_slow_clocksource_is_shown_and_replaced() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("acpi_pm")
        .offers("kvm-clock acpi_pm")
        .log(&[])
        .command_line("clocksource=acpi_pm")
        .only("clocksource_not_chosen");
    finding
        .fix_begins("echo kvm-clock |")
        .fix_has("instead of `clocksource=acpi_pm`")
        .shows("the kernel's command line has clocksource=acpi_pm");
}

#[test]
fn another_clocksource_is_recommended_if_the_tsc_was_rejected() {
    let machine = good_machine()
        .system_call_answers()
        .clocksource("acpi_pm")
        .offers("kvm-clock acpi_pm tsc")
        .log(&[BY_WATCHDOG]);
    machine.only("clocksource_not_chosen");
}

#[test]
fn the_switch_to_arms_counter_gains_what_the_measured_costs_say() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("timer")
        .offers("arch_sys_counter timer")
        .architecture("aarch64")
        .command_line("clocksource=timer")
        .costs_ns(700.0)
        .only("clocksource_not_chosen");
    finding
        .fix_begins("echo arch_sys_counter |")
        .shows("clocksource=timer")
        .gains(35.0);
}

#[test]
fn the_tsc_is_preferred_to_another_clocksource() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    machine.offers("tsc kvm-clock hpet").first("tsc_not_chosen");
}

#[test]
fn only_parameters_that_took_effect_are_shown() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("acpi_pm")
        .offers("acpi_pm")
        .log(&[])
        .command_line("no-kvmclock clocksource=hpet")
        .first("tsc_missing");
    finding
        .shows("command line has no-kvmclock")
        .does_not_show("clocksource=hpet");
}

#[test]
fn no_clock_from_unsynchronised_counters_is_recommended() {
    let machine = good_machine()
        .system_call_answers()
        .clocksource("acpi_pm")
        .offers("kvm-clock acpi_pm")
        .log(&[]);
    machine
        .counters_differ()
        .assert_no_fix_says("echo kvm-clock");
}

/// Symptom: the fix for a Raspberry Pi 1 described a counter that it does not have.
#[test]
fn armv6_has_no_counter_and_no_fix() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("timer")
        .offers("timer")
        .architecture("arm")
        .with(|document| {
            document.machine.cpu = Some("ARMv6-compatible processor rev 7 (v6l)".to_owned());
        })
        .only("clocksource_slow");
    finding.has_no_fix();
}

/// Symptom: a processor of ARMv5 was told to describe its counter.
#[test]
fn arm_before_armv7_has_no_counter_whatever_the_name() {
    for cpu in [
        "ARM920T rev 0 (v4l)",
        "ARM926EJ-S rev 5 (v5l)",
        "Feroceon 88FR131 rev 1 (v5l)",
        "ARMv6-compatible processor rev 7 (v6l)",
    ] {
        on("timer")
            .offers("timer")
            .architecture("arm")
            .cpu(cpu)
            .only("clocksource_slow")
            .has_no_fix();
    }
}

/// Symptom: "describe the CPU's own counter in the device tree", of a BeagleBone, whose Cortex-A8
/// has none.
#[test]
fn a_processor_of_armv7_may_have_no_counter() {
    on("dmtimer")
        .offers("dmtimer")
        .architecture("arm")
        .cpu("ARMv7 Processor rev 2 (v7l)")
        .only("clocksource_slow")
        .fix_begins("if the processor has a counter that programs may read")
        .fix_has("A5, A8 and A9 have none")
        .fix_has("device tree")
        .fix_lacks("ACPI");
}

/// Symptom: "describe the CPU's own counter", which was on the list.
#[test]
fn a_counter_that_differs_between_cpus_need_not_be_described() {
    for architecture in ["arm", "aarch64"] {
        on("timer")
            .offers("arch_sys_counter timer")
            .architecture(architecture)
            .counters_differ()
            .finding("clocksource_slow")
            .has_no_fix()
            .fix_has("the counters are unsynchronised");
    }
}

#[test]
fn a_slow_timer_on_arm_needs_the_counter_described() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("timer0")
        .architecture("aarch64")
        .only("clocksource_slow");
    finding.fix_has("device tree");
}

#[test]
fn a_masked_clocksource_is_only_unknown() {
    let finding = good_machine()
        .clocksource_unreadable()
        .offer_unreadable()
        .only("clocksource_unknown");
    assert_eq!(finding.severity, Severity::Note);
    finding.shows("the vDSO answers clock_gettime MONOTONIC all the same");
}

#[test]
fn a_system_call_on_an_unreadable_clocksource_is_slow() {
    let machine = good_machine().system_call_answers();
    let finding = machine.clocksource_unreadable().only("clocksource_unknown");
    assert_eq!(finding.severity, Severity::Slow);
    finding.says("each call for the time is a system call");
}

#[test]
fn gvisor_hides_the_hosts_clocksource() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource_unreadable()
        .offer_unreadable()
        .hypervisor("gvisor")
        .first("clocksource_unknown");
    assert_eq!(finding.severity, Severity::Slow);
    finding
        .says("gVisor")
        .fix_begins("run tickline on the host");
}

#[test]
fn a_container_without_sys_is_given_it() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource_unreadable()
        .offer_unreadable()
        .first("clocksource_unknown");
    finding
        .says("the name of the kernel's clocksource is unreadable")
        .fix_begins("give the container the host's /sys");
}

#[test]
fn a_paravirtual_clock_at_twice_the_cost_is_a_note() {
    let finding = good_machine()
        .clocksource("kvm-clock")
        .offers("kvm-clock tsc acpi_pm")
        .costs_ns(45.0)
        .first("paravirtual_clock_dearer");
    assert_eq!(finding.severity, Severity::Note);
    finding.fix_has("echo tsc").gains(2.25);
}

#[test]
fn a_small_difference_of_costs_may_be_a_measurement_error() {
    let machine = good_machine()
        .clocksource("kvm-clock")
        .offers("kvm-clock tsc acpi_pm");
    assert_eq!(machine.costs_ns(25.0).codes(), [""; 0]);
}

#[test]
fn a_paravirtual_clock_is_not_dearer_than_a_tsc_that_is_not_on_offer() {
    let machine = good_machine()
        .clocksource("kvm-clock")
        .offers("kvm-clock acpi_pm");
    assert_eq!(machine.costs_ns(45.0).codes(), [""; 0]);
}

#[test]
fn a_command_line_that_names_the_tsc_already_is_kept() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    let finding = machine
        .command_line("clocksource=tsc")
        .first("tsc_not_chosen");
    finding.fix_has("has `clocksource=tsc` already, for the next start");
}

/// A machine on which a system call answers, whose kernel keeps time with this clocksource.
fn on(clocksource: &str) -> Given {
    let machine = good_machine().system_call_answers();
    machine.clocksource(clocksource)
}

/// Symptom: after `doctor --fix` the doctor said OK alone, and the next start was slow again.
#[test]
fn a_switch_that_the_command_line_takes_back_is_a_note() {
    let finding = good_machine()
        .command_line("quiet clocksource=acpi_pm")
        .boot_loader("grubby")
        .only("clocksource_not_kept");
    assert_eq!(finding.severity, Severity::Note);
    finding
        .says("until the next restart only: its command line selects acpi_pm")
        .fix_has("boot with clocksource=tsc instead of `clocksource=acpi_pm`");
    let steps = finding.fix.steps().expect("steps");
    let keep = steps.keep.as_ref().expect("a command");
    assert!(
        keep.contains("--remove-args=clocksource=acpi_pm --args=clocksource=tsc"),
        "{keep}"
    );
}

#[test]
fn a_command_line_that_keeps_the_tsc_is_no_finding() {
    for line in [
        "clocksource=tsc",
        "clocksource=hpet clocksource=tsc",
        "clocksource=no_such_clock",
    ] {
        assert_eq!(good_machine().command_line(line).codes(), [""; 0], "{line}");
    }
}

/// Symptom: with counters that differ, the doctor advised to boot with clocksource=tsc in place of
/// the clock that an administrator had chosen.
#[test]
fn a_bad_tsc_is_not_to_be_kept() {
    let selected = good_machine().command_line("clocksource=hpet");
    for machine in [
        selected.clone().with(|document| {
            document.machine.counter_difference_ticks = Some(4_000);
        }),
        selected.clone().tsc_not_invariant(),
        selected.log(&["clocksource: Marking clocksource tsc unstable due to inter CPU skew"]),
    ] {
        let codes = machine.codes();
        assert!(!codes.contains(&"clocksource_not_kept"), "{codes:?}");
    }
}

#[test]
fn the_hosts_clock_on_the_command_line_may_stay() {
    for name in ["kvm-clock", "xen", "hyperv_clocksource_tsc_page"] {
        let machine = good_machine()
            .hypervisor("kvm")
            .offers(&format!("{name} tsc"))
            .command_line(&format!("clocksource={name}"));
        let codes = machine.codes();
        assert!(
            !codes.contains(&"clocksource_not_kept"),
            "{name}: {codes:?}"
        );
    }
}

/// Symptom: the commands replaced one of two selections.
#[test]
fn two_selections_have_no_commands_that_replace_one() {
    let finding = good_machine()
        .command_line("clocksource=hpet clocksource=acpi_pm")
        .only("clocksource_not_kept");
    assert_eq!(finding.fix.steps(), None);
}

#[test]
fn a_guest_keeps_the_tsc_only_after_a_decision() {
    good_machine()
        .hypervisor("kvm")
        .command_line("clocksource=hpet")
        .only("clocksource_not_kept")
        .fix_begins("decide first whether the host ever suspends this guest");
}

/// A recorded file must not be able to inject commands.
#[test]
fn a_selection_with_other_characters_reaches_no_shell() {
    let finding = good_machine()
        .offers("tsc $(reboot)")
        .command_line("clocksource=$(reboot)")
        .only("clocksource_not_kept");
    assert_eq!(finding.fix.steps(), None);
}

#[test]
fn each_code_about_a_clocksource_has_a_machine() {
    assert_each_found(Code::ALL, |code| match code {
        Code::ClocksourceNotChosen => on("acpi_pm").offers("kvm-clock acpi_pm"),
        Code::ClocksourceSlow => on("timer").architecture("aarch64"),
        Code::ClocksourceUnknown => good_machine().clocksource_unreadable(),
        Code::HypervWithoutPage => on("hyperv_clocksource_msr").offers("hyperv_clocksource_msr"),
        Code::KvmClockUnstable => on("kvm-clock").offers("kvm-clock"),
        Code::ParavirtualClockDearer => good_machine()
            .clocksource("kvm-clock")
            .offers("kvm-clock tsc")
            .costs_ns(45.0),
        Code::VdsoOff => on("kvm-clock").command_line("no-kvmclock-vsyscall"),
        Code::VdsoUnused => on("tsc"),
        Code::XenClocksource => on("xen"),
    });
}

#[test]
fn each_code_about_the_next_start_has_a_machine() {
    assert_each_found(not_kept::Code::ALL, |code| match code {
        not_kept::Code::ClocksourceNotKept => good_machine().command_line("clocksource=hpet"),
    });
}

/// The old timer is slow even if the vDSO answers.
#[test]
fn the_oldest_timer_of_a_pc_is_slow() {
    good_machine().clocksource("pit").first("tsc_not_chosen");
}

/// Symptom: a router of MIPS was asked for an erratum of Arm, and for a device tree.
#[test]
fn other_architectures_get_no_words_of_arm() {
    for (architecture, clocksource) in [
        ("mips", "MIPS"),
        ("mips64", "GIC"),
        ("powerpc64", "timebase"),
        ("s390x", "tod"),
        ("loongarch64", "Constant"),
        ("mips", "jiffies"),
        ("sparc64", "hbtick"),
    ] {
        let machine = good_machine()
            .system_call_answers()
            .clocksource(clocksource)
            .offers(clocksource)
            .architecture(architecture)
            .log(&[]);
        for word in ["Arm", "erratum", "device tree", "ACPI"] {
            machine.clone().assert_no_fix_says(word);
        }
        machine.findings();
    }
}

#[test]
fn a_fix_with_the_commands_of_a_switch_names_its_clocksource() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    let finding = machine.offers("tsc hpet").first("tsc_not_chosen");
    assert!(finding.fix.steps().is_some());
    assert_eq!(finding.fix.clocksource(), Some("tsc"));
}
