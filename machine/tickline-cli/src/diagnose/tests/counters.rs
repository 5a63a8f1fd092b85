//! The counters of the CPUs: synchronised or not, trapped, at a plausible rate.

use super::super::counter::Code;
use super::given::{Given, assert_each_found, good_machine, machine_with_an_unsynchronised_pair};
use crate::document::questions::PLAUSIBLE_PPM;
use crate::document::{Explained, Severity};
use crate::words::grouped;

const CODE: &str = "counters_unsynchronised";

#[test]
fn no_fix_recommends_unsynchronised_counters() {
    for clocksource in ["hpet", "xen", "kvm-clock"] {
        let machine = good_machine()
            .system_call_answers()
            .counters_differ()
            .clocksource(clocksource);
        for machine in [
            machine.clone().offers("tsc hpet"),
            machine.clone().offers("hpet"),
            machine.offer_unreadable(),
        ] {
            machine.clone().finding(CODE);
            machine.clone().assert_no_fix_says("echo tsc");
            machine.assert_no_fix_says("tsc=reliable");
        }
    }
}

#[test]
fn an_unsynchronised_pair_is_found_though_the_clock_has_not_found_it() {
    let finding = machine_with_an_unsynchronised_pair().first(CODE);
    assert_eq!(finding.severity, Severity::Wrong);
    assert_eq!(
        finding.evidence,
        ["CPU 0 and CPU 2 are unsynchronised by at least 3900 ns (unsynchronised pairs: 1 of 2)"]
    );
}

#[test]
fn synchronised_pairs_are_no_finding() {
    let machine = machine_with_an_unsynchronised_pair().pairs_agree();
    assert_eq!(machine.codes(), [""; 0]);
}

#[test]
fn an_unsynchronised_pair_forbids_the_tsc_as_well() {
    for clocksource in ["hpet", "xen", "kvm-clock"] {
        let machine = machine_with_an_unsynchronised_pair()
            .system_call_answers()
            .clocksource(clocksource);
        machine.clone().finding(CODE);
        machine.assert_no_fix_says("echo tsc");
    }
}

#[test]
fn synchronised_pairs_of_all_cpus_admit_the_tsc() {
    let finding = machine_with_an_unsynchronised_pair()
        .pairs_agree()
        .system_call_answers()
        .clocksource("xen")
        .counters_not_compared()
        .first("xen_clocksource");
    finding.fix_has("echo tsc").fix_lacks("check first");
}

#[test]
fn a_kernel_that_was_told_to_trust_the_counters_has_not_compared_them() {
    let machine = good_machine()
        .counters_differ()
        .command_line("tsc=reliable");
    let finding = machine.first(CODE);
    assert_eq!(finding.severity, Severity::Wrong);
    finding
        .fix_begins("echo hpet | sudo tee")
        .shows("tsc=reliable");
}

/// Hyper-V's page uses the same counters. Without the parameter for the other timer, the kernel may
/// still choose the TSC.
#[test]
fn the_kernel_should_keep_time_with_another_timer() {
    let finding = good_machine()
        .counters_differ()
        .offers("tsc hyperv_clocksource_tsc_page hpet")
        .command_line("clocksource=tsc")
        .first(CODE);
    assert_eq!(finding.severity, Severity::Wrong);
    finding
        .fix_begins("echo hpet | ")
        .fix_has("boot with clocksource=hpet instead of `clocksource=tsc`");
}

#[test]
fn on_arm_the_kernel_should_keep_time_with_another_timer_as_well() {
    let machine = good_machine()
        .counters_differ()
        .clocksource("arch_sys_counter")
        .command_line("clocksource=arch_sys_counter");
    let finding = machine.clone().offers("arch_sys_counter timer").first(CODE);
    assert_eq!(finding.severity, Severity::Wrong);
    finding
        .fix_begins("echo timer | ")
        .fix_has("boot with clocksource=timer instead of `clocksource=arch_sys_counter`");

    let without_another = machine.offers("arch_sys_counter").first(CODE);
    assert_eq!(without_another.severity, Severity::Wrong);
    without_another.fix_lacks("echo");
}

/// In the vDSO, kvm-clock and xen use one CPU's parameters on all CPUs, so threads see time step
/// back. Symptom: the program reported no fault.
#[test]
fn a_hypervisors_clock_in_the_vdso_steps_back_with_the_counters() {
    for clocksource in ["kvm-clock", "xen"] {
        let finding = machine_with_an_unsynchronised_pair()
            .clocksource(clocksource)
            .offers(&format!("{clocksource} tsc acpi_pm"))
            .first(CODE);
        assert_eq!(finding.severity, Severity::Wrong);
        finding.fix_begins("echo acpi_pm");
    }
}

