//! Guests of hypervisors: the fix names a setting of the host.

use super::given::{good_machine, guest_on, guest_without_tsc, machine_on_hpet_without_tsc};
use crate::document::{Place, Severity};

const QEMU_FIX: &str = "QEMU with -cpu host,+invtsc";
const UNLESS_QEMU: &str = "Firecracker, a cloud's own";

#[test]
fn each_hypervisor_has_its_setting() {
    for (hypervisor, setting) in [
        ("virtualbox", "VBoxManage"),
        ("vmware", ".vmx"),
        ("kvm", QEMU_FIX),
        ("tcg", "-accel kvm"),
        ("xen", "tsc_mode"),
        ("hyper_v", "invariant TSC"),
        ("firecracker", "use tsc as its own clocksource"),
        ("none", "tsc=reliable"),
    ] {
        let finding = guest_without_tsc(hypervisor).first("tsc_missing");
        finding.fix_has(setting);
    }
}

#[test]
fn the_commands_for_virtualbox_run_on_the_host() {
    let finding = guest_without_tsc("virtualbox").first("tsc_missing");
    assert_eq!(finding.place(), Some(Place::Host));
}

#[test]
fn unsynchronised_counters_of_a_guest_are_fixed_on_the_host() {
    let machine = good_machine().counters_differ().hypervisor("virtualbox");
    let finding = machine.offers("tsc").first("counters_unsynchronised");
    finding.fix_has("VBoxManage");
    assert_eq!(finding.place(), Some(Place::Host));
}

#[test]
fn a_guest_with_another_timer_uses_it_until_the_host_is_fixed() {
    let machine = good_machine().counters_differ().hypervisor("virtualbox");
    let finding = machine.first("counters_unsynchronised");
    finding.fix_begins("echo hpet").fix_has("VBoxManage");
    assert_eq!(finding.place(), Some(Place::Here));
}

/// Both settings let the guest read the host's own counter, and a move changes the host.
#[test]
fn a_setting_for_machines_that_stay_on_their_host_says_so() {
    for hypervisor in ["xen", "vmware"] {
        let trapped = good_machine().hypervisor(hypervisor).with(|document| {
            document.costs[0].cost_ns = Some(1209.0);
        });
        for finding in [
            trapped.first("counter_trapped"),
            guest_without_tsc(hypervisor).first("tsc_missing"),
        ] {
            finding
                .fix_has("rate and value change when")
                .fix_has("only for");
        }
    }
}

#[test]
fn a_guest_of_qemu_is_not_told_that_it_may_not_be_qemu() {
    for (clocksource, code) in [("hpet", "tsc_missing"), ("kvm-clock", "kvm_clock_unstable")] {
        let finding = guest_on(clocksource)
            .offers(clocksource)
            .hypervisor("kvm")
            .product("QEMU Standard PC (Q35 + ICH9, 2009)")
            .first(code);
        finding.fix_has(QEMU_FIX).fix_lacks(UNLESS_QEMU);
    }
}

/// Symptom: customers of clouds that leave QEMU's name in the firmware were told to start QEMU with
/// other options, and nothing else.
#[test]
fn a_guest_of_qemu_may_be_a_customers() {
    for (clocksource, code) in [("hpet", "tsc_missing"), ("kvm-clock", "kvm_clock_unstable")] {
        guest_on(clocksource)
            .offers(clocksource)
            .hypervisor("kvm")
            .product("QEMU Standard PC (i440FX + PIIX, 1996)")
            .first(code)
            .fix_has_in_order(QEMU_FIX, "if the host is not yours, ask its provider");
    }
}

/// Symptom: `-accel kvm` alone, on Apple silicon and for a container that Docker emulates. KVM runs
/// no x86 guest on Arm.
#[test]
fn an_emulated_machine_may_have_a_host_of_another_processor() {
    guest_without_tsc("tcg")
        .first("tsc_missing")
        .fix_has_in_order(
            "-accel kvm",
            "if the host's processor is not x86 (Apple silicon",
        );
}

/// Symptom: a user who may not read the kernel's log, which names Firecracker, got the fix for
/// QEMU.
#[test]
fn any_other_guest_of_kvm_is_told_that_it_may_not_be_qemu() {
    for (clocksource, code) in [("hpet", "tsc_missing"), ("kvm-clock", "kvm_clock_unstable")] {
        let machine = guest_on(clocksource).offers(clocksource).hypervisor("kvm");
        for machine in [machine.clone(), machine.product("a cloud")] {
            machine.first(code).fix_has(QEMU_FIX).fix_has(UNLESS_QEMU);
        }
    }
}

