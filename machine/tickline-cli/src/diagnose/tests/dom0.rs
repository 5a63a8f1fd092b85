//! Xen's first domain (dom0), which is a host.

use super::given::{good_machine, guest_on};

/// Symptom: "on the host: let the hypervisor show the processor's invariant TSC to the guest" and
/// "decide first whether the host ever suspends this guest", of a machine without a host.
#[test]
fn dom0_is_no_guest() {
    let dom0 = guest_on("xen")
        .offers("xen tsc")
        .hypervisor_by_cpuid(Some(false))
        .product("Dell Inc. PowerEdge R640")
        .log(&["[    0.000000] Hypervisor detected: Xen PV"]);
    let invariant = dom0.clone().finding("xen_clocksource");
    invariant.fix_begins("echo tsc").fix_lacks("guest");
    let varying = dom0.tsc_not_invariant().finding("xen_clocksource");
    varying
        .has_no_fix()
        .fix_has("the processor has no invariant TSC")
        .fix_lacks("on the host");
}

/// Symptom: "set nomigrate=1 in the domain's configuration", of dom0, whose CPUID named Xen.
#[test]
fn dom0_has_no_setting_of_a_domain() {
    let dom0 = guest_on("xen")
        .offers("xen tsc")
        .hypervisor("xen")
        .hypervisor_by_cpuid(Some(true))
        .with(|document| document.machine.xen_dom0 = Some(true));
    let invariant = dom0.clone().finding("xen_clocksource");
    invariant.fix_begins("echo tsc").fix_lacks("guest");
    let varying = dom0.clone().tsc_not_invariant().finding("xen_clocksource");
    varying.has_no_fix().fix_lacks("nomigrate");
    let unsynchronised = dom0.counters_differ().finding("counters_unsynchronised");
    unsynchronised
        .fix_has("update the firmware")
        .fix_lacks("on the host");
}

/// Symptom: "set tsc_mode in the domain's configuration", of dom0.
#[test]
fn a_trapped_counter_of_dom0_is_fixed_by_no_setting_of_a_domain() {
    let dom0 = good_machine().hypervisor("xen").with(|document| {
        document.machine.xen_dom0 = Some(true);
        document.costs[0].cost_ns = Some(1209.0);
    });
    dom0.first("counter_trapped").fix_lacks("tsc_mode");
}