/// In a system call, the kernel uses each CPU's own parameters.
#[test]
fn a_hypervisors_clock_by_system_call_does_not_step_back() {
    for clocksource in ["kvm-clock", "xen"] {
        let finding = machine_with_an_unsynchronised_pair()
            .system_call_answers()
            .clocksource(clocksource)
            .offers(&format!("{clocksource} tsc acpi_pm"))
            .finding(CODE);
        assert_eq!(finding.severity, Severity::Note);
    }
}

/// Symptom: a finding without a fix promised a gain. The evidence has the costs.
#[test]
fn with_unsynchronised_counters_a_slow_clock_has_no_fix_and_no_gain() {
    for (clocksource, code) in [("hpet", "tsc_not_chosen"), ("xen", "xen_clocksource")] {
        let finding = good_machine()
            .system_call_answers()
            .counters_differ()
            .clocksource(clocksource)
            .costs_ns(700.0)
            .finding(code);
        assert_eq!(finding.severity, Severity::Slow);
        finding.has_no_fix().shows("a call takes 700 ns");
    }
}

/// Symptom: "use another type of instance", in a domain of Qubes OS.
#[test]
fn only_a_cloud_has_other_types_of_instances() {
    const OTHER_TYPE: &str = "use another type of instance";
    let machine = good_machine()
        .system_call_answers()
        .counters_differ()
        .clocksource("xen")
        .hypervisor("xen");
    let on_ec2 = machine.clone().cloud("ec2_xen");
    on_ec2.finding("xen_clocksource").fix_has(OTHER_TYPE);
    machine.clone().finding(CODE);
    let finding = machine.finding("xen_clocksource");
    finding.fix_lacks(OTHER_TYPE).fix_has(CODE);
}

/// Symptom: no machine could have the finding, because the rule compared the counter with a system
/// call that reads the same trapped counter.
#[test]
fn a_counter_that_takes_longer_than_a_system_call_is_trapped() {
    let finding = good_machine()
        .counter_costs_ns(1209.0, 1215.0)
        .costs_ns(1220.0)
        .first("counter_trapped");
    assert_eq!(finding.severity, Severity::Slow);
    finding.shows("1209 ns").shows("110 ns");
}

/// The kernel traps the counter because of an erratum, so TSC scaling does not help.
#[test]
fn on_arm_a_trapped_counter_is_an_erratum() {
    let finding = good_machine()
        .counter_costs_ns(1209.0, 1215.0)
        .costs_ns(1220.0)
        .counter_instruction("cntvct_el0")
        .first("counter_trapped");
    finding.fix_has("erratum").fix_lacks("TSC");
}

#[test]
fn on_riscv_the_firmware_traps_the_counter() {
    let finding = good_machine()
        .counter_costs_ns(700.0, 720.0)
        .costs_ns(750.0)
        .counter_instruction("rdtime")
        .architecture("riscv64")
        .clocksource("riscv_clocksource")
        .only("counter_trapped");
    finding.says("firmware").fix_lacks("TSC").has_no_fix();
}

#[test]
fn a_tsc_that_is_not_invariant_is_a_note() {
    let finding = good_machine()
        .tsc_not_invariant()
        .only("counter_not_invariant");
    assert_eq!(finding.severity, Severity::Note);
}

#[test]
fn a_measured_frequency_far_from_the_nominal_one_is_implausible() {
    for frequency_hz in [2_400_000_000, 2_628_600_000] {
        let machine = good_machine().with(|document| {
            document.clock.frequency_hz = Some(frequency_hz);
        });
        let finding = machine.only("frequency_implausible");
        assert_eq!(finding.severity, Severity::Unsure);
    }
}

#[test]
fn the_explanation_names_the_limit_of_a_plausible_frequency() {
    let limit = format!("differ by more than {} ppm", grouped(PLAUSIBLE_PPM));
    let text = Code::FrequencyImplausible.explanation().text;
    assert!(text.contains(&limit), "{text}");
}

/// Symptom: the sentence named the missing NTP daemon, which can't mend a wrong rate.
#[test]
fn the_sentence_names_a_wrong_rate_rather_than_a_missing_ntp_daemon() {
    let machine = good_machine()
        .with(|document| document.clock.frequency_hz = Some(2_400_000_000))
        .maximum_error_us(16_000_000);
    let codes = machine.clone().codes();
    assert_eq!(codes, ["frequency_implausible", "ntp_unsynchronised"]);
    let sentence = machine.sentence();
    assert!(sentence.contains("at a wrong rate"), "{sentence}");
}

