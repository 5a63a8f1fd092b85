//! No fix makes time worse, contradicts its evidence, or is for another system than the machine's.

use super::given::{Given, good_machine, machine_on_hpet_without_tsc};
use crate::machine::NtpDaemon;

const WARP: &str = "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.";

const COFFEE_LAKE: &str = "Intel(R) Core(TM) i7-8565U CPU @ 1.80GHz";

/// A machine that keeps time with counters that differ.
fn unsynchronised() -> Given {
    good_machine().counters_differ()
}

/// Symptom: "echo hpet", on processors whose hpet stops in deep idle states.
#[test]
fn counters_that_differ_do_not_lead_to_an_hpet_that_stops() {
    let machine = unsynchronised().cpu(COFFEE_LAKE).kernel("5.3.0");
    let finding = machine
        .clone()
        .offers("tsc hpet acpi_pm")
        .first("counters_unsynchronised");
    finding.fix_begins("echo acpi_pm");
    machine.offers("tsc hpet").assert_no_fix_says("echo");
}

/// Time by the timer tick stands still for milliseconds.
#[test]
fn counters_that_differ_do_not_lead_to_the_timer_tick() {
    for list in ["tsc jiffies", "tsc refined-jiffies"] {
        unsynchronised().offers(list).assert_no_fix_says("echo");
    }
}

/// Symptom: settings that let the guest trust the TSC were the fix for counters that differ. They
/// help only if those of the host agree.
#[test]
fn a_guest_whose_counters_differ_gets_no_trust_before_the_hosts_are_compared() {
    for hypervisor in [
        "kvm",
        "xen",
        "vmware",
        "virtualbox",
        "hyper_v",
        "firecracker",
    ] {
        let warp = machine_on_hpet_without_tsc()
            .log(&[WARP])
            .hypervisor(hypervisor);
        let differ = unsynchronised().offers("tsc").hypervisor(hypervisor);
        for (machine, code) in [(warp, "tsc_warp"), (differ, "counters_unsynchronised")] {
            machine
                .first(code)
                .fix_begins("on the host: compare its counters")
                .fix_has_in_order("if they differ", "if they agree: ");
        }
    }
}

/// Symptom: `tsc=reliable` for a TSC whose rate changes with the processor's.
#[test]
fn a_rate_that_changes_with_the_processors_is_not_trusted() {
    let cpufreq = "tsc: Marking TSC unstable due to cpufreq changes";
    for hypervisor in ["none", "bhyve", "other"] {
        let machine = machine_on_hpet_without_tsc().log(&[cpufreq]);
        let machine = machine.hypervisor(hypervisor);
        machine.clone().first("tsc_unstable").has_no_fix();
        machine.assert_no_fix_says("tsc=reliable");
    }
}

/// Symptom: `tsc=reliable`, whatever the kernel's reason.
#[test]
fn a_reason_that_is_not_known_is_not_overruled_before_it_is_understood() {
    let odd = "tsc: Marking TSC unstable due to Cyrix 5510/5520 detected";
    let machine = machine_on_hpet_without_tsc().log(&[odd]);
    let finding = machine.first("tsc_unstable");
    finding
        .fix_begins("find out what the kernel means by \"Cyrix 5510/5520 detected\"")
        .fix_has_in_order(
            "only if that does not concern this machine: ",
            "tsc=reliable",
        );
}

/// The reason concerns each guest of Hyper-V. Symptom: "find out what the kernel means by ...", and
/// `tsc=reliable` for a TSC whose rate may change.
#[test]
fn a_host_that_promises_no_steady_tsc_is_not_overruled() {
    let reason = "tsc: Marking TSC unstable due to running on Hyper-V";
    let machine = machine_on_hpet_without_tsc().log(&[reason]);
    let finding = machine.hypervisor("hyper_v").first("tsc_unstable");
    finding
        .fix_begins("on the host: give the machine a generation and version that offer")
        .fix_lacks("find out what")
        .fix_lacks("tsc=reliable");
}

/// The kernel may have measured a warp, in a message that was not read or is lost. Symptom:
/// `tsc=reliable` wherever `tickline warp` finds no difference today.
#[test]
fn for_an_unknown_reason_the_override_asks_for_what_the_kernel_has_seen() {
    const NO_WARP: &str = "no message of the kernel (sudo dmesg) says that counters differ";
    let missing = machine_on_hpet_without_tsc().log(&[]);
    let rejected = missing.clone().offers("hpet acpi_pm tsc");
    let on_xen = missing.clone().clocksource("xen").offers("xen");
    for (machine, parameter) in [
        (missing.clone(), "tsc=reliable"),
        (missing.log_unreadable(), "tsc=reliable"),
        (rejected.clone(), "tsc=nowatchdog"),
        (rejected.log_unreadable(), "tsc=nowatchdog"),
        (on_xen, "tsc=reliable"),
    ] {
        let findings = machine.findings();
        findings[0].fix_has(parameter).fix_has(NO_WARP);
    }
    let known = "tsc: Marking TSC unstable due to TSCs unsynchronized";
    let machine = machine_on_hpet_without_tsc().log(&[known]);
    let finding = machine.first("tsc_unsynchronised");
    finding.fix_has("tsc=reliable").fix_lacks(NO_WARP);
}

