//! The kernel has rejected the TSC. Its log says why.

mod parameters;
mod skew;
mod stopping_hpet;

use super::super::tsc::{Code, rejection_evidence};
use super::given::{assert_each_found, good_machine, machine_on_hpet_without_tsc};
use crate::document::Document;

const MARKED_FOR_SKEW: &str = "clocksource: timekeeping watchdog on CPU3: \
    Marking clocksource 'tsc' as unstable because the skew is too large:";

const READ_DELAY: &str = "clocksource: timekeeping watchdog on CPU227: wd-tsc-wd \
    excessive read-back delay of 153560ns vs. limit of 125000ns, \
    wd-wd read-back delay only 11440ns, attempt 3, marking tsc unstable";

/// The message after either of the above, or alone.
const MARKED_BY_WATCHDOG: &str = "tsc: Marking TSC unstable due to clocksource watchdog";

/// Checks the code, and that the evidence quotes the message.
#[track_caller]
fn assert_found(message: &str, code: &str) {
    let finding = machine_on_hpet_without_tsc().log(&[message]).first(code);
    finding
        .shows("available_clocksource has no tsc: hpet acpi_pm")
        .shows(message)
        .shows("the counters today: synchronised on 8 CPUs");
}

#[test]
fn unsynchronised_counters_are_a_warp() {
    for message in [
        "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.",
        "TSC warped randomly between CPUs",
        "tsc: Marking TSC unstable due to check_tsc_sync_source failed",
    ] {
        assert_found(message, "tsc_warp");
    }
}

#[test]
fn a_log_of_slow_reads_leads_to_tsc_watchdog_delay() {
    assert_found(
        "clocksource: timekeeping watchdog on CPU0: \
         hpet read-back delay of 162520ns, attempt 4, marking unstable",
        "tsc_watchdog_delay",
    );
}

#[test]
fn the_watchdog_may_give_no_reason() {
    assert_found(MARKED_BY_WATCHDOG, "tsc_watchdog");
}

#[test]
fn a_kernel_without_a_guarantee_says_so() {
    assert_found(
        "Marking TSC unstable due to: TSCs unsynchronized.",
        "tsc_unsynchronised",
    );
}

#[test]
fn a_tsc_that_halts_is_named_in_two_ways() {
    assert_found("Marking TSC unstable due to TSC halts in idle", "tsc_halts");
    assert_found(
        "Marking TSC unstable due to: possible TSC halt in C2.",
        "tsc_halts",
    );
}

#[test]
fn a_parameter_in_the_log_is_a_switch() {
    assert_found(
        "tsc: Marking TSC unstable due to boot parameter",
        "tsc_switched_off",
    );
}

#[test]
fn any_other_reason_is_quoted() {
    let machine = machine_on_hpet_without_tsc();
    let message = "Marking TSC unstable due to cpufreq changes";
    let finding = machine.log(&[message]).first("tsc_unstable");
    finding
        .shows(message)
        .says("it rejected the TSC: cpufreq changes");
}

#[test]
fn without_a_message_the_tsc_is_missing() {
    let finding = machine_on_hpet_without_tsc().log(&[]).first("tsc_missing");
    finding.shows("the kernel's log does not say why, or no longer does");
}

/// The evidence must not claim that the log says nothing.
#[test]
fn an_unreadable_log_is_unknown() {
    let finding = machine_on_hpet_without_tsc()
        .log_unreadable()
        .first("tsc_missing");
    finding
        .fix_begins("read why: sudo dmesg")
        .shows("the kernel's log, which says why, may not be read by this user");
}

#[test]
fn after_a_failed_measurement_the_tsc_may_be_good() {
    for hypervisor in ["none", "kvm"] {
        let finding = machine_on_hpet_without_tsc()
            .log(&[READ_DELAY, MARKED_BY_WATCHDOG])
            .hypervisor(hypervisor)
            .first("tsc_watchdog_delay");
        finding
            .fix_has("boot with tsc=nowatchdog")
            .fix_lacks("may be right");
    }
}

/// Symptom: a fix switched to a TSC that the kernel had rejected. If the tick is not in one-shot
/// mode, the kernel's list still names such a TSC.
#[test]
fn a_rejected_tsc_on_the_list_is_not_switched_to() {
    for (clocksource, list, code) in [
        ("hpet", "tsc hpet acpi_pm", "tsc_skew"),
        ("hpet", "hpet acpi_pm jiffies tsc", "tsc_skew"),
        ("kvm-clock", "kvm-clock tsc hpet", "kvm_clock_unstable"),
        ("xen", "xen tsc hpet", "xen_clocksource"),
    ] {
        let finding = good_machine()
            .system_call_answers()
            .clocksource(clocksource)
            .offers(list)
            .log(&[MARKED_FOR_SKEW, MARKED_BY_WATCHDOG])
            .first(code);
        finding
            .fix_lacks("echo tsc")
            .shows(MARKED_FOR_SKEW)
            .shows(MARKED_BY_WATCHDOG);
    }
    let finding = good_machine()
        .system_call_answers()
        .clocksource("hyperv_clocksource_msr")
        .offers("hyperv_clocksource_msr tsc")
        .log(&[MARKED_BY_WATCHDOG])
        .first("hyperv_without_page");
    finding.fix_lacks("echo tsc").shows(MARKED_BY_WATCHDOG);
}