/// Symptom: on hpet, the rate that the clocks would have with the TSC came first.
#[test]
fn a_missing_ntp_daemon_comes_before_the_rate_of_an_unused_counter() {
    let machine = machine_with_log(&PIT_DEVIATES).maximum_error_us(16_000_000);
    let codes = machine.codes();
    assert_eq!(
        codes[codes.len() - 2..],
        ["ntp_unsynchronised", "frequency_implausible"]
    );
}

/// Symptom: "restart the guest", on a guest whose processor states the host's frequency.
#[test]
fn the_frequency_that_the_processor_states_to_a_guest_is_that_of_the_host() {
    let host_hz = 5_600_000_000;
    let machine = good_machine().with(|document| {
        document.clock.nominal_frequency_hz = Some(host_hz);
        document.machine.cpuid.as_mut().unwrap().leaf_15h_hz = Some(host_hz);
    });
    machine.clone().only("frequency_implausible");
    let guest = machine.hypervisor("kvm");
    assert_eq!(guest.clone().codes(), [""; 0]);
    let stated = guest.with(|document| {
        document.machine.cpuid.as_mut().unwrap().hypervisor_khz = Some(5_600_000);
    });
    stated.only("frequency_implausible");
}

/// An older program had recorded the host's leaf 15h. Symptom: a wrong frequency, though the
/// hypervisor states the one that was measured.
#[test]
fn the_frequency_that_the_hypervisor_states_comes_before_the_recorded_one() {
    let machine = good_machine().hypervisor("kvm").with(|document| {
        document.clock.nominal_frequency_hz = Some(5_600_000_000);
        document.machine.cpuid.as_mut().unwrap().hypervisor_khz = Some(2_596_000);
    });
    assert_eq!(machine.codes(), [""; 0]);
}

/// What the kernel of a guest logged whose virtual timer ran at another rate than its hpet.
const PIT_DEVIATES: [&str; 3] = [
    "tsc: PIT calibration deviates from HPET: 886584 2596140",
    "tsc: Using PIT calibration value",
    "tsc: Detected 886.584 MHz processor",
];

/// A machine on a slow clocksource, with this log. It offers the TSC.
fn machine_with_log(messages: &[&str]) -> Given {
    good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .command_line("quiet clocksource=hpet")
        .costs_ns(1_026.0)
        .with(|document| document.clock.nominal_frequency_hz = None)
        .log(messages)
}

/// Symptom: `--fix` switched to the TSC, and the clock then ran 2.9 times as fast.
#[test]
fn a_tsc_whose_frequency_the_kernel_has_wrong_is_not_offered() {
    let machine = machine_with_log(&PIT_DEVIATES);
    let finding = machine.clone().first("tsc_not_chosen");
    finding.has_no_fix().has_no_gain();
    finding
        .fix_has("886.584000 MHz")
        .fix_has("2,596.120122 MHz");
    let finding = machine.finding("frequency_implausible");
    finding.shows("886.584000 MHz").shows("2,596.120122 MHz");
}

#[test]
fn the_kernels_last_word_on_the_frequency_counts() {
    let processor = "tsc: Detected 886.584 MHz processor";
    let tsc = "tsc: Detected 2596.000 MHz TSC";
    let refined = "tsc: Refined TSC clocksource calibration: 2596.121 MHz";
    for log in [&[processor, tsc][..], &[processor, refined], &[tsc]] {
        let finding = machine_with_log(log).only("tsc_not_chosen");
        finding.fix_begins("echo tsc");
    }
    let wrong = "tsc: Refined TSC clocksource calibration: 2500.000 MHz";
    let finding = machine_with_log(&[tsc, wrong]).first("tsc_not_chosen");
    finding.has_no_fix();
}

#[test]
fn a_frequency_measured_by_the_timer_tick_does_not_speak_against_the_tsc() {
    for name in ["jiffies", "refined-jiffies"] {
        let machine = machine_with_log(&PIT_DEVIATES).clocksource(name);
        machine.finding("tsc_not_chosen").fix_begins("echo tsc");
    }
}

/// 5,000 ppm of 2,609 MHz are 13.045 MHz.
#[test]
fn a_frequency_in_the_log_within_5000_ppm_is_plausible() {
    let near = machine_with_log(&["tsc: Detected 2609.000 MHz processor"]);
    near.only("tsc_not_chosen");
    let far = machine_with_log(&["tsc: Detected 2609.200 MHz processor"]);
    far.finding("frequency_implausible");
}