/// A parameter against the TSC may be there because of what the log says.
#[test]
fn a_parameter_against_a_tsc_with_a_warp_stays() {
    let machine = machine_on_hpet_without_tsc().log(&[WARP]);
    machine
        .command_line("quiet notsc")
        .assert_no_fix_says("take `notsc` off");
}

/// Hyper-V's page has one rate and one offset for all CPUs' counters.
#[test]
fn a_warp_does_not_lead_to_a_page_of_hyperv() {
    let machine = machine_on_hpet_without_tsc()
        .hypervisor("hyper_v")
        .offers("acpi_pm hyperv_clocksource_tsc_page")
        .clocksource("acpi_pm");
    let chosen = machine.clone().log(&[]).first("clocksource_not_chosen");
    chosen.fix_begins("echo hyperv_clocksource_tsc_page");
    machine.log(&[WARP]).assert_no_fix_says("echo");
}

/// Symptom: `-cpu host,+invtsc`, and words about the TSC.
#[test]
fn another_architecture_gets_no_advice_about_the_tsc() {
    for (architecture, clocksource) in [
        ("aarch64", "arch_sys_counter"),
        ("riscv64", "riscv_clocksource"),
    ] {
        for hypervisor in ["kvm", "vmware", "none"] {
            let machine = unsynchronised()
                .architecture(architecture)
                .clocksource(clocksource)
                .offers(clocksource)
                .hypervisor(hypervisor);
            let finding = machine.first("counters_unsynchronised");
            for word in ["TSC", "tsc", "BIOS", ".vmx"] {
                finding.fix_lacks(word);
            }
        }
    }
}

/// Symptom: `restart the guest`, and `tell the host's administrator`, on bare metal.
#[test]
fn bare_metal_has_neither_guest_nor_host() {
    let implausible =
        good_machine().with(|document| document.clock.frequency_hz = Some(2_400_000_000));
    // Without the correction the counter is 2,000 ppm from its nominal rate.
    let at_limit = good_machine().ntp(|ntp| ntp.frequency_ppb = -500_000);
    for machine in [implausible, at_limit] {
        machine.clone().assert_no_fix_says("guest");
        machine.assert_no_fix_says("host");
    }
}

/// chronyd at this stratum, which removes an offset of 2 s.
fn chronyd(stratum: u16) -> Given {
    good_machine().with(|document| {
        document.machine.ntp_daemon = Some(NtpDaemon {
            name: "chronyd".to_owned(),
            synchronised: true,
            reference: Some("192.0.2.1".to_owned()),
            stratum: Some(stratum),
            offset_ns: Some(2_000_000_000),
            bound_ns: Some(2_000_000_000),
            ..NtpDaemon::default()
        });
    })
}

/// Symptom: `makestep`, to a server that seems to follow no reference clock.
#[test]
fn the_clock_is_not_stepped_to_servers_in_doubt() {
    chronyd(2).first("time_off").fix_has("chronyc makestep");
    let doubted = chronyd(11).first("time_off");
    doubted
        .fix_begins("let the clock not be stepped before the servers are known to be right")
        .fix_lacks("makestep");
}

/// Symptom: `makestep`, beside evidence that the server's clock has the wrong rate.
#[test]
fn the_clock_is_not_stepped_to_a_server_whose_rate_is_wrong() {
    let rate = chronyd(2).with(|document| {
        document.machine.ntp_daemon.as_mut().unwrap().frequency_ppb = Some(-74_443_000);
        document.machine.ntp.as_mut().unwrap().tick_us = 10_744;
        // Without the correction the counter has its nominal rate.
        document.clock.frequency_hz = Some(2_420_000_000);
    });
    rate.clone()
        .finding("clock_rate_wrong")
        .fix_has("follow other servers");
    rate.assert_no_fix_says("makestep");
}

/// systemd-timesyncd steps an offset of 0.4 s or more at any poll, and slews a smaller one even at
/// its start (`NTP_MAX_ADJUST` in timesyncd-manager.c).
#[test]
fn a_restart_of_timesyncd_steps_only_a_large_offset() {
    let machine = chronyd(2).with(|document| {
        document.machine.ntp_daemon.as_mut().unwrap().name = "systemd-timesyncd".to_owned();
    });
    machine
        .first("time_off")
        .fix_has("if 0.4 s or more are left, let it step the clock");
}