#[test]
fn firecracker_does_not_get_the_fix_for_qemu() {
    let machine = guest_on("kvm-clock").offers("kvm-clock");
    let finding = machine
        .hypervisor("firecracker")
        .first("kvm_clock_unstable");
    finding.fix_lacks("QEMU");
}

#[test]
fn kvm_clock_without_the_vdso_is_fixed_on_the_host() {
    let machine = guest_on("kvm-clock").offers("kvm-clock");
    let finding = machine.first("kvm_clock_unstable");
    finding.fix_has("on the host");
}

#[test]
fn kvm_clock_outside_of_a_vdso_in_use_lacks_the_stable_bit() {
    let finding = guest_on("kvm-clock").first("kvm_clock_unstable");
    finding
        .says("PVCLOCK_TSC_STABLE_BIT")
        .fix_has("echo tsc")
        .shows("MONOTONIC_COARSE");
}

/// Symptom: the host was not looked at, though `explain kvm_clock_unstable` asks for it first.
#[test]
fn a_guest_leaves_kvm_clock_for_the_tsc_only_after_a_look_at_its_host() {
    let on_kvm_clock = guest_on("kvm-clock").counters_not_compared();
    let finding = on_kvm_clock.clone().first("kvm_clock_unstable");
    finding.fix_has_in_order("the host's kernel keeps time with tsc", "echo tsc");
    let in_cloud = on_kvm_clock.cloud("google").first("kvm_clock_unstable");
    in_cloud.fix_lacks("the host's kernel keeps time");
}

#[test]
fn if_the_use_of_the_vdso_is_unknown_the_stable_bit_is_too() {
    let machine = guest_on("kvm-clock").coarse_answered_by(None);
    let finding = machine.first("kvm_clock_unstable");
    finding.does_not_say("STABLE_BIT");
}

/// Symptom: the finding blamed the host for a limit of 32-bit kernels.
#[test]
fn the_host_is_not_blamed_for_a_limit_of_32_bit_kernels() {
    let machine = guest_on("kvm-clock").architecture("x86");
    let finding = machine.first("kvm_clock_unstable");
    finding.does_not_say("STABLE_BIT");
}

/// Symptom: the finding blamed the host for the guest's command line.
#[test]
fn a_parameter_of_the_guest_keeps_kvm_clock_from_the_vdso() {
    let machine = guest_on("kvm-clock").command_line("quiet no-kvmclock-vsyscall");
    let finding = machine.first("vdso_off");
    finding.fix_begins("take `no-kvmclock-vsyscall` off the kernel's command line");
}

/// The kernel accepts a TSC that may change its rate with the processor's.
#[test]
fn a_guest_may_use_a_varying_tsc_only_on_a_host_that_is_known() {
    for clocksource in ["hpet", "kvm-clock", "xen", "hyperv_clocksource_msr"] {
        for hypervisor in ["kvm", "xen", "hyper_v"] {
            let findings = guest_on(clocksource)
                .offers(&format!("tsc {clocksource}"))
                .tsc_not_invariant()
                .hypervisor(hypervisor)
                .findings();
            assert_eq!(findings[0].severity, Severity::Slow);
            findings[0].fix_begins("on the host: ").fix_has_in_order(
                "or, as CPUID does not call the TSC invariant, only where",
                "echo tsc",
            );
        }
    }
}

#[test]
fn without_a_host_a_varying_tsc_is_not_used() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    let finding = machine.tsc_not_invariant().first("tsc_not_chosen");
    assert_eq!(finding.severity, Severity::Slow);
    finding.has_no_fix().fix_lacks("echo tsc");
}

/// The host's clock shows that there is a host, though no fact names it.
#[test]
fn a_host_without_a_name_is_asked_for_an_invariant_tsc_before_a_varying_one_is_used() {
    for clocksource in ["kvm-clock", "xen", "hyperv_clocksource_msr"] {
        let findings = guest_on(clocksource)
            .offers(&format!("tsc {clocksource}"))
            .tsc_not_invariant()
            .findings();
        assert_eq!(findings[0].severity, Severity::Slow);
        findings[0]
            .fix_begins("on the host: let the hypervisor show")
            .fix_has_in_order(
                "or, as CPUID does not call the TSC invariant, only where",
                "echo tsc",
            );
    }
}

/// How the sentence begins that says what the host may do to a guest on tsc.
pub(super) const DECIDE: &str = "decide first whether the host ever suspends this guest, saves and restores \
    it, starts it from a snapshot, or migrates it";

const FIND_SYNCHRONISED: &str = "that `tickline warp` finds the counters synchronised";