/// The kernel puts a clocksource that it has marked unstable at the end of its list.
#[test]
fn the_place_on_the_list_shows_a_rejection_without_a_message() {
    let machine = |clocksource, list| {
        good_machine()
            .system_call_answers()
            .clocksource(clocksource)
            .offers(list)
    };
    let on_hpet = machine("hpet", "hpet acpi_pm jiffies tsc");
    for finding in [
        on_hpet.clone().log(&[]).first("tsc_unstable"),
        on_hpet.log_unreadable().first("tsc_unstable"),
        machine("kvm-clock", "kvm-clock hpet tsc")
            .log(&[])
            .first("kvm_clock_unstable"),
        machine("xen", "xen hpet tsc")
            .log(&[])
            .first("xen_clocksource"),
    ] {
        finding
            .fix_lacks("echo tsc")
            .shows("available_clocksource has tsc");
    }
}

#[test]
fn an_unreadable_log_must_be_read_before_a_switch() {
    let finding = good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .log_unreadable()
        .first("tsc_not_chosen");
    finding
        .fix_begins("check first that the kernel's log")
        .fix_has_in_order("sudo dmesg", "echo tsc");
}

/// Whatever leads the kernel to the TSC by a command has a check.
#[test]
fn no_command_leads_to_the_tsc_without_a_check() {
    let on_hpet = good_machine().system_call_answers().clocksource("hpet");
    let on = |clocksource: &str, list: &str| {
        let machine = good_machine().system_call_answers().hypervisor("xen");
        machine.clocksource(clocksource).offers(list)
    };
    for machine in [
        on_hpet.clone(),
        on_hpet.clone().log_unreadable(),
        on_hpet.command_line("clocksource=hpet"),
        machine_on_hpet_without_tsc().command_line("notsc"),
        machine_on_hpet_without_tsc().command_line("tsc=unstable"),
        on("xen", "xen tsc").cloud("ec2_xen"),
        on("acpi_pm", "tsc acpi_pm"),
    ] {
        let findings = machine.findings();
        let steps = findings.iter().filter_map(|finding| {
            let is_switch = finding.fix.clocksource() == Some("tsc");
            let leads_to_tsc = is_switch || finding.code == "tsc_switched_off";
            if leads_to_tsc {
                finding.fix.steps()
            } else {
                None
            }
        });
        let checks: Vec<_> = steps.map(|steps| steps.check.is_some()).collect();
        assert_eq!(checks, [true], "{findings:#?}");
    }
}

/// A TSC that is not invariant changes its rate with the processor's.
#[test]
fn the_doubts_about_a_varying_tsc_are_right() {
    for reason in [
        "cpufreq changes",
        "clocksource watchdog",
        "TSCs unsynchronized",
    ] {
        for hypervisor in ["none", "kvm", "tcg"] {
            machine_on_hpet_without_tsc()
                .tsc_not_invariant()
                .log(&[&format!("tsc: Marking TSC unstable due to {reason}")])
                .hypervisor(hypervisor)
                .assert_no_fix_says("tsc=reliable");
        }
    }
}

/// Symptom: a finding without a fix promised a gain. The evidence has the costs.
#[test]
fn without_a_fix_there_is_no_gain() {
    let machine = machine_on_hpet_without_tsc()
        .costs_ns(700.0)
        .tsc_not_invariant();
    let cpufreq = "tsc: Marking TSC unstable due to cpufreq changes";
    for (machine, code) in [
        (machine.clone().log(&[cpufreq]), "tsc_unstable"),
        (machine.clone().log(&[]), "tsc_missing"),
        (machine.log_unreadable(), "tsc_missing"),
    ] {
        machine
            .first(code)
            .has_no_fix()
            .shows("a call takes 700 ns");
    }
}

#[test]
fn a_trusted_tsc_gains_what_the_measured_costs_say() {
    let machine = machine_on_hpet_without_tsc().costs_ns(700.0);
    let unsynchronised = "tsc: Marking TSC unstable due to TSCs unsynchronized";
    let finding = machine.log(&[unsynchronised]).first("tsc_unsynchronised");
    finding.gains(35.0);
}