/// Without systemd there is no journal.
#[test]
fn without_systemd_nothing_is_read_from_its_journal() {
    for (hypervisor, systemd) in [("none", Some(false)), ("kvm", Some(false)), ("none", None)] {
        let stepped = good_machine().hypervisor(hypervisor).with(|document| {
            document.machine.systemd = systemd;
            document.clock.events.insert("unix_step".to_owned(), 3);
        });
        stepped.first("unix_stepped").fix_lacks("journalctl");
    }
}

/// Most distributions let only root read the kernel's log.
#[test]
fn the_kernels_log_is_read_as_root() {
    let implausible =
        good_machine().with(|document| document.clock.frequency_hz = Some(2_400_000_000));
    let at_limit = good_machine().ntp(|ntp| ntp.frequency_ppb = -500_000);
    let slewing = good_machine().ntp(|ntp| ntp.frequency_ppb = 300_000);
    let trapped = good_machine()
        .counter_costs_ns(1209.0, 1215.0)
        .costs_ns(1220.0)
        .counter_instruction("cntvct_el0");
    let unused = good_machine()
        .system_call_answers()
        .architecture("aarch64")
        .clocksource("arch_sys_counter");
    for machine in [implausible, at_limit, slewing, trapped, unused] {
        let findings = machine.findings();
        let text = findings[0].fix.text();
        let all = text.matches("dmesg").count();
        assert!(all > 0, "{text}");
        assert_eq!(text.matches("sudo dmesg").count(), all, "{text}");
    }
}

/// Symptom: the fix stopped migration, and did not say so.
#[test]
fn a_setting_of_the_host_that_stops_migration_says_so() {
    for hypervisor in ["kvm", "xen"] {
        let machine = machine_on_hpet_without_tsc()
            .log(&[])
            .hypervisor(hypervisor);
        machine.first("tsc_missing").fix_has("migrate");
    }
}

/// The kernel takes the last of two such parameters.
#[test]
fn a_parameter_that_contradicts_the_fix_is_named() {
    let delay = "hpet read-back delay of 162520ns, attempt 4, marking unstable";
    let unsynchronised = "tsc: Marking TSC unstable due to TSCs unsynchronized";
    for message in [delay, unsynchronised] {
        let machine = machine_on_hpet_without_tsc().log(&[message]);
        let findings = machine.command_line("quiet clocksource=hpet").findings();
        findings[0].fix_has("clocksource=tsc instead of `clocksource=hpet`");
    }
}

/// Symptom: a rate that was measured by ticks of 4 ms, which the kernel would then keep time with.
#[test]
fn a_frequency_that_was_measured_by_the_timer_tick_is_not_told_to_the_kernel() {
    let message = "tsc: No reference (HPET/PMTIMER) available";
    for (hypervisor, tick, source) in [
        ("other", "jiffies", "the host's kernel"),
        ("none", "jiffies", "by its data sheet"),
        ("none", "refined-jiffies", "by its data sheet"),
    ] {
        let machine = machine_on_hpet_without_tsc()
            .log(&[message])
            .hypervisor(hypervisor)
            .clocksource(tick)
            .offers(tick);
        machine
            .first("tsc_missing")
            .fix_has("tsc_early_khz=KHZ")
            .fix_has(source)
            .fix_lacks("2596120")
            .fix_lacks("tickline warp");
    }
}

/// Without VMware's virtual TSC, the TSC differs more from VMware's other timers.
#[test]
fn a_skew_under_vmware_is_first_fixed_in_the_guests_kernel() {
    let skew = "clocksource: timekeeping watchdog: Marking clocksource 'tsc' as unstable because \
                the skew is too large:";
    let machine = machine_on_hpet_without_tsc()
        .log(&[skew])
        .hypervisor("vmware");
    machine.first("tsc_skew").fix_has_in_order(
        "if the kernel is right: use a kernel with CONFIG_HYPERVISOR_GUEST",
        "or, only for a machine that stays on its host",
    );
}

/// A stopped instance loses what is on its instance store.
#[test]
fn a_stop_of_an_instance_says_what_it_loses() {
    let machine = machine_on_hpet_without_tsc().log(&[]).cloud("ec2_nitro");
    machine
        .first("tsc_missing")
        .fix_has("loses the data of its instance store");
}

/// phc2sys(8): -S takes a time.
#[test]
fn an_option_that_takes_a_value_has_one() {
    let off = good_machine().ntp(|ntp| ntp.offset_ns = 400_000_000);
    off.findings()[0].fix_has("phc2sys with -S SECONDS");
}