#[test]
fn after_a_comparison_of_all_cpus_a_guest_may_switch_at_once() {
    for clocksource in ["kvm-clock", "xen"] {
        let findings = guest_on(clocksource).findings();
        findings[0]
            .fix_has_in_order(DECIDE, "if it does none of these: echo tsc")
            .fix_lacks(FIND_SYNCHRONISED);
    }
}

#[test]
fn without_a_comparison_a_guest_must_compare_the_counters_first() {
    for clocksource in ["kvm-clock", "xen"] {
        let findings = guest_on(clocksource).counters_not_compared().findings();
        findings[0].fix_has_in_order(FIND_SYNCHRONISED, "echo tsc");
    }
}

/// Symptom: the fix switched the clock of 64 CPUs after a comparison of 8 CPUs.
#[test]
fn a_comparison_of_some_cpus_is_not_enough() {
    let machine = guest_on("kvm-clock").with(|document| {
        document.machine.online_cpus = Some("0-63".to_owned());
    });
    let finding = machine.first("kvm_clock_unstable");
    finding.fix_has_in_order(FIND_SYNCHRONISED, "echo tsc");
}

/// The kernel itself has compared the counters where it offers the TSC on bare metal.
#[test]
fn a_machine_on_hpet_needs_no_comparison() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    let finding = machine.counters_not_compared().first("tsc_not_chosen");
    finding.fix_begins("echo tsc");
}

#[test]
fn with_an_unreadable_list_a_guest_of_xen_reads_it_first() {
    let machine = guest_on("xen").offer_unreadable().log_unreadable();
    let finding = machine.first("xen_clocksource");
    finding
        .fix_begins("see what it would accept")
        .fix_lacks("tsc=reliable");
}

#[test]
fn a_guest_of_xen_without_tsc_on_offer_may_trust_it_by_parameter() {
    let finding = guest_on("xen")
        .offers("xen")
        .log(&[])
        .first("xen_clocksource");
    finding.fix_has("tsc=reliable");
}

#[test]
fn a_guest_of_hyperv_may_use_a_tsc_on_offer() {
    let machine = guest_on("hyperv_clocksource_msr").offers("tsc hyperv_clocksource_msr");
    let finding = machine.first("hyperv_without_page");
    finding.fix_has_in_order(DECIDE, "echo tsc");
}

#[test]
fn the_switch_from_xens_clock_to_the_tsc_has_a_gain() {
    let finding = guest_on("xen").costs_ns(700.0).first("xen_clocksource");
    finding.gains(35.0);
}

/// The host fixes kvm-clock, whose cost was not measured.
#[test]
fn a_fixed_kvm_clock_has_no_measured_gain() {
    let machine = guest_on("kvm-clock").offers("kvm-clock");
    let finding = machine.costs_ns(700.0).first("kvm_clock_unstable");
    finding.has_no_gain();
}

#[test]
fn a_trapped_counter_is_fixed_by_a_setting_of_the_hypervisor() {
    let trapped = good_machine().with(|document| document.costs[0].cost_ns = Some(1209.0));
    for (hypervisor, setting) in [
        ("virtualbox", "VBoxInternal/TM/TSCMode RealTSCOffset"),
        ("kvm", "tsc_scaling"),
        ("none", "tsc_scaling"),
    ] {
        let machine = trapped.clone().hypervisor(hypervisor);
        let finding = machine.first("counter_trapped");
        finding.fix_has(setting).fix_lacks("modifyvm");
    }
}

#[test]
fn an_unknown_hypervisor_is_asked_for_an_invariant_tsc() {
    let machine = good_machine().tsc_not_invariant().with(|document| {
        let cpuid = document.machine.cpuid.as_mut().expect("CPUID");
        cpuid.hypervisor = Some(true);
    });
    let finding = machine.only("counter_not_invariant");
    finding.fix_begins("on the host: let the hypervisor show");
}

/// The condition for a varying TSC contains the comparison of the counters.
#[test]
fn the_comparison_for_a_varying_tsc_is_asked_for_once() {
    let finding = guest_on("kvm-clock")
        .offers("tsc kvm-clock")
        .tsc_not_invariant()
        .hypervisor("kvm")
        .counters_not_compared()
        .first("kvm_clock_unstable");
    finding.fix_lacks("check first").fix_has("echo tsc");
}

