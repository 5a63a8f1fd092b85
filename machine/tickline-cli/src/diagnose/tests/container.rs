//! In a container, the fix of a fault of its machine is for that machine.

use super::given::{Given, good_machine, guest_without_tsc, machine_on_hpet_without_tsc};
use super::unix_time::chronyd;
use crate::machine::NtpDaemon;
use crate::measure::served_by::ServedBy;

/// Machines with a fault of the kernel's clocks, and the code of the first finding.
fn faulty() -> [(Given, &'static str); 6] {
    let not_chosen = good_machine().system_call_answers().clocksource("hpet");
    let boot_loader = not_chosen.clone().boot_loader("grub");
    let vdso_off = good_machine()
        .system_call_answers()
        .coarse_answered_by(Some(ServedBy::SystemCall))
        .command_line("quiet vdso=0")
        .with(|document| document.machine.vdso_mapped = Some(false));
    let parameter = machine_on_hpet_without_tsc()
        .log(&[])
        .command_line("quiet notsc");
    let differ = good_machine().counters_differ().offers("tsc");
    let time_off = good_machine().ntp(|ntp| ntp.offset_ns = 480_000_000);
    [
        (not_chosen, "tsc_not_chosen"),
        (boot_loader, "tsc_not_chosen"),
        (vdso_off, "vdso_off"),
        (parameter, "tsc_switched_off"),
        (differ, "counters_unsynchronised"),
        (time_off, "time_off"),
    ]
}

/// Symptom: an edit of GRUB's files in a container, "update the firmware", `chronyc makestep`.
#[test]
fn a_fault_of_the_kernels_clocks_is_fixed_on_the_containers_machine_without_steps() {
    for (machine, code) in faulty() {
        let finding = machine.container("docker").first(code);
        finding.fix_begins("for the machine in which this container (docker) runs: ");
        assert_eq!(finding.fix.steps(), None, "{finding:#?}");
        assert!(!finding.is_fixed_by_switch(), "{finding:#?}");
    }
}

/// Symptom: "on the host of this container: decide first whether the host ever suspends this guest",
/// with two hosts in one sentence.
#[test]
fn a_containers_machine_is_not_called_a_host_because_it_may_be_a_guest() {
    for hypervisor in ["kvm", "virtualbox"] {
        let machine = guest_without_tsc(hypervisor).container("podman");
        let finding = machine.first("tsc_missing");
        let start = "for the machine in which this container (podman) runs: on the host";
        finding.fix_begins(start);
        assert_eq!(finding.fix.steps(), None, "{finding:#?}");
    }
}

/// Symptom: "on the host: chronyc sources -v", where no chronyd runs.
#[test]
fn a_daemon_that_answers_in_the_container_gets_its_commands_there() {
    let answer = NtpDaemon {
        bound_ns: Some(3_000_000_000),
        ..chronyd()
    };
    let machine = good_machine()
        .daemon_answers(answer)
        .maximum_error_us(9_812_123);
    let finding = machine.clone().first("utc_error_large");
    let in_container = machine.container("docker").first("utc_error_large");
    assert_eq!(in_container, finding);
    let off = good_machine()
        .daemon_answers(chronyd())
        .ntp(|ntp| ntp.offset_ns = 480_000_000);
    let finding = off.clone().first("time_off");
    assert_eq!(off.container("docker").first("time_off"), finding);
}

#[test]
fn a_fault_of_the_container_or_of_its_processes_is_fixed_there() {
    let unreadable = good_machine().clocksource_unreadable().offer_unreadable();
    let traced = good_machine().with(|document| document.machine.tracer_pid = Some(7));
    for (machine, code) in [(unreadable, "clocksource_unknown"), (traced, "traced")] {
        let finding = machine.clone().only(code);
        assert_eq!(machine.container("docker").only(code), finding);
    }
}

/// Symptom: "on the host: none".
#[test]
fn a_fault_without_a_fix_has_none_elsewhere() {
    let cpufreq = "tsc: Marking TSC unstable due to cpufreq changes";
    let machine = machine_on_hpet_without_tsc().log(&[cpufreq]);
    machine.container("lxc").first("tsc_unstable").has_no_fix();
}

#[test]
fn a_gain_elsewhere_is_still_a_gain() {
    let machine = good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .costs_ns(1_300.0);
    let gain = machine.clone().first("tsc_not_chosen").gain_ratio;
    assert!(gain.is_some());
    let in_container = machine.container("lxc").first("tsc_not_chosen");
    assert_eq!(in_container.gain_ratio, gain);
}
