//! Sandboxes of gVisor, which computes the time from the counters.

use super::given::good_machine;
use crate::document::Severity;
use crate::measure::served_by::ServedBy;

/// gVisor's own vDSO computes the time from the counters. Symptom: a note.
#[test]
fn a_vdso_over_a_hidden_clocksource_steps_back_with_the_counters() {
    let machine = good_machine()
        .clocksource_unreadable()
        .offer_unreadable()
        .counters_differ();
    let finding = machine.clone().first("counters_unsynchronised");
    assert_eq!(finding.severity, Severity::Wrong);
    let finding = machine
        .clone()
        .hypervisor("gvisor")
        .first("counters_unsynchronised");
    assert_eq!(finding.severity, Severity::Wrong);
    finding
        .says("gVisor keeps time with them")
        .fix_begins("run the sandbox on a host");
    let finding = machine
        .system_call_answers()
        .finding("counters_unsynchronised");
    assert_eq!(finding.severity, Severity::Note);
}

/// gVisor's system calls compute the time from the counters, as its vDSO does. Symptom: a note.
#[test]
fn in_gvisor_each_call_steps_back_with_the_counters() {
    let machine = good_machine()
        .clocksource_unreadable()
        .offer_unreadable()
        .counters_differ()
        .hypervisor("gvisor");
    for answerer in [Some(ServedBy::SystemCall), None] {
        let finding = machine
            .clone()
            .answered_by(answerer)
            .first("counters_unsynchronised");
        assert_eq!(finding.severity, Severity::Wrong);
        finding.says("gVisor keeps time with them");
    }
}

/// The list may be the host's, from its /sys.
#[test]
fn gvisor_is_not_switched_to_a_timer_of_its_host() {
    let finding = good_machine()
        .counters_differ()
        .hypervisor("gvisor")
        .first("counters_unsynchronised");
    finding
        .fix_begins("run the sandbox on a host")
        .fix_lacks("echo");
}

/// Symptom: a BIOS update, the setting of QEMU, or the support of a cloud, for a sandbox.
#[test]
fn however_gvisor_is_known_its_counters_are_those_of_the_host() {
    let differ = good_machine()
        .clocksource_unreadable()
        .offer_unreadable()
        .counters_differ();
    let by_log = differ.clone().log(&["[    0.000000] Starting gVisor..."]);
    let by_name = differ.clone().hypervisor("gvisor");
    for machine in [
        by_log.clone().hypervisor_by_cpuid(Some(false)),
        by_log.hypervisor("kvm"),
        differ.kernel("4.19.0-gvisor"),
        by_name.clone().cloud("google"),
        by_name.architecture("aarch64"),
    ] {
        let finding = machine.first("counters_unsynchronised");
        finding
            .says("gVisor keeps time with them")
            .fix_begins("run the sandbox on a host");
    }
}