/// Symptom: the fix switched guests of Xen and Firecracker to tsc. After a suspend or the restore
/// of a snapshot they had the old time, or did not resume.
#[test]
fn a_switch_from_the_hosts_clock_says_what_the_host_may_do_and_has_no_commands() {
    for clocksource in ["kvm-clock", "xen", "hyperv_clocksource_msr"] {
        let findings = guest_on(clocksource)
            .offers(&format!("tsc {clocksource}"))
            .findings();
        findings[0].fix_begins(DECIDE).fix_has("echo tsc");
        assert_eq!(findings[0].place(), None, "{clocksource}");
    }
}

/// The emulated timers survive what the TSC does not.
#[test]
fn a_switch_from_an_emulated_timer_says_so_too_and_doctor_fix_repeats_it() {
    for (hypervisor, by_cpuid) in [("kvm", None), ("bhyve", None), ("none", Some(true))] {
        let machine = guest_on("acpi_pm").offers("acpi_pm tsc").log(&[]);
        let finding = machine
            .offers("tsc acpi_pm")
            .hypervisor(hypervisor)
            .hypervisor_by_cpuid(by_cpuid)
            .first("tsc_not_chosen");
        finding.fix_begins(DECIDE);
        let steps = finding.fix.steps().expect("commands");
        assert!(
            steps
                .caution
                .as_ref()
                .is_some_and(|text| text.starts_with(DECIDE))
        );
    }
}

#[test]
fn a_parameter_that_leads_to_the_tsc_says_what_the_host_may_do() {
    let machine = guest_without_tsc("kvm").command_line("notsc");
    machine.first("tsc_switched_off").fix_begins(DECIDE);
    let machine = guest_without_tsc("bhyve").first("tsc_missing");
    machine.fix_has_in_order(DECIDE, "tsc=reliable");
    let delay = "hpet read-back delay of 162520ns, attempt 4, marking unstable";
    let machine = guest_without_tsc("kvm").log(&[delay]);
    let finding = machine.first("tsc_watchdog_delay");
    finding.fix_has_in_order(DECIDE, "tsc=nowatchdog");
}

/// Symptom: guests of Hyper-V, VMware and Google were told to stay off the TSC because it "runs at
/// another rate, or does not resume", which only guests of Xen and Firecracker were seen to do.
#[test]
fn a_guest_whose_host_keeps_the_counters_rate_hears_of_the_old_time_alone() {
    let slow = guest_on("acpi_pm").offers("tsc acpi_pm");
    for (machine, host) in [
        (
            slow.clone().hypervisor("hyper_v"),
            "Hyper-V keeps the counter's rate",
        ),
        (
            slow.clone().hypervisor("hyper_v").cloud("azure"),
            "Hyper-V keeps the counter's rate",
        ),
        (
            slow.clone().hypervisor("vmware"),
            "VMware keeps the counter's rate",
        ),
        (
            slow.hypervisor("kvm").cloud("google"),
            "Google does not say what becomes of the counter",
        ),
    ] {
        let finding = machine.first("tsc_not_chosen");
        finding
            .fix_begins(DECIDE)
            .fix_has(host)
            .fix_has_in_order(
                "may then keep the old time",
                "or that does no harm: echo tsc",
            )
            .fix_lacks("does not resume");
    }
}

/// Hyper-V offers an invariant TSC only where the processor can scale the counter.
#[test]
fn a_guest_of_hyperv_without_an_invariant_tsc_has_no_promise_about_its_rate() {
    let slow = guest_on("acpi_pm").offers("tsc acpi_pm");
    let varying = slow.hypervisor("hyper_v").tsc_not_invariant();
    let finding = varying.first("tsc_not_chosen");
    finding.fix_lacks("keeps the counter's rate");
}

/// Symptom: a switch with commands, where the list alone showed a guest.
#[test]
fn a_guest_that_its_list_shows_decides_first() {
    let finding = guest_on("hpet")
        .offers("kvm-clock tsc hpet acpi_pm")
        .with(|document| document.machine.hypervisor = None)
        .first("tsc_not_chosen");
    finding.fix_begins(DECIDE);
}

#[test]
fn a_machine_that_may_be_a_guest_decides_first_if_it_is_one() {
    let finding = guest_on("acpi_pm")
        .offers("tsc acpi_pm")
        .with(|document| document.machine.hypervisor = None)
        .first("tsc_not_chosen");
    let condition = "if this machine is a guest, decide first";
    finding
        .fix_begins(condition)
        .fix_has("if there is no host, or it does none of these: echo tsc");
    let steps = finding.fix.steps().expect("commands");
    let caution = steps.caution.as_ref().expect("a caution");
    assert!(caution.starts_with(condition), "{caution}");
}