/// Their log may have the processor's frequency alone, where the TSC's is another.
#[test]
fn kernels_before_4_15_log_the_processors_frequency() {
    let machine = machine_with_log(&["tsc: Detected 2500.000 MHz processor"]);
    machine.clone().kernel("4.14.0").only("tsc_not_chosen");
    machine.kernel("4.15.0").finding("frequency_implausible");
}

/// Symptom: "FAST", and an advice to keep tsc, on a guest whose clock ran 2.9 times as fast.
#[test]
fn on_the_tsc_a_calibration_that_the_kernel_passed_over_is_shown() {
    let machine = good_machine()
        .command_line("clocksource=hpet")
        .offers("tsc hpet")
        .log(&PIT_DEVIATES)
        .with(|document| {
            document.clock.nominal_frequency_hz = None;
            document.clock.frequency_hz = Some(886_584_022);
        });
    let finding = machine.clone().only("frequency_implausible");
    finding.shows("2,596.140000 MHz").shows("886.584022 MHz");
    // A later calibration, and a frequency that the hypervisor names, settle the doubt.
    let mut refined = PIT_DEVIATES.to_vec();
    refined.push("tsc: Refined TSC clocksource calibration: 886.585 MHz");
    machine.clone().log(&refined).only("clocksource_not_kept");
    let named = machine.with(|document| document.clock.nominal_frequency_hz = Some(886_000_000));
    named.only("clocksource_not_kept");
}

#[test]
fn writes_by_the_firmware_are_counted() {
    let message = "[Firmware Bug]: TSC ADJUST: CPU0: -149457080076105 force to 0";
    let finding = good_machine().log(&[message]).only("firmware_writes_tsc");
    finding.says("1 times").shows(message);
}

#[test]
fn the_result_of_the_clocks_comparison_is_shown() {
    let words = "CPU 0 and CPU 1 are unsynchronised by at least 5000 ticks";
    let machine = good_machine().counters_differ();
    let told = machine
        .clone()
        .with(|document| document.machine.counters = words.to_owned());
    told.first(CODE).shows(words);
    let silent = machine.with(|document| document.machine.counters.clear());
    silent
        .first(CODE)
        .shows("a comparison of the CPUs' counters");
}

#[test]
fn the_worst_of_the_unsynchronised_pairs_is_shown() {
    let machine = machine_with_an_unsynchronised_pair().with(|document| {
        let pair = &mut document.warp.as_mut().expect("a comparison").pairs[0];
        pair.synchronised = Some(false);
        pair.largest_warp_ns = 20.0;
    });
    let finding = machine.first(CODE);
    finding.shows(
        "CPU 0 and CPU 2 are unsynchronised by at least 3900 ns (unsynchronised pairs: 2 of 2)",
    );
}

#[test]
fn synchronised_pairs_of_some_cpus_do_not_admit_the_tsc() {
    let finding = machine_with_an_unsynchronised_pair()
        .pairs_agree()
        .system_call_answers()
        .clocksource("xen")
        .counters_not_compared()
        .with(|document| document.machine.online_cpus = Some("0-3".to_owned()))
        .first("xen_clocksource");
    finding.fix_has("check first that `tickline warp` finds the counters synchronised");
}

#[test]
fn each_code_about_counters_has_a_machine() {
    assert_each_found(Code::ALL, |code| match code {
        Code::CounterNotInvariant => good_machine().tsc_not_invariant(),
        Code::CounterTrapped => good_machine().counter_costs_ns(1209.0, 1215.0),
        Code::CountersUnsynchronised => good_machine().counters_differ(),
        Code::FirmwareWritesTsc => good_machine().log(&["[Firmware Bug]: TSC ADJUST: CPU0: -1"]),
        Code::FrequencyImplausible => good_machine().with(|document| {
            document.clock.frequency_hz = Some(2_400_000_000);
        }),
    });
}

/// Up to 5,000 ppm the correction does not explain a difference that is larger.
#[test]
fn a_slew_hides_a_wrong_frequency_only_above_5000_ppm() {
    let with_tick = |tick_us| {
        let machine = good_machine().with(|document| {
            document.clock.nominal_frequency_hz = Some(2_000_000_000);
            document.clock.frequency_hz = Some(2_200_000_000);
        });
        machine.ntp(|ntp| {
            ntp.tick_us = tick_us;
            ntp.frequency_ppb = 0;
        })
    };
    with_tick(10_050).finding("frequency_implausible");
    let codes = with_tick(10_051).codes();
    assert!(!codes.contains(&"frequency_implausible"), "{codes:?}");
}
