//! Customers of clouds: the fix is the provider's recommendation, because the host is the
//! provider's.

use super::given::{good_machine, guest_on, guest_without_tsc};
use super::guests::DECIDE;
use crate::document::Place;

/// Symptom: the fix told a cloud's customer to change settings of the provider's host.
#[test]
fn a_clouds_customer_is_not_told_to_change_the_host() {
    for (cloud, clocksource, fix, advice) in [
        (
            "ec2_xen",
            "xen",
            "instance type on Nitro",
            "AWS recommends tsc (https://repost.aws/",
        ),
        (
            "ec2_nitro",
            "kvm-clock",
            "the host is Amazon's",
            "AWS recommends kvm-clock",
        ),
        (
            "google",
            "kvm-clock",
            "the host is Google's",
            "Google Compute Engine",
        ),
        (
            "azure",
            "acpi_pm",
            "the host is Microsoft's",
            "this is Azure",
        ),
    ] {
        let findings = guest_on(clocksource)
            .cloud(cloud)
            .offers(&format!("{clocksource} tsc"))
            .log(&["tsc: Marking TSC unstable due to a reason"])
            .findings();
        findings[0]
            .fix_has(fix)
            .fix_lacks("on the host")
            .shows(advice);
    }
}

#[test]
fn in_a_cloud_the_customer_has_no_commands_for_the_host() {
    let machine = guest_without_tsc("virtualbox").cloud("of a later version");
    let finding = machine.first("tsc_missing");
    finding.fix_has("VBoxManage");
    assert_eq!(finding.place(), None);
}

/// AWS recommends tsc for its instances on Xen.
#[test]
fn a_switch_that_the_provider_recommends_has_commands() {
    let finding = guest_on("xen").cloud("ec2_xen").first("xen_clocksource");
    finding.fix_begins(DECIDE);
    assert_eq!(finding.place(), Some(Place::Here));
}

/// Symptom: the README said that `doctor --fix` never leaves the host's own clock.
#[test]
fn of_the_clocks_that_hosts_keep_only_xens_on_ec2_is_left_for_the_tsc_by_command() {
    for (clocksource, cloud, place) in [
        ("xen", "ec2_xen", Some(Place::Here)),
        ("kvm-clock", "ec2_nitro", None),
        ("kvm-clock", "google", None),
        ("hyperv_clocksource_msr", "azure", None),
    ] {
        let findings = guest_on(clocksource)
            .offers(&format!("tsc {clocksource}"))
            .cloud(cloud)
            .findings();
        findings[0].fix_has("echo tsc");
        assert_eq!(findings[0].place(), place, "{cloud}");
    }
}

/// Symptom: the evidence said that AWS recommends kvm-clock, and the fix was tsc.
#[test]
fn a_fix_does_not_contradict_the_providers_recommendation() {
    let on_kvm_clock = guest_on("kvm-clock").cloud("ec2_nitro").hypervisor("kvm");
    let finding = on_kvm_clock.clone().first("kvm_clock_unstable");
    finding.fix_begins("the host is Amazon's").fix_has_in_order(
        "against the provider's recommendation of kvm-clock",
        "echo tsc",
    );
    let finding = on_kvm_clock
        .clocksource("acpi_pm")
        .offers("tsc kvm-clock acpi_pm")
        .first("tsc_not_chosen");
    finding.fix_begins("echo kvm-clock").fix_lacks("echo tsc");
    let finding = good_machine()
        .clocksource("kvm-clock")
        .offers("kvm-clock tsc")
        .cloud("ec2_nitro")
        .costs_ns(45.0)
        .first("paravirtual_clock_dearer");
    finding
        .has_no_fix()
        .shows("AWS recommends kvm-clock")
        .shows("a call takes 45 ns");
}

/// Symptom: on counters that differ, "AWS recommends tsc" beside "none: the counters are
/// unsynchronised".
#[test]
fn the_recommendation_of_tsc_is_no_evidence_on_unsynchronised_counters() {
    let machine = guest_on("xen").cloud("ec2_xen").counters_differ();
    machine
        .finding("xen_clocksource")
        .does_not_show("AWS recommends tsc");
}

/// Symptom: "AWS recommends kvm-clock", on Graviton and on bare metal, which have no such clock.
#[test]
fn a_clock_that_the_kernel_does_not_list_is_recommended_by_nobody() {
    let on_arm = guest_on("arch_sys_counter")
        .offers("arch_sys_counter")
        .architecture("aarch64");
    let on_metal = guest_on("hpet").offers("tsc hpet acpi_pm");
    let with_list_unread = guest_on("hpet").offer_unreadable();
    for machine in [on_arm, on_metal, with_list_unread] {
        machine.cloud("ec2_nitro").findings()[0].does_not_show("AWS recommends");
    }
    let on_xen = guest_on("xen").offers("xen").cloud("ec2_xen");
    on_xen
        .first("xen_clocksource")
        .does_not_show("AWS recommends");
}