#[test]
fn bare_metal_has_nothing_to_decide() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    let finding = machine
        .hypervisor_by_cpuid(Some(false))
        .first("tsc_not_chosen");
    finding.fix_begins("echo tsc").fix_lacks("decide first");
    assert_eq!(finding.fix.steps().expect("commands").caution, None);
}

/// Symptom: guests of bhyve, Parallels, gVisor and of unknown hypervisors got a BIOS update.
#[test]
fn firmware_is_a_fix_on_bare_metal_only() {
    let skew = "Clocksource tsc unstable (delta = -201134949 ns)";
    let warp = "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.";
    let write = "[Firmware Bug]: TSC ADJUST: CPU0: -5 force to 0";
    for (hypervisor, by_cpuid) in [
        (Some("bhyve"), None),
        (Some("parallels"), Some(true)),
        (Some("gvisor"), Some(true)),
        (Some("other"), Some(true)),
        (Some("of a later version"), None),
        (Some("none"), Some(true)),
        (None, Some(true)),
    ] {
        let machine = machine_on_hpet_without_tsc()
            .with(|document| {
                document.machine.hypervisor =
                    hypervisor.map(|code| serde_json::from_value(code.into()).unwrap());
            })
            .hypervisor_by_cpuid(by_cpuid);
        for machine in [
            machine.clone().log(&[skew]),
            machine.clone().log(&[warp]),
            machine.clone().log(&[write]),
            machine.clone().log(&[]).counters_differ(),
            machine.counters_differ().clocksource("tsc"),
        ] {
            machine.assert_no_fix_says("BIOS");
        }
    }
}

#[test]
fn if_it_is_unknown_whether_there_is_a_host_the_fix_names_both() {
    let warp = "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.";
    let machine = machine_on_hpet_without_tsc().log(&[warp]);
    let finding = machine
        .with(|document| document.machine.hypervisor = None)
        .first("tsc_warp");
    finding.fix_has_in_order(
        "on bare metal: update the firmware",
        "in a guest: on the host",
    );
}

/// Xen's dom0 may update its firmware, and looks like a guest. Symptom: the fix for a guest alone.
#[test]
fn a_domain_of_xen_without_a_product_gets_the_fix_for_dom0_as_well() {
    let finding = good_machine()
        .counters_differ()
        .clocksource("xen")
        .offers("xen tsc")
        .hypervisor_by_cpuid(Some(false))
        .log(&["[    0.000000] Hypervisor detected: Xen PV"])
        .first("counters_unsynchronised");
    finding.fix_has_in_order(
        "on bare metal: update the firmware",
        "in a guest: on the host",
    );
}

/// Symptom: `tsc=reliable` after a warp, where the fix for the host was known.
#[test]
fn a_warp_is_overridden_on_no_host() {
    for hypervisor in [
        "none",
        "kvm",
        "xen",
        "vmware",
        "virtualbox",
        "hyper_v",
        "bhyve",
        "other",
    ] {
        for message in [
            "Measured 381 cycles TSC warp between CPUs, turning off TSC clock.",
            "tsc: Marking TSC unstable due to check_tsc_sync_source failed",
            "tsc: Marking TSC unstable due to KVM discovered backwards TSC",
            "clocksource: Marking clocksource tsc unstable due to inter CPU skew",
            "clocksource:         CPUs 1 behind CPU 5 for clocksource tsc.",
        ] {
            for clocksource in ["acpi_pm", "kvm-clock", "xen"] {
                let machine = guest_on(clocksource)
                    .offers(clocksource)
                    .hypervisor(hypervisor)
                    .log(&[message]);
                machine.clone().assert_no_fix_says("tsc=reliable");
                machine.clone().assert_no_fix_says("nowatchdog");
                machine.assert_no_fix_says("echo tsc");
            }
        }
    }
}

/// kvm-clock is computed from the same counters.
#[test]
fn for_unsynchronised_counters_a_clock_computed_from_them_is_no_cure() {
    let machine = good_machine().counters_differ().hypervisor("kvm");
    let finding = machine
        .offers("tsc kvm-clock acpi_pm")
        .first("counters_unsynchronised");
    finding.fix_begins("echo acpi_pm");
}

/// A hypervisor may hide from CPUID, but its firmware has a name.
#[test]
fn a_product_of_a_hypervisor_is_a_guest() {
    let warp = "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.";
    let machine = machine_on_hpet_without_tsc().log(&[warp]);
    machine
        .clone()
        .product("Dell Inc. PowerEdge R640")
        .first("tsc_warp")
        .fix_has("BIOS");
    machine
        .product("QEMU Standard PC (Q35 + ICH9, 2009)")
        .assert_no_fix_says("BIOS");
}