#[test]
fn a_warp_is_fixed_by_the_firmware_or_on_the_host() {
    let warp = "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.";
    let machine = machine_on_hpet_without_tsc().log(&[warp]);
    let finding = machine.clone().first("tsc_warp");
    finding.fix_begins("update the firmware (BIOS)");
    let finding = machine.hypervisor("kvm").first("tsc_warp");
    finding.fix_has_in_order(
        "on the host: compare its counters",
        "on the host: start QEMU",
    );
}

#[test]
fn a_tsc_that_halts_runs_if_the_processor_does_not_sleep_deeply() {
    let halts = "Marking TSC unstable due to TSC halts in idle";
    let finding = machine_on_hpet_without_tsc()
        .log(&[halts])
        .first("tsc_halts");
    finding.fix_has("processor.max_cstate=1 intel_idle.max_cstate=1");
}

/// The kernel concludes from a hidden bit of CPUID that the TSC halts. Symptom: a limit of the
/// guest's sleep states, which do not stop the host's TSC.
#[test]
fn in_a_guest_the_host_shows_that_the_tsc_does_not_halt() {
    let halts = "tsc: Marking TSC unstable due to TSC halts in idle";
    for (hypervisor, fix) in [
        ("bhyve", "on the host: let the hypervisor show"),
        ("kvm", "on the host: start QEMU"),
    ] {
        let machine = machine_on_hpet_without_tsc().log(&[halts]);
        let machine = machine.hypervisor(hypervisor).tsc_not_invariant();
        machine
            .first("tsc_halts")
            .fix_begins(fix)
            .fix_lacks("max_cstate");
    }
}

/// Symptom: `max_cstate=1`, but the chipset enters C1E from C1.
#[test]
fn a_tsc_that_halts_in_c1e_runs_if_the_firmware_switches_that_off() {
    let halts = "Marking TSC unstable due to TSC halt in AMD C1E";
    let finding = machine_on_hpet_without_tsc()
        .log(&[halts])
        .first("tsc_halts");
    finding
        .fix_begins("switch C1E off in the firmware's settings")
        .fix_lacks("max_cstate");
}

#[test]
fn each_code_about_the_tsc_has_a_machine() {
    let rejected = |reason: &str| {
        let message = format!("tsc: Marking TSC unstable due to {reason}");
        machine_on_hpet_without_tsc().log(&[&message])
    };
    assert_each_found(Code::ALL, |code| match code {
        Code::Halts => rejected("TSC halts in idle"),
        Code::Missing => machine_on_hpet_without_tsc(),
        Code::NotChosen => good_machine().system_call_answers().clocksource("hpet"),
        Code::Skew => {
            machine_on_hpet_without_tsc().log(&["Clocksource tsc unstable (delta = -201134949 ns)"])
        }
        Code::SwitchedOff => rejected("boot parameter"),
        Code::Unstable => rejected("cpufreq changes"),
        Code::Unsynchronised => rejected("TSCs unsynchronized"),
        Code::Warp => rejected("check_tsc_sync_source failed"),
        Code::Watchdog => rejected("clocksource watchdog"),
        Code::WatchdogDelay => machine_on_hpet_without_tsc()
            .log(&["hpet read-back delay of 162520ns, attempt 4, marking unstable"]),
    });
}

/// The kernel moves a TSC that it has marked unstable to the end of its list.
#[test]
fn without_a_message_the_end_of_the_list_is_evidence() {
    for (list, is_evidence) in [
        ("hpet acpi_pm tsc", true),
        ("hpet acpi_pm", false),
        ("tsc hpet acpi_pm", false),
    ] {
        let mut document = Document::default();
        document.machine.available_clocksources = Some(list.to_owned());
        let evidence = rejection_evidence(&document);
        assert_eq!(!evidence.is_empty(), is_evidence, "{list}");
    }
}

/// Symptom: a watchdog "for a reason that its log does not give", and `tsc=nowatchdog` for a warp.
#[test]
fn the_words_of_the_watchdog_since_linux_7_1_are_understood() {
    for message in [
        "clocksource: Marking clocksource tsc unstable due to inter CPU skew",
        "clocksource: CPU0       2188104120031 < CPU17       2188104121999 (cycles)",
    ] {
        assert_found(message, "tsc_warp");
        let machine = machine_on_hpet_without_tsc().log(&[message, MARKED_BY_WATCHDOG]);
        machine.first("tsc_warp").fix_begins("update the firmware");
    }
    for message in [
        "clocksource: Marking clocksource tsc unstable due to frequency skew",
        "clocksource: Marking clocksource tsc-early unstable due to frequency skew",
        "clocksource: Watchdog                    hpet interval:        499958332ns",
        "clocksource: Clocksource                  tsc interval:        500987654ns",
        "clocksource: Clocksource            tsc-early interval:        503987654ns",
    ] {
        assert_found(message, "tsc_skew");
    }
}

/// From Linux 7.1 the watchdog also compares the CPUs' counters. Symptom: "could not confirm the
/// TSC's rate", and `tsc=nowatchdog` for a steady rate, which counters that differ have, too.
#[test]
fn the_last_message_of_the_new_watchdog_may_stand_for_a_warp() {
    let found_unstable = "TSC found unstable after boot, most likely due to broken BIOS.";
    for (hypervisor, repair) in [("none", "firmware"), ("kvm", "on the host: compare")] {
        for message in [MARKED_BY_WATCHDOG, found_unstable] {
            let finding = machine_on_hpet_without_tsc()
                .log(&[message])
                .kernel("7.1.5")
                .hypervisor(hypervisor)
                .first("tsc_watchdog");
            finding
                .says("for its rate or for counters that differ")
                .fix_begins("compare the counters: `tickline warp`")
                .fix_has_in_order("if the kernel is right: ", repair)
                .fix_has_in_order(
                    "only if the counters are synchronised and the rate is steady: ",
                    "boot with tsc=nowatchdog",
                )
                .fix_has("and ends the one at run time");
        }
    }
}

/// The watchdog of an unknown kernel may be the new one.
#[test]
fn an_unknown_kernels_watchdog_is_not_ended_before_the_counters_are_compared() {
    let machine = machine_on_hpet_without_tsc().log(&[MARKED_BY_WATCHDOG]);
    let finding = machine.kernel("unknown").first("tsc_watchdog");
    finding
        .says("for its rate or for counters that differ")
        .fix_begins("compare the counters: `tickline warp`");
}

#[test]
fn a_timeout_of_the_new_watchdog_rejects_nothing() {
    let timeout = "clocksource: Watchdog remote CPU 3 read timed out";
    let machine = machine_on_hpet_without_tsc().log(&[timeout]);
    machine.first("tsc_missing");
}

/// A watchdog that finds a skew compares the CPUs afterwards (Linux 5.13 to 7.0).
#[test]
fn a_cpu_behind_another_says_more_than_the_skew_that_it_causes() {
    let behind = "clocksource:         CPUs 1 behind CPU 5 for clocksource tsc.";
    let machine = machine_on_hpet_without_tsc();
    let finding = machine
        .log(&[MARKED_FOR_SKEW, MARKED_BY_WATCHDOG, behind])
        .first("tsc_warp");
    finding.shows(behind).fix_begins("update the firmware");
}

/// Symptom: a kernel 4.4 was told first what only a kernel 5.2 knows.
#[test]
fn the_advice_is_for_the_kernel_that_is_named() {
    for (kernel, parameter, other) in [
        ("4.4.180+", "tsc=reliable", "nowatchdog"),
        ("5.2.0", "tsc=nowatchdog", "tsc=reliable"),
    ] {
        for message in [READ_DELAY, MARKED_FOR_SKEW] {
            let machine = machine_on_hpet_without_tsc().log(&[message]);
            let findings = machine.kernel(kernel).findings();
            findings[0].fix_has(parameter).fix_lacks(other);
        }
    }
    let machine = machine_on_hpet_without_tsc().log(&[READ_DELAY]);
    let finding = machine.kernel("unknown").first("tsc_watchdog_delay");
    finding.fix_has_in_order(
        "tsc=nowatchdog",
        "on an older kernel, boot with tsc=reliable",
    );
}

/// The messages before have been lost. Symptom: the TSC was missing, and `tsc=reliable` the fix.
#[test]
fn a_rejection_is_known_by_a_message_that_follows_from_it() {
    for message in [
        "TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.",
        "clocksource: Override clocksource tsc is unstable and not HRT compatible - \
         cannot switch while in HRT/NOHZ mode",
    ] {
        assert_found(message, "tsc_watchdog");
    }
}

#[test]
fn a_parameter_that_is_there_already_is_no_advice() {
    let missing = machine_on_hpet_without_tsc().log(&[]);
    let finding = missing.command_line("tsc=reliable").first("tsc_missing");
    finding.has_no_fix();
    let delayed = machine_on_hpet_without_tsc().log(&[READ_DELAY]);
    let finding = delayed
        .command_line("tsc=nowatchdog")
        .first("tsc_watchdog_delay");
    finding.has_no_fix();
    let skewed = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
    let finding = skewed.command_line("tsc=nowatchdog").first("tsc_skew");
    finding
        .fix_begins("run `tickline warp`")
        .fix_lacks("nowatchdog");
}
